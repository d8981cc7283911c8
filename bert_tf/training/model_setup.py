"""What is set while a model is made for training."""

import contextlib
import random
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def initial_values_of(seed: int) -> Iterator[None]:
  """A scope in which new variables get the initial values of a seed.

  Keras' initializers draw their own seeds from Python's global generator. It
  goes on afterwards as if nothing had been drawn.
  """
  state = random.getstate()
  random.seed(seed)
  try:
    yield
  finally:
    random.setstate(state)


def checkpoint_gradients(model: keras.Model) -> None:
  """Has the encoder's layers computed again for the gradient, not kept.

  Raises:
    ValueError: if the model trains no encoder.
  """
  if not hasattr(model, "bert"):
    raise ValueError(
      "recompute is for the layers of BERT, and this model trains none of "
      "them; leave `recompute` out."
    )
  model.bert.encoder.recompute = True
