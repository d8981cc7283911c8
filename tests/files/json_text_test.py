"""Readable JSON that UTF-8 can hold."""

import json

import pytest

from bert_tf.files import json_text


@pytest.mark.parametrize(
  "text", ["\u00fc \U0001f600", "\ud83d", 'a "\\" \udc00 b']
)
def test_an_encoded_text_is_decoded_unchanged(text):
  encoded = json_text.encode({"text": text}).encode()
  assert json.loads(encoded) == {"text": text}


def test_only_single_surrogates_are_escaped():
  assert json_text.encode(["\u00fc"]) == '["\u00fc"]'
  assert json_text.encode(["\ud83d"]) == '["\\ud83d"]'
