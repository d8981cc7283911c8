import gzip
import hashlib
import json
import pickle
import random
import unicodedata

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from bert_tf import tokenization

# Made by hand. The ids are the positions.
VOCAB = (
  "[PAD] [UNK] [CLS] [SEP] [MASK] play ##ing ##ed the cafe ! , ##s".split()
)


@pytest.fixture
def vocab_file(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("".join(f"{token}\n" for token in VOCAB))
  return str(path)


@pytest.fixture(scope="session")
def released_vocab_file(unpacked):
  path = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  digest = hashlib.sha256(path.read_bytes()).hexdigest()
  assert digest.startswith("07eced375cec144d27c900241f3e3394")
  return str(path)


@pytest.fixture(scope="session")
def recorded(shared):
  """Texts with the tokens and ids of the 2018 release."""
  path = shared / "golden" / "tokenization" / "golden.jsonl.gz"
  with gzip.open(path, "rt") as reader:
    lines = [json.loads(line) for line in reader]
  assert len(lines) == 1364
  return lines


def get_text(line):
  return line["text"] if "text" in line else bytes.fromhex(line["bytes_hex"])


def is_comparable(line):
  """Returns whether a result is valid here; some need Unicode 14.0.0."""
  return not line["ucd_sensitive"] or unicodedata.unidata_version == "14.0.0"


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_every_recorded_text_gives_the_originals_tokens_and_ids(
  recorded, released_vocab_file, case
):
  tokenizer = tokenization.FullTokenizer(
    released_vocab_file, do_lower_case=case == "uncased"
  )
  for line in filter(is_comparable, recorded):
    text = get_text(line)
    # Twice, because the second result comes from the cache.
    for _ in range(2):
      assert tokenizer.tokenize(text) == line[case], line["id"]
      assert tokenizer.tokenize_to_ids(text) == line[f"{case}_ids"], line["id"]
    tokens = tokenizer.convert_ids_to_tokens(line[f"{case}_ids"])
    assert tokens == line[case], line["id"]
    assert tokenizer.convert_tokens_to_ids(tokens) == line[f"{case}_ids"]


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_every_recorded_text_gives_the_originals_basic_tokens(recorded, case):
  tokenizer = tokenization.BasicTokenizer(do_lower_case=case == "uncased")
  for line in filter(is_comparable, recorded):
    assert tokenizer.tokenize(get_text(line)) == line[f"{case}_basic"]


def test_every_character_is_split_as_in_the_2018_release(shared):
  if unicodedata.unidata_version != "14.0.0":
    pytest.skip("the table was recorded with Unicode 14.0.0")
  table = np.load(shared / "golden" / "tokenization" / "char_table.npz")
  flags = table["flags"]
  assert len(flags) == 0x110000
  # The recorded classes decide how "a?b" is split.
  cased = tokenization.BasicTokenizer(do_lower_case=False)
  for code, flag in enumerate(flags.tolist()):
    char = chr(code)
    is_space, is_control, is_punctuation, is_cjk = (
      flag & 1,
      flag & 2,
      flag & 4,
      flag & 8,
    )
    if is_control or code in (0, 0xFFFD):
      expected = ["ab"]
    elif is_space or char in "\u2028\u2029":
      expected = ["a", "b"]
    elif is_punctuation or is_cjk:
      expected = ["a", char, "b"]
    else:
      expected = [f"a{char}b"]
    assert cased.tokenize(f"a{char}b") == expected, hex(code)


def test_every_character_is_lower_cased_as_in_the_2018_release(shared):
  if unicodedata.unidata_version != "14.0.0":
    pytest.skip("the table was recorded with Unicode 14.0.0")
  table = np.load(shared / "golden" / "tokenization" / "char_table.npz")
  flags, outputs = table["flags"], table["map_out"].tolist()
  ends = np.cumsum(table["map_len"].astype(int)).tolist()
  changed = {
    code: "".join(map(chr, outputs[start:end]))
    for code, start, end in zip(table["map_cp"].tolist(), [0, *ends], ends)
  }
  uncased = tokenization.BasicTokenizer()
  # Spaces, controls, punctuation and ideographs are split or dropped earlier.
  for code in np.nonzero(flags & 0b1111 == 0)[0].tolist():
    if code in (0xFFFD, 0x2028, 0x2029):
      continue
    expected = changed.get(code, chr(code))
    tokens = uncased.tokenize(chr(code))
    assert "".join(tokens) == expected, hex(code)


def test_accents_follow_lower_casing_unless_set():
  text = "Élan ZÜRICH"
  for lower, strip, expected in [
    (True, None, "elan zurich"),
    (False, None, "Élan ZÜRICH"),
    (True, False, "élan zürich"),
    (False, True, "Elan ZURICH"),
  ]:
    basic = tokenization.BasicTokenizer(lower, strip)
    assert basic.tokenize(text) == expected.split()


def test_long_words_lose_the_same_accents_as_by_normalization():
  rng = random.Random(7)
  tests = (unicodedata.combining, unicodedata.decomposition, str.isalpha)
  kinds = [
    [chr(code) for code in range(0x20, 0x1F000) if has_kind(chr(code))]
    for has_kind in tests
  ]
  for size in (*range(250, 262), 3000):
    for _ in range(20):
      weights = [rng.random() for _ in kinds]
      word = "".join(
        rng.choice(rng.choices(kinds, weights)[0]) for _ in range(size)
      )
      decomposed = unicodedata.normalize("NFD", word)
      stripped = [c for c in decomposed if unicodedata.category(c) != "Mn"]
      assert tokenization.without_accents(word) == "".join(stripped)


def test_normalize_never_gets_a_long_run_of_marks(monkeypatch, vocab_file):
  sizes = []
  normalize = unicodedata.normalize

  def counted(form, text):
    sizes.append(len(text))
    return normalize(form, text)

  monkeypatch.setattr(unicodedata, "normalize", counted)
  tokenizer = tokenization.FullTokenizer(vocab_file)
  word = "cafe" + "\u0301\u0323" * 8000
  assert tokenizer.tokenize(word) == ["cafe"]
  assert tokenizer.tokenize(word + "\U0001d165\U0001d16d" * 8000) == ["[UNK]"]
  assert max(sizes) < 1000


@pytest.fixture(scope="module")
def letters_tokenizer(tmp_path_factory):
  """A tokenizer of the letters, as words and as continuations."""
  path = tmp_path_factory.mktemp("letters") / "vocab.txt"
  letters = "abcdefghijklmnopqrstuvwxyz"
  tokens = [*VOCAB, *letters, *(f"##{letter}" for letter in letters)]
  path.write_text("\n".join(dict.fromkeys(tokens)))
  return tokenization.FullTokenizer(str(path))


@hypothesis.given(
  text=strategies.text()
  | strategies.text("playing thecafÉß!,\u0301\u4e00[MASK]\t")
)
def test_ids_are_in_the_vocabulary_and_pieces_make_up_the_words(
  letters_tokenizer, text
):
  pieces = letters_tokenizer.tokenize(text)
  ids = letters_tokenizer.tokenize_to_ids(text)
  assert all(0 <= index < len(letters_tokenizer.vocab) for index in ids)
  assert letters_tokenizer.convert_ids_to_tokens(ids) == pieces
  assert letters_tokenizer.convert_tokens_to_ids(pieces) == ids
  joined = " ".join(pieces).replace(" ##", "").split()
  words = letters_tokenizer.basic_tokenizer.tokenize(text)
  assert len(joined) == len(words)
  assert all(own in (word, "[UNK]") for own, word in zip(joined, words))


def test_words_over_the_limit_are_unknown():
  wordpiece = tokenization.WordpieceTokenizer(
    {"[UNK]": 0, "a": 1, "##a": 2, "aaaaaa": 3}, max_input_chars_per_word=5
  )
  assert wordpiece.tokenize("aaaaa") == ["a", "##a", "##a", "##a", "##a"]
  assert wordpiece.tokenize("aaaaaa") == ["[UNK]"]
  default = tokenization.WordpieceTokenizer({"[UNK]": 0, "a": 1, "##a": 2})
  assert len(default.tokenize("a" * 200)) == 200
  assert default.tokenize("a" * 201) == ["[UNK]"]


def test_a_full_cache_does_not_change_results(vocab_file, monkeypatch):
  words = [f"play{'s' * count}" for count in range(20)] + ["the", "x" * 40]
  expected = [tokenization.FullTokenizer(vocab_file).tokenize(w) for w in words]
  monkeypatch.setattr(tokenization, "_MAX_CACHED_WORDS", 3)
  tokenizer = tokenization.FullTokenizer(vocab_file)
  for _ in range(3):
    assert [tokenizer.tokenize(word) for word in words] == expected
    assert len(tokenizer._word_ids) <= 3
  tokenizer.tokenize("y" * 100)  # Words this long are not cached.
  assert "y" * 100 not in tokenizer._word_ids


def test_a_tokenizer_can_be_sent_to_another_process(vocab_file):
  tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case=False)
  copy = pickle.loads(pickle.dumps(tokenizer))
  assert copy.tokenize("playing The") == tokenizer.tokenize("playing The")


