"""What a user reads of an error."""

import pytest
import tensorflow as tf

from bert_tf.files import errors


def test_a_missing_package_is_named_with_its_extra():
  with pytest.raises(ImportError, match=r"drawing .*no_such.*bert_tf\[plots\]"):
    with errors.needs_extra("drawing", extra="plots"):
      import no_such_package  # noqa: F401


def test_of_tensorflows_errors_the_reason_is_left():
  def reason(message):
    return errors.reason(tf.errors.InvalidArgumentError(None, None, message))

  assert reason("{{function_node x}} it failed [Op:SaveV2] name: ") == (
    "it failed"
  )
  assert reason("one line\nGraph:\n  more") == "one line"
  assert reason("...assertion failed: [too long]\n [[node]]") == "too long"
  assert reason("") == ""
