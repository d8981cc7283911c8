"""Fine-tuning on single texts and pairs (Devlin et al. 2019, 4.1)."""

import collections
import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from scipy import stats
from sklearn import metrics

from bert_tf import distribution
from bert_tf.checkpoint import run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.checkpoint.run_info import RANKING, LabelSpec
from bert_tf.files import atomic, json_files, paths, text_lines
from bert_tf.model import losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.classification import (
  calibration,
  glue,
  layouts,
  processors,
)
from bert_tf.tasks.classification.config import (
  ClassificationConfig,
  ClassificationSettings,
)
from bert_tf.tasks.classification.layouts import FileLayout
from bert_tf.tasks.classification.ranking import score_rankings
from bert_tf.tasks.rows import Answer, Results, Row, hold_out_texts
from bert_tf.tasks.setup import Setup
from bert_tf.training import progress, results

Rows = Sequence[Row]


def _f1(labels: np.ndarray, predicted: np.ndarray, average: str) -> float:
  # scikit-learn takes a single label of a multi-label task for two classes.
  average = "binary" if labels.shape[1:] == (1,) else average
  return metrics.f1_score(labels, predicted, average=average, zero_division=0)


# Metrics by name. Each takes true and predicted labels in the form that
# `decide` returns.
METRICS = {
  "f1": functools.partial(_f1, average="binary"),
  "macro_f1": functools.partial(_f1, average="macro"),
  "micro_f1": functools.partial(_f1, average="micro"),
  "matthews_correlation": metrics.matthews_corrcoef,
  "pearson": lambda a, b: stats.pearsonr(a, b).statistic,
  "spearman": lambda a, b: stats.spearmanr(a, b).statistic,
}


