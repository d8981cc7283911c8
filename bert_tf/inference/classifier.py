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
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, losses
from bert_tf.tasks import fine_tuning, label_map
from bert_tf.tasks.classification import config as config_lib
from bert_tf.tasks.classification import examples, metrics, records
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config

# A text, or the two of a pair.
Text = str | tuple[str, str]
# A class; a number in a regression; the labels that apply in multilabel.
Label = str | float | Sequence[str]

# Texts that are predicted together.
_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Prediction:
  """What is predicted of one text.

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
    do_lower_case: whether the vocabulary is of lower-cased text; None for what
      run.json says, or the vocabulary itself.
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
    self._spec: label_map.LabelSpec | None = None
    self._probabilities: Callable | None = None

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
    self._probabilities = None
    fine_tuning.run_on_examples(
      config, task, self._bert_config, {"train": data}
    )

  def predict(self, texts: Sequence[Text]) -> list[Prediction]:
    """Returns a prediction for each text, in their order.

    The model is loaded at the first call, not at every one.

    Raises:
      ValueError: if output_dir holds no trained model, or a text is empty.
    """
    if self._probabilities is None:
      self._load()
    assert self._spec is not None
    data = [_example(i, text, None) for i, text in enumerate(texts)]
    if not data:
      return []
    found = np.concatenate(list(self._probabilities_of(data)))
    labels = metrics.decide(found, self._spec.problem_type)
    return [
      Prediction(
        metrics.named_label(self._spec, label),
        dict(zip(self._spec.labels, map(float, row))),
      )
      for label, row in zip(labels, found)
    ]

  def _probabilities_of(
    self, data: Sequence[examples.InputExample]
  ) -> Iterator[np.ndarray]:
    """Yields float32 [B, C] for each batch of examples."""
    assert self._spec is not None and self._probabilities is not None
    with tempfile.TemporaryDirectory() as folder:
      files = records.write_records(
        os.path.join(folder, "predict.tf_record"),
        data,
        self._spec,
        self._tokenizer,
        self._max_seq_length,
      )
      batches = records.batches(
        self._spec, self._max_seq_length, self._bert_config.vocab_size
      )
      for batch in batches.once(files, _BATCH_SIZE):
        yield self._probabilities(batch).numpy()

  def _load(self) -> None:
    """Loads the newest checkpoint of output_dir and its labels."""
    output_dir = self._config.train.output_dir
    spec = label_map.load(output_dir)
    if spec is None or not checkpoints.listed(output_dir):
      raise ValueError(
        f"{output_dir} holds no trained classifier; call `fit` first, or give "
        "the output_dir of a run."
      )
    runner = classification.build_estimator(
      self._bert_config, spec, self._config.train
    )
    runner.load_for_inference()
    self._spec = spec
    # One trace, whatever the width of a batch.
    self._probabilities = tf.function(
      lambda batch: losses.probabilities(
        runner.model(batch), spec.problem_type
      ),
      reduce_retracing=True,
    )


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
