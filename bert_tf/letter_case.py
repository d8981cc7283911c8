"""Decides whether text is lower-cased, by a run or by its vocabulary."""

from collections.abc import Iterable

from absl import logging

from bert_tf import tokenization


def guess(vocab: Iterable[str]) -> bool | None:
  """Returns whether a vocabulary is of lower-cased text; None if unknown.

  It is cased if at least 1% of the tokens whose letters have two cases hold a
  capital letter; a few that somebody added do not make it cased. Special tokens
  such as [CLS] and <S> are passed over.
  """
  num_capital = num_small = 0
  for token in vocab:
    if token[:1] + token[-1:] in ("[]", "<>"):
      continue
    num_capital += token.lower() != token
    num_small += token.lower() == token != token.upper()
  if not num_capital + num_small:
    return None
  return num_capital * 100 < num_capital + num_small


def settle(
  given: bool | None,
  saved: bool | None,
  said_by: str,
  vocab_file: str | None,
) -> bool | None:
  """Decides whether texts are lower-cased: what is saved, else the vocabulary.

  Args:
    given: do_lower_case as the user set it; None if left out.
    saved: what is saved with the model; None if unknown.
    said_by: the file that says so, for errors.
    vocab_file: whose tokens decide where nothing is saved; None for none.

  Returns:
    None if nobody knows.

  Raises:
    ValueError: if what is given contradicts the model or the vocabulary.
  """
  known, where = saved, said_by
  if known is None and vocab_file:
    known, where = guess(tokenization.load_vocab(vocab_file)), vocab_file
    if given is None and known is not None:
      logging.info("%s: do_lower_case=%s fits its tokens.", where, known)
  if given is None or known is None or given == known:
    return known if given is None else given
  kind = "lower-cased" if known else "cased"
  raise ValueError(
    f"do_lower_case={given} contradicts {where}, which is of {kind} text "
    f"(do_lower_case={known}); leave `do_lower_case` out."
  )
