"""Windows of sentences, their context and their labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf import tokenization
from bert_tf.tasks.ner.config import NerConfig
from tests.support import setups

VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e f g h i j k ##x ##y -".split()
LABELS = ("O", "B-P", "I-P")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  path.write_text("\n".join(VOCAB))
  return tokenization.FullTokenizer(str(path))


def make_task(tokenizer, max_seq_length, labels=LABELS, **fields):
  return setups.make(NerConfig, tokenizer, max_seq_length, labels, **fields)


def sentences(*texts, document=1):
  return [{"words": text.split(), "document": document} for text in texts]


def format_windows(tokenizer, text, length, document_context=False):
  """Windows as text, with a star before each labelled word piece."""
  lines = []
  task = make_task(tokenizer, length, document_context=document_context)
  for windows in task.preprocess(text):
    for window, positions in zip(windows.sequences, windows.state[1]):
      tokens = tokenizer.convert_ids_to_tokens(window.input_ids)
      for position in positions:
        tokens[position] = "*" + tokens[position]
      lines.append(" ".join(tokens))
  return lines


# Sentences, the length, document_context, and the windows.
WINDOWS = [
  # The first piece of each word is labelled.
  (["axy b-c d"], 12, False, ["[CLS] *a ##x ##y *b - c *d [SEP]"]),
  # Context fills both sides in equal parts. Space that one side does not need
  # goes to the other.
  (
    *(["a b c", "d", "e f g h"], 7, True),
    [
      "[CLS] *a *b *c d e [SEP]",
      "[CLS] b c *d e f [SEP]",
      "[CLS] d *e *f *g *h [SEP]",
    ],
  ),
  # An odd position goes to the right side.
  (
    *(["a b c", "d", "e f g h"], 6, True),
    [
      "[CLS] *a *b *c d [SEP]",
      "[CLS] c *d e f [SEP]",
      "[CLS] *e *f *g *h [SEP]",
    ],
  ),
  # A long sentence is labelled in halves of windows.
  (
    *(["a b c d e f g"], 8, False),
    [
      "[CLS] *a *b *c d e f [SEP]",
      "[CLS] b c *d *e *f g [SEP]",
      "[CLS] b c d e f *g [SEP]",
    ],
  ),
  (["a b c d e f g"], 9, False, ["[CLS] *a *b *c *d *e *f *g [SEP]"]),
  # Words are not split between windows, unless longer than one.
  (
    *(["a bxy c dxyxyxyxy e"], 8, False),
    [
      "[CLS] *a b ##x ##y c d [SEP]",
      "[CLS] a *b ##x ##y c d [SEP]",
      "[CLS] ##x ##y *c d ##x ##y [SEP]",
      "[CLS] *d ##x ##y ##x ##y ##x [SEP]",
      "[CLS] ##x ##y ##x ##y ##x *e [SEP]",
    ],
  ),
  # A word without word pieces is unknown.
  (
    *(["a \u0081 b", "\u200b \ufffd"], 10, False),
    ["[CLS] *a *[UNK] *b [SEP]", "[CLS] *[UNK] *[UNK] [SEP]"],
  ),
]


@pytest.mark.parametrize(("texts", "length", "context", "expected"), WINDOWS)
def test_windows_label_words_in_their_context(
  tokenizer, texts, length, context, expected
):
  text = sentences(*texts)
  assert format_windows(tokenizer, text, length, context) == expected


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


WORDS = st.from_regex(r"[a-k][xy]{0,6}", fullmatch=True)


@settings(max_examples=50, deadline=None)
@given(
  documents=st.lists(
    st.lists(st.lists(WORDS, min_size=1, max_size=12), max_size=4), max_size=3
  ),
  length=st.integers(5, 20),
  document_context=st.booleans(),
)
def test_every_word_is_labelled_once_in_order_at_its_place(
  tokenizer, documents, length, document_context
):
  rows = [
    {"words": words, "text": " ".join(words), "document": number}
    for number, document in enumerate(documents)
    for words in document
  ]
  task = make_task(tokenizer, length, document_context=document_context)
  for row, inputs in zip(rows, task.preprocess(rows), strict=True):
    firsts, outputs = [], []
    _, all_positions = inputs.state
    for window, positions in zip(inputs.sequences, all_positions, strict=True):
      tokens = tokenizer.convert_ids_to_tokens(window.input_ids)
      assert len(tokens) <= length
      assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
      firsts += [tokens[position] for position in positions]
      outputs.append({"logits": np.zeros((length, len(LABELS)), np.float32)})
    assert firsts == [word[0] for word in row["words"]]
    words = task.postprocess(inputs, outputs)["words"]
    texts = [row["text"][word["start"] : word["end"]] for word in words]
    assert texts == [word["word"] for word in words] == row["words"]


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
