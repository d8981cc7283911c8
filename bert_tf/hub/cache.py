"""The cache: `models` and `data` are complete, `unfinished` is not."""

import contextlib
import glob
import os
from collections.abc import Iterator

import filelock
import platformdirs

from bert_tf.files import atomic, paths
from bert_tf.hub import catalog, sources

HOME_VARIABLE = "BERT_TF_HOME"


def home() -> str:
  """Returns the folder of the cache: BERT_TF_HOME or its default.

  The default is `bert_tf` in the user's cache folder.

  Raises:
    ValueError: if BERT_TF_HOME is a remote folder.
  """
  folder = os.environ.get(HOME_VARIABLE)
  folder = folder or platformdirs.user_cache_dir("bert_tf", False)
  if paths.is_remote(folder):
    raise ValueError(f"{HOME_VARIABLE} {folder} must be a local folder.")
  return os.path.abspath(os.path.expanduser(folder))


def get_folder(source: sources.Source) -> str:
  """Returns the cache's folder for a source; the folder may not exist."""
  return os.path.join(
    home(), "models" if source.is_model else "data", source.name
  )


def is_here(source: sources.Source) -> bool:
  """Returns whether the cache has all files of a source."""
  folder = get_folder(source)
  return all(os.path.exists(os.path.join(folder, f)) for f in source.files)


def hugging_face_folder(name: str) -> str:
  """Returns the cache's folder for a Hugging Face model; it may not exist.

  Args:
    name: hf:OWNER/NAME.

  Raises:
    ValueError: if the name has another form.
  """
  parts = name.removeprefix(catalog.HUGGING_FACE).split("/")
  if len(parts) != 2 or not all(part.strip(".") for part in parts):
    raise ValueError(f"{name} is not of the form hf:OWNER/NAME.")
  return os.path.join(home(), "models", "hf", *parts)


def list_hugging_face() -> list[str]:
  """Returns the names hf:OWNER/NAME of the downloaded Hugging Face models."""
  root = os.path.join(home(), "models", "hf")
  return [
    catalog.HUGGING_FACE + os.path.relpath(folder, root).replace(os.sep, "/")
    for folder in paths.matches(os.path.join(glob.escape(root), "*", "*"))
  ]


def resolve_model(path: str) -> str:
  """Resolves the name of a downloaded model to its folder.

  Returns any other path unchanged, also a path that exists and equals the name
  of a model.

  Raises:
    ValueError: if the model is known but not downloaded.
  """
  if paths.is_remote(path) or any(
    os.path.exists(p) for p in (path, f"{path}.index")
  ):
    return path
  if path.startswith(catalog.HUGGING_FACE):
    folder = hugging_face_folder(path)
    is_downloaded = os.path.isdir(folder)
  elif (source := catalog.find(path)) and source.is_model:
    folder, is_downloaded = get_folder(source), is_here(source)
    path = source.name
  else:
    return path
  if not is_downloaded:
    raise ValueError(f"{path} is not here; run: bert-tf download {path}")
  return folder


@contextlib.contextmanager
def unfinished_folder(name: str) -> Iterator[str]:
  """Yields a folder for an unfinished download and locks it in this scope.

  Waits while another process holds the lock. If the body raises, the files
  stay, so that a later download can continue. Otherwise removes the folder.

  Args:
    name: the name of the download, which may contain slashes.

  Raises:
    OSError: if the cache cannot be written.
  """
  atomic.check_writable(home(), HOME_VARIABLE, is_folder=True)
  folder = os.path.join(home(), "unfinished", *name.split("/"))
  paths.make_folder(os.path.dirname(folder))
  with filelock.FileLock(f"{folder}.lock"):
    paths.make_folder(folder)
    yield folder
    paths.remove(folder)
