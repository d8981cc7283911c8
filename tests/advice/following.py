"""Provokes a message, follows its advice, and checks that it is gone."""

import pathlib
import shutil
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import pytest

from bert_tf import checkpoints, heads, modeling
from bert_tf.server import limits
from tests.advice import messages
from tests.support import runs, tiny_models


class World(NamedTuple):
  """A folder for one case, and models that cases share."""

  folder: pathlib.Path  # Working directory of the case.
  models: pathlib.Path  # Folder of the shared models.

  def path(self, name: str) -> str:
    """Returns a path in the folder of the case."""
    return str(self.folder / name)

  def write(self, name: str, content: str | bytes) -> str:
    """Writes a file in the folder of the case; returns its path."""
    path = self.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    return str(path)

  def model(self, name: str) -> str:
    """Returns the folder of a shared model, which must not be changed."""
    return str(self.models / name)

  def copy(self, name: str, without: tuple[str, ...] = ()) -> str:
    """Returns a copy of a shared model, without some of its files."""
    target = self.folder / name
    if not target.exists():
      ignore = shutil.ignore_patterns(*without)
      shutil.copytree(self.models / name, target, ignore=ignore)
    return str(target)


class Case(NamedTuple):
  """A message, the mistake that raises it, and the advised call."""

  where: str  # "module function" of the message.
  names: tuple[str, ...]  # Values that the message must name.
  broken: Callable[[World], Any]  # Provokes the message.
  advised: Callable[[World], Any]  # Follows the advice.


class Warned(Case):
  """A message that is logged, not raised."""


class Returned(Case):
  """A message that the function returns and its caller raises."""


# Errors that a user's mistake may raise. TypeError: a wrong argument in Python.
_ERRORS = (
  ValueError,
  OSError,
  ImportError,
  TypeError,
  RuntimeError,
  limits.HttpError,
)


def _origin(error: BaseException) -> str:
  """Returns the "module function" that raised an error."""
  frames = traceback.extract_tb(error.__traceback__)
  frame = [f for f in frames if f.filename.startswith(str(messages.PACKAGE))]
  path = pathlib.Path(frame[-1].filename).relative_to(messages.PACKAGE)
  module = path.with_suffix("").as_posix().replace("/", ".")
  return f"{module} {frame[-1].name}"


def follow(case: Case, world: World) -> None:
  """Asserts that the message appears and that its advice helps."""
  if isinstance(case, Warned):
    with runs.logged() as log:
      case.broken(world)
      assert all(name in log() for name in case.names), log()
    with runs.logged() as log:
      case.advised(world)
      assert not all(name in log() for name in case.names), log()
    return
  with pytest.raises(_ERRORS) as error:
    case.broken(world)
  if not isinstance(case, Returned):
    assert _origin(error.value) == case.where, error.value
  for name in case.names:
    assert name in str(error.value)
  case.advised(world)


def write_models(folder: pathlib.Path) -> None:
  """Writes the models that cases share."""
  keras.utils.set_random_seed(1)
  config = tiny_models.CONFIG
  tiny_models.write_classifier(folder / "classifier")
  pretraining = heads.PretrainingModel(config)
  tiny_models.write_run(folder / "pretraining", pretraining)
  tiny_models.write_run(folder / "squad", heads.SpanModel(config))
  tiny_models.write_run(folder / "encoder", modeling.BertModel(config))
  for step in (1, 2):
    tiny_models.write_run(folder / "two_steps", pretraining, step=step)
  newest = checkpoints.find_latest(str(folder / "pretraining"))
  assert newest
