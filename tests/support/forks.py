"""Runs Python programs in forks of a process that has imported TensorFlow.

Importing it takes longer than most commands of the tests compute. A program
has its own process, arguments, environment, folder and files 0 to 2, as if
`python` ran it:

    python -m tests.support.forks SOCKET            # Serves until terminated.
    python tests/support/forks.py SOCKET ARGUMENTS  # As `python ARGUMENTS`.
"""

import contextlib
import gc
import json
import os
import pathlib
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a program's `python` needs to know.
VARIABLE = "BERT_TF_TEST_FORKS"
# The longest request, bytes: its arguments and environment.
_MAX_BYTES = 1 << 20


def _request(
  arguments: Sequence[str], cwd: str, environment: Mapping[str, str]
) -> bytes:
  return json.dumps([list(arguments), cwd, dict(environment)]).encode()


def run(
  path: str,
  arguments: Sequence[str],
  cwd: str,
  environment: Mapping[str, str],
  files: Sequence[int],
) -> int:
  """Runs `python ARGUMENTS` in a fork.

  Args:
    path: the server's socket.
    arguments: a script and its arguments, or -m and a module and its arguments.
    cwd: where it runs.
    environment: all of its environment.
    files: the descriptors of its stdin, stdout and stderr.

  Returns:
    The exit status as subprocess has it; SIGINT and SIGTERM that arrive
    meanwhile are passed on, if this is the main thread.
  """
  connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
  connection.connect(path)
  request = _request(arguments, cwd, environment)
  with tempfile.TemporaryFile() as stored:
    stored.write(request)
    stored.flush()
    socket.send_fds(connection, [b"run"], [stored.fileno(), *files])
  with connection, _passing_on_signals(connection):
    answer = connection.recv(_MAX_BYTES)
  if not answer:
    raise RuntimeError("the server of forks has ended.")
  return json.loads(answer)


@contextlib.contextmanager
def _passing_on_signals(connection: socket.socket) -> Iterator[None]:
  def pass_on(number: int, frame: object) -> None:
    connection.send(str(number).encode())

  numbers = (signal.SIGINT, signal.SIGTERM)
  before = {}
  with contextlib.suppress(ValueError):  # Not the main thread.
    before = {number: signal.signal(number, pass_on) for number in numbers}
  try:
    yield
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


@contextlib.contextmanager
def server(folder: pathlib.Path) -> Iterator[str]:
  """A scope with a server; yields the path of its socket."""
  path = str(folder / "forks")
  process = subprocess.Popen(
    [sys.executable, "-m", "tests.support.forks", path],
    cwd=ROOT,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
  )
  assert process.stdout
  try:
    process.stdout.readline()  # It listens.
    yield path
  finally:
    process.terminate()
    process.wait()
    process.stdout.close()


def _serve(path: str) -> None:
  """Forks a program for every connection; returns only in the program."""
  import keras  # noqa: F401
  import tensorflow  # noqa: F401
  import tensorflow_text  # noqa: F401

  # At its end a program would look through all that is imported, and so have
  # all of that memory copied: 1.3 s.
  gc.freeze()
  listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
  listener.bind(path)
  listener.listen(64)
  signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody waits for watchers.
  print("listening", flush=True)
  while True:
    connection, _ = listener.accept()
    if os.fork():
      connection.close()
      continue
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    stored, *files = socket.recv_fds(connection, 16, 4)[1]
    program = os.fork()
    if program:
      for number in (stored, *files):
        os.close(number)
      os._exit(_watch(connection, program))
    connection.close()
    with os.fdopen(stored, "rb") as reader:
      reader.seek(0)
      arguments, cwd, environment = json.load(reader)
    _become(arguments, cwd, environment, files)
    return


def _watch(connection: socket.socket, program: int) -> int:
  """Passes signals on to a program and its status back."""
  ended = os.pidfd_open(program)
  while ended not in select.select([connection, ended], [], [])[0]:
    number = connection.recv(16)
    os.kill(program, int(number) if number else signal.SIGKILL)
    if not number:  # Who asked is gone.
      return 1
  _, status = os.waitpid(program, 0)
  with contextlib.suppress(BrokenPipeError):
    connection.send(str(os.waitstatus_to_exitcode(status)).encode())
  return 0


def _become(
  arguments: list[str],
  cwd: str,
  environment: dict[str, str],
  files: Sequence[int],
) -> None:
  """Runs a program in this process; raises SystemExit where it does."""
  os.chdir(cwd)
  os.environ.clear()
  os.environ.update(environment)
  # Says once that there is no GPU: to the server's stderr, not the program's,
  # which need not use TensorFlow.
  sys.modules["tensorflow"].config.list_physical_devices()
  for number, opened in enumerate(files):
    os.dup2(opened, number)
    os.close(opened)
  sys.stdin = open(0, closefd=False)
  first, *rest = arguments
  if first == "-m":
    module, *rest = rest
    sys.path[0] = cwd
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
  else:
    sys.path[0] = os.path.dirname(os.path.realpath(first))
    sys.argv = [first, *rest]
    runpy.run_path(first, run_name="__main__")


def run_here(path: str, arguments: Sequence[str]) -> int:
  """Runs `python ARGUMENTS` in a fork; returns the status as a shell has it."""
  status = run(path, arguments, os.getcwd(), os.environ, (0, 1, 2))
  return status if status >= 0 else 128 - status


if __name__ == "__main__":
  if sys.argv[2:]:
    sys.exit(run_here(sys.argv[1], sys.argv[2:]))
  _serve(sys.argv[1])
