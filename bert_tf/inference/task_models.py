"""Task models in Python: fit, predict, evaluate and score on rows in memory.

They train and evaluate as the scripts do, and write the same files, so each can
predict with the runs of the other.
"""

import abc
import contextlib
import dataclasses
import itertools
import json
import typing
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_tf import settings, task_registry
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.files import messages
from bert_tf.inference import inputs as inputs_lib
from bert_tf.inference import predictor
from bert_tf.inference.config import ModelConfig
from bert_tf.tasks import base, fine_tuning
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import splits as splits_lib
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.pretraining import masked_lm
from bert_tf.tasks.rows import Results, Row, with_empty_text
from bert_tf.tasks.squad import task as squad
from bert_tf.tasks.swag import task as swag
from bert_tf.training import evaluation

# The rows of a split, and a label for each row.
Labelled = tuple[Any, Any]

# A class label.
Label = str | int | float | bool


class TaskModel(abc.ABC):
  """A BERT for a task, to predict with."""

  _task: ClassVar[type[base.Task[Any]]]  # A row is one of this task.

  def __init__(
    self,
    init_checkpoint: str | None = None,
    *,
    output_dir: str | None = None,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    **changes: Any,
  ) -> None:
    """Opens a model to predict with, or prepares a new run for `fit`.

    Args:
      init_checkpoint: without output_dir, the model to predict with, a folder
        or a checkpoint. Otherwise the pre-trained model that `fit` starts from;
        None for random weights.
      output_dir: the folder of the run: a new or empty one to `fit`, or an
        earlier run to predict with, by its best checkpoint, else its newest.
      bert_config_file: sizes of the model; None for the file in its folder.
      vocab_file: the vocabulary; None for the file in the model's folder.
      **changes: flags of the task's command by name, such as max_seq_length,
        learning_rate or top_k. By default those of the run, else the command's.

    Raises:
      ValueError: if config, vocabulary and settings do not match.
      TypeError: for an unknown setting.
    """
    self._output_dir, self._start = output_dir, init_checkpoint
    changes |= {"bert_config_file": bert_config_file, "vocab_file": vocab_file}
    self._given = {
      n: value for n, value in changes.items() if value is not None
    }
    self._predictor: predictor.Predictor | None = None
    self._check_names(self._given)
    if output_dir is not None:
      self._check_settings()
    elif init_checkpoint is None:
      raise ValueError("give `output_dir`, `init_checkpoint` or both.")
    else:
      self._predictor = self._load(init_checkpoint, self._given)

  def _check_settings(self) -> None:  # noqa: B027
    """Raises ValueError for settings of a training that do not match."""

  @abc.abstractmethod
  def _answer(self, answer: dict[str, Any]) -> Any:
    """Converts an answer of Predictor to the result of `predict`."""

  def predict(self, inputs: Any) -> Any:
    """Returns the prediction for a row, or a list for several rows.

    The first call loads the model.

    Args:
      inputs: a row, which is a text, a tuple in the order of the inputs or
        a dict by these names. Or several rows, as a list, an iterator, a NumPy
        array, or a Series or DataFrame of pandas.

    Raises:
      ValueError: if there is no trained model, or a row does not match it.
    """
    rows, is_single = inputs_lib.to_rows(inputs)
    texts = [self._row(index, row) for index, row in enumerate(rows)]
    if self._predictor is None:
      values = dict(self._given)
      if run_info.has_config(self._folder()):
        # The run may have added layers to its initial checkpoint.
        values.pop("bert_config_file", None)
      self._predictor = self._load(self._trained(), values)
    answers = [self._answer(a) for a in self._predictor.predict(texts)]
    return answers[0] if is_single else answers

  def _row(self, index: int, row: Any) -> dict[str, Any]:
    names, num_required = self._task.fields, self._task.num_required
    return inputs_lib.texts_by_name(index, row, names, num_required)

  def _folder(self) -> str:
    folder = self._output_dir or ""
    return evaluation.find_best_folder(folder) or folder

  def _trained(self) -> str:
    newest = checkpoints.find_latest(self._folder())
    if newest is None:
      raise ValueError(f"{self._output_dir} has no trained model; call `fit`.")
    return newest

  def _load(
    self, source: str, values: Mapping[str, Any]
  ) -> predictor.Predictor:
    config = ModelConfig(init_checkpoint=source, task=self._task.name)
    return predictor.Predictor(settings.replace_values(config, values))

  def _check_names(self, names: Mapping[str, Any]) -> None:
    known = self._known_settings()
    for name in names.keys() - known:
      hint = messages.did_you_mean(name, known, 3, 0.5)
      raise TypeError(f"{type(self).__name__} has no setting {name!r}.{hint}")

  def _known_settings(self) -> set[str]:
    return {*settings.values(ModelConfig(init_checkpoint=""))}


