"""Shared fixtures: recorded data, and processes that run scripts."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import hypothesis
import pytest

# Equal examples in every run, few enough for under two seconds.
hypothesis.settings.register_profile(
  "tests", max_examples=60, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("tests")

# Many test files import TensorFlow, which reads this once, before `bert_tf`,
# which would set it.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Programs that XLA compiles for a test run for milliseconds, so optimizing them
# costs more time than it saves. Processes that tests start inherit this.
os.environ.setdefault(
  "XLA_FLAGS",
  "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes",
)

# Failed asserts in helpers also show their values.
pytest.register_assert_rewrite("tests.support")

from tests.support import checkout, durations, forks  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


def pytest_addoption(parser):
  """Adds the option that records the durations of the tests."""
  parser.addoption(
    "--record-durations",
    action="store_true",
    help="write tests/support/durations.json, which names the slow tests",
  )


def pytest_configure(config):
  """Orders the tests; lets Ctrl-C reach background processes."""
  config.pluginmanager.register(durations.Durations(config))
  if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
  """Prepares the process for the tests, whose files it has imported.

  The recordings are of CPUs, so GPUs must not round products to TF32.
  TensorFlow and Keras are so many objects that each full garbage collection
  would take 0.3 seconds, so the collector is spared them.
  """
  if tensorflow := sys.modules.get("tensorflow"):
    tensorflow.config.experimental.enable_tensor_float_32_execution(False)
  gc.collect()
  gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def free_memory():
  """Frees what the tests of a file leave; spares the collector the rest.

  TensorFlow and Keras keep objects of all models. Otherwise, each full
  collection late in the run would take seconds.
  """
  yield
  if keras := sys.modules.get("keras"):
    keras.utils.clear_session(free_memory=False)
  gc.collect()
  gc.freeze()


@pytest.fixture(scope="session")
def shared():
  """Returns the folder of recorded data; skips the test without it."""
  if not SHARED.is_dir():
    pytest.skip("../shared is missing: no recordings of the original")
  return SHARED


@pytest.fixture(scope="session")
def unpacked(shared, tmp_path_factory):
  """Returns a function that unpacks an archive and returns its folder."""
  folders = {}

  def unpack(name):
    if name not in folders:
      archive = shared / "data" / f"{name}.tar.xz"
      if not archive.is_file():
        pytest.skip(f"../shared/data/{archive.name} is missing")
      destination = tmp_path_factory.mktemp("data")
      script = shared / "data" / "unpack.sh"
      subprocess.run(
        ["bash", script, name, destination], check=True, capture_output=True
      )
      folders[name] = destination / name
    return folders[name]

  return unpack


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory):
  """Yields the socket of the server that runs programs in its forks."""
  with forks.server(tmp_path_factory.mktemp("forks")) as path:
    yield path


@pytest.fixture(scope="session")
def run_script(fork_server):
  """Returns a function that runs a `bert-tf` command or a script, NAME.py."""

  def run(name, *arguments, cwd, stdin=""):
    command = [*checkout.program(name), *map(str, arguments)]
    with (
      tempfile.TemporaryFile("w+") as typed,
      tempfile.TemporaryFile("w+") as stdout,
      tempfile.TemporaryFile("w+") as stderr,
    ):
      typed.write(stdin)
      typed.seek(0)
      files = [f.fileno() for f in (typed, stdout, stderr)]
      status = forks.run(fork_server, command, str(cwd), os.environ, files)
      for file in (stdout, stderr):
        file.seek(0)
      return subprocess.CompletedProcess(
        command, status, stdout.read(), stderr.read()
      )

  return run


@pytest.fixture(scope="session")
def start_python(fork_server):
  """Returns a function that starts `python ARGUMENTS`, like subprocess.Popen.

  After killing the process, read its output to the end, since the fork that
  does the work is killed a moment later.
  """

  def start(*arguments, **options):
    client = [
      sys.executable,
      str(ROOT / "tests" / "support" / "forks.py"),
      fork_server,
    ]
    return subprocess.Popen([*client, *map(str, arguments)], **options)

  return start
