import gzip
import json
import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.data import packing
from bert_tf.export.text_ops import bert_tokenizer
from tests.support import random_texts, tokenizer_pairs

# Hand-made; ids are the positions.
VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] play ##ing ##ed the cafe ! , ##s $ 日"
VOCAB = {token: index for index, token in enumerate(VOCAB.split())}

# Recorded lines whose ids differ from the original's. They contain lone
# surrogates, which are valid in a Python str but not in UTF-8. The ops drop
# their bytes; the original converted words with them to [UNK].
_LONE_SURROGATES = {114, 115, 117, 118, 1198, 1201, 2040}
DIFFERING = {
  "cased": _LONE_SURROGATES,
  # In the cased setting, the words around them are unknown anyway.
  "uncased": _LONE_SURROGATES
  | {90, 91, 93, 94, 96, 97, 99, 100, 102, 103, 105, 106, 108, 109, 111, 112},
}

# Vocabularies with their case, and with the other case.
SETTINGS = [
  ("uncased", True, None),
  ("cased", False, None),
  ("multilingual_cased", False, None),
  ("chinese", True, None),
  ("multilingual_cased", True, False),
  ("cased", False, True),
]


@pytest.fixture(scope="module")
def tokenizer():
  return bert_tokenizer.BertTokenizer(VOCAB)


@pytest.fixture(scope="module")
def tokenizers(unpacked):
  """Returns a function from settings to FullTokenizer and BertTokenizer."""

  def make(name, do_lower_case, strip_accents=None):
    path = unpacked("vocab") / f"bert_base_{name}_vocab.txt"
    full = tokenization.FullTokenizer(str(path), do_lower_case, strip_accents)
    ops = bert_tokenizer.BertTokenizer(full.vocab, do_lower_case, strip_accents)
    return full, ops

  return make


def has_surrogate(text):
  return any(0xD800 <= ord(char) < 0xE000 for char in text)


def read_bytes(line):
  """Returns the bytes of a recorded text, including lone surrogates."""
  if "text" in line:
    return line["text"].encode("utf-8", "surrogatepass")
  return bytes.fromhex(line["bytes_hex"])


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_every_recorded_text_gives_the_originals_ids(shared, tokenizers, case):
  path = shared / "golden" / "tokenization" / "golden.jsonl.gz"
  with gzip.open(path, "rt") as reader:
    lines = [json.loads(line) for line in reader]
  assert len(lines) == 1364
  if unicodedata.unidata_version != "14.0.0":
    lines = [line for line in lines if not line["ucd_sensitive"]]
  texts = list(map(read_bytes, lines))
  full, ops = tokenizers("uncased", do_lower_case=case == "uncased")
  ids = ops.tokenize(texts).to_list()
  assert ids == list(map(full.tokenize_to_ids, texts))
  differing = [
    line for line, result in zip(lines, ids) if result != line[f"{case}_ids"]
  ]
  assert {line["id"] for line in differing} == DIFFERING[case]
  assert all(has_surrogate(line["text"]) for line in differing)


@pytest.mark.parametrize("setting", SETTINGS)
def test_random_texts_give_the_words_and_ids_of_full_tokenizer(
  tokenizers, setting
):
  full, ops = tokenizers(*setting)
  texts = list(random_texts.make(3000, seed=str(setting)))
  assert not tokenizer_pairs.differing(texts, full, ops)


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_character_is_treated_as_full_tokenizer_does(
  tokenizers, do_lower_case
):
  full, ops = tokenizers("uncased", do_lower_case)
  # Planes 4 to 13 have no characters, and 15 and 16 only those of private use.
  some = (*range(0x40000, 0xE0000, 16), *range(0xF0000, 0x110000, 16))
  points = (*range(0x40000), *range(0xE0000, 0xF0000), *some)
  chars = [c for c in map(chr, points) if not has_surrogate(c)]
  texts = [f"a{char}b" for char in chars]
  assert not tokenizer_pairs.differing(texts, full, ops, 50_000)


def test_invalid_utf8_is_dropped(tokenizers):
  full, ops = tokenizers("uncased", do_lower_case=True)
  rng = random.Random(7)
  alphabet = (
    b"aZ \x80\xbf\xc0\xc3\xe2\x82\xac\xed\xa0\xf0\x9f\x98\xf4\x90\xff\xe0"
  )
  texts = [
    bytes(rng.choices(alphabet, k=rng.randint(0, 9))) for _ in range(5000)
  ]
  texts += [bytes(rng.choices(range(256), k=8)) for _ in range(5000)]
  texts += [text.encode()[:-1] for text in ("é", "日", "😀", "ab日")]
  assert ops.tokenize(texts).to_list() == list(map(full.tokenize_to_ids, texts))


