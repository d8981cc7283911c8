"""Downloads models and data sets by name."""

import contextlib
import os
import pathlib
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from urllib import parse

from absl import logging

from bert_tf.files import atomic, errors, paths
from bert_tf.hub import cache, catalog, sources

# Files of a Hugging Face model that this package reads.
_HUGGING_FACE_FILES = (
  "model.safetensors",
  "config.json",
  "vocab.txt",
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  # Files of sentence-transformers.
  "modules.json",
  "sentence_bert_config.json",
  "1_Pooling/config.json",
)


def download(name: str, base_url: str | None = None) -> str:
  """Downloads a model or a data set, if it is not in the cache yet.

  The cache is the folder BERT_TF_HOME, by default a folder in the user's cache
  folder. A download that was cut off continues at the next call. Later calls
  need no network.

  ```python
  folder = bert_tf.download("uncased_L-2_H-128_A-2")
  encoder = bert_tf.BertModel.from_pretrained("uncased_L-2_H-128_A-2")
  ```

  Args:
    name: the name of a released model or of a data set, as `bert-tf download`
      lists them, or hf:OWNER/NAME for a model of Hugging Face.
    base_url: address of a mirror. It replaces https://HOST in the addresses;
      for Hugging Face, it replaces https://huggingface.co.

  Returns:
    The folder of the model or of the data.

  Raises:
    ValueError: if the name is unknown, or if a file is missing, damaged or not
      the published one.
    OSError: if the server cannot be reached or refuses, or the disk is full.
    ImportError: for a Hugging Face model, if huggingface_hub is missing.
  """
  if name.startswith(catalog.HUGGING_FACE):
    return _download_from_hugging_face(name, base_url)
  source = catalog.get(name)
  folder = cache.get_folder(source)
  if cache.is_here(source):
    return folder
  with _explain_full_disk(source), cache.unfinished_folder(source.name) as work:
    if not cache.is_here(source):  # Another process has just downloaded it.
      _download(source, folder, work, base_url)
  return folder


def _download(
  source: sources.Source, folder: str, work: str, base_url: str | None
) -> None:
  """Downloads a source into `work` and moves it to `folder` when complete."""
  from bert_tf.hub import transfer  # Imports requests, which takes a moment.

  files = [transfer.fetch(link, work, base_url) for link in source.links]
  try:
    with atomic.folder(folder, source.files[0], replaces=True) as unfinished:
      for link, file in zip(source.links, files):
        if link.file:
          paths.link(file, os.path.join(unfinished, link.file))
        else:
          unpack(file, unfinished)
      if source.finish:
        source.finish(unfinished)
      _check_files(source, unfinished)
  except ValueError:
    for file in files:  # Otherwise the next call would use these wrong files.
      paths.remove(file)
    raise
  for link, file in zip(source.links, files):
    _compare_with_first_download(link, file)


def _compare_with_first_download(link: sources.Link, file: str) -> None:
  """Warns if a file without a published hash differs from its first download.

  The first download of a file writes its hash into the cache, below `hashes`.
  """
  if link.sha256:
    return
  address = parse.urlsplit(link.url)
  hash_file = os.path.join(
    cache.home(), "hashes", address.netloc, f"{address.path[1:]}.sha256"
  )
  sha256 = paths.sha256(file)
  if not os.path.exists(hash_file):
    atomic.write_lines(hash_file, [sha256])
  elif (first := paths.read_text(hash_file).strip()) != sha256:
    logging.warning(
      "%s has changed since the first download: its SHA-256 was %s and is %s. "
      "Remove %s to accept it.",
      link.url,
      first,
      sha256,
      hash_file,
    )


def _check_files(source: sources.Source, folder: str) -> None:
  """Raises ValueError if a file is missing or `files[0]` has a wrong hash."""
  missing = [
    name
    for name in source.files
    if not os.path.exists(os.path.join(folder, name))
  ]
  if missing:
    raise ValueError(
      f"the download of {source.name} lacks {errors.join_names(missing)}; try "
      "again, or give another address by `base_url`."
    )
  if source.file_sha256:
    sha256 = paths.sha256(os.path.join(folder, source.files[0]))
    if sha256 != source.file_sha256:
      raise ValueError(
        f"the download of {source.name} is not the published model: the "
        f"SHA-256 of its {source.files[0]} is {sha256}, not "
        f"{source.file_sha256}. Try again, or give another address by "
        "`base_url`."
      )


