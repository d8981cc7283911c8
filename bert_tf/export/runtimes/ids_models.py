"""Loads the function of a SavedModel that takes word-piece ids."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import checkpoint_names, checkpoints
from bert_tf.inference import ids_functions

# Number of choices of a random multiple-choice input.
_NUM_CHOICES = 3

Inputs = Mapping[str, np.ndarray]
Run = Callable[[Inputs], dict[str, np.ndarray]]


class IdsModel:
  """The function of a SavedModel that takes word-piece ids.

  Attributes:
    folder: path of the SavedModel.
    run: the function.
    input_signature: its int32 inputs, in the order of ID_NAMES, then others.

  Raises:
    ValueError: if the folder has no SavedModel, or one without this function,
      or its weights cannot be read or are not finite.
  """

  def __init__(self, folder: str) -> None:
    if not checkpoints.is_saved_model(folder):
      raise ValueError(f"{folder} has no saved_model.pb; give a SavedModel.")
    self.folder = folder
    self._shapes = checkpoints.CheckpointReader(folder).shapes
    self.run = ids_functions.load_functions(folder)[0][ids_functions.IDS]
    specs = self.run.inputs
    first = ids_functions.ID_NAMES
    self.input_signature = [
      tf.TensorSpec(specs[name].shape, specs[name].dtype, name)
      for name in (*first, *sorted(specs.keys() - set(first)))
    ]

  def sample(self, batch_size: int, length: int) -> dict[str, np.ndarray]:
    """Returns inputs [batch_size, at most length], equal in each call."""
    rng = np.random.default_rng(0)
    embeddings = "bert/embeddings/"
    vocab_size = self._shapes[checkpoint_names.WORD_EMBEDDINGS][0]
    num_types = self._shapes[embeddings + "token_type_embeddings"][0]
    positions = self._shapes[embeddings + "position_embeddings"][0]
    length = min(length, positions)
    limits = {"input_ids": vocab_size, "segment_ids": num_types}
    inputs = {}
    for spec in self.input_signature:
      shape = (batch_size, *[_NUM_CHOICES] * (len(spec.shape) - 2), length)
      if spec.name == "input_mask":
        lengths = rng.integers(1, length + 1, (*shape[:-1], 1))
        lengths[0] = length
        inputs[spec.name] = (np.arange(length) < lengths).astype(np.int32)
      else:  # Other inputs, such as masked_lm_positions, are below the length.
        values = rng.integers(limits.get(spec.name, length), size=shape)
        inputs[spec.name] = values.astype(np.int32)
    return inputs
