"""What several tests share: the recorded data beside the repository."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from tests.support import forks

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

# The files that take longest, the longest first. A process that begins one of
# them last works on when the others have nothing left to do.
LONGEST = (
  "docs_test.py",
  "distribution_test.py",
  "research/ablations/smoke_test.py",
  "training/multi_worker_test.py",
  "notebooks_test.py",
  "cli/run_pretraining_test.py",
  "cli/run_squad_test.py",
  "export/export_test.py",
  "chaos/chaos_test.py",
  "pipeline/stages_test.py",
  "research/benchmarks/scaling_test.py",
  "export/text_ops_test.py",
  "tasks/sweeps_test.py",
  "cli/create_pretraining_data_test.py",
  "keras_backends_test.py",
)


def pytest_configure():
  """Lets Ctrl-C reach what tests start, in a job of the background too."""
  if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
  """Puts the longest files first; their tests stay in their order."""
  ranks = {ROOT / "tests" / name: rank for rank, name in enumerate(LONGEST)}
  items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(scope="session")
def shared():
  """The folder of recorded outputs and data; the test skips without it."""
  if not SHARED.is_dir():
    pytest.skip("../shared is not there: no recordings of the original")
  return SHARED


@pytest.fixture(scope="session")
def unpacked(shared, tmp_path_factory):
  """A function from the name of an archive in ../shared/data to its folder."""
  folders = {}

  def unpack(name):
    if name not in folders:
      archive = shared / "data" / f"{name}.tar.xz"
      if not archive.is_file():
        pytest.skip(f"../shared/data/{archive.name} is not there")
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
  """The socket of the server that runs programs in its forks."""
  with forks.server(tmp_path_factory.mktemp("forks")) as path:
    yield path


@pytest.fixture(scope="session")
def run_script(fork_server):
  """A function that runs a script of run_scripts/ in a process of its own."""

  def run(name, *arguments, cwd):
    command = [str(ROOT / "run_scripts" / name), *map(str, arguments)]
    with (
      open(os.devnull) as stdin,
      tempfile.TemporaryFile("w+") as stdout,
      tempfile.TemporaryFile("w+") as stderr,
    ):
      files = [f.fileno() for f in (stdin, stdout, stderr)]
      status = forks.run(fork_server, command, str(cwd), os.environ, files)
      for file in (stdout, stderr):
        file.seek(0)
      return subprocess.CompletedProcess(
        command, status, stdout.read(), stderr.read()
      )

  return run


@pytest.fixture(scope="session")
def start_python(fork_server):
  """A function that starts `python ARGUMENTS`, as subprocess.Popen does.

  When the process is killed, read its output to the end: the fork that does its
  work is killed a moment later.
  """

  def start(*arguments, **options):
    client = [
      sys.executable,
      str(ROOT / "tests" / "support" / "forks.py"),
      fork_server,
    ]
    return subprocess.Popen([*client, *map(str, arguments)], **options)

  return start
