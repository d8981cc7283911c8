"""Error messages for users."""

import errno
import os
import pathlib
import sys

import pytest
import tensorflow as tf

from bert_tf.files import errors, packages


@pytest.mark.parametrize("is_checkout", [True, False])
def test_a_missing_package_is_told_with_the_command_that_installs_it(
  tmp_path, monkeypatch, is_checkout
):
  root = pathlib.Path(__file__).resolve().parents[2]
  command = f"pip install -e '{root}[plots]'"
  if not is_checkout:
    required = ["keras>=3", 'a>=1; extra == "plots"', 'b; extra == "hf"']
    monkeypatch.setattr(packages, "_ROOT", tmp_path)
    monkeypatch.setattr(packages.metadata, "requires", lambda name: required)
    command = "pip install 'a>=1'"
  with pytest.raises(ImportError, match="drawing .*no_such") as error:
    with packages.needs_extra("drawing", extra="plots"):
      import no_such_package  # noqa: F401
  assert str(error.value).endswith(command)


@pytest.mark.parametrize(
  ("error", "is_of_the_file"),
  [
    (RuntimeError("encrypted"), True),
    (NotImplementedError(), True),
    (KeyError("a"), True),
    (OSError("not a gzip file"), True),
    (FileNotFoundError(errno.ENOENT, "there is none", "/b"), False),
    (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), False),
    (MemoryError(), False),
  ],
)
def test_what_a_library_raises_for_a_file_names_it(error, is_of_the_file):
  with pytest.raises(type(error) if not is_of_the_file else ValueError) as seen:
    with errors.reading("a/file"):
      raise error
  assert ("a/file" in str(seen.value)) == is_of_the_file


_GRAPH = "Graph execution error:\n\nDetected at node a/b defined at:\n  File x"


@pytest.mark.parametrize(
  ("message", "reason"),
  [
    ("{{function_node x}} it failed [Op:SaveV2] name: ", "it failed"),
    ("one line\nGraph:\n  more", "one line"),
    (f"{_GRAPH}\n\nit failed\n\t [[{{{{node a/b}}}}]]\nHint: c", "it failed"),
    (
      "Graph execution error:\n\n2 root error(s) found.\n"
      "  (0) OUT_OF_RANGE:  it failed\n\t [[{{node a}}]]",
      "it failed",
    ),
    ("...assertion failed: [too long]\n [[node]]", "too long"),
    ("", ""),
  ],
)
def test_only_the_reason_of_a_tensorflow_error_is_shown(message, reason):
  error = tf.errors.InvalidArgumentError(None, None, message)
  assert errors.reason(error) == reason


def test_a_broken_tensorflow_text_is_told_with_one_that_works(
  monkeypatch, tmp_path
):
  # As a version for another TensorFlow fails.
  (tmp_path / "tensorflow_text.py").write_text(
    "import tensorflow as tf\n"
    "raise tf.errors.NotFoundError(None, None, 'undefined symbol: x')"
  )
  monkeypatch.syspath_prepend(str(tmp_path))
  monkeypatch.delitem(sys.modules, "tensorflow_text", raising=False)
  with pytest.raises(ImportError) as error:
    packages.import_tensorflow_text("serving texts")
  message = str(error.value)
  assert "serving texts" in message and "undefined symbol" in message
  minor = ".".join(tf.__version__.split(".")[:2])
  assert f"pip install 'tensorflow-text=={minor}.*,!=2.21.0'" in message
  assert "\n" not in message
