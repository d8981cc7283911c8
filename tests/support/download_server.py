"""A server on loopback that stands in for the sites of downloads."""

import contextlib
import dataclasses
import http.server
import threading

COMMIT = "c" * 40  # The commit of all repositories of Hugging Face.


@dataclasses.dataclass
class Site:
  """The files of a server, and its faults.

  Attributes:
    files: content by path, such as "/bert_models/a.zip".
    url: its address.
    requests: paths of the requests so far.
    cuts: sizes after which the next answers are cut off.
    block: if set, an answer waits for this event after its first half.
  """

  files: dict[str, bytes]
  url: str = ""
  requests: list[str] = dataclasses.field(default_factory=list)
  cuts: list[int] = dataclasses.field(default_factory=list)
  block: threading.Event | None = None


class _Handler(http.server.BaseHTTPRequestHandler):
  site: Site

  def do_HEAD(self):  # noqa: N802
    self.do_GET()

  def do_GET(self):  # noqa: N802
    site = self.site
    site.requests.append(self.path)
    content = site.files.get(self.path.partition("?")[0])
    if content is None:
      return self.send_error(404)
    self.send_response(200)
    self.send_header("ETag", f'"{hash(content)}"')
    self.send_header("X-Repo-Commit", COMMIT)  # As at Hugging Face.
    self.send_header("Content-Length", str(len(content)))
    self.end_headers()
    if self.command == "HEAD":
      return
    if site.cuts:
      self.wfile.write(content[: site.cuts.pop(0)])
      self.close_connection = True
      return
    half = len(content) // 2
    self.wfile.write(content[:half])
    if site.block:
      self.wfile.flush()
      site.block.wait(60)
    self.wfile.write(content[half:])

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
