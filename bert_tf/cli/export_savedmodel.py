"""Exports a checkpoint as a SavedModel that takes word-piece ids or texts."""

from absl import flags

from bert_tf.cli import command
from bert_tf.export import export
from bert_tf.tasks.squad import decoding as squad_predictions
from bert_tf.tasks.squad import windows as squad_features

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "init_checkpoint",
  None,
  "The checkpoint: its prefix, or the output_dir of a run, whose newest is "
  "taken; output_dir/best is one too.",
)
flags.DEFINE_string(
  "export_dir",
  None,
  "Folder of the SavedModel, new or empty; TensorFlow Serving wants a number, "
  "models/NAME/1.",
)
flags.DEFINE_enum(
  "task",
  None,
  export.TASKS,
  "What to export: a model with its head; encoder, BERT alone with the "
  "interface of TF Hub's; preprocessing, the texts to its input. Default: the "
  "head that the checkpoint has.",
)
flags.DEFINE_string(
  "bert_config_file",
  None,
  "JSON file with the sizes of the model; default: bert_config.json beside the "
  "checkpoint.",
)
flags.DEFINE_string(
  "vocab_file",
  None,
  "The vocabulary of the model; default: vocab.txt beside the checkpoint.",
)
flags.DEFINE_bool(
  "do_lower_case", True, "Whether the model is for lower-cased text."
)
flags.DEFINE_integer(
  "max_seq_length",
  None,
  "Word pieces of a text; what is longer is cut as in training, or read in "
  "windows by squad and ner. Default: 384 for squad, else 128. A model of "
  "pretraining takes all that it has positions for, and refuses what is "
  "longer.",
  lower_bound=5,
)
flags.DEFINE_bool(
  "text",
  True,
  "Whether the model takes texts too. Without, it needs no vocabulary, nor the "
  "operations of tensorflow-text where it is served.",
)
flags.DEFINE_bool(
  "attention",
  False,
  "Whether a model with a head has functions that show its attention, as the "
  "page of serve.py draws it.",
)
flags.DEFINE_integer(
  "top_k", 5, "Of pretraining: tokens a [MASK].", lower_bound=1
)
flags.DEFINE_integer(
  "doc_stride",
  squad_features.WindowConfig.doc_stride,
  "Of squad: word pieces from one window to the next.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_query_length",
  squad_features.WindowConfig.max_query_length,
  "Of squad: word pieces of a question; what is longer is cut.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "n_best_size", 20, "Of squad: answers that are looked at.", lower_bound=1
)
flags.DEFINE_integer(
  "max_answer_length", 30, "Of squad: word pieces.", lower_bound=1
)
flags.DEFINE_bool(
  "version_2_with_negative", False, "Of squad: whether there may be no answer."
)
flags.DEFINE_float(
  "null_score_diff_threshold",
  0.0,
  "Of squad: if no answer scores more than this above the best, it is none.",
)

# By the task that they are for.
_TASK_FLAGS = {
  "squad": (
    "doc_stride",
    "max_query_length",
    "n_best_size",
    "max_answer_length",
    "version_2_with_negative",
    "null_score_diff_threshold",
  ),
  "pretraining": ("top_k",),
}


def main() -> None:
  """Exports and says what was written."""
  task = export.run(
    export.ExportConfig(
      export_dir=FLAGS.export_dir,
      init_checkpoint=FLAGS.init_checkpoint,
      task=FLAGS.task,
      bert_config_file=FLAGS.bert_config_file,
      vocab_file=FLAGS.vocab_file,
      do_lower_case=FLAGS.do_lower_case,
      max_seq_length=FLAGS.max_seq_length,
      with_text=FLAGS.text,
      doc_stride=FLAGS.doc_stride,
      max_query_length=FLAGS.max_query_length,
      predictions=squad_predictions.PredictionConfig(
        FLAGS.n_best_size,
        FLAGS.max_answer_length,
        FLAGS.version_2_with_negative,
        FLAGS.null_score_diff_threshold,
      ),
      top_k=FLAGS.top_k,
      with_attention=FLAGS.attention,
    )
  )
  print(f"{FLAGS.export_dir}: {task} of {FLAGS.init_checkpoint}")


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("init_checkpoint", "export_dir"):
    flags.mark_flag_as_required(name)
  command.run(main, __doc__)
