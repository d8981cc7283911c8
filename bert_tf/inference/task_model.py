"""Base classes of task models in Python: fit, predict, evaluate and score.

They train and evaluate as the scripts do, but on lists instead of files. They
write the same files, so each can predict with the runs of the other.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from bert_tf import checkpoints, model_folder, settings
from bert_tf.export import config as export_config
from bert_tf.inference import inputs as inputs_lib
from bert_tf.inference import predictor
from bert_tf.tasks import base, fine_tuning
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import splits as splits_lib
from bert_tf.training import config as training_config
from bert_tf.training import evaluation

# The rows of a split, and a label for each row.
Labelled = tuple[Any, Any]


class TaskModel(abc.ABC):
  """A BERT for a task, to predict with.

  Predicts with the best checkpoint of the run in output_dir if it was trained
  with `eval_every_steps`, otherwise with the newest.

  Args:
    bert_config_file: sizes of the model; None for those next to the checkpoint.
    vocab_file: vocabulary; None for the one next to the checkpoint.
    output_dir: folder of the run: an earlier run to predict with, or a new or
      empty folder to `fit`. None to predict with init_checkpoint.
    init_checkpoint: without output_dir, the model to predict with, which may be
      a SavedModel. Otherwise the pre-trained checkpoint for `fit`, as prefix or
      folder; None for random weights.
    do_lower_case: whether to lower-case texts; None for the value in run.json,
      otherwise inferred from the vocabulary.
    max_seq_length: maximum word pieces of an input; None for the value in
      run.json, otherwise the default of the task's script.
    **changes: other settings of the task's script by name.

  Raises:
    ValueError: if config, vocabulary and settings do not match.
    TypeError: for an unknown setting.
  """

  task: ClassVar[str]
  # Names of the inputs in the order of a tuple; the first num_required are
  # required.
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
    named = {
      "bert_config_file": bert_config_file,
      "vocab_file": vocab_file,
      "do_lower_case": do_lower_case,
      "max_seq_length": max_seq_length,
    }
    named = {name: value for name, value in named.items() if value is not None}
    self._settings_given: dict[str, Any] = named | changes
    self._predictor: predictor.Predictor | None = None
    self._check_names(self._settings_given)
    if output_dir is None:
      if init_checkpoint is None:
        raise ValueError("give `output_dir`, `init_checkpoint` or both.")
      self._predictor = self._load(init_checkpoint, self._settings_given)

  @abc.abstractmethod
  def _answer(self, answer: dict[str, Any]) -> Any:
    """Converts an answer of Predictor to the result of `predict`."""

  def predict(self, inputs: Any) -> Any:
    """Returns the prediction for a row, or a list for several rows.

    The first call loads the model.

    Args:
      inputs: a row: a text, a tuple in the order of `self.inputs`, or a dict
        by these names. Or several rows; see `inputs`.

    Raises:
      ValueError: if there is no trained model, or a row does not match it.
    """
    rows, is_single = inputs_lib.to_rows(inputs)
    texts = [self._row(index, row) for index, row in enumerate(rows)]
    if self._predictor is None:
      self._predictor = self._load_trained()
    answers = [self._answer(a) for a in self._predictor.predict(texts)]
    return answers[0] if is_single else answers

  def _row(self, index: int, row: Any) -> dict[str, Any]:
    texts = inputs_lib.texts_by_name(index, row, self.inputs, self.num_required)
    for name, value in texts.items():
      if not all(v.strip() for v in ([value] if name != "choices" else value)):
        raise ValueError(f"{name} of row {index} is empty: {value!r:.60}")
    return texts

  def _folder(self) -> str:
    """Returns the folder of the run's best checkpoint, or else of the run."""
    folder = self._output_dir or ""
    return evaluation.find_best_folder(folder) or folder

  def _trained(self) -> str:
    """Returns the best checkpoint of the run, otherwise the newest."""
    newest = checkpoints.find_latest(self._folder())
    if newest is None:
      raise ValueError(f"{self._output_dir} has no trained model; call `fit`.")
    return newest

  def _load_trained(self) -> predictor.Predictor:
    values = dict(self._settings_given)
    if model_folder.has_config(self._folder()):
      # The run's config includes layers that the run added to its start model.
      values.pop("bert_config_file", None)
    return self._load(self._trained(), values)

  def _load(
    self, source: str, values: Mapping[str, Any]
  ) -> predictor.Predictor:
    config = export_config.ModelConfig(init_checkpoint=source, task=self.task)
    return predictor.Predictor(settings.replace_values(config, values))

  def _check_names(self, names: Mapping[str, Any]) -> None:
    for name in names.keys() - self._known_settings():
      raise TypeError(f"{type(self).__name__} has no setting {name!r}.")

  def _known_settings(self) -> set[str]:
    return {*settings.values(export_config.ModelConfig(init_checkpoint=""))}


