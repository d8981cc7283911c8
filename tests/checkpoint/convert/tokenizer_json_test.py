"""tokenizer.json of `convert --to=hf`.

The comparison needs the package tokenizers, which the project does not install:
`pip install tokenizers`.
"""

import json
import pathlib

import pytest

from bert_tf import tokenization
from bert_tf.checkpoint.convert import convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import tokenizer_files
from bert_tf.text import letter_case
from tests.support import interop_models, run_infos

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Every combination of do_lower_case and strip_accents.
CASES = [
  letter_case.Case(lower, accents)
  for lower in (True, False)
  for accents in (None, True, False)
]
OWN_TEXTS = [
  # tokenizers has no final sigma: a capital one at a word's end differs.
  "Straße, naïve Ångström: Σίσυφος İstanbul",
  "神奈川県民が選ぶ住みたい街",
  "don't   stop\u00a0-- e\u0301 \u200d\ufeff \t tab",
  "x" * 150 + " " + "y" * 201,
]


def texts():
  """Lines of the documentation, and some odd texts."""
  lines = list(OWN_TEXTS)
  for path in sorted((ROOT / "docs").glob("*.md")):
    lines += path.read_text(encoding="utf-8").splitlines()
  # Special tokens in texts are pieces to the original and tokens to others.
  special = tokenization.SPECIAL_TOKENS
  return [line for line in lines if not any(s in line for s in special)]


def write_hf(tmp_path, case):
  """Converts a model whose vocabulary has every character of the texts."""
  characters = sorted({c for text in texts() for c in text + text.casefold()})
  characters = [c for c in characters if c.strip()]
  words = [*tokenization.SPECIAL_TOKENS, *characters, "the", "of", "x" * 150]
  words += [f"##{c}" for c in characters]
  config = interop_models.CONFIG
  config = type(config)(**{**vars(config), "vocab_size": len(words)})
  prefix, _ = interop_models.write_original(tmp_path / "in", "encoder", config)
  (tmp_path / "in" / "vocab.txt").write_text("\n".join(words), "utf-8")
  run = run_infos.make(
    task="encoder",
    do_lower_case=case.do_lower_case,
    strip_accents=case.strip_accents,
  )
  vocab_file = str(tmp_path / "in" / "vocab.txt")
  run_infos.write(str(tmp_path / "in"), run, config, vocab_file)
  folder = tmp_path / "hf"
  convert.convert(ModelFolder.open(prefix), str(folder), "hf")
  return folder


def test_tokenizer_json_describes_our_tokenizer(tmp_path):
  folder = write_hf(tmp_path, letter_case.Case(False, None))
  settings = tokenizer_files.read_settings(str(folder))
  assert settings == tokenizer_files.TokenizerSettings(False, None, ())
  vocab = tokenization.load_vocab(str(folder / "vocab.txt"))
  path = folder / "tokenizer.json"
  assert tokenization.load_vocab(str(path)) == vocab
  content = json.loads(path.read_text("utf-8"))
  assert content["model"]["max_input_chars_per_word"] == 200
  assert [t["content"] for t in content["added_tokens"]] == list(
    tokenization.SPECIAL_TOKENS
  )


@pytest.mark.parametrize("case", CASES)
def test_the_package_tokenizers_gives_the_same_ids(tmp_path, case):
  tokenizers = pytest.importorskip(
    "tokenizers", reason="tokenizers is not installed"
  )
  folder = write_hf(tmp_path, case)
  other = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
  full = tokenization.FullTokenizer(
    str(folder / "vocab.txt"), bool(case.do_lower_case), case.strip_accents
  )
  cls, sep = full.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  differing = [
    text
    for text in texts()
    if other.encode(text).ids != [cls, *full.tokenize_to_ids(text), sep]
  ]
  assert not differing
  pair = other.encode("the of", "of")
  assert pair.tokens == ["[CLS]", "the", "of", "[SEP]", "of", "[SEP]"]
  assert pair.type_ids == [0, 0, 0, 0, 1, 1]
