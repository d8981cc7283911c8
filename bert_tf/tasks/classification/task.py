"""Fine-tuning on single texts and pairs (Devlin et al. 2019, 4.1)."""

import dataclasses
import functools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf import distribution, heads
from bert_tf.data import input_pipeline, record_cache, records
from bert_tf.files import atomic, json_files, paths
from bert_tf.formats import tables
from bert_tf.model_folder import run_info
from bert_tf.tasks import base, fine_tuning, prediction
from bert_tf.tasks.classification import (
  answers,
  examples,
  glue,
  metrics,
  parquet_layouts,
  processors,
)
from bert_tf.tasks.classification import config as config_lib
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


def make_task(
  setup: base.Setup[config_lib.ClassificationConfig],
  layout: examples.FileLayout | None,
) -> "ClassificationTask":
  """Returns the task of a run. The layout is as in `run`."""
  config = setup.config
  layout = layout or file_layout(config)
  if layout.is_pair:
    _check_pairs(layout, config.long_text)
  saved = setup.saved_labels()
  if saved and saved.problem_type == layout.problem_type:
    layout = dataclasses.replace(
      layout.with_labels(saved.labels),
      labels_are_text=saved.are_text,
    )
  if config.processor:
    return ProcessorTask(setup, layout)
  if config.data_file:
    return DataFileTask(setup, layout)
  return ClassificationTask(setup, layout)


def _check_pairs(layout: examples.FileLayout, long_text: str | None) -> None:
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


class ClassificationTask(base.Task[InputExample, Texts]):
  """Classification of texts or pairs."""

  config: config_lib.ClassificationConfig
  model = heads.ClassifierModel
  first_results = ("eval_accuracy", "eval_loss", "global_step", "loss")

  def __init__(
    self,
    setup: base.Setup[config_lib.ClassificationConfig],
    layout: examples.FileLayout,
  ) -> None:
    super().__init__(setup)
    self.layout = layout
    self.data_dir = setup.config.data_dir or ""
    splits = {"train": layout.train, "dev": layout.dev, "test": layout.test}
    self.files = {
      name: base.SplitFile(os.path.join(self.data_dir, split.file), "data_dir")
      if split
      else base.SplitFile(None, "task_name")
      for name, split in splits.items()
    }

  @property
  def label_spec(self) -> run_info.LabelSpec | None:
    """The labels, None until they are known."""
    return None if self.layout.labels is None else self.layout.label_spec()

  @property
  def result_names(self) -> tuple[str, ...]:
    """Names of the results, the task's metrics first."""
    names = (*self.layout.metrics, *super().result_names)
    if self.layout.problem_type == "regression":
      return tuple(name for name in names if name != "eval_accuracy")
    return names

  def read(self, split: str, path: str) -> list[InputExample]:
    """Reads the examples of a split."""
    # Predictions must match the test file row by row.
    skip = self.config.skip_bad_rows and split != "test"
    return examples.read_examples(
      self.data_dir, getattr(self.layout, split), self.layout, skip
    )

  def set_labels(self, train: Sequence[InputExample], source: str) -> None:
    """Sets the labels to those of the training examples."""
    labels, kind = examples.infer_labels(train), self.layout.problem_type
    if kind == "multilabel" and examples.is_multi_hot(train):
      raise ValueError(f"{source}: every label {examples.MULTI_HOT}.")
    needed = 2 if kind == "classification" else 1
    if len(labels) < needed:
      raise ValueError(
        f"{source} has {len(labels)} labels "
        f"({', '.join(labels)}), but at least {needed} are necessary; is "
        "`label_column` right?"
      )
    self.layout = self.layout.with_labels(labels)

  def prepare(self, split: str, examples: Sequence[InputExample]) -> Texts:
    """Returns the examples with the number of windows of each."""
    num_windows = [1] * len(examples)
    if self.config.long_text == "windows":
      texts = (self.inputs_and_answer(example)[0] for example in examples)
      num_windows = [len(self.answerer.prepare(t).inputs) for t in texts]
    return Texts(examples, num_windows)

  def num_inputs(self, data: Texts) -> int:
    """Returns the number of windows of all examples."""
    return sum(data.num_windows)

  def encode(
    self, split: str, data: Texts
  ) -> Iterator[tuple[Sequence[bytes], bool]]:
    """Yields the records of an example, each of which has its label."""
    labels = metrics.label_ids(data.examples, self.layout.label_spec()).tolist()
    is_number = self.layout.problem_type == "regression"
    for label_ids, prepared in zip(labels, self.prepared(data.examples)):
      # Joined encodings are one encoding of all features.
      named = {"label_ids": label_ids}
      ints = {"is_real_example": [1]} | ({} if is_number else named)
      features = records.encode_features(ints, named if is_number else {})
      encoded = []
      for each in prepared.inputs:
        ids = prediction.padded([each], self.max_seq_length)
        encoded.append(
          records.encode_example(records.encode_features(ids, {}) + features)
        )
      yield encoded, prepared.is_cut

  def spec(self, split: str) -> input_pipeline.Spec:
    """Returns the features of a record."""
    spec = self.layout.label_spec()
    return input_pipeline.classifier_spec(
      self.max_seq_length, spec.num_outputs, spec.problem_type
    )

  def made_of(self, split: str, data: Texts) -> dict[str, Any]:
    """Returns a hash of the examples, the labels and long_text."""
    texts = [(e.text_a, e.text_b, e.label) for e in data.examples]
    return {
      "examples": record_cache.content_hash(texts),
      "problem_type": self.layout.problem_type,
      "labels": self.layout.labels,
      "long_text": self.config.long_text,
    }

  def objective(self) -> objective.Objective:
    """Returns the loss and the metrics of a classifier."""
    return objective.of_classifier(self.layout.problem_type)

  def scores(self, data: Texts, rows: Sequence[np.ndarray]) -> base.Results:
    """Returns the official metrics and, with windows, means over examples."""
    return metrics.scores(
      self.layout,
      metrics.label_ids(data.examples, self.layout.label_spec()),
      np.stack(rows),
      data.num_windows,
    )

  def near_chance(self, data: Texts, accuracy: float) -> float | None:
    """Returns the accuracy of the most frequent label if a model's is close."""
    spec = self.layout.label_spec()
    if spec.problem_type != "classification":
      return None
    ids = metrics.label_ids(data.examples, spec)
    return metrics.near_chance(ids, accuracy)

  def write_predictions(
    self, output_dir: str, data: Texts, rows: base.Rows
  ) -> base.Results:
    """Writes test_results.tsv, predictions.jsonl and any submission to GLUE."""
    logits = answers.mean_over_windows(np.stack(list(rows)), data.num_windows)
    problem_type = self.layout.problem_type
    probabilities = prediction.probabilities(logits, problem_type)
    metrics.write_predictions(
      output_dir, self.layout, data.examples, probabilities
    )
    return {}

  def run_info(self) -> dict[str, Any]:
    """Returns the labels, is_pair and long_text for run.json."""
    return super().run_info() | {
      "is_pair": self.layout.is_pair,
      "long_text": self.config.long_text,
    }

  def inputs_and_answer(
    self, example: InputExample
  ) -> tuple[dict[str, Any], Any]:
    """Returns the texts and the label."""
    inputs = {"text": example.text_a}
    if example.text_b is not None:
      inputs["text_b"] = example.text_b
    return inputs, example.label