class FineTunedModel(TaskModel):
  """A TaskModel that is fine-tuned with `fit` on rows with labels."""

  config_class: ClassVar[type[config_lib.FineTuningConfig]]
  train_class: ClassVar[type[training_config.FineTuningTrainConfig]] = (
    training_config.FineTuningTrainConfig
  )
  task_class: ClassVar[type[base.Task[Any, Any]]]
  # Placeholders for settings of the script that describe data files.
  without_files: ClassVar[Mapping[str, Any]] = {}
  # Whether a label may be missing.
  allows_no_label: ClassVar[bool] = False
  # Name of the result that `score` returns.
  score_name: ClassVar[str] = "eval_accuracy"

  def __init__(self, *args: Any, **kwargs: Any) -> None:
    super().__init__(*args, **kwargs)
    if self._output_dir is not None:  # Raises for settings that do not match.
      fine_tuning.load(self._settings({"do_train": True}))

  def _settings(self, changes: Mapping[str, Any]) -> Any:
    if self._output_dir is None:
      raise ValueError("set `output_dir`: training and results need a folder.")
    values = {**self._settings_given, **changes, "output_dir": self._folder()}
    names = ("bert_config_file", "vocab_file")
    paths = [values.get(name) for name in names]
    if self._start or None in paths:
      files = model_folder.read(self._start or self._folder(), *paths)
      values |= zip(names, (files.config_file, files.needed_vocab()))
      values["init_checkpoint"] = files.weights if self._start else None
    return settings.replace_values(self._defaults(), values)

  def fit(
    self,
    inputs: Any,
    labels: Any,
    validation_data: Labelled | None = None,
    **changes: Any,
  ) -> base.Results:
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
    eval_steps = {**self._settings_given, **changes}.get("eval_every_steps")
    if eval_steps and validation_data is None:
      raise ValueError("eval_every_steps needs `validation_data`.")
    if output_dir and checkpoints.list_checkpoints(output_dir):
      raise ValueError(
        f"{output_dir} already has a run; choose another `output_dir` to fit."
      )
    self._output_dir, self._start = output_dir, start
    self._settings_given |= changes  # Predictions use the same case and length.
    self._predictor = None
    data = {"train": (inputs, labels)}
    if validation_data is not None:
      data["dev"] = validation_data
    results = self._run(data)
    best = evaluation.find_best_folder(output_dir)
    return evaluation.read_best_results(best) if results and best else results

  def evaluate(self, inputs: Any, labels: Any) -> base.Results:
    """Evaluates the trained checkpoint on rows with labels, as for `fit`.

    Returns the results, and writes them to eval_results.txt next to the
    checkpoint.
    """
    self._trained()
    return self._run({"dev": (inputs, labels)})

  def score(self, inputs: Any, labels: Any) -> float:
    """Returns the main result of `evaluate`, named by `score_name`."""
    return float(self.evaluate(inputs, labels)[self.score_name])

  def _defaults(self) -> config_lib.FineTuningConfig:
    return self.config_class(
      bert_config_file="",
      vocab_file="",
      train=self.train_class(output_dir=""),
      **self.without_files,
    )

  def _known_settings(self) -> set[str]:
    return super()._known_settings() | {*settings.values(self._defaults())}

  def _run(self, data: Mapping[str, Labelled]) -> base.Results:
    """Trains on the split "train" and evaluates on "dev", if given."""
    steps = {"do_train": "train" in data, "do_eval": "dev" in data}
    setup = fine_tuning.load(self._settings(steps))
    rows = {split: self._labelled(*pair) for split, pair in data.items()}
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
    rows, is_single = inputs_lib.to_rows(inputs)
    if is_single or isinstance(labels, str):
      raise ValueError("give a list of rows and a list of their labels.")
    labels = inputs_lib.as_list(labels)
    for index, value in enumerate(labels):
      is_missing = value is None or value != value  # NaN, as pandas has it.
      if is_missing and not self.allows_no_label:
        raise ValueError(f"row {index} has no label.")
    if len(rows) != len(labels) or not rows:
      raise ValueError(
        f"{len(rows)} rows and {len(labels)} labels; give one label per row."
      )
    return [self._row(i, row) for i, row in enumerate(rows)], labels

  def _make_task(
    self, setup: base.Setup[Any], rows: Sequence[Mapping[str, Any]]
  ) -> base.Task[Any, Any]:
    return self.task_class(setup)

  @abc.abstractmethod
  def _examples(
    self, task: Any, split: str, rows: Sequence[Any], labels: Sequence[Any]
  ) -> list[Any]:
    """Returns the task's examples; raises ValueError for an invalid label."""
