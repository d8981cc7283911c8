"""What the models of all tasks have in Python: fit, predict, evaluate, score.

Training and evaluation are the scripts', on lists instead of files: a folder
holds the same checkpoints, and each can go on from what the other left.
"""

import abc
import dataclasses
import decimal
import difflib
import os
import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_tf import (
  checkpoints,
  model_config,
  model_folder,
  modeling,
  settings,
)
from bert_tf.export import config as export_config
from bert_tf.inference import inputs as inputs_lib
from bert_tf.inference import predictor
from bert_tf.model_folder import run_folder, run_info
from bert_tf.tasks import base, fine_tuning
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import splits as splits_lib
from bert_tf.training import config as training_config
from bert_tf.training import evaluation

# The rows and the labels to evaluate on.
Labelled = tuple[Any, Any]


class TaskModel(abc.ABC):
  """A BERT for a task: one to `fit`, or one that is trained.

  Args:
    bert_config_file: the model's sizes; None for those beside the checkpoint.
    vocab_file: the model's vocabulary; None for that beside the checkpoint.
    output_dir: folder of the run: an earlier one to predict with, or an empty
      or new one to `fit`. None to predict with init_checkpoint as it is. What
      predicts and is scored is its best checkpoint by validation, if it was
      trained with `eval_every_steps`, else the newest.
    init_checkpoint: the pre-trained checkpoint that `fit` starts from, its
      prefix or its folder; None for random values. Without an output_dir the
      model that predicts, which may be a SavedModel.
    do_lower_case: whether texts are lower-cased; None for what run.json says,
      else what the vocabulary shows.
    max_seq_length: word pieces of an input; None for what run.json says, else
      the default of the task's script.
    **changes: other settings of the task's script by name.

  Raises:
    ValueError: if config, vocabulary and settings do not fit.
    TypeError: for an unknown setting.
  """

  task: ClassVar[str]
  # The inputs in the order of a tuple; which of them a row must have.
  inputs: ClassVar[tuple[str, ...]] = ("text",)
  num_required: ClassVar[int] = 1

  def __init__(
    self,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    output_dir: str | None = None,
    init_checkpoint: str | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
    **changes: Any,
  ) -> None:
    self._output_dir, self._start = output_dir, init_checkpoint
    given = {
      "bert_config_file": bert_config_file,
      "vocab_file": vocab_file,
      "do_lower_case": do_lower_case,
      "max_seq_length": max_seq_length,
    }
    self._given = {n: v for n, v in given.items() if v is not None} | changes
    self._predictor: predictor.Predictor | None = None
    self._check_names(self._given)
    if output_dir is None:
      self._predictor = self._load(init_checkpoint, self._given)
    else:
      self._check_settings()

  @abc.abstractmethod
  def _defaults(self) -> settings.Dataclass:
    """Returns the settings of the task's script."""

  @abc.abstractmethod
  def _check_settings(self) -> None:
    """Raises ValueError for settings that do not fit one another."""

  @abc.abstractmethod
  def _answer(self, answer: dict[str, Any]) -> Any:
    """Returns what `predict` returns of one of the Predictor's answers."""

  @abc.abstractmethod
  def _probabilities(self, answer: Any) -> Any:
    """Returns what `predict_proba` returns of one of `predict`'s answers."""

  def predict(self, inputs: Any) -> Any:
    """Returns the answer to a row, or a list of those to several.

    The model is loaded at the first call, not at every one.

    Args:
      inputs: a row: a text, a tuple in the order of `self.inputs`, or a dict
        by these names; or several: a list, an iterator, a NumPy array, a
        pandas Series, a DataFrame.

    Raises:
      ValueError: if there is no trained model, or a row is not what it takes.
    """
    rows, is_one = inputs_lib.rows_of(inputs)
    texts = [self._row(index, row) for index, row in enumerate(rows)]
    if self._predictor is None:
      self._predictor = self._load_trained()
    answers = [self._answer(a) for a in self._predictor.predict(texts)]
    return answers[0] if is_one else answers

  def predict_proba(self, inputs: Any) -> Any:
    """Returns the probabilities, float64, of what `predict` answers.

    Args:
      inputs: as `predict` takes them.

    Returns:
      An array for a row, a list of arrays for several.
    """
    answers = self.predict(inputs)
    if not inputs_lib.is_row(inputs):
      return [np.array(self._probabilities(answer)) for answer in answers]
    return np.array(self._probabilities(answers))

  def _row(self, index: int, row: Any) -> dict[str, Any]:
    """Returns the texts of a row by name; none may be empty."""
    texts = inputs_lib.by_name(index, row, self.inputs)
    needed = set(self.inputs[: self.num_required])
    if not needed <= texts.keys() <= set(self.inputs):
      raise ValueError(
        f"row {index} has {', '.join(map(str, texts)) or 'nothing'}; it is "
        f"made of {' and '.join(self.inputs)}."
      )
    for name, value in texts.items():
      where = f"{name} of row {index}"
      inputs_lib.check_texts(where, value, int(name == "choices"))
      if not all(v.strip() for v in ([value] if name != "choices" else value)):
        raise ValueError(f"{where} is empty: {value!r:.60}")
    return texts

  def _folder(self) -> str:
    """Returns the folder of the run, or of its best checkpoint."""
    folder = self._output_dir or ""
    return evaluation.best_folder(folder) or folder

  def _trained(self) -> str:
    """Returns the best checkpoint of the run, or else its newest."""
    newest = checkpoints.latest(self._folder())
    if newest is None:
      raise ValueError(
        f"{self._output_dir} holds no trained model; call `fit` first, or give "
        "the output_dir of a run."
      )
    return newest

  def _load_trained(self) -> predictor.Predictor:
    """Returns a predictor with what was trained, by the run's own config."""
    source, given = self._trained(), dict(self._given)
    if model_folder.has_config(self._folder()):
      # It says what the run put on the model that it started from.
      given_file = given.pop("bert_config_file", None)
      if given_file:
        _check_is_of_run(given_file, self._folder())
    return self._load(source, given)

  def _load(
    self, source: str | None, given: Mapping[str, Any]
  ) -> predictor.Predictor:
    """Returns a predictor with a checkpoint, or a folder's newest."""
    if source is None:
      raise ValueError("give `output_dir`, `init_checkpoint`, or both.")
    config = export_config.ModelConfig(init_checkpoint=source, task=self.task)
    return predictor.Predictor(settings.changed(config, given))

  def _check_names(self, names: Mapping[str, Any]) -> None:
    """Raises TypeError for a name that is no setting."""
    model_config = export_config.ModelConfig(init_checkpoint="")
    known = {
      *settings.values(self._defaults()),
      *settings.values(model_config),
    }
    for name in names.keys() - known:
      nearest = difflib.get_close_matches(name, known, 1)
      hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
      raise TypeError(f"{type(self).__name__} has no setting {name!r}{hint}")

  def _settings(self, changes: Mapping[str, Any]) -> Any:
    """Returns the settings of a run in output_dir."""
    if self._output_dir is None:
      raise ValueError("set `output_dir`: training and results need a folder.")
    values = {**self._given, **changes, "output_dir": self._folder()}
    names = ("bert_config_file", "vocab_file")
    given = [values.get(name) for name in names]
    if self._start or None in given:
      files = model_folder.find(self._start or self._folder(), *given)
      values |= zip(names, (files.config_file, files.needed_vocab()))
      values["init_checkpoint"] = files.weights if self._start else None
    return settings.changed(self._defaults(), values)

  def _prepare_fit(
    self, changes: Mapping[str, Any], has_validation: bool
  ) -> None:
    """Keeps the settings of `fit`; raises if they or output_dir will not do."""
    self._check_names(changes)
    changes = dict(changes)
    start = changes.pop("init_checkpoint", self._start)
    output_dir = changes.pop("output_dir", self._output_dir)
    every_steps = {**self._given, **changes}.get("eval_every_steps")
    if every_steps and not has_validation:
      raise ValueError(
        "eval_every_steps evaluates on `validation_data`; give some."
      )
    if output_dir and checkpoints.listed(output_dir):
      raise ValueError(
        f"{output_dir} holds a run already; predict with it, or choose another "
        "`output_dir` to fit."
      )
    self._output_dir, self._start = output_dir, start
    self._given |= changes  # Case and lengths are those to predict with.
    self._predictor = None

  def _best(self, found: base.Results) -> base.Results:
    """Returns the results of the best checkpoint; those given without one."""
    folder = evaluation.best_folder(self._output_dir or "")
    return evaluation.best_results(folder) if found and folder else found


