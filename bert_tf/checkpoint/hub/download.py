"""Downloads models and data sets by name."""

import os
import tempfile
import zipfile
from urllib import parse

import filelock
from absl import logging

from bert_tf.checkpoint.hub import cache, catalog
from bert_tf.files import atomic, errors, packages, paths

# Longest time to connect, and to wait for the next bytes.
_TIMEOUT_SECONDS = (15, 60)
_BLOCK_BYTES = 1 << 16

# Files of a Hugging Face model that this package reads.
_HUGGING_FACE_FILES = [
  "config.json",
  "model.safetensors",
  "vocab.txt",
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  # Files of sentence-transformers.
  "modules.json",
  "config_sentence_transformers.json",
  "sentence_bert_config.json",
  "1_Pooling/config.json",
]


def download(name: str, base_url: str | None = None) -> str:
  """Downloads a model or a data set, if it is not in the cache yet.

  Later calls need no network. If two processes download the same name, one of
  them waits.

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

  Examples:
    >>> folder = bert_tf.download("uncased_L-2_H-128_A-2")
    >>> model = bert_tf.load(folder)

    Once it is here, its name stands for its folder:

    >>> model = bert_tf.load("uncased_L-2_H-128_A-2")
  """
  source = catalog.get_source(name)
  folder = cache.get_folder(source)
  if cache.is_downloaded(source):
    return folder
  atomic.check_writable(cache.find_home(), cache.HOME_VARIABLE, is_folder=True)
  paths.make_folder(os.path.dirname(folder))
  with filelock.FileLock(atomic.hidden(folder, "lock")):
    if cache.is_downloaded(source):  # By another process.
      return folder
    with atomic.folder(folder, source.files[0], replaces=True) as unfinished:
      if source.links:
        for link in source.links:
          _fetch(link, unfinished, base_url)
      else:
        _fetch_from_hugging_face(source.name, unfinished, base_url)
      if source.complete:
        source.complete(unfinished)
      for file in source.files:
        if not os.path.exists(os.path.join(unfinished, file)):
          raise ValueError(f"the download of {name} lacks {file}.")
      if source.file_sha256:
        first = os.path.join(unfinished, source.files[0])
        _check_hash(first, source.file_sha256)
      elif not source.links or not all(link.sha256 for link in source.links):
        logging.warning(f"{name} has no published hash to compare with.")
  return folder


def _fetch_from_hugging_face(
  name: str, folder: str, base_url: str | None
) -> None:
  with packages.needs_extra("downloading from Hugging Face", "hf"):
    import huggingface_hub
  try:
    # An empty folder cannot pass for an earlier complete download.
    huggingface_hub.snapshot_download(
      name.removeprefix(catalog.HUGGING_FACE),
      endpoint=base_url,
      allow_patterns=_HUGGING_FACE_FILES,
      local_dir=folder,
    )
  except Exception as error:  # The errors have no common base class.
    reason = errors.reason(error)
    raise OSError(f"cannot download {name}: {reason}") from error
  paths.remove(os.path.join(folder, ".cache"))  # Of huggingface_hub.


def _fetch(link: catalog.Link, folder: str, base_url: str | None) -> None:
  import requests  # Takes a moment.
  import tqdm

  url, url_path = link.url, parse.urlsplit(link.url).path
  if base_url:
    url = base_url.rstrip("/") + url_path
  path = os.path.join(folder, link.file or os.path.basename(url_path))
  logging.info("Downloading %s.", url)
  try:
    with (
      requests.get(
        url,
        headers={"Accept-Encoding": "identity"},
        stream=True,
        timeout=_TIMEOUT_SECONDS,
      ) as response,
      open(path, "wb") as writer,
    ):
      response.raise_for_status()
      with tqdm.tqdm(
        desc=os.path.basename(path),
        total=int(response.headers.get("Content-Length", 0)) or None,
        unit="B",
        unit_scale=True,
        disable=None,  # Shown in a terminal only.
      ) as bar:
        for block in response.iter_content(_BLOCK_BYTES):
          writer.write(block)
          bar.update(len(block))
  # A ValueError is that of a Content-Length that is no number.
  except (requests.RequestException, ValueError) as error:
    raise OSError(
      f"cannot download {url}: {error}. `base_url` can name a mirror."
    ) from error
  if link.sha256:
    _check_hash(path, link.sha256)
  if not link.file:
    _unpack(path, folder)
    os.remove(path)


def _check_hash(path: str, sha256: str) -> None:
  if paths.sha256(path) != sha256:
    raise ValueError(
      f"{os.path.basename(path)} is not the published file: its SHA-256 is not "
      f"{sha256}."
    )


def _unpack(path: str, folder: str) -> None:
  """Unpacks a zip into a folder, without the zip's only top folder, if any."""
  with tempfile.TemporaryDirectory(dir=folder) as unpacked:
    with errors.reading(os.path.basename(path)):
      with zipfile.ZipFile(path) as archive:
        archive.extractall(unpacked)
    paths.remove(os.path.join(unpacked, "__MACOSX"))
    top = unpacked
    if len(names := os.listdir(unpacked)) == 1:
      top = os.path.join(unpacked, names[0])
    for name in os.listdir(top):
      os.rename(os.path.join(top, name), os.path.join(folder, name))
