"""The examples in the docstrings of the public names print what they show."""

import doctest
import shutil

import keras
import pytest

import bert_tf
from tests.support import docs_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A folder with small versions of the files that the examples name."""
  folder = tmp_path_factory.mktemp("examples")
  docs_files.write_model(folder / "quickstart", hidden_size=128)
  for name in ("bert_config.json", "vocab.txt"):
    shutil.copy(folder / "quickstart" / name, folder)
  # A model that is already in the cache needs no network.
  downloaded = folder / "models" / "uncased_L-2_H-128_A-2"
  shutil.copytree(folder / "quickstart", downloaded)
  (folder / "reviews").mkdir()
  (folder / "reviews" / "train.tsv").write_text("fast\tgood\nlate\tbad\n")
  return folder


@pytest.mark.parametrize("name", sorted({*bert_tf.__all__} - {"__version__"}))
def test_examples_print_what_they_show(name, folder, monkeypatch):
  monkeypatch.chdir(folder)
  monkeypatch.setenv("BERT_TF_HOME", str(folder))
  keras.utils.set_random_seed(1)
  finder, shown = doctest.DocTestFinder(), []
  runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
  names = {"bert_tf": bert_tf}
  for test in finder.find(getattr(bert_tf, name), name, globs=names):
    runner.run(test, out=shown.append)
  assert runner.tries, f"{name} has no example"
  assert not runner.failures, "".join(shown)
