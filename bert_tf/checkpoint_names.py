"""Names of tensors in checkpoints, also in those of other programs.

The names show which model a checkpoint holds. A BERT is read even if a scope or
the layer norms have other names than in the original release. For any other
model, the error says which model the checkpoint holds.
"""

import collections
import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import keras
from absl import logging

from bert_tf.files import errors
from bert_tf.layers import lora, mixed_precision

GLOBAL_STEP = "global_step"
# Seconds of training, which older versions kept in runs with train_minutes.
TRAIN_SECONDS = "train_seconds"
SLOT_SUFFIXES = ("/adam_m", "/adam_v")

# Files store training state that the original lacks under this scope. Loaders
# such as transformers' skip names with a part `global_step`, but fail on names
# that they do not know. Files of this project's older versions lack the scope.
_STATE_SCOPE = f"{GLOBAL_STEP}/"

WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"

# Keras numbers unnamed layers across the program: layer_normalization_3.
_LAYER_NORM = re.compile(r"/layer_norm(alization)?(_\d+)?(?=/)")

_LAYER = re.compile(r"bert/encoder/layer_\d+(?=/)")

# Part of a variable's name in another model, and the name of that model.
_OTHER_MODELS = {
  "inner_group_": "ALBERT",
  "electra/": "ELECTRA",
  "discriminator_predictions/": "ELECTRA",
  "generator_predictions/": "ELECTRA",
  "/bottleneck/": "MobileBERT",
  "roberta/": "RoBERTa",
  "model/transformer/": "XLNet",
}

# Maximum number of names that a message lists.
_MAX_NAMED = 10


def parameters(names: Iterable[str]) -> list[str]:
  """Returns the sorted names of model variables, without training state.

  If X is a variable, X/SLOT is a slot of an optimizer, such as Adam's moments.
  """
  names = set(names)
  return sorted(
    name
    for name in names
    if not name.endswith(SLOT_SUFFIXES)
    and name.rpartition("/")[0] not in names
    and name != GLOBAL_STEP
    and not _is_own_state(name)
  )


def _is_own_state(name: str) -> bool:
  """Returns whether a name is training state that the original lacks."""
  names = (TRAIN_SECONDS, *mixed_precision.STATE)
  return name in names or name.endswith(lora.STATE_SUFFIXES)


def to_key(name: str) -> str:
  """Returns a tensor's key in a checkpoint file: its name or a scoped name."""
  return _STATE_SCOPE + name if _is_own_state(name) else name


def from_key(key: str) -> str:
  """Returns a tensor's name for its key in a checkpoint file."""
  name = key.removeprefix(_STATE_SCOPE)
  return name if _is_own_state(name) else key


def original_names(names: Collection[str]) -> dict[str, str]:
  """Maps the original's name of each variable to the name in the checkpoint.

  Two differences are resolved: a scope around the whole model, such as
  `module/bert/...`, and layer norms that Keras named. A variable keeps the name
  in the checkpoint if another variable would get the same name.
  """
  scopes = [] if WORD_EMBEDDINGS in names else _scopes_of_berts(names)
  scope = scopes[0] if len(scopes) == 1 else ""
  renamed = {}
  for name in names:
    new = name.removeprefix(scope)
    is_of_bert = new.startswith(("bert/", "cls/"))
    renamed[name] = _LAYER_NORM.sub("/LayerNorm", new) if is_of_bert else new
  counts = collections.Counter(renamed.values())
  return {
    new if counts[new] == 1 else name: name for name, new in renamed.items()
  }


def by_original_name(path: str, keys: Mapping[str, str]) -> dict[str, str]:
  """Returns a checkpoint's keys by original name; logs renamed variables."""
  names = original_names(keys)
  _log_renamed(
    path, tuple((old, new) for new, old in names.items() if new != old)
  )
  return {new: keys[name] for new, name in names.items()}


@functools.cache
def _log_renamed(path: str, pairs: tuple[tuple[str, str], ...]) -> None:
  """Logs how many variables were renamed, with an example, once per path."""
  if pairs:
    logging.info(
      "%s has %d variables with other names than the original release: %s is "
      "read as %s.",
      path,
      len(pairs),
      *pairs[0],
    )


def _scopes_of_berts(names: Iterable[str]) -> list[str]:
  """Returns the scopes that hold a BERT, such as "module/"."""
  end = f"/{WORD_EMBEDDINGS}"
  return sorted(n.removesuffix(end[1:]) for n in names if n.endswith(end))


