"""Fine-tunes BERT on SWAG or other questions of multiple choice."""

from absl import flags

from bert_tf.cli import training_flags
from bert_tf.tasks import sweeps
from bert_tf.tasks.classification import examples
from bert_tf.tasks.swag import examples as swag_data
from bert_tf.tasks.swag import task as swag

FLAGS = flags.FLAGS

training_flags.define_original_flags("Examples")
training_flags.define_fine_tuning_flags("Examples")
flags.DEFINE_string(
  "data_dir",
  None,
  "Folder with SWAG's train.csv, val.csv and test.csv; of one's own data, with "
  "train, dev and test files that end in --task_name.",
)
flags.DEFINE_enum(
  "task_name",
  "swag",
  ("swag", *examples.FILE_FORMATS),
  "SWAG, or the format of one's own data.",
  case_sensitive=False,
)
flags.DEFINE_integer(
  "max_seq_length",
  128,
  "Word pieces of context and choice, [CLS] and [SEP] included; what is longer "
  "is cut.",
  lower_bound=5,
)
flags.DEFINE_bool("do_eval", False, "Whether to evaluate on the dev file.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the test file.")
flags.DEFINE_integer(
  "eval_batch_size", 8, "Examples an evaluation batch.", lower_bound=1
)
flags.DEFINE_string(
  "context_column",
  "context",
  "Of one's own data: the column of the text that comes first, sentence A, by "
  "its name in the header (the key in jsonl), or by its number from 0 in files "
  "without header.",
)
flags.DEFINE_string(
  "question_column",
  None,
  "Of one's own data: the column of a text that is put before every choice, "
  "with a space between them; default: none.",
)
flags.DEFINE_list(
  "choice_columns",
  None,
  "Of one's own data: the columns of the choices, with commas between them; in "
  "jsonl also one key that holds a list of texts.",
)
flags.DEFINE_string(
  "label_column",
  "label",
  "Of one's own data: the column of the right choice, which the test file need "
  "not have.",
)
flags.DEFINE_enum(
  "label_type",
  "number",
  swag_data.LABEL_TYPES,
  "Of one's own data: what is in label_column, and what is predicted: number, "
  "the choice's number from 0; number_from_1; letter, A for the first; text, "
  "that of the choice.",
)
flags.DEFINE_bool(
  "skip_bad_rows",
  False,
  "Whether to count the rows at fault in the train and dev files instead of "
  "stopping at the first.",
)
training_flags.define_new_flags()
training_flags.define_evaluation_flags(swag.RESULTS[0])
training_flags.define_num_runs_flag()

# Without this --help leaves them to --helpfull.
flags.adopt_module_key_flags(training_flags)

# Flags that say what one's own data are.
_OWN_DATA_FLAGS = (
  "context_column",
  "question_column",
  "choice_columns",
  "label_column",
  "label_type",
)


def _task() -> swag_data.ChoiceTask:
  """Returns the task that the flags name."""
  if FLAGS.task_name != "swag":
    return swag_data.own_task(
      FLAGS.task_name,
      FLAGS.context_column,
      FLAGS.question_column,
      FLAGS.choice_columns or (),
      FLAGS.label_column,
      FLAGS.label_type,
    )
  for name in _OWN_DATA_FLAGS:
    if FLAGS[name].present:
      raise ValueError(
        f"--{name} means nothing to --task_name=swag; leave it out, or set "
        f"--task_name to {', '.join(examples.FILE_FORMATS)}."
      )
  return swag_data.SWAG


def _config() -> swag.SwagConfig:
  """Returns what the flags ask for."""
  return swag.SwagConfig(
    task=_task(),
    skip_bad_rows=FLAGS.skip_bad_rows,
    **training_flags.data_dir_settings(),
  )


def main() -> None:
  """Builds the config from the flags and runs, once or several times."""
  if FLAGS.num_runs > 1:
    sweeps.run(_config(), swag.run, swag.RESULTS, num_runs=FLAGS.num_runs)
  else:
    swag.run(_config())


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("data_dir", "bert_config_file", "vocab_file", "output_dir"):
    flags.mark_flag_as_required(name)
  training_flags.run(main)
