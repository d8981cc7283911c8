"""Downloads models and data sets by name."""

import os
import tempfile
import zipfile
import zlib
from urllib import parse

from absl import logging

from bert_tf.files import atomic, errors, paths
from bert_tf.hub import cache, catalog, sources

# Longest time to connect, and to wait for the next bytes.
_TIMEOUT_SECONDS = (15, 60)
_BLOCK_BYTES = 1 << 16

# Files of a Hugging Face model that this package reads.
_HUGGING_FACE_FILES = {
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
}


def download(name: str, base_url: str | None = None) -> str:
  """Downloads a model or a data set, if it is not in the cache yet.

  A download that was cut off continues at the next call. Later calls need no
  network.

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
  if cache.is_here(source):
    return cache.get_folder(source)
  try:
    with cache.unfinished_folder(source.name) as work:
      if not cache.is_here(source):  # Another process has just downloaded it.
        _download(source, work, base_url)
  except OSError as error:
    if error.errno not in atomic.FULL:
      raise
    raise OSError(
      f"{cache.HOME_VARIABLE} {cache.home()} is full ({error.strerror})."
    ) from error
  return cache.get_folder(source)


def _download(source: sources.Source, work: str, base_url: str | None) -> None:
  """Downloads a source into `work` and moves it to the cache when complete."""
  files = [_fetch(link, work, base_url) for link in source.links]
  folder = cache.get_folder(source)
  try:
    with atomic.folder(folder, source.files[0], replaces=True) as unfinished:
      for link, file in zip(source.links, files):
        if link.file:
          paths.rename(file, os.path.join(unfinished, link.file))
        else:
          _unpack(file, unfinished)
      if source.finish:
        source.finish(unfinished)
      for name in source.files:
        if not os.path.exists(os.path.join(unfinished, name)):
          raise ValueError(f"the download of {source.name} lacks {name}.")
      first = os.path.join(unfinished, source.files[0])
      if source.file_sha256 not in (None, paths.sha256(first)):
        raise ValueError(
          f"{source.files[0]} of {source.name} is not the published one: its "
          "SHA-256 differs."
        )
  except ValueError:
    for file in files:  # Otherwise the next call would use these wrong files.
      paths.remove(file)
    raise


def _fetch(link: sources.Link, folder: str, base_url: str | None) -> str:
  """Downloads a file into a folder; returns its path."""
  import requests  # Takes a moment.

  url = link.url
  if base_url:
    url = base_url.rstrip("/") + parse.urlsplit(url).path
  file = os.path.join(folder, os.path.basename(parse.urlsplit(url).path))
  if os.path.exists(file):
    return file
  partial = f"{file}.partial"
  try:
    _transfer(url, partial)
  except requests.RequestException as error:
    raise OSError(
      f"cannot download {url}: {error}. The same command continues; `base_url` "
      "gives a mirror."
    ) from error
  if link.sha256 and paths.sha256(partial) != link.sha256:
    paths.remove(partial)
    raise ValueError(
      f"{url} is not the published file: its SHA-256 is not {link.sha256}."
    )
  os.replace(partial, file)
  return file


def _transfer(url: str, partial: str) -> None:
  """Downloads the rest of a partial file, or the whole file.

  If the file has changed meanwhile, its hash or a checksum in the zip differs.
  """
  import requests
  import tqdm

  offset = os.path.getsize(partial) if os.path.exists(partial) else 0
  headers = {"Accept-Encoding": "identity"}
  if offset:
    headers["Range"] = f"bytes={offset}-"
  logging.info("Downloading %s.", url)
  with requests.get(
    url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS
  ) as response:
    if response.status_code == requests.codes.requested_range_not_satisfiable:
      paths.remove(partial)  # It is not a part of this file.
      return _transfer(url, partial)
    response.raise_for_status()
    if response.status_code != requests.codes.partial_content:
      offset = 0
    total = offset + int(response.headers.get("Content-Length", 0))
    with (
      open(partial, "ab" if offset else "wb") as writer,
      tqdm.tqdm(
        desc=os.path.basename(partial),
        total=total or None,
        initial=offset,
        unit="B",
        unit_scale=True,
        disable=None,  # Shown in a terminal only.
      ) as bar,
    ):
      for block in response.iter_content(_BLOCK_BYTES):
        writer.write(block)
        bar.update(len(block))


def _unpack(path: str, folder: str) -> None:
  """Unpacks a zip into a folder, without the zip's only top folder, if any."""
  with tempfile.TemporaryDirectory(dir=folder) as unpacked:
    try:
      with zipfile.ZipFile(path) as archive:
        archive.extractall(unpacked)
    except (zipfile.BadZipFile, zlib.error) as error:
      raise ValueError(f"{path} is damaged: {error}.") from error
    paths.remove(os.path.join(unpacked, "__MACOSX"))
    top = unpacked
    if len(names := os.listdir(unpacked)) == 1:
      top = os.path.join(unpacked, names[0])
    for name in os.listdir(top):
      os.rename(os.path.join(top, name), os.path.join(folder, name))


def _download_from_hugging_face(name: str, base_url: str | None) -> str:
  """Downloads hf:OWNER/NAME; see `download`."""
  folder = cache.hugging_face_folder(name)
  if os.path.isdir(folder):
    return folder
  with errors.needs_extra("downloading from Hugging Face", "hf"):
    import huggingface_hub
  repository = name.removeprefix(catalog.HUGGING_FACE)
  with cache.unfinished_folder(f"hf/{repository}") as work:
    if os.path.isdir(folder):  # Another process has just downloaded it.
      return folder
    try:
      api = huggingface_hub.HfApi(endpoint=base_url)
      info = api.model_info(repository)
      files = {file.rfilename for file in info.siblings or ()}
      files &= _HUGGING_FACE_FILES
      api.snapshot_download(
        repository,
        revision=info.sha,
        allow_patterns=list(files),
        local_dir=work,
      )
    except Exception as error:  # The errors have no common base class.
      raise OSError(
        f"cannot download {name}: {errors.reason(error)}"
      ) from error
    # Without a connection, snapshot_download only warns.
    if not all(os.path.exists(os.path.join(work, file)) for file in files):
      raise OSError(f"cannot download {name}: the connection was lost.")
    if not {"model.safetensors", "config.json"} <= files:
      raise ValueError(f"{name} has no config.json and model.safetensors.")
    paths.remove(os.path.join(work, ".cache"))  # Of huggingface_hub.
    paths.make_folder(os.path.dirname(folder))
    os.rename(work, folder)
  return folder