def test_words_and_pieces_by_hand(tokenizer):
  texts = ["Playing, played!", "", " \t\n", "the CAFÉ[MASK]", "xyz plays 日the"]
  assert tokenizer.tokenize(texts).to_list() == [
    [5, 6, 11, 5, 7, 10],
    [],
    [],
    # The vocabulary has no [, mask and ].
    [8, 9, 1, 1, 1],
    [1, 5, 12, 14, 8],
  ]


def test_words_over_200_characters_are_unknown(tokenizer):
  play = "play" + "ing" * 65 + "s"
  assert len(play) == 200
  # The 201st is stripped, or is a character as another.
  texts = [play, play + "\u0301", play + "s", "日" + play + "! " + "é" * 201]
  pieces = [5, *[6] * 65, 12]
  ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
  assert ids.to_list() == [pieces, pieces, [1], [14, *pieces, 10, 1]]
  assert (starts[2].numpy(), ends[2].numpy()) == ([0], [201])
  assert (starts[3][-1].numpy(), ends[3][-1].numpy()) == (205, 607)


def cut(text, starts, ends):
  text = text.encode() if isinstance(text, str) else text
  return [text[a:b].decode() for a, b in zip(starts, ends)]


def test_offsets_cut_the_given_text(tokenizer):
  texts = [
    "\ufeff Playing  the Cafe\u0301!",
    b"caf\xc3\xa9\xff \xe6\x97 the\x00 pl\xc2\xaday$",
    "",
    "日日 \u0301the \u0323play\u0301\u0323ed",
  ]
  _, starts, ends = tokenizer.tokenize_with_offsets(texts)
  assert (starts.dtype, ends.dtype) == (tf.int64, tf.int64)
  assert [
    cut(text, *places)
    for text, *places in zip(texts, starts.to_list(), ends.to_list())
  ] == [
    # Accents go with their letter, and a letter's case is kept.
    ["Play", "ing", "the", "Cafe\u0301", "!"],
    ["café", "the", "pl\u00aday", "$"],
    [],
    # A mark without a letter before it in its word is dropped.
    ["日", "日", "the", "play\u0301\u0323", "ed"],
  ]


def test_offsets_of_random_texts_give_the_source_of_each_piece(tokenizers):
  full, ops = tokenizers("multilingual_cased", do_lower_case=True)
  # Kept marks are sorted within a word; their offsets are not.
  moved = random_texts.marks_that_stay()
  texts = [
    text
    for text in random_texts.make(3000, seed=4)
    if not set(moved) & set(text)
  ]
  ids, starts, ends = (
    part.to_list() for part in ops.tokenize_with_offsets(texts)
  )
  num_checked = 0
  for text, pieces, *places in zip(texts, ids, starts, ends):
    assert pieces == full.tokenize_to_ids(text)
    # Offsets increase, except for parts of the same character.
    assert places[0] == sorted(places[0]) and places[1] == sorted(places[1])
    for piece, part in zip(pieces, cut(text, *places)):
      token = full.inv_vocab[piece].removeprefix("##")
      if token != "[UNK]":
        made = "".join(full.basic_tokenizer.tokenize(part))
        assert token.replace("ς", "σ") in made.replace("ς", "σ"), ascii(text)
        num_checked += 1
  assert num_checked > 5000


def test_character_offsets_cut_a_python_string(tokenizer):
  texts = ["日本 cafés! 😀the", "", b"\xff\xe6\x97the \xf0\x9fplay"]
  _, starts, ends = tokenizer.tokenize_with_offsets(texts)
  starts = bert_tokenizer.character_offsets(texts, starts).to_list()
  ends = bert_tokenizer.character_offsets(texts, ends).to_list()
  texts[2] = texts[2].decode(errors="replace")
  assert [
    [text[start:end] for start, end in zip(*places)]
    for text, *places in zip(texts, starts, ends)
  ] == [["日", "本", "café", "s", "!", "😀the"], [], ["the", "play"]]


