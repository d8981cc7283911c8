"""Serialization of models and layers: Keras saves, clones and nests them."""

import inspect
from collections.abc import Mapping
from typing import Any

import keras

# Keras finds a registered class by the package "bert_tf" and the class name.
register = keras.saving.register_keras_serializable("bert_tf")

# Arguments that get_config leaves out. A model makes one seed generator for all
# its layers, and refuses arguments of 2018.
_NOT_SAVED = ("self", "seed_generator", "of_2018")


class Configured(keras.layers.Layer):
  """A layer or model that Keras can make again from its arguments.

  Each argument of the constructor must be an attribute of the same name.
  """

  def get_config(self) -> dict[str, Any]:
    """Returns the constructor's arguments, as JSON, and what is frozen."""
    names = inspect.signature(type(self).__init__).parameters
    values = {n: getattr(self, n) for n in names if n not in _NOT_SAVED}
    if "dtype" in values:
      values["dtype"] = self.dtype_policy
    values["trainable"] = self.trainable
    if frozen := [v.path for v in self.weights if not v.trainable]:
      values["frozen_variables"] = frozen
    return keras.saving.serialize_keras_object(values)

  @classmethod
  def from_config(cls, config: Mapping[str, Any]) -> "Configured":
    """Returns a layer or model for the result of `get_config`."""
    values = keras.saving.deserialize_keras_object(dict(config))
    is_trainable = values.pop("trainable", True)
    frozen = values.pop("frozen_variables", ())
    layer = cls(**values)
    layer.trainable = is_trainable
    for variable in layer.weights:
      if variable.path in frozen:
        variable.trainable = False
    return layer
