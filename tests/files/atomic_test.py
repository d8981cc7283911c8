"""Files and folders are written completely or not at all; locks."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_tf.files import atomic, paths, text_lines
from tests.support import runs

ROOTS = ("", "ram://atomic_test")


@pytest.fixture(params=ROOTS, ids=["local", "remote"])
def root(request, tmp_path):
  """A local folder, and one in a file system of TensorFlow."""
  return request.param and f"{request.param}/{tmp_path.name}" or str(tmp_path)


def write_folder(target, texts, **settings):
  with atomic.folder(target, last="b", **settings) as unfinished:
    for name, text in texts.items():
      os.makedirs(os.path.dirname(f"{unfinished}/{name}"), exist_ok=True)
      with open(f"{unfinished}/{name}", "w") as writer:
        writer.write(text)


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


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_write_changes_nothing(root, error):
  atomic.write_lines(f"{root}/a.gz", ["old"])
  with pytest.raises(error):
    with atomic.files([f"{root}/a.gz", f"{root}/b"]) as unfinished:
      assert unfinished[0].endswith("a.gz")
      for path in unfinished:
        with open(path, "w") as writer:
          writer.write("new")
      raise error
  assert paths.list_folder(root) == ["a.gz"]
  assert text_lines.read_text(f"{root}/a.gz") == "old\n"


def test_a_folder_that_is_not_empty_is_not_replaced(tmp_path):
  write_folder(str(tmp_path / "out"), {"b": "old"})
  with pytest.raises(OSError):
    write_folder(str(tmp_path / "out"), {"b": "new"})
  assert os.listdir(tmp_path) == ["out"]
  assert (tmp_path / "out" / "b").read_text() == "old"


def test_a_folder_can_replace_another(root):
  for content in ("old", "new"):
    texts = {"b": content, "sub/c": content}
    write_folder(f"{root}/out", texts, replaces=True)
    assert paths.list_folder(root) == ["out"]
    for name in texts:
      assert text_lines.read_text(f"{root}/out/{name}") == content


def test_a_folder_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
  write_folder(str(tmp_path / "out"), {"b": "old"})
  rename = os.rename

  def fail(path, new_path):
    if path.endswith("out") and "tmp-" in path:
      raise OSError("no")
    rename(path, new_path)

  monkeypatch.setattr(os, "rename", fail)
  with pytest.raises(OSError, match="no"):
    write_folder(str(tmp_path / "out"), {"b": "new"}, replaces=True)
  assert os.listdir(tmp_path) == ["out"]
  assert (tmp_path / "out" / "b").read_text() == "old"


def test_the_deciding_file_of_a_remote_folder_is_written_last(monkeypatch):
  copied = []
  copy = paths.copy
  monkeypatch.setattr(
    paths, "copy", lambda a, b: (copied.append(b), copy(a, b))
  )
  write_folder("ram://atomic_last/out", {"b": "", "sub/c": "", "z": ""})
  names = [path.removeprefix("ram://atomic_last/out/") for path in copied]
  assert names == ["sub/c", "z", "b"]


def test_a_file_cannot_replace_a_pipe_or_a_folder(tmp_path):
  os.mkfifo(tmp_path / "pipe")
  (tmp_path / "folder").mkdir()
  for name in ("pipe", "folder"):
    with pytest.raises(OSError, match=str(tmp_path / name)):
      atomic.write_lines(str(tmp_path / name), ["a"])
    with pytest.raises(OSError, match=str(tmp_path / "pipe")):
      atomic.check_writable(str(tmp_path / "pipe"), "output_file", False)
  assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


@pytest.mark.parametrize("has_locks", [True, False])
def test_a_writer_removes_what_killed_writers_of_its_target_left(
  tmp_path, monkeypatch, has_locks
):
  if not has_locks:
    monkeypatch.setattr(fcntl, "flock", fail_with("ENOLCK"))
  target, left = str(tmp_path / "a"), tmp_path / ".a.tmp-bert_tf-1"
  # The last two are of another target and of another program.
  names = [left.name, ".b.tmp-bert_tf-1", ".a.tmp-1"]
  for name in names:
    (tmp_path / name).mkdir()
  with atomic.file(target) as unfinished:
    assert left.exists() != has_locks
    # Another writer of the same target is not disturbed.
    atomic.write_lines(target, ["first"])
    atomic.remove_unfinished(target)
    with open(unfinished, "w") as writer:
      writer.write("last")
  assert sorted(os.listdir(tmp_path)) == sorted([*names[has_locks:], "a"])
  assert (tmp_path / "a").read_text() == "last"


@pytest.mark.parametrize("writer", [tf.io.TFRecordWriter, open])
def test_a_full_disk_is_named_with_the_target(tmp_path, writer):
  target = str(tmp_path / "data")
  mode = {"mode": "wb"} if writer is open else {}
  with pytest.raises(OSError) as error:
    with atomic.hidden_folder(target):
      with writer("/dev/full", **mode) as full:
        full.write(b"record")
  assert error.value.errno == errno.ENOSPC
  assert error.value.filename == target
  assert os.listdir(tmp_path) == []


def test_a_missing_remote_file_is_a_file_not_found_error():
  for function in (paths.read_bytes, paths.num_bytes):
    with pytest.raises(FileNotFoundError, match="ram://nowhere/a"):
      function("ram://nowhere/a")
  paths.remove("ram://nowhere/a")
  with pytest.raises(OSError, match="nosuch://bucket/a"):
    paths.exists("nosuch://bucket/a")


def test_is_file_and_is_free_distinguish_files_folders_and_pipes(
  root, tmp_path
):
  assert paths.is_free(f"{root}/out") and not paths.is_file(f"{root}/out")
  atomic.write_lines(f"{root}/out/a", ["text"])
  assert not paths.is_free(f"{root}/out") and not paths.is_file(f"{root}/out")
  assert not paths.is_free(f"{root}/out/a") and paths.is_file(f"{root}/out/a")
  os.mkfifo(tmp_path / "pipe")
  assert not paths.is_file(str(tmp_path / "pipe"))
  (tmp_path / "empty").mkdir()
  assert paths.is_free(str(tmp_path / "empty"))


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