def check_is_bert(path: str, names: Collection[str]) -> None:
  """Raises ValueError if a checkpoint holds no BERT, naming its model if known.

  Args:
    path: path of the checkpoint, for the message.
    names: names of the checkpoint's variables, without the training state.
  """
  if WORD_EMBEDDINGS not in names or _other_model(names):
    raise ValueError(
      f"{path} holds no BERT that can be read: {_description(names)}"
    )


def warn_of_unused(
  path: str, names: Iterable[str], model_names: Collection[str]
) -> None:
  """Warns if a checkpoint's encoder has variables that the model lacks.

  The original ignores such variables without a warning. With a wrong config,
  the model may then have only some of the trained layers.
  """
  unused = _unused(names, model_names)
  if unused:
    logging.warning(
      "%s also holds %s, which the model of the config lacks and does not use; "
      "check the config, such as num_hidden_layers.",
      path,
      listed(unused, model_names),
    )


def check_fits(
  path: str,
  shapes: Mapping[str, tuple[int, ...]],
  variables: Mapping[str, keras.Variable],
  missing: Sequence[str],
) -> None:
  """Raises ValueError if variables are missing or differ in shape.

  Args:
    path: path of the checkpoint, for the message.
    shapes: shapes of the checkpoint's tensors, by name.
    variables: the model's variables, by name.
    missing: names of required variables that the checkpoint lacks.
  """
  differing = [
    f"{name} is {shapes[name]}, the model's {tuple(variable.shape)}"
    for name, variable in variables.items()
    if name in shapes and shapes[name] != tuple(variable.shape)
  ]
  names = parameters(shapes)
  faults = []
  if missing:
    if any(n.startswith("bert/") for n in missing):
      check_is_bert(path, names)
    fault = f"it lacks {listed(missing, names)}"
    if unused := _unused(names, variables):
      fault += f"; it has {listed(unused, variables)}, which the model lacks"
    faults.append(fault)
  faults += [f"shapes differ: {'; '.join(differing)}"] if differing else []
  if faults:
    raise ValueError(
      f"{path} does not fit the model of the config: {'; '.join(faults)}."
    )


def _description(names: Collection[str]) -> str:
  """Describes a checkpoint that does not hold just one BERT, with a remedy."""
  model = _other_model(names)
  if model:
    return (
      f"it is a checkpoint of {model}, which has another architecture than "
      "BERT; use a BERT checkpoint."
    )
  scopes = _scopes_of_berts(names)
  if len(scopes) > 1:
    scope_names = errors.join_names(scopes, _MAX_NAMED)
    return (
      f"it holds {len(scopes)} BERTs, in {scope_names}; "
      "save the variables of one of them in a checkpoint of its own."
    )
  tops = sorted({"/".join(name.split("/")[:2]) for name in names})
  top_names = errors.join_names(tops, _MAX_NAMED)
  return (
    f"it has no {WORD_EMBEDDINGS}, but {top_names}. If it is a BERT, "
    "rename its variables as in a released checkpoint: bert/embeddings/..., "
    "bert/encoder/layer_0/..., bert/pooler/dense/... A "
    "model that was trained on features has no encoder."
  )


def _other_model(names: Iterable[str]) -> str | None:
  """Returns the non-BERT model that has such variables; None if unknown."""
  return next(
    (
      model
      for part, model in _OTHER_MODELS.items()
      if any(part in f"/{name}" for name in names)
    ),
    None,
  )


def _unused(names: Iterable[str], model_names: Collection[str]) -> list[str]:
  """Returns the names in a checkpoint's encoder that the model lacks."""
  return [
    name
    for name in names
    if name.startswith("bert/") and name not in model_names
  ]


def listed(names: Iterable[str], others: Iterable[str]) -> str:
  """Joins names for a message; a whole encoder layer appears as one name.

  Args:
    names: names to list.
    others: variables of the other side, model or checkpoint. A layer with
      variables there is not whole, so its names are listed one by one.
  """
  layers = {_layer(name) for name in others}
  short = (
    layer if (layer := _layer(name)) and layer not in layers else name
    for name in names
  )
  return errors.join_names(list(dict.fromkeys(short)), _MAX_NAMED)


def _layer(name: str) -> str:
  """Returns the encoder layer of a variable; "" outside the layers."""
  match = _LAYER.match(name)
  return match[0] if match else ""
