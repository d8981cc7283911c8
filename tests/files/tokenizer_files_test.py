"""Hugging Face's tokenizer files: the vocabulary and the settings."""

import json

import pytest

from bert_tf import tokenization
from bert_tf.files import tokenizer_files

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "é", "神"]
TOKENIZER = {
  "added_tokens": [{"id": 1, "content": "[UNK]", "special": True}],
  "normalizer": {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": False,
  },
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "model": {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "vocab": {word: index for index, word in enumerate(WORDS)},
  },
}


def write(folder, **files):
  """Writes NAME.json for each name, and vocab.txt; returns its path."""
  folder.mkdir(exist_ok=True)
  for name, value in files.items():
    (folder / f"{name}.json").write_text(json.dumps(value))
  (folder / "vocab.txt").write_text("\n".join(WORDS))
  return str(folder / "vocab.txt")


def test_vocab_txt_is_preferred_to_an_equal_tokenizer_json(tmp_path):
  vocab_file = write(tmp_path, tokenizer=TOKENIZER)
  tokenizer_json = str(tmp_path / "tokenizer.json")
  vocab = tokenization.load_vocab(vocab_file)
  assert tokenization.load_vocab(tokenizer_json) == vocab
  assert tokenizer_files.find_vocab(str(tmp_path)) == vocab_file
  (tmp_path / "vocab.txt").unlink()
  assert tokenizer_files.find_vocab(str(tmp_path)) == tokenizer_json


@pytest.mark.parametrize(
  ("model", "fault"),
  [
    ({"type": "Unigram", "vocab": [["a", -1.0]]}, "no vocabulary of word"),
    ({"vocab": {"a": 0}, "merges": []}, "no vocabulary of word"),
    ({"type": "WordPiece", "vocab": {}}, "no vocabulary of word"),
    ({}, "no vocabulary of word"),
    ({"vocab": {"a": 0, "b": 2}}, "id 1"),
    ({"vocab": {"a": 0, "b": -1}}, "id 1"),
    ({"vocab": {"a": 0, "b": [1]}}, r"b is \[1\]"),
    ({"vocab": {"a\nb": 0}}, "line break"),
  ],
)
def test_a_vocabulary_that_is_not_of_word_pieces_is_refused(
  tmp_path, model, fault
):
  path = tmp_path / "tokenizer.json"
  path.write_text(json.dumps({"model": model}))
  has_pieces = tokenizer_files.find_vocab(str(tmp_path)) is not None
  assert has_pieces == ("word" not in fault)
  with pytest.raises(ValueError, match=f"tokenizer.json.*{fault}"):
    tokenization.load_vocab(str(path))


# File, content, and text of the warning.
DIFFERING = [
  ("tokenizer_config", {"tokenizer_class": "BertJapaneseTokenizer"}, "Japan"),
  ("tokenizer_config", {"word_tokenizer_type": "mecab"}, "_type mecab"),
  ("tokenizer_config", {"tokenize_chinese_chars": False}, "_chars False"),
  ("tokenizer_config", {"cls_token": "<s>"}, "cls_token <s>"),
  ("tokenizer_config", {"additional_special_tokens": ["<e>"]}, "<e>"),
  ("special_tokens_map", {"cls_token": "<s>"}, "cls_token <s>"),
  ("special_tokens_map", {"additional_special_tokens": ["<e>"]}, "<e>"),
  ("added_tokens", {"<e>": 9}, "<e>"),
  ("tokenizer", {"normalizer": {"type": "NFKC"}}, "NFKC"),
  ("tokenizer", {"normalizer": None}, "normalizer type None"),
  ("tokenizer", {"pre_tokenizer": {"type": "Whitespace"}}, "Whitespace"),
  ("tokenizer", {"model": {"type": "Unigram"}}, "Unigram"),
  ("tokenizer", {"added_tokens": [{"content": "<e>"}]}, "<e>"),
]


CONFIG = {
  "tokenizer_class": "BertTokenizerFast",
  "do_basic_tokenize": True,
  "added_tokens_decoder": {"0": {"content": "[PAD]"}},
  "mask_token": {"content": "[MASK]"},
  "model_max_length": 512,
}


@pytest.mark.parametrize(
  ("files", "expected"),
  [
    *[({name: content}, text) for name, content, text in DIFFERING],
    ({}, None),
    ({"tokenizer": TOKENIZER}, None),
    ({"tokenizer_config": CONFIG}, None),
  ],
)
def test_a_setting_that_is_not_implemented_is_named(
  tmp_path, caplog, files, expected
):
  tokenizer_files.warn_of_differing(write(tmp_path / "model", **files))
  warnings = [r.getMessage() for r in caplog.records if r.levelno > 20]
  assert len(warnings) == bool(expected)
  for warning in warnings:
    assert str(tmp_path / "model") in warning and expected in warning


@pytest.mark.parametrize(
  ("files", "expected"),
  [
    ({"tokenizer": TOKENIZER}, (False, None)),
    ({"tokenizer": TOKENIZER, "tokenizer_config": {}}, (False, None)),
    (
      {"tokenizer": TOKENIZER, "tokenizer_config": {"do_lower_case": True}},
      (True, None),
    ),
    ({"tokenizer_config": {}}, (True, None)),
    ({"tokenizer_config": {"strip_accents": False}}, (True, False)),
    ({}, (None, None)),
  ],
)
def test_the_letter_case_is_read_from_the_files(tmp_path, files, expected):
  write(tmp_path, **files)
  settings = tokenizer_files.read_case(str(tmp_path))
  assert (settings.do_lower_case, settings.strip_accents) == expected
