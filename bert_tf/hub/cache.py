"""The cache: `models` and `data`, whose folders are complete."""

import os

import platformdirs

from bert_tf.files import paths
from bert_tf.hub import catalog

HOME_VARIABLE = "BERT_TF_HOME"
HUGGING_FACE_FILES: tuple[str, ...] = ("config.json", "model.safetensors")


class MissingModelError(FileNotFoundError, ValueError):
  """There is no such model."""


def home() -> str:
  """The folder of the cache: BERT_TF_HOME or its default.

  The default is `bert_tf` in the user's cache folder.

  Raises:
    ValueError: if BERT_TF_HOME is a remote folder.
  """
  folder = os.environ.get(HOME_VARIABLE)
  folder = folder or platformdirs.user_cache_dir("bert_tf", False)
  if paths.is_remote(folder):
    raise ValueError(f"{HOME_VARIABLE} {folder} must be a local folder.")
  return os.path.abspath(os.path.expanduser(folder))


def get_folder(source: catalog.Source) -> str:
  """The cache's folder for a source, which may not exist."""
  return os.path.join(
    home(), "models" if source.is_model else "data", source.name
  )


def is_here(source: catalog.Source) -> bool:
  """Returns whether the cache has all files of a source."""
  return has_files(get_folder(source), source.files)


def has_files(folder: str, files: tuple[str, ...]) -> bool:
  """Returns whether a folder has all of the files."""
  return all(os.path.exists(os.path.join(folder, file)) for file in files)


def hugging_face_folder(name: str) -> str:
  """The cache's folder for hf:OWNER/NAME, which may not exist.

  Raises:
    ValueError: if the name has another form.
  """
  parts = name.removeprefix(catalog.HUGGING_FACE).split("/")
  if len(parts) != 2 or not all(part.strip(".") for part in parts):
    raise ValueError(f"{name} is not of the form hf:OWNER/NAME.")
  return os.path.join(home(), "models", "hf", *parts)


def resolve_model(path: str) -> str:
  """Resolves the name of a downloaded model to its folder.

  A path that exists comes first and is returned unchanged.

  Raises:
    MissingModelError: if there is neither such a path nor such a name.
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
    raise MissingModelError(
      f"model {path!r} not found: there is neither such a folder nor "
      f"{path}.index. bert-tf download lists the models that you can get, and "
      "bert-tf download hf:OWNER/NAME gets one from Hugging Face."
    )
  if not is_downloaded:
    raise ValueError(f"{path} is not here; run: bert-tf download {path}")
  return folder
