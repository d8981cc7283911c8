"""Task models in Python: fit, predict, evaluate and score on rows in memory.

They train and evaluate as the scripts do, and write the same files, so each can
predict with the runs of the other.
"""

import dataclasses
import functools
import json
import os
import typing
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from bert_tf import settings, task_registry
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.files import messages, paths
from bert_tf.inference.predictor import Predictor
from bert_tf.inference.rows import (
  as_list,
  check_texts,
  map_rows,
  texts_by_name,
  to_rows,
)
from bert_tf.tasks import base, fine_tuning, splits
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.config import FineTuningConfig
from bert_tf.tasks.encoder.task import PAIR_FIELDS, EncoderTask
from bert_tf.tasks.ner.task import NerTask
from bert_tf.tasks.rows import Results, Row, labels_in
from bert_tf.tasks.setup import Setup
from bert_tf.tasks.squad.task import SquadTask
from bert_tf.tasks.swag.task import SwagTask
from bert_tf.training import evaluation

# The rows of a split, and a label for each row.
Labelled = tuple[Any, Any]


class TaskModel:
  """A BERT that is fine-tuned for a task with `fit`, and predicts."""

  _task: ClassVar[type[base.Task[Any]]]  # A row is one of this task.
  # Settings of the command that describe data files.
  _without_files: ClassVar[Mapping[str, Any]] = {}
  # Names of results; `score` returns the first that a task has.
  _scores: ClassVar[tuple[str, ...]] = ("eval_accuracy", "micro_f1", "pearson")

  def __init__(
    self,
    init_checkpoint: str | None = None,
    *,
    output_dir: str | None = None,
    **changes: Any,
  ) -> None:
    """Opens a model to predict with, or prepares a new run for `fit`.

    Args:
      init_checkpoint: without output_dir, the model to predict with, a folder
        or a checkpoint. Otherwise the pre-trained model that `fit` starts from;
        None for random weights.
      output_dir: the folder of the run: a new or empty one to `fit`, or an
        earlier run to predict with, by its best checkpoint, else its newest.
      **changes: flags of the task's command by name, such as max_seq_length,
        learning_rate or vocab_file. By default those of the run, else the
        command's; files are those in the model's folder.

    Raises:
      ValueError: if the files of a model to predict with do not match.
      TypeError: for an unknown setting.
    """
    if output_dir is None and init_checkpoint is None:
      raise ValueError("give `output_dir`, `init_checkpoint` or both.")
    folders = {"init_checkpoint": init_checkpoint, "output_dir": output_dir}
    self._given = {n: v for n, v in changes.items() if v is not None} | folders
    self._check_names(changes)
    if output_dir is None:
      _ = self._predictor  # Loads the model.

  def predict(self, inputs: Any) -> Any:
    """Returns the answer for a row, or a list of answers for several.

    An answer is that of `Predictor.predict`. The first call loads the model.

    Args:
      inputs: a row, which is a text, a tuple in the order of the inputs or
        a dict by these names. Or several rows, as a list, an iterator, a NumPy
        array, or a Series or DataFrame of pandas.

    Raises:
      ValueError: if there is no trained model, or a row does not match it.
    """
    rows, is_single = to_rows(inputs)
    answers = self._predictor.predict([*map_rows(self._row, rows)])
    return answers[0] if is_single else answers

  def fit(
    self,
    inputs: Any,
    labels: Any = None,
    validation_data: Labelled | None = None,
    **changes: Any,
  ) -> Results:
    """Fine-tunes on rows; checkpoints and results go to output_dir.

    Args:
      inputs: two or more rows, as for `predict`.
      labels: a label for each row, from Python, NumPy or pandas; None for rows
        without labels.
      validation_data: rows and labels to evaluate on at the end. With
        eval_every_steps also during training: the best checkpoint is saved in
        output_dir/best for predictions.
      **changes: settings of the task's script by name, such as
        num_train_epochs or learning_rate. output_dir and init_checkpoint
        replace those of the constructor.

    Returns:
      The results on validation_data of the checkpoint that predicts; {} without
      validation_data.

    Raises:
      ValueError: if rows, labels and settings do not match, or output_dir has a
        run.
      TypeError: for an unknown setting.
    """
    self._check_names(changes)
    given = {**self._given, **changes}
    if validation_data is None and given.get("eval_every_steps"):
      raise ValueError("eval_every_steps needs `validation_data`.")
    folder = given["output_dir"]
    if folder and checkpoints.list_checkpoints(folder):
      raise ValueError(
        f"{folder} already holds a run; choose another `output_dir` to fit."
      )
    # Predictions use the same case and length.
    self._given = given
    vars(self).pop("_predictor", None)
    data = {"train": (inputs, labels)}
    if validation_data is not None:
      data["dev"] = validation_data
    results = self._run(data)
    best = evaluation.find_best_folder(folder)
    return evaluation.read_best_results(best) if results and best else results

  def evaluate(self, inputs: Any, labels: Any = None) -> Results:
    """Evaluates the trained checkpoint on rows with labels, as for `fit`.

    Returns the results by name, such as eval_accuracy or f1, and writes them to
    eval_results.txt next to the checkpoint.
    """
    self._trained()
    return self._run({"dev": (inputs, labels)})

  def score(self, inputs: Any, labels: Any = None) -> float:
    """Returns the main result of `evaluate`.

    It is the accuracy, for several labels micro F1, for a regression Pearson's
    correlation, and F1 for words and answers.
    """
    results = self.evaluate(inputs, labels)
    return float(next(results[s] for s in self._scores if s in results))

  def get_params(self, deep: bool = True) -> dict[str, Any]:
    """Returns the constructor's arguments by name, for scikit-learn."""
    return {**self._given}

  def set_params(self, **params: Any) -> "TaskModel":
    """Replaces arguments of the constructor, for scikit-learn."""
    changed = type(self)(**{**self._given, **params})
    vars(self).clear()
    vars(self).update(vars(changed))
    return self

  def __sklearn_clone__(self) -> "TaskModel":
    # A folder holds one run, so each clone trains in a folder of its own.
    folder = self._given["output_dir"]
    folder = folder and f"{folder}-{uuid.uuid4().hex[:8]}"
    return type(self)(**{**self._given, "output_dir": folder})

  def __sklearn_tags__(self) -> Any:
    from sklearn import base as sklearn_base

    return sklearn_base.BaseEstimator.__sklearn_tags__(self)

  def _row(self, row: Any) -> Row:
    return texts_by_name(row, self._task.fields, self._task.num_required)

  def _training_row(self, row: Any) -> Row:
    return self._row(row)

  @property
  def _folder(self) -> str:
    """The folder of the run, or of its best checkpoint."""
    folder = self._given["output_dir"] or ""
    return evaluation.find_best_folder(folder) or folder

  def _trained(self) -> str:
    """Returns the checkpoint that predicts."""
    newest = checkpoints.find_latest(self._folder)
    if newest is None:
      folder = self._given["output_dir"]
      raise ValueError(f"{folder} has no trained model; call `fit`.")
    return newest

  @functools.cached_property
  def _predictor(self) -> Predictor:
    """The model that predicts, without a folder the one to start from."""
    fields = task_registry.settings_class(self._task.name).__dataclass_fields__
    names = ("bert_config_file", "vocab_file", *fields)
    values = {n: v for n, v in self._given.items() if n in names}
    source = self._given["init_checkpoint"]
    if self._given["output_dir"]:
      source = self._trained()
      if paths.exists(os.path.join(self._folder, run_info.CONFIG_FILE)):
        # The run may have added layers to its initial checkpoint.
        values.pop("bert_config_file", None)
    return Predictor(source, task=self._task.name, **values)

  def _defaults(self) -> FineTuningConfig:
    config_class = task_registry.load(
      task_registry.TASKS[self._task.name].config
    )
    train = typing.get_type_hints(config_class)["train"](output_dir="")
    return config_class(train=train, **self._without_files)

  def _check_names(self, names: Mapping[str, Any]) -> None:
    known = {*settings.values(self._defaults())}
    for name in names.keys() - known:
      hint = messages.did_you_mean(name, known, 3, 0.5)
      raise TypeError(f"{type(self).__name__} has no setting {name!r}.{hint}")

  def _run(self, data: Mapping[str, Labelled]) -> Results:
    """Trains on the split "train" and evaluates on "dev", if given."""
    if not self._given["output_dir"]:
      raise ValueError("set `output_dir`, where training writes its results.")
    values = {
      **self._given,
      "output_dir": self._folder,
      "do_train": "train" in data,
      "do_eval": "dev" in data,
    }
    config = settings.replace_values(self._defaults(), values)
    setup = Setup.open(config)
    task = self._task.create(setup)
    labelled = {}
    for split, (inputs, labels) in data.items():
      source = f"the {split} rows"
      rows, labels = self._rows(inputs, labels)
      add_label = functools.partial(task.add_label, split=split)
      rows = [*map_rows(add_label, rows, labels)]
      task = task.infer(rows, source)
      names = [*labels_in(labels)]
      if split == "train" and task.labels and names:
        are_text = any(isinstance(name, str) for name in names)
        spec = dataclasses.replace(task.labels, are_text=are_text)
        task = dataclasses.replace(task, labels=spec)
      labelled[split] = splits.Split(split, rows, source)
    return fine_tuning.run_on_splits(setup, task, labelled) or {}

  def _rows(self, inputs: Any, labels: Any) -> tuple[list[Row], list[Any]]:
    """Returns rows by field, and their labels."""
    rows, is_single = to_rows(inputs)
    if is_single or isinstance(labels, str):
      raise ValueError("give a list of rows and a list of their labels.")
    labels = [None] * len(rows) if labels is None else as_list(labels)
    if len(rows) != len(labels) or not rows:
      raise ValueError(
        f"{len(rows)} rows and {len(labels)} labels; each row needs one label."
      )
    rows = [*map_rows(self._training_row, rows)]
    return [{"id": str(i), **row} for i, row in enumerate(rows)], labels


