"""The case of text, from run.json or guessed from the vocabulary."""

import pytest

from bert_tf import tokenization
from bert_tf.text import letter_case


@pytest.mark.parametrize(
  ("tokens", "do_lower_case"),
  [
    ("[PAD] [CLS] the ##ing Berlin", False),
    ("[PAD] [CLS] <S> the ##ing berlin", True),
    ("[PAD] [UNK] 42 \u4e00 ##\u4e01 !", None),
    ("", None),
    ("the " * 200 + "BERT", True),
    # These could also be cased vocabularies of text without capitals.
    ("[PAD] [CLS] le caf\u00e9 d\u00e9j\u00e0 vu", None),
    ("[PAD] \u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902 a", None),
    ("[PAD] \ud55c\uad6d a", None),
    ("the " * 98 + "\u00e9", True),
    ("the " * 98 + "BERT", False),
  ],
)
def test_the_case_of_a_vocabulary_is_guessed(tokens, do_lower_case):
  assert letter_case.guess(tokens.split()) is do_lower_case


def test_the_released_vocabulary_is_lower_cased(unpacked):
  path = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  assert letter_case.guess(tokenization.load_vocab(str(path))) is True


def settle(user, saved, tokens):
  """Resolves cases, which are pairs, for a vocabulary of these tokens."""
  vocabulary = ("vocab.txt", tokens.split()) if tokens else None
  cases = (letter_case.Case(*user), letter_case.Case(*saved))
  return letter_case.resolve(*cases, vocabulary)


def test_a_case_that_contradicts_the_vocabulary_is_refused():
  with pytest.raises(ValueError, match="do_lower_case=True .*vocab.txt"):
    settle([True], [None], "[CLS] Berlin the")


@pytest.mark.parametrize(
  ("user", "saved", "tokens", "expected"),
  [
    # The user comes first, then run.json, then the vocabulary.
    ((None, None), (True, None), "[CLS] Berlin the", (True, None)),
    ((True, None), (True, None), "[CLS] Berlin the", (True, None)),
    ((None, None), (None, None), "[CLS] Berlin the", (False, None)),
    ((False, None), (None, None), "[CLS] Berlin the", (False, None)),
    ((False, None), (True, None), "[CLS] Berlin the", (False, None)),
    ((None, None), (None, None), "42", (None, None)),
    ((False, None), (None, None), "42", (False, None)),
    ((None, None), (None, None), "", (None, None)),
    ((None, None), (True, False), "the", (True, False)),
    ((None, True), (True, False), "the", (True, True)),
    ((True, None), (True, False), "the", (True, False)),
    ((None, False), (True, None), "the", (True, False)),
    ((None, False), (None, None), "the", (True, False)),
    ((None, None), (None, None), "the", (True, None)),
    # As in the original; a warning names the lost setting.
    ((None, None), (None, None), "caf\u00e9 vu", (None, None)),
    ((None, None), (None, None), "Caf\u00e9 vu", (False, None)),
    ((True, None), (None, None), "caf\u00e9 vu", (True, None)),
    ((False, None), (None, None), "caf\u00e9 vu", (False, None)),
    ((None, None), (True, None), "caf\u00e9 vu", (True, None)),
    ((None, None), (None, True), "caf\u00e9 vu", (None, True)),
  ],
)
def test_the_case_is_that_of_the_user_the_run_or_the_vocabulary(
  caplog, user, saved, tokens, expected
):
  assert settle(user, saved, tokens) == letter_case.Case(*expected)
  loses_accents = "caf" in tokens and expected == (None, None)
  assert ("strip_accents" in caplog.text) is loses_accents