@dataclasses.dataclass(frozen=True)
class Token:
  """A word piece predicted for a mask."""

  token: str
  probability: float  # Softmax over the whole vocabulary.


class MaskFiller(TaskModel):
  """A BERT that predicts masked words.

  A row is a text with "[MASK]". `predict` returns a list for each mask: its
  `top_k` Tokens (default 5), `token` and `probability`, the best first.

  Examples:
    >>> filler = bert_tf.MaskFiller("quickstart", top_k=2)
    >>> [guesses] = filler.predict("The hotel was [MASK] in 1988.")
    >>> guesses
    [Token(token='...', probability=0...), Token(...)]
  """

  _task = masked_lm.MaskedLmTask

  def _answer(self, answer: dict[str, Any]) -> list[list[Token]]:
    return [[Token(**token) for token in mask] for mask in answer["masks"]]


class FineTunedModel(TaskModel):
  """A TaskModel that is fine-tuned with `fit` on rows with labels."""

  # Settings of the command that describe data files.
  _without_files: ClassVar[Mapping[str, Any]] = {}
  # Whether a label may be missing.
  _allows_no_label: ClassVar[bool] = False
  # Names of results; `score` returns the first that a task has.
  _scores: ClassVar[tuple[str, ...]] = ("eval_accuracy", "micro_f1", "pearson")

  def _check_settings(self) -> None:
    fine_tuning.load(self._settings({"do_train": True}))

  def _settings(self, changes: Mapping[str, Any]) -> Any:
    if self._output_dir is None:
      raise ValueError("set `output_dir`, where training writes its results.")
    values = {**self._given, **changes, "output_dir": self._folder()}
    values["init_checkpoint"] = self._start
    return settings.replace_values(self._defaults(), values)

  def fit(
    self,
    inputs: Any,
    labels: Any,
    validation_data: Labelled | None = None,
    **changes: Any,
  ) -> Results:
    """Fine-tunes on rows; checkpoints and results go to output_dir.

    Args:
      inputs: two or more rows, as for `predict`.
      labels: a label for each row, from Python, NumPy or pandas.
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
    start = changes.pop("init_checkpoint", self._start)
    output_dir = changes.pop("output_dir", self._output_dir)
    if validation_data is None:
      if {**self._given, **changes}.get("eval_every_steps"):
        raise ValueError("eval_every_steps needs `validation_data`.")
    if output_dir and checkpoints.list_checkpoints(output_dir):
      raise ValueError(
        f"{output_dir} already holds a run; choose another `output_dir` to fit."
      )
    self._output_dir, self._start = output_dir, start
    self._given |= changes  # Predictions use the same case and length.
    self._predictor = None
    data = {"train": (inputs, labels)}
    if validation_data is not None:
      data["dev"] = validation_data
    results = self._run(data)
    best = evaluation.find_best_folder(output_dir)
    return evaluation.read_best_results(best) if results and best else results

  def evaluate(self, inputs: Any, labels: Any) -> Results:
    """Evaluates the trained checkpoint on rows with labels, as for `fit`.

    Returns the results by name, such as eval_accuracy or f1, and writes them to
    eval_results.txt next to the checkpoint.
    """
    self._trained()
    return self._run({"dev": (inputs, labels)})

  def score(self, inputs: Any, labels: Any) -> float:
    """Returns the main result of `evaluate`.

    It is the accuracy, for several labels micro F1, for a regression Pearson's
    correlation, and F1 for words and answers.
    """
    results = self.evaluate(inputs, labels)
    return float(next(results[s] for s in self._scores if s in results))

  def get_params(self, deep: bool = True) -> dict[str, Any]:
    """Returns the constructor's arguments by name, for scikit-learn."""
    paths = {"init_checkpoint": self._start, "output_dir": self._output_dir}
    return {**paths, **self._given}

  def set_params(self, **params: Any) -> "FineTunedModel":
    """Replaces arguments of the constructor, for scikit-learn."""
    changed = type(self)(**{**self.get_params(), **params})
    vars(self).update(vars(changed))
    return self

  def __sklearn_clone__(self) -> "FineTunedModel":
    # A folder holds one run, so each clone trains in a folder of its own.
    folder = self._output_dir and f"{self._output_dir}-{uuid.uuid4().hex[:8]}"
    return type(self)(**{**self.get_params(), "output_dir": folder})

  def __sklearn_tags__(self) -> Any:
    from sklearn import base as sklearn_base

    return sklearn_base.BaseEstimator.__sklearn_tags__(self)

  def _defaults(self) -> config_lib.FineTuningConfig:
    kind = task_registry.load(task_registry.TASKS[self._task.name].config)
    train = typing.get_type_hints(kind)["train"](output_dir="")
    return kind(train=train, **self._without_files)

  def _known_settings(self) -> set[str]:
    return super()._known_settings() | {*settings.values(self._defaults())}

  def _run(self, data: Mapping[str, Labelled]) -> Results:
    """Trains on the split "train" and evaluates on "dev", if given."""
    steps = {"do_train": "train" in data, "do_eval": "dev" in data}
    setup = fine_tuning.load(self._settings(steps))
    task = self._task.create(setup)
    splits = {}
    for split, (inputs, labels) in data.items():
      source = f"the {split} rows"
      rows, raw_labels = self._labelled(inputs, labels)
      for index, label in enumerate(raw_labels):
        with _named_row(index):
          rows[index] = task.add_label(rows[index], label, split)
      task = task.infer(rows, source)
      if split == "train":
        task = self._with_label_types(task, raw_labels)
      splits[split] = splits_lib.Split(split, rows, source)
    return fine_tuning.run_on_splits(setup, task, splits) or {}

  def _with_label_types(self, task: Any, labels: Sequence[Any]) -> Any:
    """Returns the task with what the types of labels from Python tell."""
    return task

  def _labelled(self, inputs: Any, labels: Any) -> tuple[list[Row], list[Any]]:
    rows, is_single = inputs_lib.to_rows(inputs)
    if is_single or isinstance(labels, str):
      raise ValueError("give a list of rows and a list of their labels.")
    labels = inputs_lib.as_list(labels)
    for index, value in enumerate(labels):
      is_missing = value is None or value != value  # NaN, as pandas has it.
      if is_missing and not self._allows_no_label:
        raise ValueError(f"row {index} has no label.")
    if len(rows) != len(labels) or not rows:
      raise ValueError(
        f"{len(rows)} rows and {len(labels)} labels; each row needs one label."
      )
    texts = [
      {"id": str(index), **self._row(index, row)}
      for index, row in enumerate(rows)
    ]
    # An empty second text of a pair means a single text.
    required = self._task.fields[: self._task.num_required]
    needed = [{name: row[name] for name in required} for row in texts]
    for index in with_empty_text(needed):
      raise ValueError(f"row {index} has an empty text: {needed[index]}.")
    return texts, labels


