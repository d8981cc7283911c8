"""LoRA: low-rank updates of the projections of attention, and nothing else.

A kernel W becomes W + alpha / rank * A B. Only A and B are trained; W and the
rest of BERT are frozen (Hu et al. 2021, arXiv 2106.09685). A checkpoint holds
the sum under the kernel's own name, so that anything that reads checkpoints can
read it. It also holds W, A and B, to continue training.
"""

from collections.abc import Iterable, Iterator

import keras

from bert_tf.model.tensor import Tensor

# Name suffixes of A and B (Keras' names), of W and of the checksum of W.
A, B, BASE = "/lora_kernel_a", "/lora_kernel_b", "/lora_base"
CHECKSUM = "/lora_base_crc32"

# Name of alpha, the numerator of the factor alpha / rank of A B.
ALPHA = "lora_alpha"

# Suffixes of variables that exist only with LoRA.
STATE_SUFFIXES = (A, B, BASE, CHECKSUM, ALPHA)


def enable(model: keras.Model, rank: int, alpha: float | None) -> None:
  """Freezes BERT and adds trainable updates to attention's projections.

  Layers on top of BERT stay trainable.

  Args:
    model: the model to change: a BertModel or one with a head.
    rank: number of columns of A and of rows of B.
    alpha: numerator of the factor alpha / rank; None for a factor of 1.
  """
  bert = getattr(model, "bert", model)
  if not hasattr(bert, "encoder"):
    raise ValueError(
      "LoRA adapts the layers of BERT, but this model trains none of them; "
      "leave `lora_rank` out."
    )
  if rank > (size := bert.config.hidden_size):
    raise ValueError(f"lora_rank {rank} exceeds hidden_size {size}.")
  for variable in bert.weights:
    variable.trainable = False
  for layer in _projections(model):
    layer.enable_lora(rank, lora_alpha=alpha)


def variables(model: keras.Model) -> dict[str, keras.Variable]:
  """The model's variables by their names in training checkpoints.

  A name is the variable's path, except that a kernel W that LoRA updates is
  `.../lora_base`: the sum W + alpha / rank * A B has the kernel's path.
  """
  by_path = {variable.path: variable for variable in model.weights}
  by_name = {}
  for path, variable in by_path.items():
    scope, _, name = path.rpartition("/")
    is_base = name == "kernel" and scope + A in by_path
    by_name[scope + BASE if is_base else path] = variable
  return by_name


def tensors(model: keras.Model) -> dict[str, Tensor]:
  """The tensors of a model's checkpoint by name, with LoRA's sums."""
  by_name = {name: v.value for name, v in variables(model).items()}
  for layer in _projections(model):
    if layer.lora_enabled:
      by_name[layer.bias.path.replace("/bias", "/kernel")] = layer.kernel
      by_name[ALPHA] = keras.ops.convert_to_tensor(layer.lora_alpha, "float32")
  return by_name


def reset(model: keras.Model) -> None:
  """Sets LoRA's updates of a model to 0 by zeroing B, if the model has any."""
  for variable in model.weights:
    if variable.path.endswith(B):
      variable.assign(keras.ops.zeros_like(variable))


def adapted(names: Iterable[str]) -> Iterator[str]:
  """Yields the scopes of the projections whose updates are among names."""
  return (name.removesuffix(A) for name in names if name.endswith(A))


def _projections(model: keras.Model) -> Iterator[keras.layers.Dense]:
  """Yields the projections of attention; none of a model without BERT."""
  encoder = getattr(getattr(model, "bert", model), "encoder", None)
  for layer in encoder.transformer_layers if encoder else ():
    attention = layer.self_attention
    yield from (attention.query, attention.key, attention.value)
    yield layer.attention_output.dense
