"""LoRA: low-rank updates of the projections of attention, and nothing else.

A kernel W becomes W + alpha / rank * A B; A and B are trained, W and the rest
of BERT stay as they are (Hu et al. 2021, arXiv 2106.09685). A checkpoint holds
the sum under the kernel's own name, so that whatever reads checkpoints reads
it; and W, A and B beside it, to train on.
"""

import contextlib
from collections.abc import Iterable, Iterator

import keras

from bert_tf.tensor import Tensor

# Ends of names: of A and B as Keras calls them, of W, and of W's checksum.
A, B, BASE = "/lora_kernel_a", "/lora_kernel_b", "/lora_base"
CHECKSUM = "/lora_base_crc32"

# The numerator of the factor of A B.
ALPHA = "lora_alpha"

# What no model without LoRA has.
STATE_SUFFIXES = (A, B, BASE, CHECKSUM, ALPHA)


def enable(model: keras.Model, rank: int, alpha: float | None) -> None:
  """Makes all of BERT untrainable but for updates of attention's projections.

  Those are of the query, key, value and output, of a rank, multiplied by alpha
  / rank (1 for None). What stands on top of BERT stays trainable.

  Raises:
    ValueError: if the model trains no BERT, or for a rank above hidden_size.
  """
  bert = getattr(model, "bert", None)
  if bert is None:
    raise ValueError(
      "LoRA is for the layers of BERT, and this model trains none of them; "
      "leave `lora_rank` out."
    )
  if rank > bert.config.hidden_size:
    raise ValueError(
      f"lora_rank {rank} exceeds hidden_size {bert.config.hidden_size}; lower "
      "it."
    )
  for variable in bert.weights:
    variable.trainable = False
  for layer in _projections(model):
    scope = layer.bias.path.split("/")[:-2]
    with contextlib.ExitStack() as stack:
      # Keras names new variables after the scope that is open.
      for name in scope:
        stack.enter_context(keras.name_scope(name))
      layer.enable_lora(rank, lora_alpha=alpha)


def variables(model: keras.Model) -> dict[str, keras.Variable]:
  """Returns the model's variables by their names in training checkpoints.

  These are their paths, but for the kernels that LoRA updates.
  """
  by_path = {variable.path: variable for variable in model.weights}
  found = {}
  for path, variable in by_path.items():
    scope, _, name = path.rpartition("/")
    is_base = name == "kernel" and scope + A in by_path
    found[scope + BASE if is_base else path] = variable
  return found


def tensors(model: keras.Model) -> dict[str, Tensor]:
  """Returns what a checkpoint holds of a model, by name."""
  found = {name: v.value for name, v in variables(model).items()}
  for layer in _projections(model):
    if layer.lora_enabled:
      found[layer.bias.path.replace("/bias", "/kernel")] = layer.kernel
      found[ALPHA] = keras.ops.convert_to_tensor(layer.lora_alpha, "float32")
  return found


def reset(model: keras.Model) -> None:
  """Makes the updates 0, where a model has some."""
  for variable in model.weights:
    if variable.path.endswith(B):
      variable.assign(keras.ops.zeros_like(variable))


def adapted(names: Iterable[str]) -> Iterator[str]:
  """Yields the scopes of the projections whose updates are among names."""
  return (name.removesuffix(A) for name in names if name.endswith(A))


def _projections(model: keras.Model) -> Iterator[keras.layers.Dense]:
  """Yields the projections of attention; none of a model without BERT."""
  encoder = getattr(getattr(model, "bert", None), "encoder", None)
  for layer in encoder.transformer_layers if encoder else ():
    own = layer.attention.self_attention
    yield from (own.query, own.key, own.value)
    yield layer.attention.residual_output.dense
