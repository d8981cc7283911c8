"""The tasks of the paper: their data, and the commands that run them.

Imports no TensorFlow.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence

from bert_tf.files import paths
from research.features import config as features_config

# The languages of XNLI that have published results.
LANGUAGES = ("en", "zh", "es", "de", "ar", "ur")

# Folders of GLUE within a data folder.
_GLUE_FOLDERS = ("", "GLUE", "glue", "glue_data")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
  """A fine-tuning task and the files that it needs."""

  name: str
  command: str  # The command of bert_tf.
  metric: str  # The result that chooses the settings. Higher is better.
  data_set: str  # Name of the data for `bert-tf download`.
  # Folders within a data folder that may have the files.
  folders: tuple[str, ...]
  # Names of the training, dev and, with some tasks, test file. The first tuple
  # whose files exist in one folder is used.
  files: tuple[tuple[str, ...], ...]
  flags: tuple[str, ...] = ()  # Flags in addition to those of the settings.


@dataclasses.dataclass(frozen=True)
class Data:
  """The files of a task on this machine."""

  folder: str
  files: tuple[str, ...]  # Names in `folder`: training, dev, maybe test.

  def path(self, index: int) -> str:
    """Returns the path of a file by its index in `files`."""
    return os.path.join(self.folder, self.files[index])


def _glue(
  name: str, metric: str = "eval_accuracy", dev: tuple[str, ...] = ("dev.tsv",)
) -> Task:
  """Returns a task of GLUE; `dev` has the names of the dev files."""
  return Task(
    name=name,
    command="classifier",
    metric=metric,
    data_set=name,
    folders=tuple(os.path.join(folder, name) for folder in _GLUE_FOLDERS),
    files=(("train.tsv", *dev),),
    flags=(f"--task_name={name}", "--do_train", "--do_eval"),
  )


def _squad(name: str, version: str) -> Task:
  flags = ("--version_2_with_negative",) if version == "2.0" else ()
  return Task(
    name=name,
    command="squad",
    metric="f1",
    data_set=f"SQuAD-{version}",
    folders=(f"SQuAD-{version}", "squad", "SQuAD", ""),
    files=((f"train-v{version}.json", f"dev-v{version}.json"),),
    flags=("--do_train", "--do_predict", *flags),
  )


def _xnli(language: str) -> Task:
  """Returns XNLI, trained on MNLI as translated to a language."""
  return Task(
    name=f"XNLI-{language}",
    command="classifier",
    metric="eval_accuracy",
    data_set="XNLI",
    folders=("XNLI", ""),
    files=((f"multinli/multinli.train.{language}.tsv", "xnli.dev.tsv"),),
    flags=(
      *("--task_name=XNLI", f"--xnli_language={language}"),
      *("--do_train", "--do_eval"),
    ),
  )


def _conll(name: str, flags: tuple[str, ...] = ()) -> Task:
  """Returns CoNLL-2003 with document context (Devlin et al. 2019, 5.3)."""
  return Task(
    name=name,
    command="ner",
    metric="f1",
    data_set="CoNLL-2003",
    folders=("conll2003", "CoNLL-2003", "conll2003/iob1_docstart"),
    files=(
      ("eng.train", "eng.testa", "eng.testb"),
      ("train.txt", "dev.txt", "test.txt"),
      ("train.txt", "valid.txt", "test.txt"),
    ),
    flags=(
      *("--do_train", "--do_eval", "--do_predict", "--document_context"),
      *flags,
    ),
  )


_ALL = (
  _glue("CoLA", "matthews_correlation"),
  _glue("SST-2"),
  _glue("MRPC", "f1"),
  _glue("STS-B", "spearman"),
  _glue("QQP", "f1"),
  _glue("MNLI", dev=("dev_matched.tsv", "dev_mismatched.tsv")),
  _glue("QNLI"),
  _glue("RTE"),
  _glue("WNLI"),
  _squad("SQuAD-1.1", "1.1"),
  _squad("SQuAD-1.1-README", "1.1"),
  dataclasses.replace(
    _squad("SQuAD-1.1-TriviaQA", "1.1"),
    data_set="TriviaQA",
    files=(("train-v1.1.json", "dev-v1.1.json", "triviaqa-train.json"),),
  ),
  _squad("SQuAD-2.0", "2.0"),
  _conll("CoNLL-2003"),
  *(
    _conll(f"CoNLL-2003-{layers}", (f"--feature_layers={layers}",))
    for layers in features_config.FEATURE_LAYERS
  ),
  Task(
    name="SWAG",
    command="swag",
    metric="eval_accuracy",
    data_set="SWAG",
    folders=("SWAG", "swag"),
    files=(("train.csv", "val.csv"),),
    flags=("--do_train", "--do_eval"),
  ),
  *map(_xnli, LANGUAGES),
)
TASKS: Mapping[str, Task] = {task.name: task for task in _ALL}


def is_glue(task: Task) -> bool:
  """Returns whether a task belongs to GLUE."""
  return task.command == "classifier" and task.data_set != "XNLI"


def has_features(task: Task) -> bool:
  """Returns whether a task trains a BiLSTM on features of a frozen BERT."""
  return "--feature_layers" in " ".join(task.flags)


def choose(names: Collection[str]) -> list[Task]:
  """Returns the named tasks, ignoring case; all tasks if there are no names."""
  lower = {name.lower() for name in names}
  return [t for t in _ALL if not names or t.name.lower() in lower]


def find_data(task: Task, data_folders: Sequence[str]) -> Data | None:
  """Returns the files of a task; None if no folder has all of them."""
  for root in data_folders:
    for folder in task.folders:
      for files in task.files:
        data = Data(os.path.join(root, folder), files)
        if all(paths.exists(data.path(i)) for i in range(len(files))):
          return data
  return None


def find_diagnostics(data_folders: Sequence[str]) -> str | None:
  """Returns the folder of GLUE's diagnostic.tsv (AX); None without one."""
  for root in data_folders:
    for name in ("AX", "diagnostic", "MNLI"):
      for parent in _GLUE_FOLDERS:
        folder = os.path.join(root, parent, name)
        if paths.exists(os.path.join(folder, "diagnostic.tsv")):
          return folder
  return None


def describe_missing(data_set: str) -> str:
  """Returns how to get a data set, as the end of a message."""
  if data_set == "CoNLL-2003":
    return (
      "Its texts, the Reuters corpus, need a licence: see "
      "https://www.clips.uantwerpen.be/conll2003/ner/. Put the files into the "
      "folder conll2003 in `data`"
    )
  if data_set == "TriviaQA":
    return (
      "python -m research.reproduction.triviaqa makes triviaqa-train.json; put "
      "it next to the files of SQuAD 1.1"
    )
  return f"run: bert-tf download {data_set}"
