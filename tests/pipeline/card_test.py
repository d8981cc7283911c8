"""The card of a pre-trained model."""

import types

import pytest

from bert_tf.pipeline import card


@pytest.mark.parametrize(
  ("sentence", "masked", "word"),
  [
    (
      "The old file, if any, is kept.",
      "The old file, if [MASK], is kept.",
      "any",
    ),
    ("中国的首都是北京。", "中国的首[MASK]是北京。", "都"),
    ("《XML》是一种语言。", "《XML》是[MASK]种语言。", "一"),
  ],
)
def test_the_word_in_the_middle_is_masked(tmp_path, sentence, masked, word):
  path = tmp_path / "held_out.txt"
  lines = ["Too short.", "", "One two three, four five six", sentence]
  path.write_text("\n".join(lines))
  config = types.SimpleNamespace(file=lambda name: str(tmp_path / name))
  # A comma is in the middle of the second sentence.
  assert list(card._masked_sentences(config)) == [(masked, word)]