def test_bytes_are_decoded_as_utf8_without_invalid_bytes(vocab_file):
  assert tokenization.convert_to_unicode(b"caf\xc3\xa9\xff") == "café"
  assert tokenization.printable_text(b"ab\xc3") == "ab"
  tokenizer = tokenization.FullTokenizer(vocab_file)
  assert tokenizer.tokenize("café".encode()) == ["cafe"]
  with pytest.raises(ValueError, match="int.*str or bytes"):
    tokenization.convert_to_unicode(3)


def test_released_vocabularies_load_completely(unpacked):
  for name, size in [
    ("uncased", 30522),
    ("cased", 28996),
    ("multilingual_cased", 119547),
    ("chinese", 21128),
  ]:
    path = unpacked("vocab") / f"bert_base_{name}_vocab.txt"
    vocab = tokenization.load_vocab(str(path))
    assert len(vocab) == size and vocab["[MASK]"] == 103


def test_carriage_returns_of_a_vocabulary_are_dropped(tmp_path):
  # Like TensorFlow's readline, with which the 2018 release reads the file.
  path = tmp_path / "vocab"
  path.write_bytes(b"[UNK]\r\nfoo\rbar\r\n ##a \n")
  assert list(tokenization.load_vocab(str(path))) == ["[UNK]", "foobar", "##a"]


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (b"", "vocab: .*empty"),
    (b"[UNK]\na\nb\na\n", r"vocab:4: .*'a', .* line 2"),
    (b"[UNK]\nab\xff\n", r"vocab:2: .*UTF-8"),
    (b"a\nb\n", r"2 tokens.*\[UNK\]"),
  ],
)
def test_faulty_vocabularies_are_refused(tmp_path, content, message):
  path = tmp_path / "vocab"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=message):
    tokenization.FullTokenizer(str(path))


