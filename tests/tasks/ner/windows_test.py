"""Windows of sentences, their context and their labels."""

import numpy as np
import pytest

from bert_tf import tokenization
from bert_tf.tasks.ner.config import NerConfig
from bert_tf.tasks.ner.task import make_windows
from tests.support import setups

VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e f g h i j k ##x ##y -".split()
LABELS = ("O", "B-P", "I-P")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  path.write_text("\n".join(VOCAB))
  return tokenization.FullTokenizer(str(path))


def sentences(*texts, document=1):
  return [{"words": text.split(), "document": document} for text in texts]


def format_windows(tokenizer, text, length, document_context=False):
  """Windows as text, with a star before each labelled word piece."""
  lines = []
  for windows in make_windows(text, tokenizer, length, document_context):
    for window, positions in zip(windows.sequences, windows.state[1]):
      tokens = tokenizer.convert_ids_to_tokens(window.input_ids)
      for position in positions:
        tokens[position] = "*" + tokens[position]
      lines.append(" ".join(tokens))
  return lines


def test_the_first_piece_of_each_word_is_labelled(tokenizer):
  text = sentences("axy b-c d")
  (windows,) = make_windows(text, tokenizer, 12)
  (window,) = windows.sequences
  tokens = tokenizer.convert_ids_to_tokens(window.input_ids)
  assert tokens == "[CLS] a ##x ##y b - c d [SEP]".split()
  assert windows.state == (text[0], [[1, 4, 7]])


def test_document_context_fills_both_sides_in_equal_parts(tokenizer):
  text = sentences("a b c", "d", "e f g h")
  assert format_windows(tokenizer, text, 7, True) == [
    # Space that one side does not need goes to the other.
    "[CLS] *a *b *c d e [SEP]",
    "[CLS] b c *d e f [SEP]",
    "[CLS] d *e *f *g *h [SEP]",
  ]
  # An odd position goes to the right side.
  assert format_windows(tokenizer, text, 6, True)[1] == "[CLS] c *d e f [SEP]"


def test_context_ends_with_the_document(tokenizer):
  text = [*sentences("a", "b"), *sentences("c", "d", document=2)]
  assert format_windows(tokenizer, text, 10, True) == [
    "[CLS] *a b [SEP]",
    "[CLS] a *b [SEP]",
    "[CLS] *c d [SEP]",
    "[CLS] c *d [SEP]",
  ]
  alone = [f"[CLS] *{word} [SEP]" for word in "abcd"]
  assert format_windows(tokenizer, text, 10) == alone


def test_a_long_sentence_is_labelled_in_halves_of_windows(tokenizer):
  text = sentences("a b c d e f g")
  assert format_windows(tokenizer, text, 8) == [
    "[CLS] *a *b *c d e f [SEP]",
    "[CLS] b c *d *e *f g [SEP]",
    "[CLS] b c d e f *g [SEP]",
  ]
  # A sentence that fits has one window.
  assert format_windows(tokenizer, text, 9) == [
    "[CLS] *a *b *c *d *e *f *g [SEP]"
  ]


def test_words_are_not_split_between_windows_unless_longer_than_one(tokenizer):
  text = sentences("a bxy c dxyxyxyxy e")
  assert format_windows(tokenizer, text, 8) == [
    "[CLS] *a b ##x ##y c d [SEP]",
    "[CLS] a *b ##x ##y c d [SEP]",
    "[CLS] ##x ##y *c d ##x ##y [SEP]",
    "[CLS] *d ##x ##y ##x ##y ##x [SEP]",
    "[CLS] ##x ##y ##x ##y ##x *e [SEP]",
  ]


@pytest.mark.parametrize("document_context", [False, True])
@pytest.mark.parametrize("length", [3, 5, 6, 9, 40])
def test_every_word_is_labelled_once_in_order(
  tokenizer, length, document_context
):
  rng = np.random.default_rng(length)
  words = [
    "abcdefghijk"[rng.integers(11)] + "xy" * rng.integers(4) for _ in range(300)
  ]
  ends = np.sort(rng.choice(np.arange(1, 300), 30, replace=False))
  text = [
    {"words": list(part), "document": i // 7}
    for i, part in enumerate(np.split(np.array(words), ends))
  ]
  groups = make_windows(text, tokenizer, length, document_context)
  for sentence, windows in zip(text, groups, strict=True):
    firsts = []
    for window, positions in zip(
      windows.sequences, windows.state[1], strict=True
    ):
      tokens = tokenizer.convert_ids_to_tokens(window.input_ids)
      assert len(tokens) <= length
      assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
      firsts += [tokens[position] for position in positions]
    assert firsts == [word[0] for word in sentence["words"]]


def test_a_word_without_word_pieces_is_unknown(tokenizer):
  text = sentences("a \u0081 b", "\u200b \ufffd")
  assert format_windows(tokenizer, text, 10) == [
    "[CLS] *a *[UNK] *b [SEP]",
    "[CLS] *[UNK] *[UNK] [SEP]",
  ]


def make_task(tokenizer, max_seq_length, labels=LABELS, data_dir=""):
  return setups.make(
    NerConfig,
    tokenizer,
    max_seq_length,
    labels,
    data_dir=str(data_dir),
  )


def test_an_unknown_tag_is_named_with_the_labels(tokenizer, tmp_path):
  (tmp_path / "dev.txt").write_text("a O\n\na O\nb B-X\n")
  with pytest.raises(ValueError, match="dev.txt:4: .*'B-X'.* O, B-P, I-P"):
    make_task(tokenizer, 10, data_dir=tmp_path).read("dev")


def test_tags_become_the_labels_of_the_model(tokenizer, tmp_path):
  (tmp_path / "dev.txt").write_text("a B-P\nb I-P\nc O\n")
  task = make_task(tokenizer, 10, ("O", "P"), tmp_path)
  assert task.read("dev")[0]["label"] == ["P", "P", "O"]


def test_records_hold_padded_windows_and_their_labels(tokenizer, tmp_path):
  rows = [{"words": ["cx", "e"], "label": ["I-P", "O"]}, {"words": ["a"]}]
  data = setups.encode(make_task(tokenizer, 6), rows, tmp_path)
  features = [
    {name: values.numpy().tolist() for name, values in record.items()}
    for record in setups.read(tmp_path / "eval.tf_record", data.spec)
  ]
  assert features == [
    {
      "input_ids": [2, 7, 16, 9, 3, 0],
      "input_mask": [1, 1, 1, 1, 1, 0],
      "segment_ids": [0, 0, 0, 0, 0, 0],
      "label_ids": [0, 2, 0, 0, 0, 0],
      "label_mask": [0, 1, 0, 1, 0, 0],
    },
    {
      "input_ids": [2, 5, 3, 0, 0, 0],
      "input_mask": [1, 1, 1, 0, 0, 0],
      "segment_ids": [0, 0, 0, 0, 0, 0],
      "label_ids": [0, 0, 0, 0, 0, 0],
      "label_mask": [0, 1, 0, 0, 0, 0],
    },
  ]


def test_words_have_their_places_in_the_text_that_they_make(tokenizer):
  task = make_task(tokenizer, 10)
  [inputs] = task.preprocess([{"words": ["ab", "c"]}])
  outputs = [{"logits": np.zeros((4, len(LABELS)), np.float32)}]
  words = task.postprocess(inputs, outputs)["words"]
  assert [(word["start"], word["end"]) for word in words] == [(0, 2), (3, 4)]
