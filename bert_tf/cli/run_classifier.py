"""Fine-tunes BERT on GLUE, XNLI or one's own texts, and classifies."""

import dataclasses

from absl import flags

from bert_tf import losses
from bert_tf.cli import training_flags
from bert_tf.export import saved_models
from bert_tf.tasks import sweeps
from bert_tf.tasks.classification import examples, glue, long_texts
from bert_tf.tasks.classification import task as classification

FLAGS = flags.FLAGS

training_flags.define_original_flags("Examples")
training_flags.define_fine_tuning_flags("Examples")
flags.DEFINE_string(
  "data_dir", None, "Folder with the task's files, such as train.tsv."
)
flags.DEFINE_string(
  "task_name",
  None,
  f"The task: {', '.join(glue.NAMES)}, in any case; or, for one's own train, "
  f"dev and test files, {', '.join(examples.FILE_FORMATS)}.",
)
flags.DEFINE_integer(
  "max_seq_length",
  128,
  "Word pieces an example, [CLS] and [SEP] included; what is longer is cut.",
  lower_bound=5,
)
flags.DEFINE_bool("do_eval", False, "Whether to evaluate on the dev file.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the test file.")
flags.DEFINE_integer(
  "eval_batch_size", 8, "Examples an evaluation batch.", lower_bound=1
)

flags.DEFINE_string(
  "encoder_saved_model",
  None,
  "A SavedModel of export_savedmodel.py --task=encoder to start from, instead "
  "of --init_checkpoint; --bert_config_file, --vocab_file and --do_lower_case "
  "are then its own.",
)
flags.DEFINE_string("xnli_language", "zh", "The language of XNLI's texts.")
flags.DEFINE_enum(
  "problem_type",
  "classification",
  losses.PROBLEM_TYPES,
  "What the labels of one's own data are: a class, a number, or several "
  f"labels, {examples.LABEL_SEPARATOR} between them (a list in jsonl).",
)
flags.DEFINE_string(
  "text_a_column",
  "text",
  "Of one's own data: the column of the text, by its name in the header (the "
  "key in jsonl), or by its number from 0 in files without header.",
)
flags.DEFINE_string(
  "text_b_column", None, "Of one's own data: the second text of a pair."
)
flags.DEFINE_string("label_column", "label", "Of one's own data: the label.")
flags.DEFINE_bool(
  "skip_bad_rows",
  False,
  "Whether to count the rows at fault in the train and dev files instead of "
  "stopping at the first.",
)
flags.DEFINE_bool(
  "group_by_length",
  True,
  "Whether training batches hold examples of like length, sorted among those "
  "of 8 batches at a time, which leaves little padding to compute; False draws "
  "every batch from all lengths.",
)
training_flags.define_new_flags()
training_flags.define_evaluation_flags(
  "the task's first official metric beside the accuracy, else eval_accuracy"
)
flags.DEFINE_integer(
  "freeze_layers",
  None,
  "Leaves the embeddings (word, position, segment, their layer norm) and the "
  "first N encoder layers as they are; the layers above, the pooler and the "
  "classifier are trained. 0 freezes the embeddings alone; default: nothing.",
  lower_bound=0,
)
flags.DEFINE_enum(
  "long_text",
  "truncate",
  long_texts.MODES,
  "What becomes of single texts of more than max_seq_length word pieces. "
  "truncate cuts the end; head_tail keeps the first quarter (128 of 510) and "
  "the last three (382) and leaves out the middle; windows classifies the "
  "whole text: it is read in windows of max_seq_length that overlap by half, "
  "each of them trained on with the text's label, and the mean of their "
  "logits decides. A pair is always cut, and another value refused.",
)
training_flags.define_num_runs_flag()
# A boolean flag that takes a value: alone it is the paper's grid.
flags.DEFINE(
  flags.ArgumentParser(),
  "grid",
  None,
  "Fine-tunes with every combination of these settings, num_runs times each, "
  "in a folder of output_dir each; sweep_results.tsv compares them. --grid "
  f'alone is the paper\'s, --grid="{sweeps.PAPER_GRID}".',
  boolean=True,
)

# Without this --help leaves them to --helpfull.
flags.adopt_module_key_flags(training_flags)

# Flags that say what one's own data are.
_OWN_DATA_FLAGS = (
  "problem_type",
  "text_a_column",
  "text_b_column",
  "label_column",
)


def _task() -> examples.FileLayout:
  """Returns the task that the flags name."""
  file_format = FLAGS.task_name.lower()
  is_own = file_format in examples.FILE_FORMATS
  idle = () if is_own else _OWN_DATA_FLAGS
  if file_format != "xnli":
    idle = (*idle, "xnli_language")
  for name in idle:
    if FLAGS[name].present:
      raise ValueError(
        f"--{name} means nothing to --task_name={FLAGS.task_name}; leave it "
        "out."
      )
  if not is_own:
    return glue.get_task(FLAGS.task_name, FLAGS.xnli_language)
  return examples.own_files(
    file_format,
    FLAGS.problem_type,
    FLAGS.text_a_column,
    FLAGS.text_b_column,
    FLAGS.label_column,
  )


def _encoder() -> saved_models.EncoderFiles:
  """Returns the files of the model to start from."""
  if not FLAGS.encoder_saved_model:
    for name in ("bert_config_file", "vocab_file"):
      if not FLAGS[name].value:
        raise ValueError(f"set --{name}, or --encoder_saved_model.")
    return saved_models.EncoderFiles(
      FLAGS.bert_config_file, FLAGS.vocab_file, FLAGS.do_lower_case
    )
  for name in (
    "bert_config_file",
    "vocab_file",
    "do_lower_case",
    "init_checkpoint",
  ):
    if FLAGS[name].present:
      raise ValueError(
        f"--{name} is that of --encoder_saved_model; leave it out."
      )
  return saved_models.encoder_files(FLAGS.encoder_saved_model)


def _config() -> classification.ClassificationConfig:
  """Returns what the flags ask for."""
  settings = training_flags.data_dir_settings(
    init_checkpoint=FLAGS.encoder_saved_model or FLAGS.init_checkpoint,
    freeze_layers=FLAGS.freeze_layers,
  )
  return classification.ClassificationConfig(
    task=_task(),
    skip_bad_rows=FLAGS.skip_bad_rows,
    long_text=FLAGS.long_text,
    group_by_length=FLAGS.group_by_length,
    **{**settings, **dataclasses.asdict(_encoder())},
  )


def main() -> None:
  """Builds the config from the flags and runs, once or several times."""
  # What absl makes of --grid alone, and of --nogrid.
  grid = {"true": sweeps.PAPER_GRID, "false": None}.get(FLAGS.grid, FLAGS.grid)
  config = _config()
  if grid or FLAGS.num_runs > 1:
    metrics = classification.result_names(config.task)
    sweeps.run(config, classification.run, metrics, grid, FLAGS.num_runs)
  else:
    classification.run(config)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("data_dir", "task_name", "output_dir"):
    flags.mark_flag_as_required(name)
  training_flags.run(main)