class Classifier(TaskModel):
  """A BERT that classifies texts or pairs of texts.

  Labels are strings, integers or booleans; `predict` returns the same type.
  With problem_type="regression" they are numbers. With
  problem_type="multilabel" each is a list of the classes that apply.

  Examples:
    >>> model = bert_tf.Classifier(
    ...   init_checkpoint="quickstart", output_dir="stars", max_seq_length=16,
    ...   learning_rate=1e-3, num_train_epochs=20, train_batch_size=2,
    ... )
    >>> texts, labels = ["light and fast", "heavy and late"], ["good", "bad"]
    >>> results = model.fit(texts, labels, validation_data=(texts, labels))
    >>> results["eval_accuracy"]
    1.0
    >>> model.predict("light and fast")
    {'label': 'good', 'probabilities': {'bad': 0.0..., 'good': 0.9...}}

    Later, or in another program, the folder is enough:

    >>> model = bert_tf.Classifier(output_dir="stars")
    >>> model.predict_proba(texts).shape
    (2, 2)
  """

  _task = ClassificationTask
  _without_files = {"data_dir": "", "task_name": "jsonl"}

  def predict_proba(self, inputs: Any) -> np.ndarray:
    """Returns the label probabilities, float64 [B, C], in the labels' order.

    A single row gives [C]. A regression has no probabilities, so C is then 0.
    """
    answers = self.predict(inputs)
    if isinstance(answers, dict):
      return np.array([*answers["probabilities"].values()])
    return np.array([[*each["probabilities"].values()] for each in answers])

  def predict(self, inputs: Any) -> Any:
    """Returns the answer for a row, or a list of answers for several.

    An answer has the `label` and the `probabilities` of all labels, {} for a
    regression. For multilabel, `label` is a list of the labels with a
    probability above 0.5.
    """
    answers = super().predict(inputs)
    labels = self._predictor.info.labels
    if not labels or labels.are_text or not labels.labels:
      return answers
    # `fit` was given numbers, whose names in the run are JSON.
    for answer in [answers] if isinstance(answers, dict) else answers:
      names, label = answer["probabilities"], answer["label"]
      answer["probabilities"] = {json.loads(n): v for n, v in names.items()}
      is_list = isinstance(label, list)
      answer["label"] = (
        [*map(json.loads, label)] if is_list else json.loads(label)
      )
    return answers