@dataclasses.dataclass(frozen=True)
class Prediction:
  """The prediction for one text or pair."""

  # The most probable class; a number for regression; for multilabel, a list of
  # the labels with a probability above 0.5.
  label: Label | list[Label]
  probabilities: Mapping[Label, float]  # Of each label; {} for regression.


class Classifier(FineTunedModel):
  """A BERT that classifies texts or pairs of texts.

  Labels are strings, integers or booleans; `predict` returns the same type.
  With problem_type="regression" they are numbers. With
  problem_type="multilabel" each is a list of the classes that apply.

  `predict` returns a Prediction for each text, with its `label` and the
  `probabilities` of all labels.

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
    Prediction(label='good', probabilities={'bad': 0.0..., 'good': 0.9...})

    Later, or in another program, the folder is enough:

    >>> model = bert_tf.Classifier(output_dir="stars")
    >>> model.predict_proba(texts).shape
    (2, 2)
  """

  _task = classification.ClassificationTask
  _without_files = {"data_dir": "", "task_name": "jsonl"}

  def predict_proba(self, inputs: Any) -> np.ndarray:
    """Returns the label probabilities, float64 [B, C], in the labels' order.

    A single row gives [C]. A regression has no probabilities, so C is then 0.
    """
    answers = self.predict(inputs)
    if isinstance(answers, Prediction):
      return np.array([*answers.probabilities.values()])
    return np.array([[*a.probabilities.values()] for a in answers])

  def _answer(self, answer: dict[str, Any]) -> Prediction:
    label, probabilities = answer["label"], answer["probabilities"]
    info = self._predictor and self._predictor.info
    if probabilities and info and info.labels and not info.labels.are_text:
      # `fit` was given numbers, whose names in the run are JSON.
      probabilities = {json.loads(n): p for n, p in probabilities.items()}
      is_list = isinstance(label, list)
      label = [*map(json.loads, label)] if is_list else json.loads(label)
    return Prediction(label, probabilities)

  def _with_label_types(self, task: Any, labels: Sequence[Any]) -> Any:
    items = itertools.chain.from_iterable(
      x if isinstance(x, list | tuple | set) else [x] for x in labels
    )
    is_number = task.labels.problem_type == run_info.REGRESSION
    are_text = is_number or any(isinstance(x, str) for x in items)
    spec = dataclasses.replace(task.labels, are_text=are_text)
    return dataclasses.replace(task, labels=spec)


@dataclasses.dataclass(frozen=True)
class Word:
  """A word of a text and its label."""

  word: str  # As written in the text.
  label: str  # O, B-TYPE or I-TYPE.
  probability: float  # Of the label.
  start: int  # Index of the first character in the text.
  end: int  # Index after the last character.


