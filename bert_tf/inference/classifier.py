"""Fine-tuning and classifying from Python, in a few lines.

  model = classifier.Classifier(
    "uncased/bert_config.json", "uncased/vocab.txt", "out",
    init_checkpoint="uncased/bert_model.ckpt",
  )
  model.fit(["good", "bad", ...], ["pos", "neg", ...])
  model.predict(["not bad"])[0].label

It is run_classifier.py on lists instead of files: `output_dir` holds the same
checkpoints, and each can go on from what the other left.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf import checkpoints
from bert_tf.export import config as export_config
from bert_tf.inference import predictor
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as config_lib
from bert_tf.tasks.classification import examples
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config

# A text, or the two of a pair.
Text = str | tuple[str, str]
# A class; a number in a regression; the labels that apply in multilabel.
Label = str | float | Sequence[str]


@dataclasses.dataclass(frozen=True)
class Prediction:
  """The prediction for one text or pair.

  Attributes:
    label: the likeliest class; the number of a regression; the labels that
      are likelier than not in multilabel.
    probabilities: of every label, in [0, 1]; {} in a regression.
  """

  label: str | float | list[str]
  probabilities: Mapping[str, float]


class Classifier:
  """A BERT that is fine-tuned on texts or pairs of texts, and classifies.

  Args:
    bert_config_file: the model's sizes.
    vocab_file: the model's vocabulary.
    output_dir: folder of the run: an earlier one to predict with, or an empty
      or new one to `fit`.
    init_checkpoint: prefix of the pre-trained checkpoint that `fit` starts
      from; None for random values.
    do_lower_case: whether texts are lower-cased; None for what run.json says,
      else what the vocabulary shows.
    max_seq_length: word pieces of a text or pair; what is longer is cut. None
      for what run.json says, or 128.

  Raises:
    ValueError: if config, vocabulary and max_seq_length do not fit.
  """

  def __init__(
    self,
    bert_config_file: str,
    vocab_file: str,
    output_dir: str,
    init_checkpoint: str | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
  ) -> None:
    config = config_lib.ClassificationConfig(
      task_name="jsonl",
      data_dir="",
      bert_config_file=bert_config_file,
      vocab_file=vocab_file,
      do_lower_case=do_lower_case,
      max_seq_length=max_seq_length,
      do_train=True,
      train=training_config.TrainConfig(
        output_dir=output_dir, init_checkpoint=init_checkpoint
      ),
    )
    self._config, self._bert_config, self._tokenizer = fine_tuning.load(config)
    assert self._config.max_seq_length is not None
    self._max_seq_length = self._config.max_seq_length
    self._predictor: predictor.Predictor | None = None

  def fit(
    self,
    texts: Sequence[Text],
    labels: Sequence[Label],
    problem_type: str = "classification",
    num_train_epochs: float = 3.0,
    train_batch_size: int = 32,
    learning_rate: float = 5e-5,
    seed: int = 12345,
    use_xla: bool = True,
  ) -> None:
    """Fine-tunes on texts; checkpoints and the labels go to output_dir.

    Args:
      texts: each a text or a pair.
      labels: one for each text; what occurs here is what is predicted.
      problem_type: one of losses.PROBLEM_TYPES.
      num_train_epochs: passes over the texts; may be a fraction.
      train_batch_size: texts a step.
      learning_rate: the peak of the schedule; the first tenth of the steps is
        warm-up.
      seed: of initial values, dropout and the order of the texts.
      use_xla: whether the training step is compiled by XLA, which takes a
        while at first; not worth it for a few hundred texts.

    Raises:
      ValueError: if texts, labels and problem_type do not fit one another, or
        output_dir holds a run.
    """
    output_dir = self._config.train.output_dir
    if checkpoints.listed(output_dir):
      raise ValueError(
        f"{output_dir} holds a run already; predict with it, or choose "
        "another output_dir to fit."
      )
    data = _labelled(texts, labels, problem_type)
    text_b = "b" if any(example.text_b for example in data) else None
    layout = examples.own_files("jsonl", problem_type, "a", text_b, "label")
    if problem_type != "regression":
      layout = layout.with_labels(examples.infer_labels(data))
    found = layout.label_spec().labels
    if problem_type == "classification" and len(found) < 2:
      raise ValueError(f"all labels are {found[0]!r}; at least 2 are needed.")
    train = dataclasses.replace(
      self._config.train,
      train_batch_size=train_batch_size,
      learning_rate=learning_rate,
      seed=seed,
      use_xla=use_xla,
    )
    config = dataclasses.replace(
      self._config, train=train, num_train_epochs=num_train_epochs
    )
    task = classification.ClassificationTask(
      layout, "", self._bert_config, self._tokenizer, self._max_seq_length
    )
    self._predictor = None
    fine_tuning.run_on_examples(
      config, task, self._bert_config, {"train": data}
    )

  def predict(self, texts: Sequence[Text]) -> list[Prediction]:
    """Returns a prediction for each text, in their order.

    The model is loaded at the first call, not at every one.

    Raises:
      ValueError: if output_dir holds no trained model, or a text is empty.
    """
    rows = [_row(_example(i, text, None)) for i, text in enumerate(texts)]
    if self._predictor is None:
      self._predictor = self._load()
    return [_prediction(answer) for answer in self._predictor.predict(rows)]

  def _load(self) -> predictor.Predictor:
    """Returns a predictor with the newest checkpoint of output_dir."""
    output_dir = self._config.train.output_dir
    if not checkpoints.listed(output_dir):
      raise ValueError(
        f"{output_dir} holds no trained classifier; call `fit` first, or give "
        "the output_dir of a run."
      )
    return predictor.Predictor(
      export_config.ModelConfig(
        init_checkpoint=output_dir,
        task="classification",
        bert_config_file=self._config.bert_config_file,
        vocab_file=self._config.vocab_file,
        do_lower_case=self._config.do_lower_case,
        max_seq_length=self._max_seq_length,
      )
    )


def _row(example: examples.InputExample) -> dict[str, str]:
  """Returns the inputs of the model by name."""
  row = {"text": example.text_a}
  if example.text_b is not None:
    row["text_b"] = example.text_b
  return row


def _prediction(answer: dict[str, Any]) -> Prediction:
  """Returns what the model's answer says of one text."""
  if "prediction" in answer:
    return Prediction(answer["prediction"], {})
  label = answer["label"] if "label" in answer else answer["labels"]
  return Prediction(label, answer["probabilities"])