class EntityRecognizer(TaskModel):
  """A BERT that finds names in texts, by a label for each word.

  A row is a text, split at white space, or a list of words. Its label is a list
  of tags, or tags separated by white space: O, B-TYPE and I-TYPE.

  `predict` returns the `words` of each text with their `label`, `probability`,
  `start` and `end`. Evaluation needs the extra `ner`.

  Examples:
    >>> model = bert_tf.EntityRecognizer(
    ...   init_checkpoint="quickstart", output_dir="places", max_seq_length=16,
    ...   learning_rate=1e-3, num_train_epochs=20, train_batch_size=2,
    ... )
    >>> texts = ["Richmond is a city", "in Richmond and Washington"]
    >>> tags = ["B-LOC O O O", "O B-LOC O B-LOC"]
    >>> results = model.fit(texts, tags)
    >>> words = model.predict("Richmond is a city")["words"]
    >>> [word["label"] for word in words]
    ['B-LOC', 'O', 'O', 'O']
  """

  _task = NerTask
  _scores = ("f1",)

  def _row(self, row: Any) -> Row:
    words = row.get("text") if isinstance(row, Mapping) else row
    if isinstance(words, list | tuple):
      check_texts("a word", words, is_list=True)
      # A tuple of one item may be a text: all classes accept a tuple of inputs.
      for word in words if len(words) > 1 else ():
        if len(word.split()) != 1:  # Each part would get its own label.
          raise ValueError(
            f"a word is empty or contains white space: {word!r:.60}."
          )
      row = " ".join(words)
    return super()._row(row)


