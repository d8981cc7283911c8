"""JSON that people can read, and that UTF-8 can hold."""

import json

import pytest

from bert_tf.files import json_text


@pytest.mark.parametrize(
  "text", ["\u00fc \U0001f600", "\ud83d", 'a "\\" \udc00 b']
)
def test_a_text_comes_back_as_it_was(text):
  encoded = json_text.encode({"text": text}).encode()
  assert json.loads(encoded) == {"text": text}


def test_characters_are_readable():
  assert json_text.encode(["\u00fc"]) == '["\u00fc"]'
  assert json_text.encode(["\ud83d"]) == '["\\ud83d"]'
