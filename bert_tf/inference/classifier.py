"""Fine-tunes a text classifier and predicts with it from Python.

model = bert_tf.Classifier(
  "uncased/bert_config.json", "uncased/vocab.txt", "out",
  init_checkpoint="uncased/bert_model.ckpt",
)
model.fit(["good", "bad", ...], ["pos", "neg", ...])
model.predict("not bad").label
"""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.formats import tables
from bert_tf.inference import task_model
from bert_tf.model_folder import run_info
from bert_tf.tasks import base
from bert_tf.tasks.classification import config as config_lib
from bert_tf.tasks.classification import examples
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config

# A class label.
Label = str | int | float | bool

# The metrics that `score` returns, one for each problem_type.
_SCORES = ("eval_accuracy", "micro_f1", "pearson")


@dataclasses.dataclass(frozen=True)
class Prediction:
  """The prediction for one text or pair.

  Attributes:
    label: the most probable class; a number for regression; for multilabel, a
      list of the labels with a probability above 0.5.
    probabilities: probability of each label; empty for regression.
  """

  label: Label | list[Label]
  probabilities: Mapping[Label, float]


class Classifier(task_model.FineTunedModel):
  """A BERT classifier of texts or pairs of texts.

  Labels are strings, integers or booleans; `predict` returns the same type.
  With problem_type="regression" they are numbers. With
  problem_type="multilabel" each is a list of the classes that apply.

  `predict` returns a Prediction for each text. For the arguments see TaskModel.
  """

  task = config_lib.ClassificationConfig.task
  inputs = ("text", "text_b")
  config_class = config_lib.ClassificationConfig
  train_class = training_config.FreezingTrainConfig
  without_files = {"data_dir": "", "task_name": "jsonl"}

  def score(self, inputs: Any, labels: Any) -> float:
    """Returns the accuracy, Pearson's correlation or, for multilabel, F1."""
    results = self.evaluate(inputs, labels)
    return float(next(results[s] for s in _SCORES if s in results))

  def predict_proba(self, inputs: Any) -> np.ndarray:
    """Returns the label probabilities, float64 [B, C], in the labels' order.

    [C] for a single row; empty for a regression. Raises as `predict`.
    """
    answers = self.predict(inputs)
    if isinstance(answers, Prediction):
      return np.array([*answers.probabilities.values()])
    return np.array([[*a.probabilities.values()] for a in answers])

  def _answer(self, answer: dict[str, Any]) -> Prediction:
    label, probabilities = answer["label"], answer["probabilities"]
    if not probabilities:  # A regression.
      return Prediction(label, {})
    probabilities = {
      self._label(name): value for name, value in probabilities.items()
    }
    if isinstance(label, list):
      return Prediction([*map(self._label, label)], probabilities)
    return Prediction(self._label(label), probabilities)

  def _label(self, name: str) -> Label:
    # In the type that was given to `fit`.
    info = self._predictor.info if self._predictor else None
    is_text = info is None or info.labels_are_text is not False
    return name if is_text else json.loads(name)

  def _make_task(
    self,
    setup: base.Setup[config_lib.ClassificationConfig],
    rows: Sequence[Mapping[str, Any]],
  ) -> classification.ClassificationTask:
    saved = setup.folder.labels
    layout = examples.own_files(
      "jsonl",
      saved.problem_type if saved else setup.config.problem_type,
      "text",
      "text_b" if any("text_b" in row for row in rows) else None,
      "label",
    )
    if saved:
      layout = dataclasses.replace(layout, name=saved.name)
    return classification.make_task(setup, layout)

  def _examples(
    self,
    task: classification.ClassificationTask,
    split: str,
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[Any],
  ) -> list[examples.InputExample]:
    kind = task.layout.problem_type
    data = []
    for index, (row, label) in enumerate(zip(rows, labels)):
      label = list(label) if isinstance(label, tuple | set) else label
      try:
        label = examples.read_label(label, task.layout)
      except tables.BadRowError as error:
        raise ValueError(f"row {index}: {error}.") from None
      data.append(
        examples.InputExample(str(index), row["text"], row.get("text_b"), label)
      )
    if split == "train":
      items = itertools.chain.from_iterable(
        x if isinstance(x, list | tuple | set) else [x] for x in labels
      )
      is_text = kind == run_info.REGRESSION or any(
        isinstance(x, str) for x in items
      )
      task.layout = dataclasses.replace(task.layout, labels_are_text=is_text)
    names = examples.infer_labels(data)
    if split == "train" and len(names) == 1 and kind == run_info.CLASSIFICATION:
      raise ValueError(f"all labels are {names[0]!r}; 2 are needed.")
    return data
