"""Splits text into sentences by the rules of its language."""

import textwrap
from collections.abc import Iterator

from bert_tf.files import packages

# Longer sentences are cut at a space before this length.
_MAX_CHARS = 1000

# Lao and Thai do not mark the end of a sentence; a space ends a clause. Clauses
# are joined up to this length and treated as a sentence.
_LANGUAGES_OF_CLAUSES = ("lo", "th")
_CLAUSES_CHARS = 120

# Languages that sentencex 1.0.30 has rules for, or maps to another language. It
# silently treats any other code as English.
_LANGUAGES = frozenset(
  """
  aae ab abs ace acm ady aeb aln als alt am ami an anp apc ar arn arq ary arz
  ast atj av avk awa ay az azb ba ban bar bbc bcc bci bdr be bew bg bgn bh bho
  bjn blk bm bn bpy bqi bs btm bug bxr ca cdo ce ckb co cpx crh cs csb cv da
  de dsb dtp dty dua egl el eml en eo es et ext fa fi fit fon fr frc frp frr
  fur gag gan gcf gcr gl gld glk gn gom gor gsw gu guc hak he hi hif hke hr
  hrx hsb hsn ht hu hy hyw iba id ii inh io it iu ja jut jv ka kaa kab kbd kbp
  kea kge khw kiu kjh kjp kk kl kn knc ko koi kr krc krl ks ksh ksw ku kum kv
  lad lb lbe lez lg li lij liv ljp lki lld lmo ln lo lrc lt ltg lua luz lv lzh
  lzz mad mag mai mdf mg mhr min mk ml mnc mnw mo mr mrj ms mui mwl my myv mzn
  nah nan nap nb nds ne nia nl nn no nrf nrm nyn nyo oc olo os pa pcd pdc pdt
  pfl pl pms pnt pt pwn qu qug rgn rm rmy ro rsk ru rue rup ruq rut sa sah scn
  sdc sdh se ses sg sgs sh shi shy sjd sk skr sli sma smn sq sr srn sro stq
  sty su sv sw szl szy ta tay tcy te tet tg th tr trv tt ttj ty tyv udm ug uk
  ur vec vep vls vmf vmw vot vro wa wls wo wuu xal xmf yi yue za zh
  """.split()
)


class Splitter:
  """Splits text of a language, such as en, de-AT or zh_Hans, into sentences."""

  def __init__(self, language: str) -> None:
    self._language = normalize_language(language).partition("-")[0]
    if self._language not in _LANGUAGES:
      raise ValueError(
        f"there are no rules for sentences of `language={language}`; give a "
        "code such as de, or en for languages that end them with . ! and ?"
      )
    with packages.needs_extra("splitting text into sentences", extra="corpus"):
      import sentencex
    self._segment = sentencex.segment
    has_clauses = self._language in _LANGUAGES_OF_CLAUSES
    self._max_chars = _CLAUSES_CHARS if has_clauses else _MAX_CHARS

  def split(self, paragraph: str) -> Iterator[str]:
    """Yields the sentences, each without line breaks. Skips empty ones."""
    for piece in self._segment(self._language, paragraph):
      sentence = " ".join(piece.split())
      if len(sentence) > self._max_chars:
        yield from textwrap.wrap(
          sentence,
          self._max_chars,
          break_long_words=False,
          break_on_hyphens=False,
        )
      elif sentence:
        yield sentence


def normalize_language(language: str) -> str:
  """Returns a language code in lower case with hyphens."""
  return language.strip().lower().replace("_", "-")