def file_layout(
  config: ClassificationConfig, saved: LabelSpec | None = None
) -> FileLayout:
  """Returns the layout of the files that a config describes.

  Files of the user's own have the problem type of the labels that are saved in
  output_dir, unless the config names another. With a processor, the layout has
  only labels.
  """
  if config.processor:
    labels = processors.get_labels(processors.load_processor(config.processor))
    name = config.task_name or config.processor.rpartition(":")[2]
    return FileLayout(name, labels, (), {})
  if config.file_format is None:
    return glue.get_task(str(config.task_name), config.xnli_language)
  default = saved.problem_type if saved else run_info.CLASSIFICATION
  layout = layouts.own_files(
    config.file_format,
    config.problem_type or default,
    config.text_a_column,
    config.text_b_column,
    config.label_column,
  )
  if saved:
    layout = dataclasses.replace(layout, name=saved.task_name)
  if config.data_file:
    rows = dataclasses.replace(
      layout.splits["train"], file=config.data_file, prefix="row"
    )
    return dataclasses.replace(layout, splits={"train": rows})
  return layout


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationTask(base.Task[ClassificationSettings]):
  """Classification of texts or pairs.

  The rows come from the files of a layout, from a processor, or from a single
  file, of which a part is held out as dev. The folder of the run keeps that
  split. A later command with the same folder uses it, whatever its flags are,
  so that it never evaluates on rows that the model was trained on.

  An answer has the `label` and the `probabilities` of all labels, which are {}
  if the answer is a number. If `text_b` is a list, such a model sorts it: the
  answer is a `ranking`, in which each text has an `index` and a
  `relevance_score`.

  Args:
    layout: the files of the task's data; none without a config.
    teacher: a model whose probabilities the training also learns; None for
      labels alone.
  """

  name = "classification"
  fields = ("text", "text_b")
  first_results = ("eval_accuracy", "eval_loss", "global_step", "loss")
  loss_mask = "is_real_example"

  layout: FileLayout = FileLayout("", None, (), {})
  teacher: ModelFolder | None = None

  @classmethod
  def create(cls, setup: Setup[Any]) -> "ClassificationTask":
    """Returns the task of a run, with labels if they are known before."""
    layout = file_layout(setup.config, setup.folder.labels)
    has_teacher = bool(setup.config.teacher)
    layout = dataclasses.replace(layout, has_teacher=has_teacher)
    labels = setup.saved_labels(layout.labels)
    if labels and labels.problem_type != layout.problem_type:
      labels = None
    if layout.labels is not None:
      are_text = labels is None or labels.are_text
      labels = LabelSpec("", layout.problem_type, layout.labels, are_text)
    is_classified = layout.problem_type == run_info.CLASSIFICATION
    if setup.config.calibrate and not is_classified:
      raise ValueError("`calibrate` is only for `problem_type=classification`.")
    teacher = None
    if has_teacher and setup.config.do_train:
      teacher = ModelFolder.open(setup.config.teacher, task=cls.name)
      assert teacher.labels
      taught = dataclasses.replace(teacher.labels, task_name=layout.name)
      labels = dataclasses.replace(labels or taught, task_name=layout.name)
      if labels != taught or labels.problem_type != layout.problem_type:
        raise ValueError(
          f"`teacher` has other labels than this run: {taught.label_map()}."
        )
    if labels:
      labels = dataclasses.replace(labels, task_name=layout.name)
    return cls.build(setup, labels=labels, layout=layout, teacher=teacher)

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
    names = (*self.layout.metrics, *super().metrics)
    if self.layout.problem_type in run_info.NUMBERS:
      return tuple(name for name in names if name != "eval_accuracy")
    return names

  @property
  def files(self) -> Mapping[str, base.SplitFile]:
    """The file of each split."""
    config, names = self.config, ("train", "dev", "test")
    if config.data_file:
      train = base.SplitFile(config.data_file, "data_file")
      no_dev = base.SplitFile(None, "eval_fraction")
      dev = train if config.eval_fraction else no_dev
      test = base.SplitFile(None, "data_dir")
      return {"train": train, "dev": dev, "test": test}
    if config.processor:
      return dict.fromkeys(names, base.SplitFile(config.data_dir, "data_dir"))
    found = dict.fromkeys(names, base.SplitFile(None, "task_name"))
    for name, split in self.layout.splits.items():
      path = os.path.join(config.data_dir, split.file)
      found[name] = base.SplitFile(path, "data_dir")
    return found

  def read(self, split: str) -> Rows:
    """Reads the rows of a split."""
    config, layout = self.config, self.layout
    if config.data_file:
      return split_data_file(config, layout, self.labels)[split]
    if config.processor:
      return processors.read_examples(
        processors.load_processor(config.processor),
        split,
        config.data_dir,
        self._spec.labels,
      )
    return layouts.read_rows(config.data_dir, layout, self.labels, split)

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds a class, a number or a list of classes."""
    if label is None and split == "train" and self.teacher:
      return row
    label = list(label) if isinstance(label, tuple | set) else label
    label = layouts.read_label(label, self.layout, self.labels)
    return {**row, "label": label}

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
    labels, problem_type = layouts.infer_labels(rows), self.layout.problem_type
    if len(labels) < (2 if problem_type == run_info.CLASSIFICATION else 1):
      raise ValueError(
        f"{source} has too few different labels ({', '.join(labels)}). Is "
        "`label_column` right?"
      )
    return LabelSpec(self.layout.name, problem_type, labels)

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
        yield base.Inputs(pairs, state=RANKING)
        continue
      parts: list[Sequence[int]] = [ids_a]
      if "text_b" in row:
        ids_b = tokenize(row["text_b"])
      else:
        parts = cut_windows(ids_a, room, self.settings.long_text)
      yield base.Inputs(
        [self.pack(part, ids_b) for part in parts],
        is_cut=self.is_cut(ids_a, ids_b),
      )

  def prepare_for_training(self, rows: Rows) -> Rows:
    """Adds the teacher's logits, float32 [C], to each row."""
    if not self.teacher:
      return rows
    files = self.teacher
    task = ClassificationTask(
      tokenizer=files.make_tokenizer(files.case),
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
    features = {"label_ids": ids, "is_real_example": np.array([1])}
    if "teacher_logits" in row:
      features["label_logits"] = row["teacher_logits"]
      weight = 1 - self.config.distillation_weight if label is not None else 0
      features["label_weight"] = np.array([weight], np.float32)
    for _ in inputs.sequences:
      yield features

  def compute_losses(
    self, outputs: Any, features: losses.Features
  ) -> tuple[Tensor, Tensor | None]:
    """Returns the losses of labels, and of the teacher's probabilities."""
    values, hits = super().compute_losses(outputs, features)
    if "label_logits" not in features:
      return values, hits
    distilled = losses.distillation_loss(
      outputs,
      features["label_logits"],
      self.config.temperature,
      self._spec.problem_type,
    )
    values = values * features["label_weight"][:, 0]
    # Rows without a label would count as wrong in an accuracy.
    return values + self.config.distillation_weight * distilled, None

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the label for the mean logits of the windows."""
    logits = np.stack([output["logits"] for output in outputs])  # [windows, C]
    if inputs.state == RANKING:
      numbers = base.probabilities(logits, self._spec.problem_type)[:, 0]
      scores = enumerate(base.digits(numbers))
      ranking = [{"index": i, "relevance_score": score} for i, score in scores]
      return {"ranking": sorted(ranking, key=lambda r: -r["relevance_score"])}
    mean = logits.sum(axis=0) / np.float32(len(logits))
    probabilities = base.probabilities(mean, self._spec.problem_type)
    return to_answer(self._spec, probabilities)

  def score(self, rows: Rows, answers: Sequence[Answer]) -> Results:
    """Returns the official metrics and, with windows, means over rows."""
    pair = self._compare(rows, answers)
    if self.layout.problem_type == RANKING:
      scores = score_rankings([row["text"] for row in rows], *pair)
    else:
      names = self.layout.metrics
      scores = {name: float(METRICS[name](*pair)) for name in names}
    if self.config.calibrate:
      scores |= calibration.calibrate(to_probabilities(answers), pair[0])
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
    labels = label_ids([row["label"] for row in rows], self._spec)
    means = {
      "example_loss": losses.per_example_loss(values, labels, problem_type),
      "accuracy": losses.per_example_hits(values, labels, problem_type),
    }
    return scores | {
      name: float(np.sum(each) / len(rows))
      for name, each in means.items()
      if each is not None
    }

  def _compare(
    self, rows: Rows, answers: Sequence[Answer]
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the true and the predicted labels, as `decide`."""
    labels = label_ids([row["label"] for row in rows], self._spec)
    probabilities = to_probabilities(answers)
    predicted = decide(probabilities, self._spec.problem_type)
    return labels.reshape(predicted.shape), predicted

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
      counts = collections.Counter(row["label"] for row in rows)
      chance = max(counts.values()) / len(rows)
      limit = chance + 2 * np.sqrt(chance * (1 - chance) / len(rows))
      labels, predicted = self._compare(rows, answers)
      accuracy = np.mean(labels == predicted)
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
    if len(members) > 1:
      means = np.mean(members, axis=0)
      answers = [to_answer(self._spec, row) for row in means]
    results.write_probabilities(output_dir, self._describe(rows, answers))
    if self.layout.submission:
      cells = [answer["label"] for answer in answers]
      # GLUE requires numbers within the limits.
      if limits := self.layout.number_range:
        cells = [f"{np.clip(cell, *limits):.3f}" for cell in cells]
      lines = [f"{index}\t{cell}" for index, cell in enumerate(cells)]
      path = os.path.join(output_dir, self.layout.submission)
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


def split_data_file(
  config: ClassificationConfig, layout: FileLayout, labels: LabelSpec | None
) -> dict[str, Rows]:
  """Returns the rows of train and dev in data_file."""
  path, fraction = str(config.data_file), config.eval_fraction
  seed, output_dir = config.train.seed, config.train.output_dir
  rows = layouts.read_rows("", layout, labels, "train")
  split_file = os.path.join(output_dir, "data_split.json")
  has_run = paths.exists(os.path.join(output_dir, run_info.RUN_FILE))
  if has_split := has_run and paths.exists(split_file):
    split = json_files.read_object(split_file)
    if split["num_rows"] != len(rows):
      raise ValueError(
        f"{path} has {len(rows)} rows, but {split_file} splits "
        f"{split['num_rows']}. Choose another `output_dir` for other data."
      )
  else:
    held_out: list[int] = []
    if layout.problem_type == RANKING:
      drawn = hold_out_texts(rows, fraction)
      held_out = [i for i in drawn if rows[i].get("label") is not None]
    elif fraction:
      held_out = layouts.hold_out(rows, fraction, seed)
    split = {
      "data_file": path,
      "num_rows": len(rows),
      "eval_fraction": fraction,
      "seed": seed,
      "dev": held_out,
    }
  if fraction and not split["dev"]:
    raise ValueError(
      f"{path} has {len(rows)} rows, but no label has two different ones, so "
      "none can be held out. Is `label_column` right? If so, set "
      "`eval_fraction=0` and train without `do_eval`."
    )
  if not has_split and distribution.is_chief():
    atomic.write_lines(split_file, [json.dumps(split)])
  train = dict(enumerate(rows))
  dev = [train.pop(index) for index in sorted(split["dev"])]
  return {"train": [*train.values()], "dev": dev}


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


def decide(probabilities: np.ndarray, problem_type: str) -> np.ndarray:
  """Decides by probabilities, float32 [B, C].

  Returns int [B], the most probable class; float32 [B], the number; or
  int [B, C], 1 for each label with a probability above 0.5.
  """
  if problem_type in run_info.NUMBERS:
    return probabilities[:, 0]
  if problem_type == "multilabel":
    return (probabilities > 0.5).astype(int)
  return probabilities.argmax(axis=-1)


def to_answer(spec: LabelSpec, probabilities: np.ndarray) -> Answer:
  """Returns `label` and `probabilities` of a row's probabilities, float32 [C].

  The label is a list for multilabel. If it is a number, `probabilities` are {}.
  """
  [value] = decide(probabilities[None], spec.problem_type)
  label: Any
  if spec.problem_type in run_info.NUMBERS:
    [label] = base.digits(probabilities)
  elif spec.problem_type == "multilabel":
    label = [name for name, applies in zip(spec.labels, value) if applies]
  else:
    label = spec.labels[value]
  by_label = dict(zip(spec.labels, base.digits(probabilities)))
  return {"label": label, "probabilities": by_label}


def to_probabilities(answers: Iterable[Answer]) -> np.ndarray:
  """Returns the probabilities of answers of `to_answer`, float32 [B, C]."""
  return np.array(
    [[*a["probabilities"].values()] or [a["label"]] for a in answers],
    np.float32,
  )


def label_ids(labels: Sequence[Any], spec: LabelSpec) -> np.ndarray:
  """Returns the ids of labels; zeros for None, which is not known.

  Returns:
    int64 [B, 1], the classes; float32 [B, 1], the numbers; or int64 [B, C]
    in multilabel, 1 for each applicable label.
  """
  if spec.problem_type in run_info.NUMBERS:
    return np.array([[label or 0.0] for label in labels], np.float32)
  if spec.problem_type == "multilabel":
    rows = [[name in (label or ()) for name in spec.labels] for label in labels]
    return np.array(rows, np.int64)
  ids = {name: i for i, name in enumerate(spec.labels)}
  return np.array([[0 if x is None else ids[x]] for x in labels], np.int64)
