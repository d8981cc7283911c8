"""Public names of the package."""

import pathlib
import subprocess
import sys

import pytest

import bert_tf

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", bert_tf.__all__)
def test_public_names_exist_and_are_listed(name):
  assert dir(bert_tf) == sorted(bert_tf.__all__)
  value = getattr(bert_tf, name)
  if name != "__version__":
    assert value.__name__ == name
    assert value.__module__.startswith("bert_tf.")


@pytest.mark.parametrize(
  ("name", "here"),
  [
    ("BertModle", ""),
    # `pipeline` of transformers is a folder here.
    ("TFBertModel", "; use bert_tf.BertModel"),
    ("BertForTokenClassification", "; use bert_tf.TokenModel"),
    ("AutoModelForSequenceClassification", "; use bert_tf.ClassifierModel"),
    ("AutoTokenizer", "; use bert_tf.BertTokenizer"),
  ],
)
def test_an_unknown_name_is_answered_by_ours(name, here):
  with pytest.raises((AttributeError, ImportError), match=f"{name}'{here}$"):
    getattr(bert_tf, name)
  if here:
    with pytest.raises(ImportError, match=f"{name}'{here}$"):
      exec(f"from bert_tf import {name}")


def test_importing_the_package_imports_no_heavy_package():
  code = "import sys, bert_tf; dir(bert_tf); print(*sys.modules)"
  result = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
  )
  assert result.returncode == 0, result.stderr
  imported = {name.split(".")[0] for name in result.stdout.split()}
  assert not imported & {"tensorflow", "keras", "numpy", "sklearn", "absl"}