def test_unknown_tokens_and_ids_are_named():
  with pytest.raises(ValueError, match=r"'b' .*1 entries"):
    tokenization.convert_tokens_to_ids({"a": 0}, ["a", "b"])
  with pytest.raises(ValueError, match="7 .*vocabulary"):
    tokenization.convert_ids_to_tokens({0: "a"}, [7])


@pytest.mark.parametrize(
  ("path", "fitting"),
  [
    ("/models/uncased_L-24_H-1024_A-16/bert_model.ckpt", [True]),
    ("/models/chinese_L-12_H-768_A-12/bert_model.ckpt", [True]),
    ("/cased_L-12_H-768_A-12/bert_model.ckpt", [False]),
    ("/multi_cased_L-12_H-768_A-12/bert_model.ckpt", [False]),
    (None, [False, True]),
    ("/my/model/bert_model.ckpt", [False, True]),
    ("/cased_L-12_H-768_A-12/model.ckpt-7", [False, True]),
    ("/my_cased_L-12_H-768_A-12/bert_model.ckpt", [False, True]),
  ],
)
def test_case_must_fit_a_released_checkpoint(path, fitting):
  for lower in {False, True} - {*fitting}:
    expected = f"{path}.*`do_lower_case={not lower}`"
    with pytest.raises(ValueError, match=expected):
      tokenization.validate_case_matches_checkpoint(lower, path)
  for lower in fitting:
    tokenization.validate_case_matches_checkpoint(lower, path)
