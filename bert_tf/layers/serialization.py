"""Models and layers that Keras saves in `.keras` files, clones and nests."""

import inspect
from collections.abc import Mapping
from typing import Any

import keras

# Keras finds a registered class by this package and its name.
register = keras.saving.register_keras_serializable("bert_tf")

# Shared by the layers of a model, which makes a new one.
_NOT_SAVED = ("self", "seed_generator")


class Configured(keras.layers.Layer):
  """A layer or model that is made again from its constructor's arguments.

  It keeps each of them as the attribute of that name.
  """

  def get_config(self) -> dict[str, Any]:
    """Returns the constructor's arguments, as JSON, and `trainable`."""
    names = inspect.signature(type(self).__init__).parameters
    values = {n: getattr(self, n) for n in names if n not in _NOT_SAVED}
    if "dtype" in values:
      values["dtype"] = self.dtype_policy
    values["trainable"] = self.trainable
    return keras.saving.serialize_keras_object(values)

  @classmethod
  def from_config(cls, config: Mapping[str, Any]) -> "Configured":
    """Returns a new layer or model; `get_config` made the argument."""
    values = keras.saving.deserialize_keras_object(dict(config))
    is_trainable = values.pop("trainable", True)
    made = cls(**values)
    made.trainable = is_trainable
    return made
