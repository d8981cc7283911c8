"""What all models of BERT offer Keras' users: texts, files and folders."""

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from bert_tf import task_registry, tokenization
from bert_tf.model import model_inputs


def _taking_texts(method: Callable) -> Callable:
  """Wraps `fit`, `evaluate` or `predict`, so that they take texts.

  It also checks the values of ids in arrays, which a compiled step does not
  know; those of a data set stay unknown.
  """
  signature = inspect.signature(method)

  @functools.wraps(method)
  def prepared(*args: Any, **named: Any) -> Any:
    bound = signature.bind(*args, **named)
    model, values = bound.arguments["self"], bound.arguments
    values["x"] = model.prepare_inputs(values.get("x"))
    if method is keras.Model.fit and isinstance(values["x"], tf.data.Dataset):
      values.setdefault("shuffle", False)  # Keras warns that it cannot.
    if "y" in values:
      values["y"] = _to_labels(values["y"])
    data = values.get("validation_data")
    if isinstance(data, tuple):
      inputs, *labels = data
      values["validation_data"] = (
        model.prepare_inputs(inputs),
        *map(_to_labels, labels),
      )
    elif data is not None:
      values["validation_data"] = model.prepare_inputs(data)
    return method(*bound.args, **bound.kwargs)

  return prepared


def _to_labels(labels: Any) -> Any:
  """Returns an array for a list of labels; others stay as they are."""
  if not isinstance(labels, list):
    return labels
  array = np.array(labels)
  if array.dtype.kind == "U":
    label = str(array.flat[0])
    raise ValueError(
      f"labels are numbers, not {label!r}; give the index of each label, and "
      "the names to `save_pretrained`."
    )
  return array


