"""Compares the Python and the TensorFlow tokenizer on random texts."""

import functools
import pathlib

from bert_tf import tokenization
from bert_tf.export import text
from tests.chaos import outcomes
from tests.support import random_texts, tokenizer_pairs

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_VOCAB = _ROOT / "vocab" / "pydoc_uncased_8k.txt"
# do_lower_case and strip_accents.
_SETTINGS = ((True, None), (False, None), (True, False), (False, True))
_BATCH = 5000


def attack(num_tries: int, seed: int) -> outcomes.Outcome:
  """Tokenizes random texts with both; changes settings every 5,000 texts."""
  outcome = outcomes.Outcome("random texts: FullTokenizer and TensorFlow's ops")
  for start in range(0, num_tries, _BATCH):
    count = min(_BATCH, num_tries - start)
    batch = list(random_texts.make(count, seed=f"{seed} {start}"))
    full, ops = _tokenizers(*_SETTINGS[start // _BATCH % len(_SETTINGS)])
    others = tokenizer_pairs.differing(batch, full, ops)
    for example in others:
      outcome.add("", f"other ids: {example}")
    outcome.counts["the same ids"] += count - len(others)
  return outcome


@functools.cache
def _tokenizers(
  do_lower_case: bool, strip_accents: bool | None
) -> tuple[tokenization.FullTokenizer, text.BertTokenizer]:
  """Returns both tokenizers with the given settings."""
  full = tokenization.FullTokenizer(str(_VOCAB), do_lower_case, strip_accents)
  ops = text.BertTokenizer(full.vocab, do_lower_case, strip_accents)
  return full, ops