class MultipleChoice(TaskModel):
  """A BERT that chooses among texts.

  A row is a context and a list of choices; all rows of `fit` have the same
  number of choices. Its label is the index of the right choice. `predict`
  returns the index `choice` and the `probabilities` of all choices.

  Examples:
    >>> model = bert_tf.MultipleChoice(
    ...   init_checkpoint="quickstart", output_dir="choices", max_seq_length=16,
    ...   learning_rate=1e-3, num_train_epochs=20, train_batch_size=2,
    ... )
    >>> rows = [
    ...   ("The river is long.", ["It runs south.", "It sings."]),
    ...   ("The star is famous.", ["It runs south.", "It sings."]),
    ... ]
    >>> results = model.fit(rows, [0, 1])
    >>> model.predict(rows[0])
    {'choice': 0, 'probabilities': [0..., 0...]}
  """

  _task = SwagTask
  _without_files = {"data_dir": ""}

  def _rows(self, inputs: Any, labels: Any) -> tuple[list[Row], list[Any]]:
    rows, labels = super()._rows(inputs, labels)
    counts = [len(row["choices"]) for row in rows]
    for index, count in enumerate(counts):
      if count != counts[0]:
        raise ValueError(
          f"row {index} has {count} choices, but row 0 has {counts[0]}."
        )
    return rows, labels


class QuestionAnswerer(TaskModel):
  """A BERT that finds answers to questions in texts.

  A row is a question and its context, of any length. Its label is one of:
    the answer, as written in the context;
    a dict of `text` and `answer_start` (in characters), if the answer occurs
      several times in the context;
    a list of all accepted answers, for evaluation;
    None or "" for no answer, with version_2_with_negative=True.

  `predict` returns the `answer`, None for no answer, with its `start` and `end`
  in the context, and in `nbest` the best answers with probabilities. For SQuAD
  2.0, `null_odds` is above 0 if "no answer" is more probable than the best
  answer.

  Examples:
    >>> model = bert_tf.QuestionAnswerer(
    ...   init_checkpoint="quickstart", output_dir="answers",
    ...   learning_rate=1e-3, num_train_epochs=20, train_batch_size=2,
    ... )
    >>> rows = [
    ...   ("When was it built?", "The hotel was built in 1988."),
    ...   ("Where is it?", "The hotel is in Oregon."),
    ... ]
    >>> results = model.fit(rows, ["1988", "Oregon"])
    >>> model.predict(rows[0])["answer"]
    '1988'
  """

  _task = SquadTask
  _scores = ("f1",)


class SentenceEncoder(TaskModel):
  """A BERT that computes vectors of texts, trained on pairs of texts.

  A row of `fit` is a pair of texts that belong together, possibly with a third
  that only seems to. A label is the similarity of a pair, up to `max_score`.

  Examples:
    >>> model = bert_tf.SentenceEncoder(
    ...   init_checkpoint="quickstart", output_dir="vectors", max_seq_length=16,
    ...   learning_rate=1e-3, num_train_epochs=20, train_batch_size=2,
    ... )
    >>> pairs = [("When was it built?", "in 1988"), ("Where is it?", "Oregon")]
    >>> results = model.fit(pairs, validation_data=(pairs, None))
    >>> results["recall_at_1"]
    1.0
    >>> model.encode(["Where is the hotel?", "Oregon"]).shape
    (2, 128)
  """

  _task = EncoderTask
  _without_files = {"data_file": ""}
  _scores = ("spearman", "mrr")

  def encode(self, texts: Any) -> np.ndarray:
    """Returns the vectors of texts, float32 [N, D]; [D] for a single text."""
    answers = self.predict(texts)
    if isinstance(answers, dict):
      return np.array(answers["embedding"], np.float32)
    return np.array([each["embedding"] for each in answers], np.float32)

  def _training_row(self, row: Any) -> Row:
    return texts_by_name(row, PAIR_FIELDS, num_required=2)
