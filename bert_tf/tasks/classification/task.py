"""Fine-tuning on single texts and pairs (Devlin et al. 2019, 4.1)."""

import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf import distribution, heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline
from bert_tf.files import atomic, json_files, paths
from bert_tf.formats import tables
from bert_tf.model_folder import run_folder, run_info
from bert_tf.tasks import base, fine_tuning, splits
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.classification import config as config_lib
from bert_tf.tasks.classification import (
  examples,
  glue,
  metrics,
  parquet_layouts,
  processors,
  records,
)
from bert_tf.tasks.classification.examples import InputExample
from bert_tf.training import objective


def run(
  config: config_lib.ClassificationConfig,
  layout: examples.FileLayout | None = None,
) -> base.Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run.

  Args:
    config: settings of the run.
    layout: the layout of the files; None for the layout that the config names.
  """
  return fine_tuning.run(config, functools.partial(make_task, layout=layout))


def file_layout(config: config_lib.ClassificationConfig) -> examples.FileLayout:
  """Returns the layout of the files that a config describes.

  With a processor, the layout has only labels.
  """
  if config.processor:
    labels = processors.labels(processors.load(config.processor))
    name = config.task_name or config.processor.rpartition(":")[2]
    return examples.FileLayout(name, labels, (), None, None, None)
  data_dir = config.data_dir or ""
  if config.file_format is None:
    assert config.task_name is not None
    layout = glue.get_task(config.task_name, config.xnli_language)
    return parquet_layouts.find_glue(layout, data_dir)
  layout = examples.own_files(
    config.file_format,
    config.problem_type,
    config.text_a_column,
    config.text_b_column,
    config.label_column,
  )
  if config.file_format == "parquet" and not config.data_file:
    return parquet_layouts.find_own(layout, data_dir)
  return layout


def result_names(layout: examples.FileLayout) -> tuple[str, ...]:
  """Returns the names of the results, the task's metrics first."""
  accuracy = () if layout.problem_type == "regression" else ("eval_accuracy",)
  return (*layout.metrics, *accuracy, "eval_loss", "loss")


def make_task(
  setup: base.Setup[config_lib.ClassificationConfig],
  layout: examples.FileLayout | None,
) -> "ClassificationTask":
  """Returns the task of a run. The layout is as in `run`."""
  config = setup.config
  assert config.max_seq_length is not None and config.long_text is not None
  layout = layout or file_layout(config)
  if layout.is_pair:
    _check_pairs(layout, config.long_text)
  saved = setup.saved_labels()
  if saved and saved.problem_type == layout.problem_type:
    layout = dataclasses.replace(
      layout.with_labels(saved.labels),
      labels_are_text=saved.are_text,
    )
  task_class: Callable[..., ClassificationTask] = ClassificationTask
  if config.processor:
    processor = processors.load(config.processor)
    task_class = functools.partial(ProcessorTask, processor)
  elif config.data_file:
    task_class = functools.partial(DataFileTask, config, setup.folder)
  return task_class(
    layout,
    config.data_dir or "",
    setup.bert_config,
    setup.tokenizer,
    config.max_seq_length,
    config.long_text,
    config.skip_bad_rows,
  )


def _check_pairs(layout: examples.FileLayout, long_text: str) -> None:
  """Raises ValueError for a long_text that pairs do not allow."""
  if long_text != "truncate":
    raise ValueError(
      f"long_text {long_text!r} is for single texts, but {layout.name} has "
      "pairs; set `long_text=truncate`."
    )


class Texts(NamedTuple):
  """The examples of a split and the number of windows of each."""

  examples: Sequence[InputExample]  # The texts or pairs, B.
  num_windows: Sequence[int]  # int [B]. The number of records of each.


