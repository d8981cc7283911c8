"""Opens files as they are stored, or decompresses .gz and .bz2."""

import bz2
import contextlib
import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from bert_tf.files import paths

SUFFIXES = (".gz", ".bz2")


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
  """Opens a file to read its content, decompressed by the end of its name.

  Raises:
    ValueError: if a compressed file is damaged or cut off, as it is read.
    OSError: if the file cannot be read.
  """
  with paths.open_bytes(path) as stored:
    if not path.endswith(SUFFIXES):
      yield stored
      return
    try:
      with decompressed(path, stored) as reader:
        yield reader
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
      raise _damaged(path, error) from None
    except OSError as error:
      if error.errno is not None:  # Of the system, not of bz2.
        raise
      raise _damaged(path, error) from None


def decompressed(path: str, stored: BinaryIO) -> BinaryIO:
  """Returns a reader of what a file that is open holds."""
  if path.endswith(".gz"):
    return cast(BinaryIO, gzip.GzipFile(fileobj=stored))
  return cast(BinaryIO, bz2.BZ2File(stored))


def _damaged(path: str, error: Exception) -> ValueError:
  kind = "gzip" if path.endswith(".gz") else "bzip2"
  return ValueError(
    f"{path}: not a whole {kind} file ({error}); fetch it again."
  )