class ProcessorTask(ClassificationTask):
  """Classification of the examples of a processor, which data_dir is given."""

  def __init__(self, *arguments: Any) -> None:
    super().__init__(*arguments)
    assert self.config.processor
    self._processor = processors.load(self.config.processor)
    self._is_pair = False
    file = base.SplitFile(self.data_dir, "data_dir")
    self.files = dict.fromkeys(("train", "dev", "test"), file)

  def read(self, split: str, path: str) -> list[InputExample]:
    """Returns the processor's examples of a split."""
    labels = self.layout.label_spec().labels
    rows = processors.read_examples(self._processor, split, path, labels)
    self._is_pair |= any(example.text_b is not None for example in rows)
    if self._is_pair:
      _check_pairs(self.layout, self.config.long_text)
    return rows

  def run_info(self) -> dict[str, Any]:
    """Returns the labels, is_pair and long_text for run.json."""
    return super().run_info() | {"is_pair": self._is_pair}


class DataFileTask(ClassificationTask):
  """Classification of a single file, of which a part is held out as dev.

  The folder of the run keeps the split. A later command with the same folder
  uses it, whatever its flags are, so that it never evaluates on examples that
  the model was trained on.
  """

  def __init__(
    self,
    setup: base.Setup[config_lib.ClassificationConfig],
    layout: examples.FileLayout,
  ) -> None:
    super().__init__(setup, layout)
    self._folder = setup.folder
    file = base.SplitFile(self.config.data_file, "data_file")
    no_dev = base.SplitFile(None, "eval_fraction")
    self.files = {
      "train": file,
      "dev": file if self.config.eval_fraction else no_dev,
      "test": base.SplitFile(None, "data_dir"),
    }

  def read(self, split: str, path: str) -> list[InputExample]:
    """Returns the examples of one part of the file."""
    return self._parts[split]

  @functools.cached_property
  def _parts(self) -> dict[str, list[InputExample]]:
    """The examples of train and dev."""
    config, path = self.config, str(self.config.data_file)
    assert self.layout.train
    rows = examples.read_examples(
      "",
      dataclasses.replace(self.layout.train, file=path, prefix="row"),
      self.layout,
      config.skip_bad_rows,
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
