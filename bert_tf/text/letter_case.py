"""Decides whether text is lower-cased, from run.json or the vocabulary."""

from collections.abc import Collection
from typing import Any

from absl import logging

from bert_tf import tokenization
from bert_tf.files.tokenizer_files import Case as Case


def get_case(settings: Any) -> Case:
  """Returns the case of settings or of a Case; unknown for None."""
  if settings is None:
    return Case()
  return Case(settings.do_lower_case, settings.strip_accents)


def guess(vocab: Collection[str]) -> bool | None:
  """Returns whether a vocabulary is lower-cased; None if that is not known.

  A vocabulary is cased if at least 1% of its tokens with letters hold a capital
  letter, which allows for a few that a user added. Special tokens and scripts
  without capitals do not count. Without capitals but with accents, it could be
  either.
  """
  words = [t for t in vocab if t[:1] + t[-1:] not in ("[]", "<>")]
  num_capital = sum(word.lower() != word for word in words)
  num_small = sum(word.lower() == word != word.upper() for word in words)
  if num_capital * 100 >= max(1, num_capital + num_small):
    return False
  return True if num_small and not _has_accents(vocab) else None


def _has_accents(vocab: Collection[str]) -> bool:
  # The limit is 2%, since even the released uncased vocabularies hold some
  # tokens with accents, which no stripped text uses.
  num_changed = sum(
    not token.isascii() and tokenization.without_accents(token) != token
    for token in vocab
  )
  return num_changed * 50 >= max(1, len(vocab))


def warn_if_cased(vocab_file: str, do_lower_case: bool) -> None:
  """Warns if text is lower-cased for a vocabulary of cased text."""
  if do_lower_case and guess(tokenization.load_vocab(vocab_file)) is False:
    logging.warning(
      "%s is for cased text. Set `do_lower_case=False`.", vocab_file
    )


def resolve(
  user: Any, saved: Any, vocabulary: tuple[str, Collection[str]] | None
) -> Case:
  """Returns the user's case, else that of the model's folder, else a guess.

  The first two are arguments of `get_case`, the third is the path and the
  tokens of the vocabulary. Raises ValueError if the user's do_lower_case
  contradicts the vocabulary.
  """
  user, saved = get_case(user), get_case(saved)
  lower, strip = user.do_lower_case, user.strip_accents
  if strip is None:
    strip = saved.strip_accents
  if saved.do_lower_case is not None and lower in (None, saved.do_lower_case):
    return Case(saved.do_lower_case, strip)
  if vocabulary is None:
    return Case(lower, strip)
  vocab_file, vocab = vocabulary
  guessed = guess(vocab)
  kind = "lower-cased" if guessed else "cased"
  if None not in (lower, guessed) and lower != guessed:
    raise ValueError(
      f"do_lower_case={lower} contradicts {vocab_file}, whose tokens are "
      f"{kind}. Leave out `do_lower_case`."
    )
  if lower is None and guessed is not None:
    logging.info(f"{vocab_file} has {kind} tokens: do_lower_case={guessed}.")
  if user == saved == Case(guessed) and _has_accents(vocab):
    # The original stripped accents by default, so this only warns.
    logging.warning(
      "%s has tokens with accents, but lower-casing strips them. Set "
      "`strip_accents=False` or `do_lower_case=False`.",
      vocab_file,
    )
  return Case(guessed if lower is None else lower, strip)
