"""Only one process at a time writes a run in a folder."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from bert_tf.files import atomic
from tests.support import runs

HOLD = (
  "import sys; from bert_tf.files import atomic\n"
  "with atomic.lock_folder(sys.argv[1]):\n"
  "  print('held', flush=True); sys.stdin.read()"
)


def fail_with(name):
  """Returns a replacement for flock that raises an OSError."""

  def flock(*unused):
    raise OSError(getattr(errno, name), name)

  return flock


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_second_process_is_refused_until_the_first_ends(tmp_path, is_killed):
  folder = str(tmp_path / "run")
  first = subprocess.Popen(
    [sys.executable, "-c", HOLD, folder],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
  )
  assert first.stdout.readline() == b"held\n"
  with pytest.raises(atomic.FolderInUseError, match=folder):
    with atomic.lock_folder(folder):
      raise AssertionError("two processes hold the lock")
  if is_killed:
    first.kill()
  first.communicate()
  with atomic.lock_folder(folder):
    assert os.listdir(folder) == [atomic.LOCK_FILE]


@pytest.mark.parametrize("error", ["ENOLCK", "EOPNOTSUPP"])
def test_a_file_system_without_locks_is_warned_of(tmp_path, monkeypatch, error):
  monkeypatch.setattr(fcntl, "flock", fail_with(error))
  with runs.logged() as log, atomic.lock_folder(str(tmp_path)):
    assert str(tmp_path) in log()


def test_folders_in_buckets_are_not_locked():
  with (
    atomic.lock_folder("ram://lock_test"),
    atomic.lock_folder("ram://lock_test"),
  ):
    pass


def test_a_link_in_place_of_the_lock_is_refused(tmp_path):
  (tmp_path / "victim").write_text("precious")
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / atomic.LOCK_FILE).symlink_to(tmp_path / "victim")
  with pytest.raises(OSError, match=atomic.LOCK_FILE):
    with atomic.lock_folder(str(tmp_path / "out")):
      pass
  assert (tmp_path / "victim").read_text() == "precious"


def test_a_file_is_written_by_one_process(tmp_path):
  path = str(tmp_path / "new" / "data.tfrecord")
  with atomic.lock_file(path):
    with atomic.lock_file(f"{path}2"):  # Another file beside it.
      pass
    with pytest.raises(atomic.FolderInUseError, match=path):
      with atomic.lock_file(path):
        pass
