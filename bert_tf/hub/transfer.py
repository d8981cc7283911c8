"""Downloads one file, continuing an earlier download that was cut off.

pooch checks hashes and moves complete files into place, but it always restarts
a download from the beginning. This module gives pooch a downloader that asks
the server for the rest of the file (RFC 9110, sections 13.1.5 and 14).
"""

import os
import re
import sys
import time
from collections.abc import Iterator
from urllib import parse

import pooch
import requests
import tqdm
from absl import logging

from bert_tf.files import atomic, paths
from bert_tf.hub import sources

# Consecutive failures without progress after which a download ends.
_MAX_FAILURES = 3
_PAUSE_SECONDS = 2.0  # Time between two attempts.
# Longest time to connect, and to wait for the next bytes.
_TIMEOUT_SECONDS = (15, 60)
_BLOCK_BYTES = 1 << 16
_SECONDS_BETWEEN_LINES = 30  # Between log lines, without a terminal.


def fetch(link: sources.Link, folder: str, base_url: str | None) -> str:
  """Downloads a file into a folder, if it is not there yet.

  A download that fails leaves a partial file in the folder. The next call
  continues it.

  Args:
    link: the file.
    folder: the folder to write to.
    base_url: address of a mirror; see `mirror`.

  Returns:
    The path of the whole file.

  Raises:
    OSError: if the server cannot be reached or refuses, or the disk is full.
    ValueError: if the hash of the file differs from `link.sha256`, or if
      `base_url` is not an HTTP address.
  """
  url = mirror(link.url, base_url)
  pooch.get_logger().setLevel("ERROR")
  try:
    return pooch.retrieve(
      url,
      known_hash=link.sha256,
      fname=os.path.basename(parse.urlsplit(url).path),
      path=folder,
      downloader=_download,
    )
  except requests.RequestException as error:
    raise OSError(
      f"cannot download {url}: {_reason(error)}. The part that has arrived "
      "is kept: the same command continues. Set HTTPS_PROXY for a proxy, or "
      "`base_url` for a mirror."
    ) from error
  except ValueError as error:  # pooch has removed the file.
    raise ValueError(
      f"{url} is not the published file: its SHA-256 is not {link.sha256}. Try "
      "again, or give another address by `base_url`."
    ) from error


def mirror(url: str, base_url: str | None) -> str:
  """Returns the address of a file at a mirror.

  A mirror has the paths of the original sites: `base_url` replaces
  https://HOST. Returns `url` if `base_url` is empty.

  Raises:
    ValueError: if `base_url` does not begin with http:// or https://.
  """
  if not base_url:
    return url
  if not re.match("https?://", base_url):
    raise ValueError(
      f"base_url {base_url} must begin with http:// or https://."
    )
  return base_url.rstrip("/") + parse.urlsplit(url).path


def _download(url: str, output_file: str, _: pooch.Pooch | None) -> None:
  """Downloads a file, with the signature of a downloader of pooch.

  Continues the partial file until it is complete. Ends after _MAX_FAILURES
  attempts in a row without progress.

  Args:
    url: the address.
    output_file: the path to write. The partial file is in the same folder.
  """
  name = os.path.basename(parse.urlsplit(url).path)
  partial = os.path.join(os.path.dirname(output_file), f"{name}.partial")
  num_failures, num_bytes = 0, _num_bytes(partial)
  while not _continue(url, partial):
    has_advanced = _num_bytes(partial) > num_bytes
    num_failures = 0 if has_advanced else num_failures + 1
    num_bytes = _num_bytes(partial)
    if num_failures == _MAX_FAILURES:
      raise requests.ConnectionError("the connection was cut off repeatedly")
    logging.warning("%s was cut off at byte %d; continuing.", url, num_bytes)
    time.sleep(_PAUSE_SECONDS)
  os.replace(partial, output_file)
  paths.remove(_version_file(partial))


def _continue(url: str, partial: str) -> bool:
  """Downloads the rest of a partial file, or the whole file.

  Returns:
    Whether the file is complete; False to try again.

  Raises:
    requests.RequestException: if there is no connection.
    OSError: if the server refuses.
  """
  headers = {"Accept-Encoding": "identity"}
  offset = _num_bytes(partial)
  if offset and os.path.exists(_version_file(partial)):
    # With If-Range, the server sends the whole file if it has changed.
    headers["If-Range"] = paths.read_text(_version_file(partial))
    headers["Range"] = f"bytes={offset}-"
  with requests.get(
    url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS
  ) as response:
    content_range = response.headers.get("Content-Range", "")
    if response.status_code == requests.codes.partial_content:
      if not content_range.startswith(f"bytes {offset}-"):
        raise OSError(f"{url}: got {content_range!r} instead of the rest.")
    elif response.status_code == requests.codes.requested_range_not_satisfiable:
      if content_range == f"bytes */{offset}":
        return True  # The partial file was already complete.
      paths.remove(partial)  # It is not a part of the file; start again.
      return False
    elif response.ok:
      offset = 0  # The whole file: new, changed, or the server has no ranges.
    else:
      raise OSError(
        f"{url}: the server answers {response.status_code} {response.reason}. "
        "Give the address of a mirror by `base_url`."
      )
    return _write(response, partial, offset)


def _write(response: requests.Response, partial: str, offset: int) -> bool:
  """Writes the body of a response into a partial file, from `offset` on.

  Returns:
    Whether the body was complete; False if the transfer was cut off.
  """
  # A weak ETag does not promise equal bytes, so the date replaces it.
  etag = response.headers.get("ETag", "W/")
  version = response.headers.get("Last-Modified", "")
  version = version if etag.startswith("W/") else etag
  paths.remove(_version_file(partial))
  if version:
    atomic.write(_version_file(partial), [version])
  length = response.headers.get("Content-Length")
  total = offset + int(length) if length else None
  with open(partial, "ab" if offset else "wb") as writer:
    try:
      for block in _with_progress(response, offset, total):
        writer.write(block)
    except requests.RequestException:
      return False
  return total in (None, _num_bytes(partial))


def _with_progress(
  response: requests.Response, offset: int, total: int | None
) -> Iterator[bytes]:
  """Yields the blocks of a body and shows the progress.

  Shows a progress bar in a terminal, and log lines elsewhere.
  """
  name = os.path.basename(parse.urlsplit(response.url).path)
  num_bytes, next_line = offset, time.monotonic()
  with tqdm.tqdm(
    desc=name,
    total=total,
    initial=offset,
    unit="B",
    unit_scale=True,
    disable=not sys.stderr.isatty(),
  ) as bar:
    for block in response.iter_content(_BLOCK_BYTES):
      if bar.disable and time.monotonic() >= next_line:
        size = f"{total / 1e6:,.1f}" if total else "?"
        logging.info("%s: %.1f of %s MB", response.url, num_bytes / 1e6, size)
        next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
      yield block
      num_bytes += len(block)
      bar.update(len(block))


def _num_bytes(path: str) -> int:
  return os.path.getsize(path) if os.path.exists(path) else 0


def _version_file(partial: str) -> str:
  """Returns the path of the file with a partial file's ETag or date."""
  return f"{partial}.version"


def _reason(error: requests.RequestException) -> str:
  """Returns the message of the innermost cause of an error of requests."""
  cause: BaseException = error
  while True:
    inner = getattr(cause, "reason", None) or cause.__cause__
    if inner is None and cause.args:
      inner = cause.args[0]
    if not isinstance(inner, BaseException):
      break
    cause = inner
  text = getattr(cause, "strerror", None) or str(cause)
  return re.sub(r"^.*object at 0x\w+>: ", "", text).rstrip(".")