def _check_is_of_run(bert_config_file: str, folder: str) -> None:
  """Raises ValueError if a config is not that of the model a run began with."""
  path = os.path.join(folder, run_info.CONFIG_FILE)
  saved = modeling.BertConfig.from_json_file(path)
  chosen = {name: getattr(saved, name) for name in model_config.OWN_KEYS}
  given = modeling.BertConfig.from_json_file(bert_config_file)
  run_folder.check_same_config(
    folder, saved, dataclasses.replace(given, **chosen)
  )


class FineTunedModel(TaskModel):
  """A TaskModel that learns from rows with labels; see there."""

  config_class: ClassVar[type[config_lib.FineTuningConfig]]
  train_class: ClassVar[type[training_config.FineTuningTrainConfig]] = (
    training_config.FineTuningTrainConfig
  )
  task_module: types.ModuleType
  # Settings of the script that mean nothing without files.
  without_files: ClassVar[Mapping[str, Any]] = {}
  # Whether a label may be missing.
  allows_no_label: ClassVar[bool] = False
  # What `score` returns of the results.
  score_name: ClassVar[str] = "eval_accuracy"

  def fit(
    self,
    inputs: Any,
    labels: Any,
    validation_data: Labelled | None = None,
    **changes: Any,
  ) -> base.Results:
    """Fine-tunes on rows; checkpoints and results go to output_dir.

    Args:
      inputs: rows as `predict` takes them, at least two.
      labels: one for each row, of Python, NumPy or pandas.
      validation_data: rows and labels to evaluate on: at the end, and with
        eval_every_steps while training, where the best is kept in
        output_dir/best, to predict with, and early_stopping_patience can end
        the training.
      **changes: settings of the task's script by name, such as
        num_train_epochs, train_batch_size, learning_rate, seed; use_xla=False
        saves XLA's compilation, which a few hundred rows are not worth.
        output_dir and init_checkpoint take the place of the constructor's.

    Returns:
      The results of what predicts on validation_data, {} without.

    Raises:
      ValueError: if rows, labels and settings do not fit one another, or
        output_dir holds a run.
      TypeError: for an unknown setting.
    """
    self._prepare_fit(changes, validation_data is not None)
    data = {"train": (inputs, labels)}
    if validation_data is not None:
      data["dev"] = validation_data
    return self._best(self._run(data))

  def evaluate(self, inputs: Any, labels: Any) -> base.Results:
    """Returns the results on rows with labels, as the task's script has them.

    They are written to eval_results.txt beside the checkpoint too.

    Args:
      inputs: as `fit` takes them.
      labels: as `fit` takes them.
    """
    self._trained()
    return self._run({"dev": (inputs, labels)})

  def score(self, inputs: Any, labels: Any) -> float:
    """Returns the result that `score_name` names; see `evaluate`."""
    return float(self.evaluate(inputs, labels)[self.score_name])

  def _defaults(self) -> config_lib.FineTuningConfig:
    return self.config_class(
      bert_config_file="",
      vocab_file="",
      train=self.train_class(output_dir=""),
      **self.without_files,
    )

  def _check_settings(self) -> None:
    fine_tuning.load(self._settings({"do_train": True}))

  def _run(self, data: Mapping[str, Labelled]) -> base.Results:
    """Trains on "train", if there is one, and evaluates on "dev"."""
    what = {"do_train": "train" in data, "do_eval": "dev" in data}
    setup = fine_tuning.load(self._settings(what))
    rows = {split: self._labelled(*both) for split, both in data.items()}
    task = self._make_task(setup, next(iter(rows.values()))[0])
    examples = {}
    for split, (texts, labels) in rows.items():
      examples[split] = self._examples(task, split, texts, labels)
      if split == "train" and task.has_labels and task.label_spec is None:
        task.set_labels(examples[split], "the training rows")
    sources = {split: f"the {split} rows" for split in examples}
    splits = splits_lib.Splits(task, examples, sources, setup.folder.path)
    return fine_tuning.run_on_splits(setup, task, splits) or {}

  def _labelled(
    self, inputs: Any, labels: Any
  ) -> tuple[list[dict[str, Any]], list[Any]]:
    """Returns rows and labels; raises ValueError where they do not fit."""
    rows, is_one = inputs_lib.rows_of(inputs)
    if is_one or isinstance(labels, str):
      raise ValueError("give a list of rows, and a list of a label for each.")
    labels = self._label_list(labels)
    if len(rows) != len(labels) or not rows:
      raise ValueError(
        f"{len(rows)} rows and {len(labels)} labels; give a label for each."
      )
    return [self._row(i, row) for i, row in enumerate(rows)], labels

  def _label_list(self, labels: Any) -> list[Any]:
    """Returns the labels as Python's own; raises ValueError if one is missing.

    A decimal.Decimal, as databases return them, becomes a number.
    """
    found = [
      None if inputs_lib.is_missing(label) else label
      for label in inputs_lib.as_list(labels)
    ]
    if None in found and not self.allows_no_label:
      raise ValueError(f"row {found.index(None)} has no label.")
    return [
      (int(label) if label == int(label) else float(label))
      if isinstance(label, decimal.Decimal)
      else label
      for label in found
    ]

  def _make_task(
    self,
    setup: base.Setup[Any],
    rows: Sequence[Mapping[str, Any]],
  ) -> base.Task[Any, Any]:
    """Returns the task of rows."""
    return self.task_module.make_task(setup)

  @abc.abstractmethod
  def _examples(
    self, task: Any, split: str, rows: Sequence[Any], labels: Sequence[Any]
  ) -> list[Any]:
    """Returns the task's examples; raises ValueError for a wrong label."""
