"""Tests that commands hide optional packages from Keras."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

CODE = """
import sys
from bert_tf.cli import command
command.hide_packages_from_keras()
import keras
print(sorted(sys.modules.keys() & set(command.HIDDEN_FROM_KERAS)))
import sklearn
print("sklearn" in sys.modules, keras.__version__)
"""


def test_keras_does_not_import_hidden_packages_but_others_do():
  result = subprocess.run(
    [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True
  )
  assert result.returncode == 0, result.stderr
  import keras

  # Without hiding, Keras imports scikit-learn, which is always installed.
  assert "sklearn" in sys.modules
  assert result.stdout.split() == ["[]", "True", keras.__version__]
