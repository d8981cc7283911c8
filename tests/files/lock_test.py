"""Only one process at a time writes a run in a folder."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from bert_tf.files import lock, paths
from tests.support import runs

HOLD = (
  "import sys; from bert_tf.files import lock\n"
  "with lock.hold(sys.argv[1]):\n"
  "  print('held', flush=True); sys.stdin.read()"
)


def start_holder(folder):
  """Returns a process that holds the lock of a folder."""
  process = subprocess.Popen(
    [sys.executable, "-c", HOLD, str(folder)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
  )
  assert process.stdout.readline() == b"held\n"
  return process


def test_a_second_process_is_refused_until_the_first_ends(tmp_path):
  first = start_holder(tmp_path / "run")
  with pytest.raises(lock.FolderInUseError) as caught:
    with lock.hold(str(tmp_path / "run")):
      raise AssertionError("two processes hold the lock")
  assert str(first.pid) in str(caught.value)
  assert socket.gethostname() in str(caught.value)
  first.communicate()
  assert os.listdir(tmp_path / "run") == []
  with lock.hold(str(tmp_path / "run")):
    assert os.listdir(tmp_path / "run") == [lock.FILE]


def test_the_lock_of_a_killed_process_is_taken_over_with_a_message(tmp_path):
  first = start_holder(tmp_path)
  os.kill(first.pid, signal.SIGKILL)
  first.wait()
  assert os.listdir(tmp_path) == [lock.FILE]
  with runs.logged() as lines, lock.hold(str(tmp_path)):
    content = json.loads((tmp_path / lock.FILE).read_text())
    assert content["process"] == os.getpid()
  assert f"process {first.pid} " in lines()
  assert os.listdir(tmp_path) == []


def test_only_the_lock_of_a_running_process_is_held(tmp_path):
  assert not lock.is_held(str(tmp_path))
  with lock.hold(str(tmp_path)):
    assert lock.is_held(str(tmp_path))
  (tmp_path / lock.FILE).write_text("{}")  # A killed process left it.
  (tmp_path / lock.FILE).chmod(0o444)  # Another user's, who trained here.
  assert not lock.is_held(str(tmp_path))
  (tmp_path / lock.FILE).chmod(0o644)
  with lock.hold(str(tmp_path)):
    pass


def test_a_holder_whose_file_was_deleted_does_not_remove_the_next_lock(
  tmp_path,
):
  with lock.hold(str(tmp_path)):
    os.remove(tmp_path / lock.FILE)
    second = start_holder(tmp_path)
  assert os.listdir(tmp_path) == [lock.FILE]
  second.communicate()


def test_a_remote_lock_that_is_not_renewed_is_taken_over(monkeypatch):
  for name, seconds in (("RENEW", 0.1), ("STALE", 1.0), ("SETTLE", 0.1)):
    monkeypatch.setattr(lock, f"_{name}_SECONDS", seconds)
  folder = "ram://lock_test"
  path = f"{folder}/{lock.FILE}"
  with lock.hold(folder):
    with pytest.raises(lock.FolderInUseError, match=str(os.getpid())):
      with lock.hold(folder):
        raise AssertionError("two processes hold the lock")
    killed = paths.read_bytes(path)
  assert not paths.exists(path)
  with paths._gfile().GFile(path, "wb") as writer:
    writer.write(killed)
  with runs.logged() as lines, lock.hold(folder):
    pass
  assert str(os.getpid()) in lines()
  assert not paths.exists(path)
