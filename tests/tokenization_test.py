import gzip
import hashlib
import json
import pickle
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
  for line in lines:
    if "bytes_hex" in line:
      line["text"] = bytes.fromhex(line["bytes_hex"])
  is_same_unicode = unicodedata.unidata_version == "14.0.0"
  return [n for n in lines if is_same_unicode or not n["ucd_sensitive"]]


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_every_recorded_text_gives_the_originals_tokens_and_ids(
  recorded, released_vocab_file, case
):
  tokenizer = tokenization.FullTokenizer(
    released_vocab_file, do_lower_case=case == "uncased"
  )
  for line in recorded:
    tokens, ids = line[case], line[f"{case}_ids"]
    # Twice, because the second result comes from the cache.
    for _ in range(2):
      assert tokenizer.tokenize(line["text"]) == tokens, line["id"]
      assert tokenizer.tokenize_to_ids(line["text"]) == ids, line["id"]
    assert tokenizer.convert_ids_to_tokens(ids) == tokens, line["id"]
    assert tokenizer.convert_tokens_to_ids(tokens) == ids
    basic_tokens = tokenizer.basic_tokenizer.tokenize(line["text"])
    assert basic_tokens == line[f"{case}_basic"]


def test_every_character_is_split_and_lower_cased_as_in_2018(shared):
  if unicodedata.unidata_version != "14.0.0":
    pytest.skip("the table was recorded with Unicode 14.0.0")
  table = np.load(shared / "golden" / "tokenization" / "char_table.npz")
  outputs = table["map_out"].tolist()
  ends = np.cumsum(table["map_len"].astype(int)).tolist()
  lowered = {
    code: "".join(map(chr, outputs[start:end]))
    for code, start, end in zip(table["map_cp"].tolist(), [0, *ends], ends)
  }
  cased = tokenization.BasicTokenizer(do_lower_case=False)
  uncased = tokenization.BasicTokenizer()
  assert len(table["flags"]) == 0x110000
  for code, flag in enumerate(table["flags"].tolist()):
    char = chr(code)
    # Bits of the record: 1 white space, 2 control, 4 punctuation, 8 ideograph.
    if flag & 2 or code in (0, 0xFFFD):
      expected = ["ab"]
    elif flag & 1 or char in "\u2028\u2029":
      expected = ["a", "b"]
    elif flag & (4 | 8):
      expected = ["a", char, "b"]
    else:
      expected = [f"a{char}b"]
      tokens = uncased.tokenize(char)
      assert "".join(tokens) == lowered.get(code, char), hex(code)
    assert cased.tokenize(f"a{char}b") == expected, hex(code)


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


@hypothesis.given(
  text=strategies.text(
    strategies.characters(categories=["Mn", "Mc", "Lo", "Ll", "Lu"]),
    min_size=257,
    max_size=600,
  )
)
@hypothesis.settings(max_examples=20)
def test_long_words_lose_the_same_accents_as_by_normalization(text):
  decomposed = unicodedata.normalize("NFD", text)
  stripped = [c for c in decomposed if unicodedata.category(c) != "Mn"]
  assert tokenization.without_accents(text) == "".join(stripped)


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


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\n \n\t\r\n"])
def test_carriage_returns_and_blank_lines_at_the_end_are_dropped(tmp_path, end):
  # Like TensorFlow's readline, with which the 2018 release reads the file.
  path = tmp_path / "vocab"
  path.write_text(f"[UNK]\r\nfoo\rbar\r\n ##a {end}", newline="")
  assert list(tokenization.load_vocab(str(path))) == ["[UNK]", "foobar", "##a"]


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (b"\n \n", "vocab: .*empty"),
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
