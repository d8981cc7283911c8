"""Tensors in checkpoints of this and of other programs, and their names."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import keras
import numpy as np

from bert_tf.files import messages
from bert_tf.model.layers import lora, mixed_precision

GLOBAL_STEP = "global_step"

# Files store training state that the original lacks under this scope. Loaders
# such as transformers' skip names with a part `global_step`, but fail on names
# that they do not know. The slots of other optimizers have the scope in memory
# too.
STATE_SCOPE = f"{GLOBAL_STEP}/"

WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"

_MAX_NAMED = 10  # Names that a message lists.


@dataclasses.dataclass(frozen=True)
class Tensors:
  """The tensors of a model; see checkpoints.CheckpointReader."""

  path: str
  shapes: Mapping[str, tuple[int, ...]]  # By name.
  get: Callable[[str], np.ndarray]  # Reads the tensor of a name.
  format: str = "original"
  untrained: frozenset[str] = frozenset()
  labels_words: bool = False


def parameters(names: Iterable[str]) -> list[str]:
  """The sorted names of model variables, without training state.

  If X is a variable, X/SLOT is a slot of an optimizer, such as Adam's moments.
  """
  names = set(names)
  return sorted(
    name
    for name in names
    if not is_slot(name)
    and name.rpartition("/")[0] not in names
    and name != GLOBAL_STEP
    and not _is_own_state(name)
  )


def is_slot(name: str) -> bool:
  """Whether a variable is an optimizer's, by its name."""
  return name.endswith(("/adam_m", "/adam_v")) or name.startswith(STATE_SCOPE)


def _is_own_state(name: str) -> bool:
  return name in mixed_precision.STATE or name.endswith(lora.STATE_SUFFIXES)


def to_key(name: str) -> str:
  """A tensor's key in a checkpoint file: its name or a scoped name."""
  return STATE_SCOPE + name if _is_own_state(name) else name


def from_key(key: str) -> str:
  """A tensor's name for its key in a checkpoint file."""
  name = key.removeprefix(STATE_SCOPE)
  return name if _is_own_state(name) else key


def check_is_bert(path: str, names: Collection[str]) -> None:
  """Raises ValueError if there is no BERT among the names of a checkpoint."""
  if WORD_EMBEDDINGS in names:
    return
  tops = sorted({"/".join(name.split("/")[:2]) for name in names})
  raise ValueError(
    f"{path} does not hold a BERT: it has no {WORD_EMBEDDINGS}, but "
    f"{messages.join_names(tops, _MAX_NAMED)}."
  )


def check_fits(
  path: str,
  shapes: Mapping[str, tuple[int, ...]],
  variables: Mapping[str, keras.Variable],
  missing: Sequence[str],
) -> None:
  """Raises ValueError if a checkpoint lacks variables or shapes differ."""
  names = parameters(shapes)
  faults = []
  if missing:
    if any(n.startswith("bert/") for n in missing):
      check_is_bert(path, names)
    faults.append(f"it lacks {messages.join_names(missing, _MAX_NAMED)}")
    if extra := unused(names, variables):
      faults.append(f"the model lacks {extra}")
  differing = [
    f"{name} is {shapes[name]}, but the model's is {tuple(variable.shape)}"
    for name, variable in variables.items()
    if name in shapes and shapes[name] != tuple(variable.shape)
  ]
  faults += differing[:_MAX_NAMED]
  if faults:
    raise ValueError(
      f"{path} does not fit the model of the config: {'; '.join(faults)}."
    )


def unused(names: Iterable[str], model_names: Collection[str]) -> str:
  """Names the encoder's variables that the model lacks; "" for none."""
  encoder = (name for name in names if name.startswith("bert/"))
  return messages.join_names(sorted({*encoder} - {*model_names}), _MAX_NAMED)
