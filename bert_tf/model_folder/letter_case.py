"""Decides whether text is lower-cased, by a run or by its vocabulary."""

import dataclasses
from collections.abc import Iterable
from typing import Protocol

from absl import logging

from bert_tf import tokenization
from bert_tf.formats import tokenizer_files


class Settings(Protocol):
  """The two settings, as a run, a config or a Case has them."""

  @property
  def do_lower_case(self) -> bool | None:
    """Whether text is lower-cased."""

  @property
  def strip_accents(self) -> bool | None:
    """Whether accents are dropped."""


@dataclasses.dataclass(frozen=True)
class Case:
  """Changes to the letters of text; None for a setting that is not known."""

  do_lower_case: bool | None = None
  strip_accents: bool | None = None  # None is as do_lower_case.


def of(settings: Settings | None) -> Case:
  """Returns the case that a run or a config says; None is one unknown."""
  if settings is None:
    return Case()
  return Case(settings.do_lower_case, settings.strip_accents)


def guess(vocab: Iterable[str]) -> bool | None:
  """Returns whether a vocabulary is of lower-cased text; None if unknown.

  It is cased if at least 1% of the tokens whose letters have two cases hold a
  capital letter; a few that somebody added do not make it cased. Special tokens
  such as [CLS] and <S> are passed over. Without capitals, but with accents,
  text may have been cased that was written in small letters.
  """
  tokens = list(vocab)
  num_capital = num_small = 0
  for token in tokens:
    if token[:1] + token[-1:] in ("[]", "<>"):
      continue
    num_capital += token.lower() != token
    num_small += token.lower() == token != token.upper()
  if not num_capital + num_small:
    return None
  if num_capital * 100 >= num_capital + num_small:
    return False
  return None if has_accents(tokens) else True


def has_accents(vocab: Iterable[str]) -> bool:
  """Returns whether a vocabulary is of text that kept its accents.

  Then at least 2% of its tokens would be others without them. Released ones of
  stripped text have some that no text leads to.
  """
  changed = [
    not token.isascii() and tokenization.without_accents(token) != token
    for token in vocab
  ]
  return sum(changed) * 50 >= max(1, len(changed))


def tokenizer_of(
  vocab_file: str, settings: Settings | None
) -> tokenization.FullTokenizer:
  """Returns the tokenizer of a model whose case is settled.

  Warns if the files beside the vocabulary ask for another tokenizer.

  Raises:
    ValueError: if the vocabulary is faulty.
  """
  case = of(settings)
  tokenizer_files.warn_of_differing(vocab_file)
  return tokenization.FullTokenizer(
    vocab_file, case.do_lower_case is not False, case.strip_accents
  )


def settle(
  given: Case, saved: Case, said_by: str, vocab_file: str | None
) -> Case:
  """Decides the case of texts: what is saved, else the vocabulary.

  Args:
    given: the settings of the user; None for a setting that was left out.
    saved: the settings that are saved with the model.
    said_by: the file that they are saved in, for errors.
    vocab_file: its tokens decide if nothing is saved; None without a
      vocabulary.

  Returns:
    The case, with None for a setting that is not known.

  Raises:
    ValueError: if a given setting contradicts the model or the vocabulary.
  """
  accents = _settled_accents(given, saved, said_by)
  known, where = saved.do_lower_case, said_by
  if known is None and vocab_file:
    vocab = tokenization.load_vocab(vocab_file)
    known, where = guess(vocab), vocab_file
    if given.do_lower_case is None and known is not None:
      logging.info("%s: do_lower_case=%s fits its tokens.", where, known)
    elif (given.do_lower_case, accents) == (None, None) and has_accents(vocab):
      # The original stripped them, so this does not decide by itself.
      logging.warning(
        "%s has tokens with accents, which text loses as it is lower-cased: "
        "set `strip_accents=False`, or for cased text `do_lower_case=False`.",
        where,
      )
  if given.do_lower_case is None or known in (None, given.do_lower_case):
    case = known if given.do_lower_case is None else given.do_lower_case
    return Case(case, accents)
  kind = "lower-cased" if known else "cased"
  raise ValueError(
    f"do_lower_case={given.do_lower_case} contradicts {where}, which is of "
    f"{kind} text (do_lower_case={known}); leave `do_lower_case` out."
  )


def _settled_accents(given: Case, saved: Case, said_by: str) -> bool | None:
  """Returns strip_accents as given, else as saved; as `settle`."""
  if given.strip_accents is None:
    return saved.strip_accents
  if saved.strip_accents in (None, given.strip_accents):
    return given.strip_accents
  raise ValueError(
    f"strip_accents={given.strip_accents} contradicts {said_by}, which says "
    f"{saved.strip_accents}; leave `strip_accents` out."
  )
