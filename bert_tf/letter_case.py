"""Decides whether text is lower-cased, by a run or by its vocabulary."""

from collections.abc import Iterable

from absl import logging


def guess(vocab: Iterable[str]) -> bool | None:
  """Returns whether a vocabulary is of lower-cased text; None if unknown.

  It is cased if at least 1% of the tokens whose letters have two cases hold a
  capital letter; a few that somebody added do not make it cased.

  Args:
    vocab: the tokens. Special tokens such as [CLS] and <S> are passed over.
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
  run_file: str,
  vocab: Iterable[str],
  vocab_file: str,
) -> bool:
  """Decides whether texts are lower-cased.

  Args:
    given: do_lower_case as the user set it; None if left out.
    saved: what the run.json of the model's run says; None if unknown.
    run_file: path of that run.json, for errors.
    vocab: the tokens, which decide where nothing is saved.
    vocab_file: where they were read.

  Raises:
    ValueError: if what is given contradicts the run or the vocabulary.
  """
  known, where = saved, run_file
  if known is None:
    known, where = guess(vocab), vocab_file
    if given is None:
      known = True if known is None else known
      logging.info("%s: do_lower_case=%s fits its tokens.", where, known)
  if given is None or known is None or given == known:
    return bool(known if given is None else given)
  kind = "lower-cased" if known else "cased"
  raise ValueError(
    f"do_lower_case={given} contradicts {where}, which is of {kind} text "
    f"(do_lower_case={known}); leave --do_lower_case out."
  )
