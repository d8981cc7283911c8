"""Files and folders are there whole, or as they were before."""

import os
import socket
import stat
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_tf.files import atomic, paths

ROOTS = ("", "ram://atomic_test")


@pytest.fixture(params=ROOTS, ids=["local", "remote"])
def root(request, tmp_path):
  """A folder on this machine, and one that only TensorFlow knows."""
  return request.param and f"{request.param}/{tmp_path.name}" or str(tmp_path)


def write_folder(target, texts, **settings):
  with atomic.folder(target, last="b", **settings) as unfinished:
    for name, text in texts.items():
      os.makedirs(os.path.dirname(f"{unfinished}/{name}"), exist_ok=True)
      with open(f"{unfinished}/{name}", "w") as writer:
        writer.write(text)


def test_text_lines_and_bytes_are_written(root):
  atomic.write(f"{root}/new/text", ["ä\n", "b\r\n"])
  atomic.write_lines(f"{root}/lines", ["one", "two"])
  atomic.write_bytes(f"{root}/bytes", b"\xff\n")
  assert paths.read_bytes(f"{root}/new/text") == "ä\nb\r\n".encode()
  assert paths.read_text(f"{root}/lines") == "one\ntwo\n"
  assert paths.read_bytes(f"{root}/bytes") == b"\xff\n"
  assert paths.list_folder(root) == ["bytes", "lines", "new"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_when_writing_stops_nothing_has_changed(root, error):
  atomic.write(f"{root}/a.gz", ["old"])
  with pytest.raises(error):
    with atomic.files([f"{root}/a.gz", f"{root}/b"]) as (one, two):
      assert one.endswith("a.gz")
      for path in (one, two):
        with open(path, "w") as writer:
          writer.write("new")
      raise error
  assert paths.list_folder(root) == ["a.gz"]
  assert paths.read_text(f"{root}/a.gz") == "old"


def test_a_folder_is_written_whole(root):
  write_folder(f"{root}/out/", {"b": "1", "sub/c": "2"})
  assert paths.list_folder(root) == ["out"]
  assert paths.list_folder(f"{root}/out") == ["b", "sub"]
  assert paths.read_text(f"{root}/out/sub/c") == "2"


def test_a_folder_that_is_not_empty_stays_as_it_is(tmp_path):
  write_folder(str(tmp_path / "out"), {"b": "old"})
  with pytest.raises(OSError):
    write_folder(str(tmp_path / "out"), {"b": "new"})
  assert os.listdir(tmp_path) == ["out"]
  assert (tmp_path / "out" / "b").read_text() == "old"


def test_a_folder_replaces_another_once_it_is_whole(root):
  write_folder(f"{root}/out", {"b": "old", "sub/c": "old"})
  write_folder(f"{root}/out", {"b": "new", "sub/c": "new"}, replaces=True)
  assert paths.list_folder(root) == ["out"]
  assert paths.read_text(f"{root}/out/b") == "new"
  assert paths.read_text(f"{root}/out/sub/c") == "new"
  write_folder(f"{root}/first", {"b": "new"}, replaces=True)
  assert paths.read_text(f"{root}/first/b") == "new"


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


def test_of_a_folder_in_the_cloud_the_deciding_file_comes_last(monkeypatch):
  copied = []
  copy = paths.copy
  monkeypatch.setattr(
    paths, "copy", lambda a, b: (copied.append(b), copy(a, b))
  )
  write_folder("ram://atomic_last/out", {"b": "", "sub/c": "", "z": ""})
  names = [path.removeprefix("ram://atomic_last/out/") for path in copied]
  assert names == ["sub/c", "z", "b"]


def test_what_cannot_be_written_is_found_before_the_work(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(OSError, match=str(tmp_path / "file")):
    with atomic.file(str(tmp_path / "file" / "a")):
      raise AssertionError("the work began")


def test_a_folder_is_no_place_for_a_file(tmp_path):
  (tmp_path / "a").mkdir()
  with pytest.raises(IsADirectoryError, match=str(tmp_path / "a")):
    with atomic.file(str(tmp_path / "a")):
      raise AssertionError("the work began")
  assert os.listdir(tmp_path) == ["a"]


def test_a_new_file_may_be_read_by_whom_the_umask_lets(tmp_path):
  before = os.umask(0o022)
  try:
    atomic.write(str(tmp_path / "a"), ["text"])
  finally:
    os.umask(before)
  assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_what_killed_writers_left_is_removed(tmp_path):
  (tmp_path / ".model-1.tmp-host-7").mkdir()
  (tmp_path / ".model-1.tmp-host-7" / "model-1").write_text("half")
  (tmp_path / ".model-2.tmp-host-8").mkdir()
  (tmp_path / ".other.tmp-host-8").mkdir()
  atomic.remove_unfinished(str(tmp_path / "model-*"))
  assert os.listdir(tmp_path) == [".other.tmp-host-8"]


def test_who_writes_next_removes_what_the_dead_of_this_host_left(tmp_path):
  target = str(tmp_path / "a")
  host = socket.gethostname()
  dead = subprocess.Popen([sys.executable, "-c", ""])
  dead.wait()
  living = f".a.tmp-{host}-pid-{os.getppid()}-0"
  for name in (
    living,
    f".a.tmp-{host}-pid-{dead.pid}-0",
    f".a.tmp-{host}-pid-{os.getpid()}-0",  # Of one that had our number.
    ".a.tmp-elsewhere-pid-7-0",
  ):
    (tmp_path / name).mkdir()
  atomic.write(target, ["text"])
  left = sorted(os.listdir(tmp_path))
  assert left == sorted([".a.tmp-elsewhere-pid-7-0", living, "a"])
  atomic.remove_unfinished(target)
  assert sorted(os.listdir(tmp_path)) == [living, "a"]


def test_what_is_missing_in_the_cloud_is_an_error_of_files():
  with pytest.raises(FileNotFoundError, match="ram://nowhere/a"):
    paths.read_bytes("ram://nowhere/a")
  with pytest.raises(FileNotFoundError, match="ram://nowhere/a"):
    paths.num_bytes("ram://nowhere/a")
  paths.remove("ram://nowhere/a")
  assert not paths.exists("ram://nowhere/a")
  assert not isinstance(FileNotFoundError(), tf.errors.OpError)


def test_what_is_a_file_and_what_is_free(root, tmp_path):
  assert paths.is_free(f"{root}/out") and not paths.is_file(f"{root}/out")
  atomic.write(f"{root}/out/a", ["text"])
  assert not paths.is_free(f"{root}/out") and not paths.is_file(f"{root}/out")
  assert not paths.is_free(f"{root}/out/a") and paths.is_file(f"{root}/out/a")
  os.mkfifo(tmp_path / "pipe")
  assert not paths.is_file(str(tmp_path / "pipe"))
  (tmp_path / "empty").mkdir()
  assert paths.is_free(str(tmp_path / "empty"))
