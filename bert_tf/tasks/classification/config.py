"""Settings of classification, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.checkpoint import run_info
from bert_tf.tasks import config

# The official tasks, and the formats of a user's own files.
TASK_NAMES = tuple(
  "CoLA SST-2 MRPC STS-B QQP MNLI MNLI-mm QNLI RTE WNLI AX XNLI".split()
)
FILE_FORMATS = ("tsv", "csv", "jsonl", "parquet")

# Separates the labels in a multilabel cell.
LABEL_SEPARATOR = "|"

# Cut the end, as the original does, or read the whole text.
LONG_TEXT_MODES = ("truncate", "windows")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationSettings(config.TaskSettings):
  """Settings of the texts that a classifier reads."""

  long_text: str | None = settings.data(
    None,
    "How to read single texts with more than max_seq_length word pieces. "
    "truncate cuts the end. windows reads the whole text in windows that "
    "overlap by half, and decides by the mean of their logits.",
    choices=LONG_TEXT_MODES,
    fallback="truncate",
  )
  is_pair: bool | None = None  # Whether the inputs are pairs of texts.


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationConfig(ClassificationSettings, config.LabelledConfig):
  """Settings of `run_classifier.py`."""

  task: ClassVar[str] = "classification"

  data_dir: str | None = settings.data(
    None,
    "The folder with the task's files, such as train.tsv.",
    original=True,
    reads="folder",
    alternatives=("data_file",),
  )
  data_file: str | None = settings.data(
    None,
    "A single file of your own (.csv, .tsv, .jsonl or .parquet) in place of "
    "data_dir. Some of its rows are held out; see eval_fraction.",
    reads="file",
    main=True,
  )
  eval_fraction: float = settings.data(
    0.1,
    "The fraction of data_file's rows, and of each label, to evaluate on.",
    minimum=0.0,
    maximum=0.9,
    main=True,
  )
  task_name: str | None = settings.data(
    None,
    f"The task: {', '.join(TASK_NAMES)}; or the format of your own train, dev "
    f"and test files: {', '.join(FILE_FORMATS)}.",
    original=True,
    alternatives=("processor", "data_file"),
  )
  processor: str | None = settings.data(
    None,
    "A class of yours with the methods of the original's DataProcessor, as "
    "MODULE:CLASS. The module may be a file in the current folder.",
  )
  xnli_language: str = settings.data("zh", "The language of XNLI's texts.")
  problem_type: str | None = settings.data(
    None,
    "The kind of label in your own files: a class, a number, several labels "
    f"with {LABEL_SEPARATOR} between them (in jsonl a list), or the relevance "
    "of the second text to the first, from 0 to 1. Default: that of the run in "
    "output_dir, else classification.",
    choices=run_info.PROBLEM_TYPES,
  )
  text_a_column: str = settings.data(
    "text",
    "The column of your own files that holds the text, by its name in the "
    "header or its number from 0.",
    main=True,
  )
  text_b_column: str | None = settings.data(
    None,
    "The column of your own files that holds the second text of a pair.",
    main=True,
  )
  label_column: str = settings.data(
    "label", "The column of your own files that holds the label.", main=True
  )
  teacher: str | None = settings.training(
    None,
    "The folder of a trained classifier, whose probabilities the model also "
    "learns. Training rows may then have no label.",
  )
  distillation_weight: float = settings.training(
    0.9,
    "With a teacher, its weight in the loss. The labels have the rest.",
    minimum=0.0,
    maximum=1.0,
  )
  temperature: float = settings.training(
    2.0,
    "With a teacher, what the logits of both models are divided by before "
    "their probabilities are compared.",
    minimum=1e-3,
  )
  calibrate: bool = settings.evaluation(
    False,
    "Whether do_eval fits a temperature on the dev file, which makes the "
    "probabilities of predictions, the server and exports as high as the model "
    "is often right.",
  )
  ensemble_with: tuple[str, ...] = settings.evaluation(
    (),
    "The folders of other runs that have predicted the same test file, "
    "comma-separated. do_predict averages their test_results.tsv with its own "
    "probabilities.",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if (self.data_dir is None) == (self.data_file is None):
      raise ValueError("Give either `data_dir` or `data_file`.")
    if self.data_file:
      if self.file_format is None:
        raise ValueError(
          f"{self.data_file} (`data_file`) does not end in one of "
          f"{', '.join(FILE_FORMATS)}. Set `task_name` to its format."
        )
    elif not (self.task_name or self.processor):
      raise ValueError(
        "The task is not known. Set `task_name`, or give a class of your own "
        "as `processor`."
      )

    if self.teacher and self.class_weights:
      raise ValueError("Give either `teacher` or `class_weights`.")
    if self.calibrate and not self.do_eval:
      raise ValueError("`calibrate` needs `do_eval`, which reads the dev file.")

  @property
  def file_format(self) -> str | None:
    """The format of the user's own files; None for other data."""
    name = self.task_name or ""
    if self.data_file and not name:
      name = self.data_file.rpartition(".")[2]
    return name.lower() if name.lower() in FILE_FORMATS else None

  def idle_settings(self) -> dict[str, str]:
    """Settings without effect, and what they do not apply to."""
    idle: dict[str, str] = {}
    if not self.teacher:
      of_teacher = ("distillation_weight", "temperature")
      idle = dict.fromkeys(of_teacher, "training without `teacher`")
    columns = ("text_a_column", "text_b_column", "label_column")
    own_data = ("problem_type", *columns)
    if self.processor:
      files = ("data_file", "xnli_language")
      return idle | dict.fromkeys((*own_data, *files), "`processor`")
    task_name = self.file_format or str(self.task_name)
    names = () if self.file_format else own_data
    if task_name.lower() != "xnli":
      names = (*names, "xnli_language")
    idle |= dict.fromkeys(names, f"`task_name={task_name}`")
    return idle if self.data_file else {**idle, "eval_fraction": "`data_dir`"}
