"""A vocabulary that does not fit the texts is warned of and shown."""

import pytest

from bert_tf import tokenization
from bert_tf.text import unknown_pieces

SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK]"
WORDS = "hotel Hotel ##s in Rome"


def make_counts(folder, tokens, do_lower_case=True):
  vocab_file = folder / "vocab.txt"
  vocab_file.write_text("\n".join((*SPECIAL.split(), *tokens.split())))
  tokenizer = tokenization.FullTokenizer(str(vocab_file), do_lower_case)
  return unknown_pieces.PieceCounts(tokenizer, "texts.txt")


@pytest.mark.parametrize(
  ("num_pieces", "num_unknown", "is_warned"),
  [
    (5, 5, False),  # A few rare words, such as emoji.
    (6, 6, True),
    (20, 6, False),
    (20, 7, True),
    (100_000, 600, False),  # Multilingual BERT on Chinese.
    (100_000, 7300, True),  # Uncased BERT on novels that keep their capitals.
  ],
)
def test_more_than_five_and_five_percent_are_warned_of(
  tmp_path, caplog, num_pieces, num_unknown, is_warned
):
  counts = make_counts(tmp_path, WORDS)
  known = 5  # hotel
  counts.add_ids([1] * num_unknown + [known] * (num_pieces - num_unknown))
  assert ("texts.txt" in caplog.text) is is_warned


def test_special_tokens_are_no_word_pieces(tmp_path):
  counts = make_counts(tmp_path, WORDS)
  counts.add_ids([2, 1, 5, 4, 6, 3, 0, 0, 1])
  assert (counts.num_pieces, counts.num_unknown) == (4, 2)


@pytest.mark.parametrize(
  ("name", "do_lower_case", "is_warned"),
  [
    ("en_wikitext-2.test", True, False),
    ("de_wiki", True, False),
    ("en_wikitext-2.test", False, True),
    ("zh_wiki_simplified", True, True),
    ("th_wiki", True, True),
  ],
)
def test_the_released_vocabulary_fits_the_texts_of_its_letters_and_case(
  unpacked, caplog, name, do_lower_case, is_warned
):
  vocab_file = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  text = unpacked("corpora") / f"{name}.txt"
  tokenizer = tokenization.FullTokenizer(str(vocab_file), do_lower_case)
  counts = unknown_pieces.PieceCounts(tokenizer, name)
  counts.add_ids(tokenizer.tokenize_to_ids(text.read_text(encoding="utf-8")))
  assert (name in caplog.text) is is_warned
