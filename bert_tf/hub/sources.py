"""A model or data set to download, and its files."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Link:
  """A file to download.

  Attributes:
    url: its address.
    sha256: its hash; None if none is published.
    file: its name in the folder of the source; empty for a zip to unpack.
  """

  url: str
  sha256: str | None = None
  file: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
  """A model or a data set.

  Attributes:
    name: its name for `bert-tf download`.
    title: a short description.
    is_model: whether it is a model rather than data.
    links: the files to download.
    num_bytes: size of the downloads; for a model, of its checkpoint.
    files: files that its folder must have.
    next_command: a command to run next. {folder} is the folder.
    other_names: names that users may know it by.
    file_sha256: hash of the first of `files`; None if none is published.
    finish: completes the unpacked folder.
  """

  name: str
  title: str
  is_model: bool = False
  links: tuple[Link, ...]
  num_bytes: int
  files: tuple[str, ...]
  next_command: str
  other_names: tuple[str, ...] = ()
  file_sha256: str | None = None
  finish: Callable[[str], None] | None = None
