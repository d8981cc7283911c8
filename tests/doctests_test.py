"""The examples in the docstrings of the public names are run, each alone."""

import doctest
import inspect
import os
import shutil

import keras
import pytest

import bert_tf
from tests.support import docs_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A folder with the small files that the examples name."""
  folder = tmp_path_factory.mktemp("examples")
  docs_files.write_model(folder / "quickstart", hidden_size=128)
  for name in ("bert_config.json", "vocab.txt"):
    shutil.copy(folder / "quickstart" / name, folder)
  (folder / "reviews").mkdir()
  (folder / "reviews" / "train.tsv").write_text("fast\tgood\nlate\tbad\n")
  # What was downloaded earlier needs no network.
  downloaded = folder / "models" / "uncased_L-2_H-128_A-2"
  shutil.copytree(folder / "quickstart", downloaded)
  checkpoint = downloaded / "bert_model.ckpt.data-00000-of-00001"
  assert checkpoint.exists()
  return folder


@pytest.mark.parametrize("name", bert_tf._MODULES)
def test_the_examples_of_a_public_name_print_what_they_show(
  name, folder, monkeypatch
):
  monkeypatch.chdir(folder)
  monkeypatch.setenv("BERT_TF_HOME", str(folder))
  keras.utils.set_random_seed(1)
  value = getattr(bert_tf, name)
  finder = doctest.DocTestFinder(exclude_empty=True)
  tests = [
    test
    for test in finder.find(value, name, globs={"bert_tf": bert_tf})
    if test.examples
  ]
  assert tests, f"the docstring of {name} has no example"
  runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
  shown = []
  for test in tests:
    runner.run(test, out=shown.append)
  assert not runner.failures, "".join(shown)
