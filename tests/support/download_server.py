"""A server on loopback that stands in for the sites of downloads."""

import contextlib
import dataclasses
import http.server
import re
import threading

COMMIT = "c" * 40  # The commit of all repositories of Hugging Face.


@dataclasses.dataclass
class Site:
  """The files of a server, and its faults.

  Attributes:
    files: content by path, such as "/bert_models/a.zip".
    url: its address.
    requests: path and Range header of each request so far.
    cuts: sizes after which the next answers are cut off.
    has_ranges: whether the server can send a part of a file.
    block: if set, an answer waits for this event after its first half.
  """

  files: dict[str, bytes]
  url: str = ""
  requests: list[tuple[str, str | None]] = dataclasses.field(
    default_factory=list
  )
  cuts: list[int] = dataclasses.field(default_factory=list)
  has_ranges: bool = True
  block: threading.Event | None = None


class _Handler(http.server.BaseHTTPRequestHandler):
  site: Site

  def do_HEAD(self):  # noqa: N802
    self.do_GET()

  def do_GET(self):  # noqa: N802
    site, given_range = self.site, self.headers["Range"]
    site.requests.append((self.path, given_range))
    content = site.files.get(self.path.partition("?")[0])
    if content is None:
      return self.send_error(404)
    version = f'"{hash(content)}"'
    start = 0
    is_same = self.headers["If-Range"] in (None, version)
    if given_range and site.has_ranges and is_same:
      start = int(re.fullmatch(r"bytes=(\d+)-", given_range)[1])
      if start >= len(content):
        self.send_response(416)
        self.send_header("Content-Range", f"bytes */{len(content)}")
        self.send_header("Content-Length", "0")
        return self.end_headers()
      self.send_response(206)
      end = f"{len(content) - 1}/{len(content)}"
      self.send_header("Content-Range", f"bytes {start}-{end}")
    else:
      self.send_response(200)
    self.send_header("ETag", version)
    self.send_header("X-Repo-Commit", COMMIT)  # As at Hugging Face.
    self.send_header("Content-Length", str(len(content) - start))
    self.end_headers()
    self._send(content[start:])

  def _send(self, body):
    if self.command == "HEAD":
      return
    if self.site.cuts:
      self.wfile.write(body[: self.site.cuts.pop(0)])
      self.close_connection = True
      return
    half = len(body) // 2
    self.wfile.write(body[:half])
    if self.site.block:
      self.wfile.flush()
      self.site.block.wait(60)
    self.wfile.write(body[half:])

  def log_message(self, *_):
    pass


@contextlib.contextmanager
def serve(files):
  """Yields a Site with these files."""
  site = Site(dict(files))
  handler = type("Handler", (_Handler,), {"site": site})
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
  site.url = f"http://127.0.0.1:{server.server_address[1]}"
  thread = threading.Thread(target=server.serve_forever, args=(0.05,))
  thread.start()
  try:
    yield site
  finally:
    server.shutdown()
    thread.join()
    server.server_close()
