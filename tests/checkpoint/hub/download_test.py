"""Downloads from a server on loopback: cut, refused, changed, hostile."""

import io
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import zipfile

import pytest

import bert_tf
from bert_tf.checkpoint.hub import cache, download
from tests.support import checkout, download_server, runs

TINY = checkout.ROOT / "tests" / "golden" / "tiny"
NAME = "uncased_L-2_H-128_A-2"
PATH = f"/bert_models/2020_02_20/{NAME}.zip"
MODEL_FILES = (
  "bert_config.json",
  "bert_model.ckpt.data-00000-of-00001",
  "bert_model.ckpt.index",
  "vocab.txt",
)
COMMAND = (sys.executable, "-m", "bert_tf", "download")


def make_zip(files):
  """Returns a zip without compression that has these files, by name."""
  content = io.BytesIO()
  with zipfile.ZipFile(content, "w") as archive:
    for name, text in files.items():
      archive.writestr(name, text)
  return content.getvalue()


def model_zip(top="", **others):
  """Returns a zip of a tiny model; the files are below the folder `top`."""
  files = {top + name: (TINY / name).read_bytes() for name in MODEL_FILES}
  # Noise, so that the zip is several blocks of a transfer.
  return make_zip({**files, **others, f"{top}more": random.randbytes(500_000)})


@pytest.fixture
def home(tmp_path, monkeypatch):
  """The folder of an empty cache."""
  monkeypatch.setenv(cache.HOME_VARIABLE, str(tmp_path / "home"))
  return tmp_path / "home"


@pytest.fixture
def site(home):
  with download_server.serve({PATH: model_zip(f"{NAME}/")}) as site:
    yield site


def names_below(folder):
  """Returns the paths of the files below a folder, without locks."""
  files = (path for path in folder.rglob("*") if path.is_file())
  return sorted(
    str(path.relative_to(folder)) for path in files if path.suffix != ".lock"
  )


def check_is_model(folder):
  for name in MODEL_FILES:
    path = pathlib.Path(folder, name)
    assert path.read_bytes() == (TINY / name).read_bytes()


def test_a_model_is_unpacked_and_the_second_call_needs_no_server(site, home):
  with runs.logged() as log:
    folder = bert_tf.download(NAME, site.url)
  assert f"{NAME} has no published hash to compare with" in log()
  assert folder == str(home / "models" / NAME)
  check_is_model(folder)
  assert names_below(home) == sorted(
    f"models/{NAME}/{name}" for name in (*MODEL_FILES, "more")
  )
  assert bert_tf.download(NAME, "http://127.0.0.1:1") == folder
  # The name alone also imports neither TensorFlow nor requests.
  code = (
    "import sys\n"
    "from bert_tf.cli import main\n"
    "try: main.run()\n"
    "except SystemExit as end: assert not end.code, end\n"
    "print({'tensorflow', 'keras', 'requests'} & {*sys.modules})"
  )
  result = subprocess.run(
    [sys.executable, "-c", code, "download", NAME],
    capture_output=True,
    text=True,
  )
  assert result.stdout.splitlines()[-1] == "set()", result.stderr


BASE = "uncased_L-12_H-768_A-12"


@pytest.mark.parametrize(
  ("name", "path", "content", "message"),
  [
    ("WNLI", "/glue/data/WNLI.zip", {"a": "a"}, "WNLI.zip.*SHA-256"),
    (BASE, f"/bert_models/2018_10_18/{BASE}.zip", None, "ckpt.data.*SHA-256"),
    ("RTE", "/none", {}, "/glue/data/RTE.zip.*404.*`base_url`"),
    (NAME, PATH, {"a/vocab.txt": "a", "a/b": "b"}, "lacks bert_model.ckpt"),
    (NAME, PATH, "damaged", f"{NAME}.zip is truncated or corrupt"),
    (NAME, PATH, "encrypted", f"{NAME}.zip .* encrypted"),
    (NAME, PATH, "cut", f"{PATH}|{NAME}.zip is truncated or corrupt"),
  ],
)
def test_a_missing_damaged_or_other_file_is_refused_and_removed(
  name, path, content, message, site, home
):
  good = site.files[PATH]
  if content == "cut":
    site.cuts = [200_000]
  elif content == "damaged":
    site.files[path] = good[:-1000]
  elif content == "encrypted":
    # The flag of the first file, in its header and in the directory.
    changed = bytearray(good)
    for start in (6, good.index(b"PK\x01\x02") + 8):
      changed[start] |= 1
    site.files[path] = bytes(changed)
  else:
    site.files[path] = model_zip() if content is None else make_zip(content)
  with pytest.raises((ValueError, OSError), match=message):
    download.download(name, site.url)
  assert not names_below(home)
  site.files[PATH] = good
  check_is_model(download.download(NAME, site.url))


