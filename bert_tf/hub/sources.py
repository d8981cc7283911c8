"""A model or data set to download, and its files."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Link:
  """A file to download.

  Attributes:
    url: address of the file.
    sha256: published hash of the file; None if none is published.
    file: name of the file in the source's folder; "" for a zip to unpack.
  """

  url: str
  sha256: str | None = None
  file: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
  """A model or a data set.

  Attributes:
    name: the name for `bert-tf download`.
    title: a short description.
    is_model: whether the source is a model rather than a data set.
    links: the files to download.
    num_bytes: bytes of all downloads; for a model, about the bytes of the
      checkpoint.
    files: files that the complete folder must have.
    file_sha256: hash of the first of `files`; None if none is published.
    finish: completes the folder, given its path; None if nothing is missing.
  """

  name: str
  title: str
  is_model: bool = False
  links: tuple[Link, ...]
  num_bytes: int
  files: tuple[str, ...]
  file_sha256: str | None = None
  finish: Callable[[str], None] | None = None