class PretrainedModel(keras.Model):
  """A Keras model of BERT, with what its users need besides `call`.

  Keras makes it again from its constructor's arguments, each of which must be
  an attribute of the same name.
  """

  task: ClassVar[str] = task_registry.ENCODER.name  # The name of its TaskSpec.
  # The axes of `input_ids`, `input_mask` and `segment_ids`.
  input_shape_names: ClassVar[tuple[str, ...]] = ("B", "F")
  # Features that `call` reads besides those of BertModel.
  more_inputs: ClassVar[tuple[str, ...]] = ()
  # Of the folder that the weights came from; `ModelFolder.load` sets them.
  vocab_file: str | None = None
  run: Any = None
  # The TextPreprocessor that lets `fit`, `evaluate` and `predict` take texts;
  # None for a model that takes ids only.
  preprocessor: Any = None

  def get_config(self) -> dict[str, Any]:
    """Returns all that a Keras file holds besides the weights, as JSON."""
    parameters = inspect.signature(type(self).__init__).parameters
    # BertModel refuses the arguments of 2018.
    names = [name for name in parameters if name not in ("self", "of_2018")]
    values = {name: getattr(self, name) for name in names}
    if "dtype" in values:
      values["dtype"] = self.dtype_policy
    preprocessor, layers = None, self._flatten_layers()
    if self.preprocessor:
      vocab = "\n".join(self.preprocessor.tokenizer.vocab)
      preprocessor = {"vocab": vocab, **self.preprocessor.settings}
    modes = {getattr(layer, "quantization_mode", None) for layer in layers}
    values["state"] = {
      "trainable": self.trainable,
      "frozen_variables": [v.path for v in self.weights if not v.trainable],
      "quantization_mode": next(iter(modes - {None}), None),
      "preprocessor": preprocessor,
    }
    return keras.saving.serialize_keras_object(values)

  @classmethod
  def from_config(cls, config: Mapping[str, Any]) -> "PretrainedModel":
    """Returns a model for the result of `get_config`."""
    values = keras.saving.deserialize_keras_object(dict(config))
    state = values.pop("state")
    model = cls(**values)
    if state["quantization_mode"]:
      model.quantize(state["quantization_mode"])
    model.trainable = state["trainable"]
    for variable in model.weights:
      if variable.path in state["frozen_variables"]:
        variable.trainable = False
    if preprocessor := state["preprocessor"]:
      from bert_tf.export.preprocessor import TextPreprocessor

      tokens, length = map(preprocessor.pop, ("vocab", "max_seq_length"))
      vocab = {token: i for i, token in enumerate(tokens.split("\n"))}
      tokenizer = tokenization.FullTokenizer("", **preprocessor, vocab=vocab)
      model.preprocessor = TextPreprocessor(tokenizer, length)
    return model

  def __call__(self, features: Mapping[str, Any], **arguments: Any) -> Any:
    """Calls the model; see `model_inputs.check_features` for errors."""
    features = model_inputs.check_features(features, self.input_shape_names)
    return super().__call__(features, **arguments)

  fit = _taking_texts(keras.Model.fit)
  evaluate = _taking_texts(keras.Model.evaluate)
  predict = _taking_texts(keras.Model.predict)

  def prepare_inputs(self, x: Any) -> Any:
    """Returns the inputs of `fit`, with ids in the place of texts.

    Args:
      x: texts, as a list, an array, or a tf.data.Dataset of batches: a text, a
        pair, a tuple of two columns or a dict with `text` and `text_b`. All
        else is returned as it is, such as ids and generators of ids.

    Raises:
      ValueError: for texts without a preprocessor or of a model that reads long
        texts in parts, and for ids out of range.
    """
    if isinstance(x, Mapping) and "input_ids" in x:
      if hasattr(x["input_ids"], "shape"):
        model_inputs.check_values(x, self.config)
      return x
    from bert_tf.export import preprocessor

    pairs, is_data = preprocessor.find_pairs(x), preprocessor.is_text_data(x)
    if not pairs and not is_data:
      return x
    if not self.preprocessor:
      raise ValueError(
        "this model takes ids, because it has no `preprocessor`. "
        "`from_pretrained` makes one if the folder has a vocabulary."
      )
    length = self.preprocessor.max_seq_length
    self.config.check_lengths(length, "the model's config")
    settings = self.run.settings if self.run else None
    long_text = getattr(settings, "long_text", "truncate")
    if long_text != "truncate" and self.run.task == self.task:
      raise ValueError(
        f"this model was trained with long_text={long_text}; give its texts to "
        "bert_tf.Classifier or bert_tf.load."
      )
    if is_data:
      return self.preprocessor.map(x)
    return self.preprocessor.convert(pairs)

  def set_preprocessor(self, files: Any) -> None:
    """Makes the preprocessor of a ModelFolder, if it has a vocabulary."""
    if files.vocab_file:
      from bert_tf.export.preprocessor import TextPreprocessor

      length = getattr(self.run and self.run.settings, "max_seq_length", None)
      length = length or self.config.max_position_embeddings
      self.preprocessor = TextPreprocessor(files.tokenizer, length)

  def export(
    self,
    filepath: str | os.PathLike[str],
    format: str = "tf_saved_model",
    verbose: bool | None = None,
    input_signature: Any = None,
    **options: Any,
  ) -> None:
    """Exports the model as keras.Model.export does.

    Without an input_signature it takes the three inputs of BERT, int32. For a
    model that takes texts, see `bert-tf export`.
    """
    if input_signature is None:
      shape = (None,) * len(self.input_shape_names)
      names = ("input_ids", "input_mask", "segment_ids", *self.more_inputs)
      specs = {n: keras.InputSpec("int32", shape, name=n) for n in names}
      input_signature = [specs]
    super().export(filepath, format, verbose, input_signature, **options)

  def save_pretrained(
    self,
    folder: str | os.PathLike[str],
    vocab_file: str | None = None,
    **settings: Any,
  ) -> None:
    """Writes a folder for `from_pretrained`, `bert_tf.load` and `--model`.

    Args:
      folder: a new folder, or one that an earlier call wrote.
      vocab_file: the vocabulary; None for that of the preprocessor.
      **settings: fields of run.json, such as `labels`, the names of a head's
        outputs in order, or max_seq_length. Those of `from_pretrained` stay.

    Raises:
      ValueError: if the folder has other files, or labels do not fit the head.
    """
    from bert_tf.checkpoint import model_folder

    if self.preprocessor:
      settings = {**self.preprocessor.settings, **settings}
    model_folder.save(self, os.fspath(folder), vocab_file, settings)
