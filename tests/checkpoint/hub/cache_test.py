"""Names of downloaded models are opened like folders."""

import json
import pathlib
import shutil

import pytest

import bert_tf
from bert_tf.checkpoint import weights
from bert_tf.checkpoint.hub import cache, download
from bert_tf.checkpoint.model_folder import ModelFolder
from tests.support import checkout, download_server

TINY = checkout.ROOT / "tests" / "golden" / "tiny"
NAME = "uncased_L-4_H-256_A-4"


@pytest.fixture
def home(tmp_path, monkeypatch):
  """An empty cache. The current folder is beside it."""
  monkeypatch.setenv(cache.HOME_VARIABLE, str(tmp_path / "home"))
  (tmp_path / "work").mkdir()
  monkeypatch.chdir(tmp_path / "work")
  return tmp_path / "home"


def test_a_downloaded_name_is_a_model(home):
  shutil.copytree(TINY, home / "models" / NAME)
  files = ModelFolder.open(NAME)
  assert files.folder == str(home / "models" / NAME)
  assert files.vocab_file == str(home / "models" / NAME / "vocab.txt")
  encoder = bert_tf.BertModel.from_pretrained(NAME.lower())
  assert encoder.config.hidden_size == files.config.hidden_size
  assert (
    bert_tf.load(NAME).bert_config.hidden_size == encoder.config.hidden_size
  )


def test_a_folder_of_that_name_comes_first(home, tmp_path):
  shutil.copytree(TINY, home / "models" / NAME)
  shutil.copytree(TINY, tmp_path / "work" / NAME)
  assert weights.find_weights(NAME) == f"{NAME}/bert_model.ckpt"


@pytest.mark.parametrize("name", [NAME, "hf:owner/name"])
def test_the_error_for_a_name_that_is_not_here_names_the_command(name, home):
  with pytest.raises(ValueError) as caught:
    ModelFolder.open(name)
  message = f"{name} is not here; run: bert-tf download {name}"
  assert str(caught.value) == message


def test_a_model_that_is_nowhere_names_the_command(home):
  with pytest.raises(FileNotFoundError, match="'nope'.* download hf:") as e:
    bert_tf.load("nope")
  assert isinstance(e.value, ValueError)


def test_the_default_cache_is_in_the_cache_folder_of_the_user(monkeypatch):
  monkeypatch.delenv(cache.HOME_VARIABLE, raising=False)
  monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
  assert cache.find_home().endswith("bert_tf")
  monkeypatch.setenv(cache.HOME_VARIABLE, "~/models")
  assert cache.find_home().endswith("/models") and "~" not in cache.find_home()


def hub_files(repository, names):
  """Returns the answers of Hugging Face for a repository, by path."""
  commit = download_server.COMMIT
  info = {"id": repository, "sha": commit}
  info["siblings"] = [{"rfilename": name} for name in names]
  tree = [
    {"type": "file", "path": name, "size": len(name), "oid": "a" * 40}
    for name in names
  ]
  address = f"/api/models/{repository}"
  return {
    f"{address}/revision/main": json.dumps(info).encode(),
    f"{address}/tree/{commit}": json.dumps(tree).encode(),
    **{
      f"/{repository}/resolve/{commit}/{name}": name.encode() for name in names
    },
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
  assert cache.resolve_model("hf:owner/name") == folder


@pytest.mark.parametrize("name", ["hf:name", "hf:a/b/c", "hf:../b", "hf:a/.."])
def test_other_forms_of_names_of_hugging_face_are_refused(name, home):
  with pytest.raises(ValueError, match="hf:OWNER/NAME"):
    download.download(name)
