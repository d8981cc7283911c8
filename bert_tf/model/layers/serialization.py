"""Serialization of models: Keras saves, clones and nests them."""

import inspect
from collections.abc import Mapping
from typing import Any

import keras

# Keras finds a registered class by the package "bert_tf" and the class name.
register = keras.saving.register_keras_serializable("bert_tf")


class SerializableModel(keras.Model):
  """A model that Keras can make again from its constructor's arguments.

  Each argument must be an attribute of the same name.
  """

  def get_config(self) -> dict[str, Any]:
    """Returns the constructor's arguments, as JSON, and what is frozen."""
    parameters = inspect.signature(type(self).__init__).parameters
    # BertModel refuses the arguments of 2018.
    names = [name for name in parameters if name not in ("self", "of_2018")]
    values = {name: getattr(self, name) for name in names}
    if "dtype" in values:
      values["dtype"] = self.dtype_policy
    values["trainable"] = self.trainable
    layers = self._flatten_layers()
    modes = {getattr(layer, "quantization_mode", None) for layer in layers}
    if modes := modes - {None}:
      values["quantization_mode"] = modes.pop()
    if frozen := [v.path for v in self.weights if not v.trainable]:
      values["frozen_variables"] = frozen
    return keras.saving.serialize_keras_object(values)

  @classmethod
  def from_config(cls, config: Mapping[str, Any]) -> "SerializableModel":
    """Returns a model for the result of `get_config`."""
    values = keras.saving.deserialize_keras_object(dict(config))
    is_trainable = values.pop("trainable", True)
    frozen = values.pop("frozen_variables", ())
    mode = values.pop("quantization_mode", None)
    model = cls(**values)
    if mode:
      model.quantize(mode)
    model.trainable = is_trainable
    for variable in model.weights:
      if variable.path in frozen:
        variable.trainable = False
    return model
