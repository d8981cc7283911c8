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
import socketserver
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Environment variable with the path of the server's socket.
VARIABLE = "BERT_TF_TEST_FORKS"


def run(path, arguments, cwd, environment, files, forwarded=()):
  """Runs `python ARGUMENTS` in a fork; returns its status as subprocess does.

  Args:
    path: the server's socket.
    arguments: a script and its arguments, or -m and a module and its arguments.
    cwd: working directory.
    environment: all environment variables.
    files: descriptors of stdin, stdout and stderr.
    forwarded: signals to this process that the program receives instead.
  """
  with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(path)
    socket.send_fds(connection, [b"\n"], files)
    request = json.dumps([list(arguments), cwd, dict(environment)])
    connection.sendall(f"{request}\n".encode())
    with connection.makefile() as answers:
      program = int(answers.readline())
      for number in forwarded:
        signal.signal(number, lambda number, _: os.kill(program, number))
      return int(answers.readline())


def run_here(path, arguments):
  """Runs `python ARGUMENTS` in a fork; returns the status as in a shell."""
  signals = (signal.SIGINT, signal.SIGTERM)
  status = run(path, arguments, os.getcwd(), os.environ, (0, 1, 2), signals)
  return status if status >= 0 else 128 - status


@contextlib.contextmanager
def server(folder, environment=None):
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
  try:
    process.stdout.readline()  # Waits until the server listens.
    yield path
  finally:
    process.terminate()
    process.wait()
    process.stdout.close()


class _Handler(socketserver.StreamRequestHandler):
  """Runs a program in a fork, and ends it when its client has ended."""

  def handle(self):
    _, files, *_ = socket.recv_fds(self.request, 1, 3)
    arguments, cwd, environment = json.loads(self.rfile.readline())
    program = os.fork()
    if not program:
      self.request.close()
      _become(arguments, cwd, environment, files)
    for number in files:
      os.close(number)
    with contextlib.suppress(BrokenPipeError):
      self.wfile.write(f"{program}\n".encode())
    ended = os.pidfd_open(program)
    # The client sends nothing more, so its connection is readable at its end.
    if ended not in select.select([self.request, ended], [], [])[0]:
      os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(BrokenPipeError):
      self.wfile.write(f"{os.waitstatus_to_exitcode(status)}\n".encode())


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
  """Forks a process for each connection."""

  request_queue_size = 64


def _serve(path):
  import keras  # noqa: F401
  import sklearn.metrics  # noqa: F401
  import tensorflow

  with contextlib.suppress(ImportError):
    import tensorflow_text  # noqa: F401
  dir(tensorflow.summary)  # Imports TensorBoard, which every training needs.

  # Otherwise, garbage collection in a program would touch and thus copy the
  # memory of all imported objects, which takes 1.3 s.
  gc.freeze()
  with _Server(path, _Handler) as forking:
    print("listening", flush=True)
    forking.serve_forever()


def _become(arguments, cwd, environment, files):
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
  status = 0
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
    status = error.code or 0
    if not isinstance(status, int):
      print(status, file=sys.stderr)
      status = 1
  except BaseException:  # noqa: BLE001  As Python does at the end of a program.
    sys.excepthook(*sys.exc_info())
    status = 1
  # As Python ends a process, but without freeing objects: that would copy the
  # memory of all imported modules, which takes 0.3 s.
  threading._shutdown()
  atexit._run_exitfuncs()
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(status & 0xFF)


if __name__ == "__main__":
  if sys.argv[2:]:
    sys.exit(run_here(sys.argv[1], sys.argv[2:]))
  _serve(sys.argv[1])
