"""A BERT model outside of any library: what every form is read to."""

import dataclasses
import types
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from bert_tf import modeling
from bert_tf.tasks import label_map

Shape = tuple[int, ...]
Shapes = dict[str, Shape]

POOLER = "bert/pooler/dense"
CHOICE_WEIGHTS = "choice_weights"

# The heads and the beginnings of their variables' names; a classifier of
# texts and one of words have the same.
HEADS = {
  "cls/predictions": "cls/predictions/",
  "cls/seq_relationship": "cls/seq_relationship/",
  "cls/squad": "cls/squad/",
  "output_weights": "output_",
  CHOICE_WEIGHTS: CHOICE_WEIGHTS,
}

_FLOATS = ("bfloat16", "float16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A model with what belongs to it.

  Attributes:
    config: sizes.
    tensors: float32 arrays by the original's names: encoder, pooler and heads,
      no slots.
    vocab: the text of vocab.txt, None if it is not known.
    do_lower_case: whether the vocabulary is lower-cased, None if it is not
      known.
    task: of a classifier, of texts or words, its labels; None if they are not
      known.
    notes: what its user should know, a sentence each.
  """

  config: modeling.BertConfig
  tensors: Mapping[str, np.ndarray]
  vocab: str | None = None
  do_lower_case: bool | None = None
  task: label_map.LabelSpec | None = None
  notes: tuple[str, ...] = ()

  @property
  def heads(self) -> tuple[str, ...]:
    """Which of HEADS it has."""
    return heads_of(self.tensors)

  @property
  def tokens(self) -> list[str]:
    """The word pieces of the vocabulary in the order of their ids."""
    text = (self.vocab or "").removesuffix("\n")
    return [line.strip() for line in text.split("\n")]

  @property
  def labels_words(self) -> bool:
    """Whether its `output_weights` are for words and not for texts."""
    return is_of_words(self.task)


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a form keeps one of the original's tensors.

  Attributes:
    names: there, the usual one first.
    shape: there.
    is_transposed: whether rows are columns there; else the shapes may differ
      but the order of the numbers does not.
  """

  names: Sequence[str]
  shape: Shape
  is_transposed: bool = False

  def to_original(self, value: np.ndarray, shape: Shape) -> np.ndarray:
    """Returns the original's tensor, float32, of what is there."""
    value = value.T if self.is_transposed else value.reshape(shape)
    return np.ascontiguousarray(value, np.float32)

  def from_original(self, value: np.ndarray) -> np.ndarray:
    """Returns what is there of the original's tensor."""
    value = value.T if self.is_transposed else value.reshape(self.shape)
    return np.ascontiguousarray(value)


def is_of_words(task: label_map.LabelSpec | None) -> bool:
  """Returns whether a task's labels are of words and not of texts."""
  return task is not None and task.problem_type == label_map.WORDS


def heads_of(names: Collection[str]) -> tuple[str, ...]:
  """Returns which of HEADS have variables among the original's names."""
  return tuple(
    head
    for head, start in HEADS.items()
    if any(name.startswith(start) for name in names)
  )


def numbered_labels(num_labels: int) -> list[str]:
  """Returns names for labels that have none, as transformers makes them."""
  return [f"LABEL_{i}" for i in range(num_labels)]


def collect(
  found: Mapping[str, np.ndarray],
  shapes: Mapping[str, Shape],
  place_of: Callable[[str, Shape], Place],
  path: str,
  copies: Mapping[str, str] = types.MappingProxyType({}),
) -> dict[str, np.ndarray]:
  """Returns the original's tensors out of those of a file.

  Args:
    found: every tensor of the file, by the file's names.
    shapes: of the original's tensors that have to be there, by name.
    place_of: returns where the form keeps a tensor of that name and shape.
    path: of the file, for the message.
    copies: names that the file may have besides, and the original's names of
      the tensors that they have to be the same as.

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
  faults += [
    f"{name} is not the same as {place_of(source, ()).names[0]}"
    for name, source in copies.items()
    if name in found and not _is_copy(found[name], tensors.get(source))
  ]
  if faults:
    raise ValueError(f"the tensors of {path} do not fit: {'; '.join(faults)}.")
  return tensors


def _is_copy(value: np.ndarray, source: np.ndarray | None) -> bool:
  return source is not None and np.array_equal(value.astype(np.float32), source)


def checked(
  found: Mapping[str, np.ndarray],
  config: modeling.BertConfig,
  num_labels: int,
  path: str,
) -> dict[str, np.ndarray]:
  """Returns the tensors of a file that has the original's names.

  Raises:
    ValueError: as `collect`.
  """
  shapes = shapes_of(config, heads_of(found), num_labels)
  return collect(found, shapes, lambda name, shape: Place((name,), shape), path)


def with_drawn(model: Pretrained, name: str) -> Pretrained:
  """Returns the model and an untrained layer besides; the same each time.

  Args:
    model: without the layer.
    name: POOLER or "cls/seq_relationship".
  """
  size = model.config.hidden_size
  matrix, bias, shape = f"{name}/kernel", f"{name}/bias", (size, size)
  if name != POOLER:
    matrix, bias = f"{name}/output_weights", f"{name}/output_bias"
    shape = (2, size)
  # Not zeros: nothing below them would get a gradient at first.
  drawn = np.random.default_rng(0).standard_normal(shape, np.float32)
  drawn = np.clip(drawn, -2.0, 2.0) * model.config.initializer_range
  layer = {
    matrix: drawn.astype(np.float32),
    bias: np.zeros(shape[0], np.float32),
  }
  what = "pooler" if name == POOLER else "next-sentence head"
  note = f"The model has no {what}: the one that was written is untrained."
  return dataclasses.replace(
    model,
    tensors={**model.tensors, **layer},
    notes=(*model.notes, note),
  )


def shapes_of(
  config: modeling.BertConfig,
  heads: Collection[str],
  num_labels: int = 0,
  has_pooler: bool = True,
) -> Shapes:
  """Returns name and shape of every tensor, as the original has them.

  Args:
    config: sizes.
    heads: those of HEADS that are there.
    num_labels: of `output_weights`, where that is among the heads.
    has_pooler: whether the pooler is there.
  """
  size = config.hidden_size
  shapes = _encoder_shapes(config)
  if has_pooler:
    shapes.update(_dense(POOLER, size, size))
  if "cls/predictions" in heads:
    transform = "cls/predictions/transform"
    shapes.update(_dense(f"{transform}/dense", size, size))
    shapes.update(_layer_norm(transform, size))
    shapes["cls/predictions/output_bias"] = (config.vocab_size,)
  for head in ("cls/seq_relationship", "cls/squad"):
    if head in heads:
      shapes.update(_linear(f"{head}/", 2, size))
  if "output_weights" in heads:
    shapes.update(_linear("", num_labels, size))
  if CHOICE_WEIGHTS in heads:
    shapes[CHOICE_WEIGHTS] = (1, size)
  return shapes


def _encoder_shapes(config: modeling.BertConfig) -> Shapes:
  """Returns name and shape of the tensors of embeddings and layers."""
  size, wide = config.hidden_size, config.intermediate_size
  sizes = {
    "word_embeddings": config.vocab_size,
    "position_embeddings": config.max_position_embeddings,
    "token_type_embeddings": config.type_vocab_size,
  }
  shapes = {f"bert/embeddings/{name}": (n, size) for name, n in sizes.items()}
  shapes.update(_layer_norm("bert/embeddings", size))
  for i in range(config.num_hidden_layers):
    layer = f"bert/encoder/layer_{i}"
    for name in ("query", "key", "value"):
      shapes.update(_dense(f"{layer}/attention/self/{name}", size, size))
    shapes.update(_dense(f"{layer}/attention/output/dense", size, size))
    shapes.update(_layer_norm(f"{layer}/attention/output", size))
    shapes.update(_dense(f"{layer}/intermediate/dense", size, wide))
    shapes.update(_dense(f"{layer}/output/dense", wide, size))
    shapes.update(_layer_norm(f"{layer}/output", size))
  return shapes


def _dense(name: str, inputs: int, outputs: int) -> Shapes:
  return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _layer_norm(name: str, size: int) -> Shapes:
  return {f"{name}/LayerNorm/{end}": (size,) for end in ("gamma", "beta")}


def _linear(name: str, outputs: int, size: int) -> Shapes:
  """Returns the shapes of a head that is stored as [outputs, D]."""
  return {
    f"{name}output_weights": (outputs, size),
    f"{name}output_bias": (outputs,),
  }
