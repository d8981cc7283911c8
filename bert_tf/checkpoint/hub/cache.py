"""The cache: `models` and `data`, whose folders are complete."""

import os

import platformdirs

from bert_tf.checkpoint.hub import catalog
from bert_tf.files import paths

HOME_VARIABLE = "BERT_TF_HOME"


def find_home() -> str:
  """Returns the folder of the cache: BERT_TF_HOME or its default.

  The default is `bert_tf` in the user's cache folder. Raises ValueError if
  BERT_TF_HOME is a remote folder.
  """
  folder = os.environ.get(HOME_VARIABLE)
  folder = folder or platformdirs.user_cache_dir("bert_tf", False)
  if paths.is_remote(folder):
    raise ValueError(f"{HOME_VARIABLE} {folder} must be a local folder.")
  return os.path.abspath(os.path.expanduser(folder))


def get_folder(source: catalog.Source) -> str:
  """Returns the cache's folder for a source, which may not exist."""
  parent = "models" if source.is_model else "data"
  return os.path.join(find_home(), parent, source.name.replace(":", "/"))


def is_downloaded(source: catalog.Source) -> bool:
  """Returns whether the cache has all files of a source."""
  folder = get_folder(source)
  return all(os.path.exists(os.path.join(folder, f)) for f in source.files)


def resolve_model(path: str) -> str:
  """Resolves the name of a downloaded model to its folder.

  A path that exists comes first and is returned unchanged.

  Raises:
    FileNotFoundError: if there is neither such a path nor such a name.
    ValueError: if the model is known but not downloaded.
  """
  if paths.is_remote(path) or any(
    os.path.exists(p) for p in (path, f"{path}.index")
  ):
    return path
  source = catalog.find_source(path)
  if not source or not source.is_model:
    raise MissingModelError(
      f"model {path!r} not found: there is neither such a folder nor "
      f"{path}.index. bert-tf download lists the models that you can get, and "
      "bert-tf download hf:OWNER/NAME gets one from Hugging Face."
    )
  if not is_downloaded(source):
    name = source.name
    raise ValueError(f"{name} is not here; run: bert-tf download {name}")
  return get_folder(source)


class MissingModelError(FileNotFoundError, ValueError):
  """There is no such model."""