def _labelled(
  texts: Sequence[Text], labels: Sequence[Label], problem_type: str
) -> list[examples.InputExample]:
  """Returns the examples; raises ValueError where one is at fault."""
  if len(texts) != len(labels):
    raise ValueError(
      f"{len(texts)} texts and {len(labels)} labels; give one for each."
    )
  data = []
  found: tuple[Any, ...] = tuple(labels)
  for index, (text, label) in enumerate(zip(texts, found)):
    names: tuple[Any, ...] = () if problem_type == "regression" else (label,)
    if problem_type == "multilabel" and not isinstance(label, str):
      names = label = tuple(label)
    if not all(isinstance(name, str) for name in names) or (
      problem_type == "regression" and not isinstance(label, int | float)
    ):
      wanted = "a number" if problem_type == "regression" else "text"
      raise ValueError(
        f"label {label!r} of text {index} is not {wanted}, as "
        f"{problem_type} needs."
      )
    data.append(_example(index, text, label))
  return data


def _example(
  index: int, text: Text, label: str | float | tuple[str, ...] | None
) -> examples.InputExample:
  """Returns the example of a text or a pair."""
  parts = (text,) if isinstance(text, str) else tuple(text)
  if len(parts) not in (1, 2) or not all(
    isinstance(part, str) and part.strip() for part in parts
  ):
    raise ValueError(
      f"text {index} is neither a text nor a pair of texts: {text!r}."
    )
  text_a, text_b = (*parts, None)[:2]
  assert text_a is not None
  return examples.InputExample(str(index), text_a, text_b, label)
