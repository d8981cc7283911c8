"""A headless Chromium, driven by the DevTools protocol."""

import asyncio
import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.parse

import pytest

CHROMIUM = next(
  filter(
    None,
    map(shutil.which, ("chromium", "chromium-browser", "google-chrome")),
  ),
  None,
)
needs_chromium = pytest.mark.skipif(
  not CHROMIUM, reason="there is no Chromium: apt-get install chromium"
)

_FLAGS = (
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--remote-debugging-port=0",
)
_SECONDS = 600


class Browser:
  """A tab; `run` returns the value of JavaScript code."""

  def __init__(self, loop, session, socket):
    self._loop, self._session, self._socket = loop, session, socket
    self._number = 0
    self._command("Page.enable")

  def open(self, url):
    """Opens a page and waits until it is loaded."""
    self._command("Page.navigate", url="about:blank")
    self._command("Page.navigate", url=url)
    self.wait(f"location.href === {json.dumps(url)} || document.title")
    self.wait("document.readyState === 'complete'")

  def run(self, code):
    """Returns the value of an expression; awaits promises."""
    result = self._command(
      "Runtime.evaluate",
      expression=code,
      awaitPromise=True,
      returnByValue=True,
    )
    assert "exceptionDetails" not in result, result
    return result["result"].get("value")

  def wait(self, code):
    """Waits until an expression is true and returns its value."""
    end = time.monotonic() + _SECONDS
    while not (value := self.run(code)):
      assert time.monotonic() < end, f"never true: {code}"
      time.sleep(0.02)
    return value

  def text(self, selector):
    """Returns the visible text of an element."""
    return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

  def _command(self, method, **params):
    return self._loop.run_until_complete(
      asyncio.wait_for(self._answer(method, params), _SECONDS)
    )

  async def _answer(self, method, params):
    self._number += 1
    await self._socket.send_json(
      {"id": self._number, "method": method, "params": params}
    )
    while True:
      message = await self._socket.receive_json()
      if message.get("id") == self._number:
        assert "error" not in message, message
        return message["result"]


@contextlib.contextmanager
def running():
  """Yields a Browser in a new process."""
  import aiohttp

  loop = asyncio.new_event_loop()
  with contextlib.ExitStack() as stack:
    stack.callback(loop.close)
    folder = tempfile.mkdtemp(prefix="browser_")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    process = subprocess.Popen(
      [CHROMIUM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
      stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait, timeout=_SECONDS)
    stack.callback(process.terminate)
    port = _port(pathlib.Path(folder) / "DevToolsActivePort", process)

    async def connect():
      session = aiohttp.ClientSession()
      async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
        pages = await response.json()
      [url] = [p["webSocketDebuggerUrl"] for p in pages if p["type"] == "page"]
      return session, await session.ws_connect(url, max_msg_size=0)

    session, socket = loop.run_until_complete(connect())
    stack.callback(lambda: loop.run_until_complete(session.close()))
    stack.callback(lambda: loop.run_until_complete(socket.close()))
    yield Browser(loop, session, socket)


def _port(path, process):
  """Returns the port that Chromium writes when it listens."""
  end = time.monotonic() + _SECONDS
  while not (path.exists() and path.read_text().strip()):
    assert process.poll() is None, "Chromium has ended."
    assert time.monotonic() < end, "Chromium does not start."
    time.sleep(0.05)
  return int(path.read_text().split()[0])


def link(url, **texts):
  """Returns the address of a server's page with texts filled in."""
  return f"{url}/#{urllib.parse.urlencode(texts)}"
