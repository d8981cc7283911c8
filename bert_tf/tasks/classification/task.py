"""Fine-tuning on single texts and pairs (Devlin et al. 2019, 4.1)."""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.checkpoint.run_info import LabelSpec
from bert_tf.files import json_files, text_lines
from bert_tf.model import losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.classification import calibration, glue, sources
from bert_tf.tasks.classification.config import (
  ClassificationConfig,
  ClassificationSettings,
)
from bert_tf.tasks.classification.metrics import METRICS, score_rankings
from bert_tf.tasks.classification.sources import Source
from bert_tf.tasks.rows import Answer, Results, Row
from bert_tf.tasks.setup import Setup
from bert_tf.training import progress, results

Rows = Sequence[Row]


def open_source(
  config: ClassificationConfig, saved: LabelSpec | None = None
) -> Source:
  """Returns the source of the rows that a config describes.

  `saved` are the labels in output_dir.
  """
  if config.processor:
    return sources.processor_source(config)
  if config.file_format:
    return sources.own_source(config, saved)
  return glue.get_task(
    str(config.task_name), config.xnli_language, str(config.data_dir)
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationTask(base.Task[ClassificationSettings]):
  """Classification of texts or pairs.

  An answer has the `label` and the `probabilities` of all labels, which are {}
  if the answer is a number. If `text_b` is a list, such a model sorts it: the
  answer is a `ranking`, in which each text has an `index` and a
  `relevance_score`.

  Args:
    source: the rows of the task's files; without rows if there is no config.
    teacher: a model whose probabilities the training also learns, if any.
  """

  name = "classification"
  fields = ("text", "text_b")
  first_results = ("eval_accuracy", "eval_loss", "global_step", "loss")
  loss_mask = "is_real_example"

  source: Source = Source()
  teacher: ModelFolder | None = None

  @classmethod
  def create(cls, setup: Setup[Any], **fields: Any) -> "ClassificationTask":
    """Returns the task of a run, with labels if they are known before."""
    config = setup.config
    source = open_source(config, setup.folder.labels)
    if config.calibrate and source.problem_type != run_info.CLASSIFICATION:
      raise ValueError("`calibrate` is only for `problem_type=classification`.")
    if source.labels is None:
      labels = setup.saved_labels()
      if labels and labels.problem_type == source.problem_type:
        labels = dataclasses.replace(labels, task_name=source.name)
      else:
        labels = None
    else:
      labels = LabelSpec(source.name, source.problem_type, source.labels)
    if config.teacher:
      source = dataclasses.replace(source, has_teacher=True)
    if config.teacher and config.do_train:
      teacher = ModelFolder.open(config.teacher, task=cls.name)
      assert teacher.labels
      taught = dataclasses.replace(teacher.labels, task_name=source.name)
      labels = labels or taught
      if labels != taught or labels.problem_type != source.problem_type:
        raise ValueError(
          f"`teacher` has other labels than this run: {taught.label_map()}."
        )
      fields["teacher"] = teacher
    return super().create(setup, labels=labels, source=source, **fields)

  @property
  def _spec(self) -> LabelSpec:
    assert self.labels is not None
    return self.labels

  @property
  def counts_windows(self) -> bool:
    """Whether the windows of long texts count as training examples."""
    return self.settings.long_text == "windows"

  @property
  def metrics(self) -> tuple[str, ...]:
    """Names of the results, the task's metrics first."""
    names = (*self.source.metrics, *super().metrics)
    if self.source.problem_type in run_info.NUMBERS:
      return tuple(name for name in names if name != "eval_accuracy")
    return names

  @property
  def files(self) -> Mapping[str, base.SplitFile]:
    """The file of each split."""
    return self.source.files

  def read(self, split: str) -> Rows:
    """Reads the rows of a split."""
    return self.source.read(split, self.labels)

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds a class, a number or a list of classes."""
    if label is None and split == "train" and self.teacher:
      return row
    label = list(label) if isinstance(label, tuple | set) else label
    return {**row, "label": self.source.read_label(label, self.labels)}

  def infer(self, rows: Rows, source: str) -> "ClassificationTask":
    """Returns the task with its labels, and whether its rows are pairs."""
    task = super().infer(rows, source)
    long_text = self.settings.long_text
    is_pair = bool(self.settings.is_pair) or any("text_b" in r for r in rows)
    if is_pair and long_text not in (None, "truncate"):
      raise ValueError(
        f"long_text {long_text!r} is for single texts, but {source} has pairs. "
        "Set `long_text=truncate`."
      )
    settings = dataclasses.replace(self.settings, is_pair=is_pair)
    return dataclasses.replace(task, settings=settings)

  def infer_labels(self, rows: Rows, source: str) -> LabelSpec:
    """Returns the labels of the training rows, sorted."""
    labels = super().infer_labels(rows, source).labels
    problem_type = self.source.problem_type
    if len(labels) < (2 if problem_type == run_info.CLASSIFICATION else 1):
      raise ValueError(
        f"all labels are the same in {source}: {', '.join(labels)}. Is "
        "`label_column` right?"
      )
    return LabelSpec(self.source.name, problem_type, labels)

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields one sequence of a row; several if `long_text` reads windows."""
    tokenize, room = self.tokenizer.tokenize_to_ids, self.max_seq_length - 2
    for row in rows:
      ids_a, ids_b = tokenize(row["text"]), None
      if isinstance(row.get("text_b"), list):
        if self._spec.problem_type not in run_info.NUMBERS:
          raise ValueError(
            "text_b is a list, which only a model with one output can sort."
          )
        pairs = [self.pack(ids_a, tokenize(text)) for text in row["text_b"]]
        yield base.Inputs(pairs, state=run_info.RANKING)
        continue
      parts: list[Sequence[int]] = [ids_a]
      if "text_b" in row:
        if self.settings.is_pair is False:
          raise ValueError(
            "a row has two texts, but the model was trained on single ones. "
            "Several rows are a list of texts."
          )
        ids_b = tokenize(row["text_b"])
      else:
        parts = cut_windows(ids_a, room, self.settings.long_text)
      yield base.Inputs(
        [self.pack(part, ids_b) for part in parts],
        is_cut=self.is_cut(ids_a, ids_b),
      )

  def prepare_for_training(self, rows: Rows) -> Rows:
    """Adds the teacher's logits, float32 [C], to each row."""
    if not (files := self.teacher):
      return rows
    task = ClassificationTask(
      tokenizer=files.tokenizer,
      settings=files.settings,
      labels=files.labels,
    )
    compute = tf.function(files.load_model(task.model), reduce_retracing=True)
    inputs = [*task.preprocess(rows)]
    sequences = [each for row in inputs for each in row.sequences]
    starts = range(0, len(sequences), 32)
    batches = (base.batch(sequences[start : start + 32]) for start in starts)
    tracked = progress.track(batches, "teacher", "batch", len(starts))
    logits = np.concatenate([compute(batch).numpy() for batch in tracked])
    ends = np.cumsum([len(row.sequences) for row in inputs])
    return [
      {**row, "teacher_logits": windows.mean(axis=0)}
      for row, windows in zip(rows, np.split(logits, ends))
    ]

  def targets(self, row: Row, inputs: base.Inputs) -> Iterable[base.Features]:
    """Yields the label of the row for each of its windows."""
    label = row.get("label")
    [ids] = label_ids([label], self._spec)
    features = {
      "label_ids": np.atleast_1d(ids),
      "is_real_example": np.array([1]),
    }
    if "teacher_logits" in row:
      features["label_logits"] = row["teacher_logits"]
      weight = 1 - self.config.distillation_weight if label is not None else 0
      features["label_weight"] = np.array([weight], np.float32)
    return itertools.repeat(features, inputs.num_records)

  def compute_losses(
    self, outputs: Tensor, features: losses.Features
  ) -> tuple[Tensor, Tensor | None]:
    """Returns the loss of each record, and whether its label is right.

    With a teacher, rows may have no label, so there is only the loss.
    """
    label_ids, problem_type = features["label_ids"], self._spec.problem_type
    values = losses.per_example_loss(outputs, label_ids, problem_type)
    if "label_logits" not in features:
      hits = losses.per_example_hits(outputs, label_ids, problem_type)
      return values, hits
    config, taught = self.config, features["label_logits"]
    distilled = losses.distillation_loss(
      outputs, taught, config.temperature, problem_type
    )
    values = features["label_weight"][:, 0] * values
    return values + config.distillation_weight * distilled, None

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the label for the mean logits of the windows."""
    logits = np.stack([output["logits"] for output in outputs])  # [windows, C]
    if inputs.state == run_info.RANKING:
      numbers = base.probabilities(logits, self._spec.problem_type)[:, 0]
      scores = enumerate(base.digits(numbers))
      ranking = [{"index": i, "relevance_score": score} for i, score in scores]
      return {"ranking": sorted(ranking, key=lambda r: -r["relevance_score"])}
    mean = logits.sum(axis=0) / np.float32(len(logits))
    probabilities = base.probabilities(mean, self._spec.problem_type)
    return to_answer(self._spec, probabilities)

  def score(self, rows: Rows, answers: Sequence[Answer]) -> Results:
    """Returns the official metrics and, with windows, means over rows."""
    labels, predicted = self._compare(rows, answers)
    if self.source.problem_type == run_info.RANKING:
      queries = [row["text"] for row in rows]
      scores = score_rankings(queries, labels, predicted)
    else:
      scores = {
        name: float(METRICS[name](labels, predicted))
        for name in self.source.metrics
      }
    if self.config.calibrate:
      scores |= calibration.calibrate(to_probabilities(answers), labels)
    if not self.counts_windows:
      return scores
    # Means over records would count a text several times.
    problem_type = self._spec.problem_type
    values = to_probabilities(answers)
    if problem_type != run_info.REGRESSION:
      # Logits with these probabilities, which may have been rounded to 0 or 1.
      values = np.clip(values, np.finfo(np.float32).tiny, 1 - 2.0**-24)
      is_sigmoid = problem_type != run_info.CLASSIFICATION
      values = np.log(values) - is_sigmoid * np.log1p(-values)
    means = self.compute_losses(values, {"label_ids": labels})
    for name, each in zip((self.loss_name, "accuracy"), means):
      if each is not None:
        scores[name] = float(np.sum(each) / len(rows))
    return scores

  def _compare(
    self, rows: Rows, answers: Sequence[Answer]
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the true and the predicted labels, as `label_ids`."""
    return (
      label_ids([row["label"] for row in rows], self._spec),
      label_ids([answer["label"] for answer in answers], self._spec),
    )

  def write_evaluation(
    self, output_dir: str, rows: Rows, answers: Sequence[Answer]
  ) -> None:
    """Writes eval_predictions.jsonl and logs the scores of each label.

    Warns if the accuracy is at most two standard errors above that of the most
    frequent label.
    """
    answers = self._calibrate(output_dir, answers)
    objects = self._describe(rows, answers)
    if self._spec.problem_type == run_info.CLASSIFICATION:
      labels, predicted = self._compare(rows, answers)
      accuracy = np.mean(labels == predicted)
      chance = np.bincount(labels).max() / len(rows)
      limit = chance + 2 * np.sqrt(chance * (1 - chance) / len(rows))
      if accuracy <= limit <= 1:
        logging.warning(
          f"eval_accuracy {accuracy:.3g} is close to chance: the most frequent "
          f"label alone would give {chance:.3g}."
        )
    path = os.path.join(output_dir, "eval_predictions.jsonl")
    results.write_lines(path, map(json_files.encode, objects))

  def _calibrate(
    self, output_dir: str, answers: Sequence[Answer]
  ) -> Sequence[Answer]:
    """Returns the answers with the temperature in run.json, if there is one."""
    run = run_info.read_run(output_dir)
    if not run or run.temperature == 1:
      return answers
    values = calibration.soften(to_probabilities(answers), run.temperature)
    return [to_answer(self._spec, row) for row in values]

  def write_predictions(
    self, output_dir: str, rows: Rows, answers: Iterable[Answer]
  ) -> Results:
    """Writes test_results.tsv, predictions.jsonl and any submission to GLUE."""
    answers = self._calibrate(output_dir, [*answers])
    members = [to_probabilities(answers)]
    for folder in self.config.ensemble_with:
      path = os.path.join(folder, "test_results.tsv")
      lines = text_lines.read_text(path).splitlines()
      members.append(np.loadtxt(lines, np.float32, ndmin=2))
      others = run_info.read_labels(folder) or self.labels
      if others != self.labels or members[-1].shape != members[0].shape:
        raise ValueError(
          f"{path} (`ensemble_with`) has {len(members[-1])} rows of "
          f"probabilities and belongs to {others}, but this run has "
          f"{len(answers)} rows and {self.labels}."
        )
    means = np.mean(members, axis=0)
    answers = [to_answer(self._spec, row) for row in means]
    results.write_probabilities(output_dir, self._describe(rows, answers))
    if self.source.submission:
      cells = [answer["label"] for answer in answers]
      if self.source.problem_type == run_info.REGRESSION:
        # GLUE requires numbers within the limits.
        limits = self.source.number_range
        cells = [f"{np.clip(cell, *limits):.3f}" for cell in cells]
      lines = [f"{index}\t{cell}" for index, cell in enumerate(cells)]
      path = os.path.join(output_dir, self.source.submission)
      results.write_lines(path, ["index\tprediction", *lines])
    return {}

  def _describe(
    self, rows: Rows, answers: Sequence[Answer]
  ) -> list[dict[str, Any]]:
    """Returns the lines of predictions.jsonl; logs the scores by label."""
    objects = []
    for row, answer in zip(rows, answers):
      value = {name: row.get(name) for name in ("id", "text", "text_b")}
      value |= {"true_label": row.get("label"), **answer}
      objects.append({n: v for n, v in value.items() if v not in (None, {})})
    names = self._spec.labels
    if 2 <= len(names) <= 100 and all("true_label" in x for x in objects):
      from sklearn import metrics

      report = metrics.classification_report(
        *self._compare(rows, answers),
        labels=np.arange(len(names)),
        target_names=names,
        digits=3,
        zero_division=0,
      )
      report = report.replace("  support", " examples").rstrip()
      logging.info(f"The scores of each label:\n{report}")
    return objects


def cut_windows(
  ids: Sequence[int], room: int, long_text: str | None
) -> list[Sequence[int]]:
  """Cuts the word pieces of a text into windows of at most `room` pieces.

  "windows" start room / 2 pieces apart; the last one ends with the text.
  Otherwise, the only window has the first pieces.
  """
  if long_text == "windows" and len(ids) > room:
    last = len(ids) - room
    starts = [*range(0, last, max(1, room // 2)), last]
    return [ids[start : start + room] for start in starts]
  return [ids[:room]]


def to_answer(spec: LabelSpec, probabilities: np.ndarray) -> Answer:
  """Returns `label` and `probabilities` of a row's probabilities, float32 [C].

  The label is the most probable class; in multilabel a list of the labels with
  a probability above 0.5; or a number, without `probabilities`.
  """
  numbers = base.digits(probabilities)
  label: Any
  if spec.problem_type in run_info.NUMBERS:
    [label] = numbers
  elif spec.problem_type == run_info.MULTILABEL:
    label = [name for name, p in zip(spec.labels, numbers) if p > 0.5]
  else:
    label = spec.labels[probabilities.argmax()]
  return {"label": label, "probabilities": dict(zip(spec.labels, numbers))}


def to_probabilities(answers: Iterable[Answer]) -> np.ndarray:
  """Returns the probabilities of answers of `to_answer`, float32 [B, C]."""
  return np.array(
    [[*a["probabilities"].values()] or [a["label"]] for a in answers],
    np.float32,
  )


def label_ids(labels: Sequence[Any], spec: LabelSpec) -> np.ndarray:
  """Returns the ids of labels; zeros for None, which is not known.

  Returns:
    int64 [B], the classes; float32 [B], the numbers; or int64 [B, C] in
    multilabel, 1 for each applicable label.
  """
  if spec.problem_type in run_info.NUMBERS:
    return np.array([label or 0.0 for label in labels], np.float32)
  if spec.problem_type == run_info.MULTILABEL:
    rows = [[name in (label or ()) for name in spec.labels] for label in labels]
    return np.array(rows, np.int64)
  ids = {None: 0} | {name: i for i, name in enumerate(spec.labels)}
  return np.array([ids[label] for label in labels], np.int64)