def test_words_between_white_space_have_the_pieces_of_the_text(tokenizer):
  texts = ["The\u00a0CAFÉ,  play\x0bing\u2028日\ufeff ", "", " \t", "the"]
  words, starts, ends = tokenizer.split_at_white_space(texts)
  expected = [["The", "CAFÉ,", "play\x0bing", "日\ufeff"], [], [], ["the"]]
  assert [[w.decode() for w in row] for row in words.to_list()] == expected
  assert [
    cut(text, *places)
    for text, *places in zip(texts, starts.to_list(), ends.to_list())
  ] == expected
  ids = tokenizer.tokenize_words(words)
  assert ids.to_list() == [[[8], [9, 11], [5, 6], [14]], [], [], [[8]]]
  assert ids.merge_dims(1, 2).to_list() == tokenizer.tokenize(texts).to_list()


@pytest.mark.parametrize(
  "text, expected",
  [
    (
      "He left Bonn, Germany's old capital (in 1843).",
      "He left Bonn , Germany 's old capital ( in 1843 ) .",
    ),
    (
      'Mr. J. Smith of the U.S., he says: "Go!"',
      'Mr. J. Smith of the U.S. , he says : " Go ! "',
    ),
    ("wait... what?! «Ünï»", "wait ... what ? ! « Ünï »"),
    ("O’Neill’s 20-year-old dogs' 3.5%", "O’Neill ’s 20-year-old dogs ' 3.5%"),
    # Words that are already split stay whole.
    ("lamb . 's ( n't -- U.S. ...", "lamb . 's ( n't -- U.S. ..."),
    ("(A.) 'x'", "( A. ) ' x '"),
    (" \u3000", ""),
    ("", ""),
  ],
)
def test_plain_text_is_split_at_signs_beside_words(tokenizer, text, expected):
  words, starts, ends = tokenizer.split_plain_text([text, "the"])
  items = [word.decode() for word in words.to_list()[0]]
  assert items == expected.split()
  encoded = text.encode()
  places = zip(starts.to_list()[0], ends.to_list()[0])
  assert [encoded[start:end].decode() for start, end in places] == items
  assert words.to_list()[1] == [b"the"]


def random_segments(rng, count):
  return [
    [rng.randrange(5, 12) for _ in range(rng.randint(0, 9))]
    for _ in range(count)
  ]


@pytest.mark.parametrize("num_segments", [1, 2])
def test_packed_texts_equal_those_of_features(tokenizer, num_segments):
  rng = random.Random(num_segments)
  for max_seq_length in [num_segments + 1, *range(4, 14), 24]:
    segments = [random_segments(rng, 60) for _ in range(num_segments)]
    pairs = list(zip(*segments)) if num_segments == 2 else None
    expected = [
      packing.build_input(a, b, 2, 3, max_seq_length)
      for a, b in (pairs or [(a, None) for a in segments[0]])
    ]
    ragged = [tf.ragged.constant(s, tf.int32, ragged_rank=1) for s in segments]
    packed = tokenizer.pack(ragged, max_seq_length)
    for name, values in packed.items():
      assert values.dtype == tf.int32
      wanted = [features_of_one[name] for features_of_one in expected]
      np.testing.assert_array_equal(values, wanted)
    longest = max(sum(features["input_mask"]) for features in expected)
    short = tokenizer.pack(ragged, max_seq_length, pad_to_max=False)
    for name, values in packed.items():
      np.testing.assert_array_equal(short[name], values[:, :longest])


@pytest.mark.parametrize(
  ("vocab", "message"),
  [
    ({"a": 0, "b": 1}, "cannot be compiled"),
    ({"[UNK]": 0, "a" * 300: 1}, r"cannot be compiled: .*256.*unused"),
    ({"[UNK]": 0, "a\0b": 1}, "cannot be compiled"),
  ],
)
def test_faulty_vocabularies_are_refused(vocab, message):
  with pytest.raises(ValueError, match=message):
    bert_tokenizer.BertTokenizer(vocab)


def test_the_tokenizer_works_in_a_dataset_and_on_an_empty_batch(tokenizer):
  texts = tf.data.Dataset.from_tensor_slices(["the cafe", "play"]).batch(2)
  packed = texts.map(lambda t: tokenizer.pack([tokenizer.tokenize(t)], 5))
  (result,) = packed.as_numpy_iterator()
  assert result["input_ids"].tolist() == [[2, 8, 9, 3, 0], [2, 5, 3, 0, 0]]
  nothing = tf.constant([], tf.string)
  for part in tokenizer.tokenize_with_offsets(nothing):
    assert part.to_list() == []
  assert tokenizer.split_at_white_space(nothing)[0].to_list() == []
  assert tokenizer.pack([tokenizer.tokenize(nothing)], 5)[
    "input_ids"
  ].shape == ((0, 5))