@dataclasses.dataclass(eq=False)
class ClassificationTask(base.Task[InputExample, Texts]):
  """Classification of texts or pairs."""

  layout: examples.FileLayout
  data_dir: str
  bert_config: modeling.BertConfig
  tokenizer: tokenization.FullTokenizer
  max_seq_length: int  # Word pieces of a record.
  long_text: str = "truncate"  # One of config.LONG_TEXT_MODES.
  skip_bad_rows: bool = False  # Whether to skip faulty rows of train and dev.

  model = heads.ClassifierModel
  has_labels = True
  first_results = ("eval_accuracy", "eval_loss", "global_step", "loss")

  @property
  def label_spec(self) -> run_info.LabelSpec | None:
    """The labels, None until they are known."""
    return None if self.layout.labels is None else self.layout.label_spec()

  def file(self, split: str) -> base.SplitFile:
    """Returns the file of a split, if the task has this split."""
    split_layout = getattr(self.layout, split)
    if split_layout is None:
      return base.SplitFile(None, "task_name")
    path = os.path.join(self.data_dir, split_layout.file)
    return base.SplitFile(path, "data_dir")

  def read(self, split: str, path: str) -> list[InputExample]:
    """Reads the examples of a split."""
    # Predictions must match the test file row by row.
    skip = self.skip_bad_rows and split != "test"
    return examples.read_examples(
      self.data_dir, getattr(self.layout, split), self.layout, skip
    )

  def set_labels(self, train: Sequence[InputExample], source: str) -> None:
    """Sets the labels to those of the training examples.

    Raises ValueError for multi-hot lists, or if there are too few labels.
    """
    labels = examples.infer_labels(train)
    if self.layout.problem_type == "multilabel" and examples.is_multi_hot(
      train
    ):
      raise ValueError(f"{source}: every label {examples.MULTI_HOT}.")
    needed = 2 if self.layout.problem_type == "classification" else 1
    if len(labels) < needed:
      raise ValueError(
        f"{source} has {len(labels)} labels "
        f"({', '.join(labels)}), but at least {needed} are necessary; is "
        "`label_column` right?"
      )
    self.layout = self.layout.with_labels(labels)

  def prepare(self, split: str, examples: Sequence[InputExample]) -> Texts:
    """Returns the examples with the number of windows of each."""
    num_windows = records.num_windows(
      examples, self.tokenizer, self.max_seq_length, self.long_text
    )
    return Texts(examples, num_windows)

  def num_inputs(self, data: Texts) -> int:
    """Returns the number of windows of all examples."""
    return sum(data.num_windows)

  def write_records(
    self, split: str, path: str, data: Texts
  ) -> input_pipeline.RecordFiles:
    """Writes a record for each window, unless the records exist already."""
    return records.write_records(
      path,
      data.examples,
      self.layout.label_spec(),
      self.tokenizer,
      self.max_seq_length,
      self.long_text,
    )

  def batches(self, split: str) -> batches_lib.Batches:
    """Returns the builder of batches for a split."""
    return records.batches(
      self.layout.label_spec(),
      self.max_seq_length,
      self.bert_config.vocab_size,
    )

  def objective(self) -> objective.Objective:
    """Returns the loss and the metrics of a classifier."""
    return objective.of_classifier(self.layout.problem_type)

  def result_names(self) -> tuple[str, ...]:
    """Returns the names of results. The first is the default best_metric."""
    return result_names(self.layout)

  def scores(self, data: Texts, rows: Sequence[np.ndarray]) -> base.Results:
    """Returns the official metrics and, with windows, means over examples."""
    return metrics.scores(
      self.layout,
      records.label_ids(data.examples, self.layout.label_spec()),
      np.stack(rows),
      data.num_windows,
    )

  def near_chance(self, data: Texts, accuracy: float) -> float | None:
    """Returns the accuracy of the most frequent label if a model's is close."""
    spec = self.layout.label_spec()
    if spec.problem_type != "classification":
      return None
    ids = records.label_ids(data.examples, spec)
    return metrics.near_chance(ids, accuracy)

  def write_predictions(
    self, output_dir: str, data: Texts, rows: base.Rows
  ) -> base.Results:
    """Writes test_results.tsv, predictions.jsonl and any submission to GLUE."""
    logits = records.mean_over_windows(np.stack(list(rows)), data.num_windows)
    problem_type = self.layout.problem_type
    probabilities = np.asarray(losses.probabilities(logits, problem_type))
    metrics.write_predictions(
      output_dir, self.layout, data.examples, probabilities
    )
    return {}

  def run_info(self) -> dict[str, Any]:
    """Returns the labels, is_pair and long_text for run.json."""
    return {
      **self.layout.label_spec().run_fields(),
      "is_pair": self.layout.is_pair,
      "long_text": self.long_text,
    }

  def describe_labels(self, examples: Sequence[InputExample]) -> str:
    """Returns the labels' origin and counts, or the range of numbers."""
    labels = [e.label for e in examples if e.label is not None]
    numbers = [label for label in labels if isinstance(label, float)]
    if not labels:
      return "no labels"
    if numbers:
      return f"labels from {min(numbers):g} to {max(numbers):g}"
    names = itertools.chain.from_iterable(
      (label,) if isinstance(label, str) else label
      for label in labels
      if not isinstance(label, float)
    )
    return splits.describe_labels(self.layout.label_spec(), names)

  def describe_cut(self) -> str:
    """Returns the log's phrase on long texts."""
    if self.long_text == "windows":
      return f"read in several windows of max_seq_length {self.max_seq_length}"
    return f"cut to max_seq_length {self.max_seq_length}"

  def inputs_and_answer(
    self, example: InputExample
  ) -> tuple[dict[str, Any], Any]:
    """Returns the texts and the label."""
    inputs = {"text": example.text_a}
    if example.text_b is not None:
      inputs["text_b"] = example.text_b
    return inputs, example.label


