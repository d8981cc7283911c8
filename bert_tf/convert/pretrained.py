"""A BERT model outside of any library: what every format is read into."""

import dataclasses
import types
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import heads, modeling, tokenization
from bert_tf.training import run_dir

Shape = tuple[int, ...]
Shapes = dict[str, Shape]

POOLER = "bert/pooler/dense"

_FLOATS = ("bfloat16", "float16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A model with what belongs to it.

  Attributes:
    config: sizes.
    tensors: float32 arrays by the original's names: encoder, pooler and heads,
      without an optimizer's slots.
    run: what is known of its task, labels and tokenizer.
    vocab_file: its vocabulary, None if there is none.
    notes: what its user should know, a sentence each.
  """

  config: modeling.BertConfig
  tensors: Mapping[str, np.ndarray]
  run: run_dir.RunInfo
  vocab_file: str | None
  notes: tuple[str, ...] = ()

  @property
  def own_heads(self) -> tuple[heads.Head, ...]:
    """The heads that it has."""
    return heads_of(self.tensors, self.run.task)

  @property
  def num_labels(self) -> int:
    """How many outputs `output_weights` has, 0 without it."""
    return len(self.tensors.get("output_bias", ()))

  def vocab(self) -> dict[str, int]:
    """Returns token to id; nothing without a vocabulary."""
    return tokenization.load_vocab(self.vocab_file) if self.vocab_file else {}


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a format keeps one of the original's tensors.

  Attributes:
    names: its names there, the usual one first.
    shape: its shape there.
    is_transposed: whether rows are columns there. Otherwise the shapes may
      differ, but the order of the numbers does not.
  """

  names: Sequence[str]
  shape: Shape
  is_transposed: bool = False

  def to_original(self, value: np.ndarray, shape: Shape) -> np.ndarray:
    """Returns the original's tensor, float32, for the one that is there."""
    value = value.T if self.is_transposed else value.reshape(shape)
    return np.ascontiguousarray(value, np.float32)

  def from_original(self, value: np.ndarray) -> np.ndarray:
    """Returns the tensor to keep there for the original's."""
    value = value.T if self.is_transposed else value.reshape(self.shape)
    return np.ascontiguousarray(value)


def heads_of(names: Collection[str], task: str) -> tuple[heads.Head, ...]:
  """Returns the heads that have variables among the original's names.

  Args:
    names: of a checkpoint's variables.
    task: of the run; "ner" if `output_weights` gives labels to words.
  """
  labels = heads.WORD_LABELS if task == "ner" else heads.TEXT_LABELS
  known = (heads.MASKED_LM, heads.NEXT_SENTENCE, heads.SPAN, labels)
  return tuple(
    head
    for head in (*known, heads.CHOICES)
    if any(name in head.shapes for name in names)
  )


def model_of(found: Sequence[heads.Head]) -> type[heads.HeadModel] | None:
  """Returns the model of this package with just these heads, None without."""
  kinds = (kind for kind in heads.MODELS if kind.heads == tuple(found))
  return next(kinds, None)


def task_of(found: Sequence[heads.Head]) -> str:
  """Returns the task of a model with just these heads, encoder without."""
  kind = model_of(found)
  return kind.task if kind else "encoder"


def names_of(found: Sequence[heads.Head]) -> str:
  """Returns the names of heads for a message."""
  return ", ".join(head.name for head in found)


def numbered_labels(num_labels: int) -> tuple[str, ...]:
  """Returns names for labels that have none, as transformers makes them."""
  return tuple(f"LABEL_{i}" for i in range(num_labels))


def collect(
  found: Mapping[str, np.ndarray],
  shapes: Mapping[str, Shape],
  place_of: Callable[[str, Shape], Place],
  path: str,
  copies: Mapping[str, str] = types.MappingProxyType({}),
) -> dict[str, np.ndarray]:
  """Returns the original's tensors for those of a file.

  Args:
    found: every tensor of the file, by the file's names.
    shapes: of the original's tensors that have to be there, by name.
    place_of: returns where the format keeps a tensor of that name and shape.
    path: of the file, for the message.
    copies: further names that the file may have, to the original's names of the
      tensors that they must equal.

  Raises:
    ValueError: naming every tensor that is missing, odd or not of the model.
  """
  remaining = {n: value for n, value in found.items() if n not in copies}
  tensors, faults = {}, []
  for name, shape in shapes.items():
    place = place_of(name, shape)
    key = next((n for n in place.names if n in remaining), None)
    if key is None:
      faults.append(f"{place.names[0]} is missing")
      continue
    value = remaining.pop(key)
    if value.shape != place.shape or value.dtype.name not in _FLOATS:
      faults.append(
        f"{key} is {value.dtype} of {value.shape}, not a float of {place.shape}"
      )
      continue
    tensors[name] = place.to_original(value, shape)
  faults += [f"{name} is not of this model" for name in sorted(remaining)]
  for name, source in copies.items():
    if name in found and not _is_copy(found[name], tensors.get(source)):
      faults.append(
        f"{name} is not the same as {place_of(source, ()).names[0]}"
      )
  if faults:
    raise ValueError(f"the tensors of {path} do not fit: {'; '.join(faults)}.")
  return tensors


def _is_copy(value: np.ndarray, source: np.ndarray | None) -> bool:
  return source is not None and np.array_equal(value.astype(np.float32), source)


def with_untrained(
  model: Pretrained, what: str, shapes: Mapping[str, Shape]
) -> Pretrained:
  """Returns the model with one more layer, whose values are always the same.

  Args:
    model: without the layer.
    what: the layer is, for the note on it.
    shapes: of its matrix and bias, by name.
  """
  # Not zeros: nothing below them would get a gradient at first.
  stddev = np.float32(model.config.initializer_range)
  layer = {
    name: np.clip(
      np.random.default_rng(0).standard_normal(shape, np.float32), -2.0, 2.0
    )
    * stddev
    if len(shape) > 1
    else np.zeros(shape, np.float32)
    for name, shape in shapes.items()
  }
  note = f"The model has no {what}: the one that was written is untrained."
  return dataclasses.replace(
    model,
    tensors={**model.tensors, **layer},
    notes=(*model.notes, note),
  )


def shapes_of(
  config: modeling.BertConfig,
  found: Collection[heads.Head],
  num_labels: int = 0,
  has_pooler: bool = True,
) -> Shapes:
  """Returns name and shape of every tensor, as the original has them.

  Args:
    config: sizes.
    found: the heads that are there.
    num_labels: of `output_weights`, if that is among them.
    has_pooler: whether the pooler is there.
  """
  with tf.Graph().as_default():  # Names and shapes only: no memory.
    encoder = modeling.BertModel(config)
  shapes = {
    v.path: tuple(v.shape)
    for v in encoder.weights
    if has_pooler or not v.path.startswith(POOLER)
  }
  for head in found:
    shapes.update(head_shapes(head, config, num_labels))
  return shapes


def head_shapes(
  head: heads.Head, config: modeling.BertConfig, num_labels: int = 0
) -> Shapes:
  """Returns name and shape of a head's tensors."""
  sizes = {"D": config.hidden_size, "V": config.vocab_size, "C": num_labels}
  return {
    name: tuple(sizes[n] if isinstance(n, str) else n for n in shape)
    for name, shape in head.shapes.items()
  }


def pooler_shapes(config: modeling.BertConfig) -> Shapes:
  """Returns name and shape of the pooler's tensors."""
  size = config.hidden_size
  return {f"{POOLER}/kernel": (size, size), f"{POOLER}/bias": (size,)}
