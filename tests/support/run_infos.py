"""Makes the content of run.json from a flat list of its values."""

from bert_tf import task_registry
from bert_tf.checkpoint import run_info
from bert_tf.files import tokenizer_files


def make(
  task, labels=None, task_name=None, problem_type=None, scores=None, **settings
):
  """Returns a RunInfo; `labels` has the names in the order of their ids."""
  spec = None
  if labels is not None:
    name, kind = task_registry.TASKS[task].label_defaults
    spec = run_info.LabelSpec(
      task_name or name, problem_type or kind, tuple(labels)
    )
  return run_info.RunInfo(
    task=task,
    settings=task_registry.settings_class(task)(**settings),
    labels=spec,
    scores=scores or {},
  )


def write(folder, info, config, vocab_file):
  """Writes the files of a run."""
  vocab = tokenizer_files.read_vocab(vocab_file) if vocab_file else None
  run_info.write_files(folder, run_info.describe(info, config, vocab))