class ProcessorTask(ClassificationTask):
  """Classification of the examples of a processor.

  Args:
    processor: supplies the examples; the layout has its labels.
    arguments: arguments of ClassificationTask.
  """

  def __init__(
    self, processor: processors.DataProcessor, *arguments: Any
  ) -> None:
    super().__init__(*arguments)
    self._processor = processor
    self._is_pair = False

  def file(self, split: str) -> base.SplitFile:
    """Returns data_dir, the argument of the processor's methods."""
    return base.SplitFile(self.data_dir, "data_dir")

  def read(self, split: str, path: str) -> list[InputExample]:
    """Returns the processor's examples of a split."""
    labels = self.layout.label_spec().labels
    rows = processors.read_examples(self._processor, split, path, labels)
    self._is_pair |= any(example.text_b is not None for example in rows)
    if self._is_pair:
      _check_pairs(self.layout, self.long_text)
    return rows

  def run_info(self) -> dict[str, Any]:
    """Returns the labels, is_pair and long_text for run.json."""
    return {**super().run_info(), "is_pair": self._is_pair}


class DataFileTask(ClassificationTask):
  """Classification of a single file, of which a part is held out as dev.

  Args:
    config: names the file and the fraction to hold out.
    folder: the folder of the run, which keeps the split. A later command with
      the same folder uses it, whatever its flags are, so that it never
      evaluates on examples that the model was trained on.
    arguments: arguments of ClassificationTask.
  """

  def __init__(
    self,
    config: config_lib.ClassificationConfig,
    folder: run_folder.RunFolder,
    *arguments: Any,
  ) -> None:
    super().__init__(*arguments)
    self._config = config
    self._folder = folder

  def file(self, split: str) -> base.SplitFile:
    """Returns data_file, for train and dev."""
    if split == "test":
      return base.SplitFile(None, "data_dir")
    if split == "dev" and not self._config.eval_fraction:
      return base.SplitFile(None, "eval_fraction")
    return base.SplitFile(self._config.data_file, "data_file")

  def read(self, split: str, path: str) -> list[InputExample]:
    """Returns the examples of one part of the file."""
    return self._parts[split]

  @functools.cached_property
  def _parts(self) -> dict[str, list[InputExample]]:
    """The examples of train and dev."""
    config, path = self._config, str(self._config.data_file)
    assert self.layout.train
    rows = examples.read_examples(
      "",
      dataclasses.replace(self.layout.train, file=path, prefix="row"),
      self.layout,
      self.skip_bad_rows,
    )
    split_file = os.path.join(self._folder.path, "data_split.json")
    if self._folder.info and paths.exists(split_file):
      saved = json_files.read_object(split_file)
      if saved["num_rows"] != len(rows):
        raise ValueError(
          f"{path} has {len(rows)} rows, but {split_file} splits "
          f"{saved['num_rows']}; choose another `output_dir` for other data."
        )
      dev = set(saved["dev"])
    else:
      seed = config.train.seed
      dev = set(
        examples.hold_out(rows, config.eval_fraction, seed)
        if config.eval_fraction
        else ()
      )
      if distribution.is_chief():
        split = {
          "data_file": path,
          "num_rows": len(rows),
          "eval_fraction": config.eval_fraction,
          "seed": seed,
          "dev": sorted(dev),
        }
        atomic.write(split_file, [json.dumps(split), "\n"])
    if config.eval_fraction and not dev:
      raise ValueError(
        f"{path} has {len(rows)} rows, too few to hold some out; set "
        "`eval_fraction=0` and train without `do_eval`."
      )
    train = tables.Examples(r for i, r in enumerate(rows) if i not in dev)
    train.num_dropped = getattr(rows, "num_dropped", 0)
    return {"train": train, "dev": [rows[i] for i in sorted(dev)]}