def unpack(path: str, folder: str) -> None:
  """Unpacks a zip into a folder, without the zip's only top folder, if any.

  Raises:
    ValueError: if the zip is damaged, or a name in it leads out of the folder.
  """
  with errors.reading(path), zipfile.ZipFile(path) as archive:
    members = [
      member
      for member in archive.infolist()
      if not member.is_dir() and not member.filename.startswith("__MACOSX/")
    ]
    names = [pathlib.PurePosixPath(member.filename) for member in members]
    _check_stay_inside(path, names)
    has_top = len({name.parts[0] for name in names}) == 1
    num_dropped = int(has_top and all(len(name.parts) > 1 for name in names))
    for member, name in zip(members, names):
      target = os.path.join(folder, *name.parts[num_dropped:])
      os.makedirs(os.path.dirname(target), exist_ok=True)
      with archive.open(member) as reader, open(target, "wb") as writer:
        shutil.copyfileobj(reader, writer)


def _check_stay_inside(
  path: str, names: Sequence[pathlib.PurePosixPath]
) -> None:
  """Raises DamagedFileError if a file may be written outside of the folder.

  Refuses absolute names and "..". Also refuses backslashes and colons, which
  separate folders and drives on Windows.
  """
  for name in names:
    if name.is_absolute() or {"..", "\\", ":"} & {*name.parts, *str(name)}:
      raise errors.DamagedFileError(
        f"{path} was not unpacked: it has a file {str(name)!r}, which would be "
        "written outside of the folder."
      )


@contextlib.contextmanager
def _explain_full_disk(source: sources.Source) -> Iterator[None]:
  """Names the needed space and what to do if the disk is full."""
  try:
    yield
  except OSError as error:
    if error.errno not in atomic.FULL:
      raise
    # The zip and its unpacked files are on the disk at the same time.
    needed = 2 * source.num_bytes / 1e6
    raise OSError(
      f"{source.name} needs {needed:,.0f} MB while it is downloaded, but "
      f"{cache.home()} is full ({error.strerror}). Free some space, or set "
      f"{cache.HOME_VARIABLE} to a folder on another disk."
    ) from error


def _download_from_hugging_face(name: str, base_url: str | None) -> str:
  """Downloads hf:OWNER/NAME; see `download`."""
  folder = cache.hugging_face_folder(name)
  if os.path.isdir(folder):
    return folder
  repository = name.removeprefix(catalog.HUGGING_FACE)
  with cache.unfinished_folder(f"hf/{repository}") as work:
    if os.path.isdir(folder):  # Another process has just downloaded it.
      return folder
    try:
      files = _fetch_repository(repository, work, base_url)
    except ImportError:
      raise
    except Exception as error:  # The errors have no common base class.
      raise OSError(
        f"cannot download {name}: {errors.reason(error).rstrip('.')}. Set "
        "HTTPS_PROXY for a proxy, or HF_ENDPOINT or `base_url` for a mirror."
      ) from error
    if not {"model.safetensors", "config.json"} <= set(files):
      raise ValueError(
        f"{name} has no config.json and model.safetensors. Save the model by "
        "save_pretrained(folder) of transformers and give that folder."
      )
    with atomic.folder(folder, files[0]) as unfinished:
      for file in files:
        target = os.path.join(unfinished, file)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        paths.link(os.path.join(work, file), target)
  return folder


def _fetch_repository(
  repository: str, folder: str, base_url: str | None
) -> list[str]:
  """Downloads the files that this package reads; returns their names."""
  with errors.needs_extra("downloading from Hugging Face", "hf"):
    import huggingface_hub
    from huggingface_hub import utils
  if not sys.stderr.isatty():
    utils.disable_progress_bars()
  api = huggingface_hub.HfApi(endpoint=base_url)
  info = api.model_info(repository)
  names = {file.rfilename for file in info.siblings or ()}
  files = [name for name in _HUGGING_FACE_FILES if name in names]
  api.snapshot_download(
    repository, revision=info.sha, allow_patterns=files, local_dir=folder
  )
  # Without a connection, snapshot_download only warns.
  if not all(os.path.exists(os.path.join(folder, name)) for name in files):
    raise ConnectionError("the connection was lost; the same command continues")
  return files