@pytest.mark.parametrize("home", ["/proc/none", "/dev/full", "gs://bucket/a"])
def test_a_cache_that_cannot_be_written_is_named(home, monkeypatch):
  monkeypatch.setenv(cache.HOME_VARIABLE, home)
  with pytest.raises((OSError, ValueError), match=home) as caught:
    download.download("RTE", "http://127.0.0.1:1")
  assert cache.HOME_VARIABLE in str(caught.value)


@pytest.mark.parametrize(
  "name", ["../out", "a/../../out", "/tmp/out", "..\\out", "C:out"]
)
def test_names_that_lead_out_of_the_folder_stay_in_it(name, site, home):
  site.files[PATH] = model_zip(**{name: "bad"})
  folder = download.download(NAME, site.url)
  check_is_model(folder)
  assert not os.path.exists("/tmp/out")
  inside = f"home/models/{NAME}/"
  assert all(name.startswith(inside) for name in names_below(home.parent))


def start(site):
  """Returns a process that downloads the model."""
  return subprocess.Popen(
    [*COMMAND, NAME, f"--base_url={site.url}"],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def wait_for_request(site, process):
  while not site.requests:
    assert process.poll() is None
    time.sleep(0.01)


def test_of_two_processes_one_downloads_and_the_other_waits(site, home):
  site.block = threading.Event()
  first = start(site)
  wait_for_request(site, first)
  second = start(site)
  time.sleep(3)  # Until the second waits for the lock.
  site.block.set()
  outputs = [process.communicate(timeout=60)[0] for process in (first, second)]
  assert outputs == 2 * [f"{home / 'models' / NAME}\n"]
  assert len(site.requests) == 1


def test_the_test_set_of_mrpc_and_its_split_are_those_of_glue(unpacked, home):
  glue = unpacked("glue") / "MRPC"
  files = {
    f"/senteval/senteval_data/{name}": (glue / name).read_bytes()
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt")
  }
  files["/glue/data/mrpc_dev_ids.tsv"] = (glue / "dev_ids.tsv").read_bytes()
  with download_server.serve(files) as site:
    folder = pathlib.Path(download.download("mrpc", site.url))
  for name in ("train.tsv", "dev.tsv", "test.tsv"):
    rows = (folder / name).read_text("utf-8").splitlines()
    expected = (glue / name).read_text("utf-8-sig").splitlines()
    assert rows[0] == expected[0] and sorted(rows) == sorted(expected)


def test_without_a_name_all_names_are_listed(site, home):
  download.download(NAME, site.url)
  result = subprocess.run(COMMAND, capture_output=True, text=True)
  rows = [line.split() for line in result.stdout.splitlines() if line]
  by_name = {row[0]: row for row in rows}
  assert by_name[NAME][1:4] == ["17.6", "MB", "yes"]
  assert "yes" not in by_name["uncased_L-12_H-768_A-12"]
  assert by_name["MNLI"][1:3] == ["312.8", "MB"]
  assert str(home) in result.stdout


def test_an_unknown_name_is_refused(home):
  with pytest.raises(ValueError, match="SQuAD1.1.*hf:OWNER/NAME"):
    download.download("SQuAD1.1")
  assert not os.path.exists(home)
