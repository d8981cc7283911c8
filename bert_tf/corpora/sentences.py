"""Splits text into sentences by the rules of its language."""

from collections.abc import Iterator

from bert_tf.files import errors

# A longer sentence is cut at a space before this length.
_MAX_CHARS = 1000

# Lao and Thai do not mark the end of a sentence; a space ends a clause. Clauses
# are joined up to this length and treated as a sentence.
_LANGUAGES_OF_CLAUSES = ("lo", "th")
_CLAUSES_CHARS = 120

# Languages that sentencex 1.0.30 has rules for, or maps to another language. It
# silently treats any other code as English.
_LANGUAGES = frozenset(
  """
  aae ab abs ace acm ady ady-cyrl aeb aeb-arab aln als alt am ami an anp apc
  ar arn arq ary arz ast atj av avk awa ay az azb ba ban ban-bali bar bat-smg
  bbc bbc-latn bcc bci bdr be be-tarask be-x-old bew bg bgn bh bho bjn blk bm
  bn bpy bqi bs btm bug bug-bugi bxr ca cbk-zam cdo cdo-hant cdo-latn ce ckb
  co cpx cpx-hans cpx-hant cpx-latn crh crh-cyrl crh-latn cs csb cv da de
  de-at de-ch de-formal dsb dtp dty dua egl el eml en eo es es-formal et ext
  fa fi fit fiu-vro fon fr frc frp frr fur gag gan gan-hans gan-hant gcf gcr
  gl gld glk gn gom gom-deva gom-latn gor gsw gu guc hak he hi hif hif-latn
  hke hr hrx hsb hsn ht hu hu-formal hy hyw iba id ii ike-cans ike-latn inh io
  it iu ja jut jv ka kaa kab kbd kbd-cyrl kbp kea kge khw kiu kjh kjp kk
  kk-arab kk-cn kk-cyrl kk-kz kk-latn kk-tr kl kn knc ko ko-kp koi kr krc krl
  ks ks-arab ksh ksw ku ku-arab ku-latn kum kv lad lb lbe lez lg li lij liv
  ljp lki lld lmo ln lrc lt ltg lua luz lv lzh lzz mad mag mai map-bms mdf mg
  mhr min mk ml mnc mnc-latn mnc-mong mnw mo mr mrj ms ms-arab mui mwl my myv
  mzn nah nan nan-hant nan-latn nan-latn-pehoeji nan-latn-tailo nap nb nds
  nds-nl ne nia nl nl-informal nn no nrf nrm nyn nyo oc olo os pa pcd pdc pdt
  pfl pl pms pnt pt pt-br pwn qu qug rgn rm rmy ro roa-rup roa-tara rsk ru rue
  rup ruq ruq-cyrl ruq-latn rut sa sah scn sdc sdh se se-fi se-no se-se ses sg
  sgs sh sh-cyrl sh-latn shi shi-latn shy shy-latn sjd sk skr skr-arab sli sma
  smn sq sr sr-cyrl sr-ec sr-el sr-latn srn sro stq sty su sv sw szl szy ta
  tay tcy te tet tg tg-cyrl tg-latn tr trv tt tt-cyrl ttj ty tyv udm ug
  ug-arab uk ur vec vep vls vmf vmw vot vro wa wls wo wuu wuu-hans wuu-hant
  xal xmf yi yue yue-hans yue-hant za zh zh-classical zh-cn zh-hans zh-hant
  zh-hk zh-min-nan zh-mo zh-my zh-sg zh-tw zh-yue
  """.split()
).union(_LANGUAGES_OF_CLAUSES)


class Splitter:
  """Splits text of one language into sentences."""

  def __init__(self, language: str) -> None:
    """Loads the rules.

    Args:
      language: code of a language, such as en, de-AT or zh_Hans.

    Raises:
      ValueError: if there are no rules for it.
      ImportError: if sentencex is missing.
    """
    self._language = check_language(language)
    with errors.needs_extra("splitting text into sentences", extra="corpus"):
      import sentencex
    self._segment = sentencex.segment
    has_clauses = self._language in _LANGUAGES_OF_CLAUSES
    self._max_chars = _CLAUSES_CHARS if has_clauses else _MAX_CHARS

  def split(self, paragraph: str) -> Iterator[str]:
    """Yields the sentences, each without line breaks. Skips empty ones."""
    for piece in self._segment(self._language, paragraph):
      words = piece.split()
      sentence = " ".join(words)
      if len(sentence) > self._max_chars:
        yield from _cut_words(words, self._max_chars)
      elif sentence:
        yield sentence


def check_language(language: str) -> str:
  """Returns the code under which sentencex has the rules of a language.

  Raises:
    ValueError: if there are no rules for the language.
  """
  code = normalized_language(language)
  for candidate in (code, code.partition("-")[0]):
    if candidate in _LANGUAGES:
      return candidate
  raise ValueError(
    f"`language={language}` has no rules for sentences; give a code such as "
    "de, zh or ar. en suits languages that end sentences with . ! and ?"
  )


def normalized_language(language: str) -> str:
  """Returns a language code in lower case with hyphens."""
  return language.strip().lower().replace("_", "-")


def _cut_words(words: list[str], max_chars: int) -> Iterator[str]:
  piece: list[str] = []
  num_chars = 0
  for word in words:
    if piece and num_chars + 1 + len(word) > max_chars:
      yield " ".join(piece)
      piece, num_chars = [], 0
    num_chars += len(word) + bool(piece)
    piece.append(word)
  yield " ".join(piece)
