"""Vocabularies shorter than the embedding table, or in tokenizer.json."""

import json
import pathlib

import numpy as np
import pytest

import bert_tf
from bert_tf import tokenization
from bert_tf.checkpoint import checkpoints, extend_vocab
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.model import heads
from tests.support import tiny_models

NUM_ROWS = tiny_models.CONFIG.vocab_size
NUM_WORDS = 488
WORDS = (tiny_models.TINY / "vocab.txt").read_text().split()[:NUM_WORDS]
BIAS = "cls/predictions/output_bias"


def write_model(folder, words=WORDS, blank_lines=0):
  """Writes a model that prefers embedding rows without a word."""
  model = heads.PretrainingModel(tiny_models.CONFIG)
  tiny_models.write_run(folder, model)
  values = {v.path: v.numpy() for v in model.weights if "seed" not in v.path}
  values[BIAS] = np.where(np.arange(NUM_ROWS) < NUM_WORDS, 0, 100).astype("f4")
  checkpoints.write(
    str(folder / "model.ckpt-1"), {**values, "global_step": np.int64(1)}
  )
  text = "".join(f"{word}\n" for word in words) + "\n" * blank_lines
  (folder / "vocab.txt").write_text(text)
  return str(folder)


def to_tokenizer_json(folder):
  """Replaces the vocab.txt of a folder by tokenizer.json."""
  path = pathlib.Path(folder, "vocab.txt")
  vocab = {word: i for i, word in enumerate(path.read_text().split())}
  path.unlink()
  model = {"type": "WordPiece", "vocab": vocab}
  (path.parent / "tokenizer.json").write_text(json.dumps({"model": model}))
  return folder


def test_rows_without_a_word_are_never_predicted(tmp_path, caplog):
  folder = write_model(tmp_path / "m")
  filler = bert_tf.Predictor(folder, top_k=NUM_ROWS)
  [tokens] = filler.predict("the [MASK] is a song .")["masks"]
  assert sorted(t["token"] for t in tokens) == sorted(WORDS)
  assert sum(t["probability"] for t in tokens) == pytest.approx(1, abs=1e-4)
  warnings = [r.getMessage() for r in caplog.records if r.levelno > 20]
  [warning] = [w for w in warnings if "vocab.txt" in w]
  assert "488" in warning
  assert "500" in warning


def test_new_words_use_rows_without_a_word(tmp_path):
  folder = write_model(tmp_path / "m", blank_lines=3)
  out = str(tmp_path / "out")
  source = ModelFolder.open(str(folder))
  extension = extend_vocab.extend(source, ["unheard"], out, "grow")
  assert extension.ids == {"unheard": NUM_WORDS}
  assert extension.vocab_size == NUM_ROWS
  assert tokenization.load_vocab(f"{out}/vocab.txt")["unheard"] == NUM_WORDS
  reader = checkpoints.CheckpointReader(f"{out}/bert_model.ckpt")
  shape = reader.shapes[BIAS]
  assert shape == (NUM_ROWS,)
  bert_tf.load(out).predict("unheard [MASK]")


def test_models_written_from_tokenizer_json_have_a_vocab_txt(tmp_path):
  folder = write_model(tmp_path / "m")
  text = pathlib.Path(folder, "vocab.txt").read_text()
  to_tokenizer_json(folder)
  saved = tmp_path / "saved"
  export.run(
    export_config.ExportConfig(
      init_checkpoint=folder, export_dir=str(saved), task="encoder"
    )
  )
  assert (saved / "vocab.txt").read_text() == text
  assert (saved / "assets" / "vocab.txt").read_text() == text