class EntityRecognizer(FineTunedModel):
  """A BERT that finds names in texts, by a label for each word.

  A row is a text, split at white space, or a list of words. Its label is a list
  of tags, or tags separated by white space: O, B-TYPE and I-TYPE.

  `predict` returns a list for each text: its Words with `word`, `label`,
  `probability`, `start` and `end`. Evaluation needs the extra `ner`.

  Examples:
    >>> model = bert_tf.EntityRecognizer(
    ...   init_checkpoint="quickstart", output_dir="places", max_seq_length=16,
    ...   learning_rate=1e-3, num_train_epochs=20, train_batch_size=2,
    ... )
    >>> texts = ["Richmond is a city", "in Richmond and Washington"]
    >>> tags = ["B-LOC O O O", "O B-LOC O B-LOC"]
    >>> results = model.fit(texts, tags)
    >>> [word.label for word in model.predict("Richmond is a city")]
    ['B-LOC', 'O', 'O', 'O']
  """

  _task = ner.NerTask
  _scores = ("f1",)

  def _row(self, index: int, row: Any) -> dict[str, Any]:
    words = row.get("text") if isinstance(row, Mapping) else row
    if isinstance(words, list | tuple):
      inputs_lib.check_texts(f"row {index}", words, 1)
      # A tuple of one item may be a text: all classes accept a tuple of inputs.
      for word in words if len(words) > 1 else ():
        if len(word.split()) != 1:  # Each part would get its own label.
          raise ValueError(
            f"row {index} has a word that is empty or contains white space: "
            f"{word!r:.60}."
          )
      row = " ".join(words)
    return super()._row(index, row)

  def _answer(self, answer: dict[str, Any]) -> list[Word]:
    return [Word(**word) for word in answer["words"]]


@dataclasses.dataclass(frozen=True)
class Choice:
  """The predicted choice."""

  choice: int  # Index of the most probable choice.
  probabilities: Sequence[float]  # Of each choice.


class MultipleChoice(FineTunedModel):
  """A BERT that chooses among texts.

  A row is a context and a list of choices; all rows of `fit` have the same
  number of choices. Its label is the index of the right choice. `predict`
  returns a Choice with the index `choice` and the `probabilities` of all
  choices.

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
    Choice(choice=0, probabilities=[0..., 0...])
  """

  _task = swag.SwagTask
  _without_files = {"data_dir": ""}

  def _answer(self, answer: dict[str, Any]) -> Choice:
    return Choice(**answer)

  def _labelled(self, inputs: Any, labels: Any) -> tuple[list[Row], list[Any]]:
    rows, labels = super()._labelled(inputs, labels)
    count = len(rows[0]["choices"])
    for index, row in enumerate(rows):
      if len(row["choices"]) != count:
        raise ValueError(
          f"row {index} has {len(row['choices'])} choices, but row 0 has "
          f"{count}."
        )
    return rows, labels


@dataclasses.dataclass(frozen=True)
class Candidate:
  """One of the n best answers."""

  text: str  # The text in the context; "" for no answer.
  start_logit: float  # Logit of the first word piece.
  end_logit: float  # Logit of the last word piece.
  probability: float  # Softmax over the n best.
  # Characters of the answer in the context; 0 for no answer.
  start: int
  end: int


@dataclasses.dataclass(frozen=True)
class Answer:
  """The answer to a question."""

  text: str  # The chosen answer; "" for no answer.
  nbest: tuple[Candidate, ...]  # The best first.
  # Score of "" minus the score of the best text; None for 1.1.
  null_odds: float | None


class QuestionAnswerer(FineTunedModel):
  """A BERT that finds answers to questions in texts.

  A row is a question and its context, of any length. Its label is one of:
    the answer, as written in the context;
    a dict of `text` and `answer_start` (in characters), if the answer occurs
      several times in the context;
    a list of all accepted answers, for evaluation;
    None or "" for no answer, with version_2_with_negative=True.

  `predict` returns an Answer. Its `text` is "" for no answer,
  `nbest` has the best answers with probabilities, and `null_odds`, for SQuAD
  2.0, is above 0 if "no answer" is more probable than the best answer.

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
    >>> model.predict(rows[0]).text
    '1988'
  """

  _task = squad.SquadTask
  _allows_no_label = True
  _scores = ("f1",)

  def _answer(self, answer: dict[str, Any]) -> Answer:
    nbest = (
      Candidate(**{**candidate, "text": candidate["text"] or ""})
      for candidate in answer["nbest"]
    )
    null_odds = answer.get("null_odds")
    return Answer(answer["answer"] or "", tuple(nbest), null_odds)


@contextlib.contextmanager
def _named_row(index: int) -> Iterator[None]:
  try:
    yield
  except ValueError as error:
    raise ValueError(f"row {index}: {str(error).rstrip('.')}.") from None
