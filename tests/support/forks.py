"""Runs Python programs in forks of a process that has imported TensorFlow.

The import takes longer than most commands in the tests. A program has its own
process, arguments, environment, working directory and standard streams, as if
`python` ran it:

    python -m tests.support.forks SOCKET            # Serves until terminated.
    python tests/support/forks.py SOCKET ARGUMENTS  # As `python ARGUMENTS`.
"""

import atexit
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
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Environment variable with the path of the server's socket.
VARIABLE = "BERT_TF_TEST_FORKS"
# Maximum size of an answer.
_MAX_BYTES = 1 << 20


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
    cwd: working directory.
    environment: all environment variables.
    files: descriptors of stdin, stdout and stderr.

  Returns:
    The exit status, as in subprocess. In the main thread, SIGINT and SIGTERM
    are passed on to the program.
  """
  connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
  connection.connect(path)
  request = json.dumps([list(arguments), cwd, dict(environment)]).encode()
  with tempfile.TemporaryFile() as stored:
    stored.write(request)
    stored.flush()
    socket.send_fds(connection, [b"run"], [stored.fileno(), *files])
  with connection, _forward_signals(connection):
    answer = connection.recv(_MAX_BYTES)
  if not answer:
    raise RuntimeError("the server of forks has ended.")
  return json.loads(answer)


@contextlib.contextmanager
def _forward_signals(connection: socket.socket) -> Iterator[None]:
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
def server(
  folder: pathlib.Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
  """Runs a server; yields the path of its socket.

  Args:
    folder: receives the socket.
    environment: all environment variables of the server; None for those of
      this process. Packages that the server cannot import then are also missing
      in its forks.
  """
  path = str(folder / "forks")
  process = subprocess.Popen(
    [sys.executable, "-m", "tests.support.forks", path],
    cwd=ROOT,
    env=environment,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
  )
  assert process.stdout
  try:
    process.stdout.readline()  # Waits until the server listens.
    yield path
  finally:
    process.terminate()
    process.wait()
    process.stdout.close()


def _serve(path: str) -> NoReturn:
  """Forks a program for each connection."""
  import keras  # noqa: F401
  import sklearn.metrics  # noqa: F401
  import tensorflow

  with contextlib.suppress(ImportError):
    import tensorflow_text  # noqa: F401
  dir(tensorflow.summary)  # Imports TensorBoard, which every training needs.

  # Otherwise, garbage collection in a program would touch and thus copy the
  # memory of all imported objects, which takes 1.3 s.
  gc.freeze()
  listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
  listener.bind(path)
  listener.listen(64)
  # No process waits for the watchers.
  signal.signal(signal.SIGCHLD, signal.SIG_IGN)
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


def _watch(connection: socket.socket, program: int) -> int:
  """Forwards signals to a program and returns its status to the client."""
  ended = os.pidfd_open(program)
  while ended not in select.select([connection, ended], [], [])[0]:
    number = connection.recv(16)
    os.kill(program, int(number) if number else signal.SIGKILL)
    if not number:  # The client has ended.
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
) -> NoReturn:
  """Runs a program in this process, and ends the process."""
  os.chdir(cwd)
  os.environ.clear()
  os.environ.update(environment)
  # The message about a missing GPU appears once, here in the server's stderr.
  # The program's stderr must not contain it, since it may not use TensorFlow.
  sys.modules["tensorflow"].config.list_physical_devices()
  for number, opened in enumerate(files):
    os.dup2(opened, number)
    os.close(opened)
  sys.stdin = open(0, closefd=False)
  first, *others = arguments
  try:
    if first == "-m":
      module, *others = others
      sys.path[0] = cwd
      sys.argv = [module, *others]
      runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
      sys.path[0] = os.path.dirname(os.path.realpath(first))
      sys.argv = [first, *others]
      runpy.run_path(first, run_name="__main__")
  except SystemExit as error:
    if error.code is not None and not isinstance(error.code, int):
      raise  # Python prints the code.
    _end(error.code or 0)
  _end(0)


def _end(status: int) -> NoReturn:
  """Ends the process as Python does, but frees no objects.

  Freeing would touch and thus copy the memory of all imported modules, which
  takes 0.3 s.
  """
  threading._shutdown()
  atexit._run_exitfuncs()
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(status & 0xFF)


def run_here(path: str, arguments: Sequence[str]) -> int:
  """Runs `python ARGUMENTS` in a fork; returns the status as in a shell."""
  status = run(path, arguments, os.getcwd(), os.environ, (0, 1, 2))
  return status if status >= 0 else 128 - status


if __name__ == "__main__":
  if sys.argv[2:]:
    sys.exit(run_here(sys.argv[1], sys.argv[2:]))
  _serve(sys.argv[1])
