"""Settings: allowed values, and values from a saved run."""

import dataclasses

import pytest

from bert_tf import settings
from tests.support import runs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
  max_seq_length: int | None = settings.setting(None, fallback=384, minimum=5)

  def __post_init__(self):
    settings.check(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
  vocab_file: str = settings.setting(help="The vocabulary.")
  do_lower_case: bool | None = settings.setting(None, fallback=True)
  strip_accents: bool | None = settings.setting(None, fallback=None)
  rate: float | None = settings.setting(0.5, minimum=0.0, maximum=1.0)
  kind: str = settings.setting("a", choices=("a", "b"))
  inner: Inner = Inner()
  plain: int = 3

  def __post_init__(self):
    settings.check(self)


@pytest.mark.parametrize(
  ("values", "parts"),
  [
    ({"rate": -0.1}, ("rate", "-0.1", "0.0")),
    ({"rate": 1.5}, ("rate", "1.5", "1.0")),
    ({"rate": float("nan")}, ("rate", "nan")),
    ({"kind": "c"}, ("kind", "'c'", "a, b")),
  ],
)
def test_invalid_values_are_named(values, parts):
  with pytest.raises(ValueError) as error:
    Outer(vocab_file="v", **values)
  for part in parts:
    assert part in str(error.value)
  for rate in (0.0, 1.0, None):
    assert Outer(vocab_file="v", rate=rate).rate == rate
  with pytest.raises(ValueError, match="max_seq_length.*4.*5"):
    Inner(max_seq_length=4)


def resolve(config, saved):
  return settings.with_defaults(settings.fill(config, saved, "out/run.json"))


@pytest.mark.parametrize("saved", [{}, {"do_lower_case": None}])
def test_an_unset_value_is_the_fallback(saved):
  settled = resolve(Outer(vocab_file="v"), saved)
  assert settled.do_lower_case is True
  assert settled.strip_accents is None
  assert settled.inner.max_seq_length == 384
  assert settled.plain == 3


def test_an_unset_value_is_the_saved_one():
  saved = {
    "do_lower_case": False,
    "strip_accents": True,
    "max_seq_length": 64,
    "plain": 8,
    "rate": 0.1,
  }
  settled = resolve(Outer(vocab_file="v"), saved)
  assert settled.do_lower_case is False
  assert settled.strip_accents is True
  assert settled.inner.max_seq_length == 64
  assert (settled.plain, settled.rate) == (3, 0.5)


def test_a_given_value_counts_more_and_the_log_says_so():
  config = Outer(vocab_file="v", inner=Inner(max_seq_length=64))
  saved = {"max_seq_length": 128, "do_lower_case": False}
  with runs.logged() as log:
    settled = resolve(config, saved)
  assert settled.inner.max_seq_length == 64
  assert settled.do_lower_case is False
  assert "From out/run.json: do_lower_case=False." in log()
  assert "Unlike out/run.json: max_seq_length=64 instead of 128." in log()
