"""Words added to a model: new rows, vocabulary, config, unchanged values."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import checkpoints, extend_vocab, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from tests.support import run_infos

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "tiny_perturbed"
CONFIG = MODEL / "bert_config.json"
CHECKPOINT = MODEL / "bert_model.ckpt"
# A model of the same sizes, with the optimizer's slots and the step.
TRAINED = MODEL / "trajectory_tf215_final" / "model.ckpt-10"
V, D = 500, 32
EMBEDDINGS = "bert/embeddings/word_embeddings"
OUTPUT_BIAS = "cls/predictions/output_bias"

# New words and their pieces in the tiny vocabulary, found by hand.
PIECES = {
  "flighty": ("flight", "##y"),
  "qed": ("q", "##ed"),
  "σ": ("[UNK]",),
}
PIECE_IDS = {"flighty": [457, 107], "qed": [59, 110], "σ": [1]}
SLOTS = {5: b"[unused0]", 498: b"[unused1]", 499: b"[unused7]"}
IDS = {
  "unused": {"flighty": 5, "qed": 498, "σ": 499},
  "grow": {"flighty": 500, "qed": 501, "σ": 502},
}


@pytest.fixture(scope="module")
def vocab(tmp_path_factory):
  """The tiny vocabulary with unused entries and unusual line ends."""
  lines = (GOLDEN / "tiny" / "vocab.txt").read_bytes().split(b"\n")[:V]
  for index, slot in SLOTS.items():
    lines[index] = slot
  lines[7] += b"\r"
  lines[9] += b" "
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  path.write_bytes(b"\n".join(lines))  # No newline at the end.
  return path


def extend(vocab, output_dir, texts=tuple(PIECES), method="unused", **settings):
  values = {
    "path": str(CHECKPOINT),
    "bert_config_file": str(CONFIG),
    "vocab_file": str(vocab),
    "do_lower_case": True,
    **settings,
  }
  source = ModelFolder.open(**values)
  return extend_vocab.extend(source, texts, str(output_dir), method)


@pytest.mark.parametrize("method", ["unused", "grow"])
def test_new_rows_are_means_and_all_other_values_stay(vocab, tmp_path, method):
  folder = tmp_path / "new" / method
  extension = extend(vocab, folder, method=method, path=str(TRAINED))
  ids = IDS[method]
  assert dict(extension.ids) == ids
  assert dict(extension.pieces) == PIECES
  size = V if method == "unused" else V + len(PIECES)
  config = json.loads((folder / "bert_config.json").read_text())
  assert config == {**json.loads(CONFIG.read_text()), "vocab_size": size}
  assert extension.vocab_size == size
  assert extension.num_unused == (0 if method == "unused" else len(SLOTS))
  old = checkpoints.CheckpointReader(str(TRAINED))
  new = checkpoints.CheckpointReader(str(folder / "bert_model.ckpt"))
  # A released checkpoint of these sizes has no slots and no step.
  released = checkpoints.CheckpointReader(str(CHECKPOINT))
  assert set(new.shapes) == set(released.shapes)
  kept = [i for i in range(V) if i not in ids.values()]
  for name in new.shapes:
    before, after = old.get(name), new.get(name)
    if name in (EMBEDDINGS, OUTPUT_BIAS):
      assert after.shape == (size, *before.shape[1:])
      for word, pieces in PIECE_IDS.items():
        mean = sum(before[i].astype(np.float64) for i in pieces) / len(pieces)
        # Rounded once, from float64.
        np.testing.assert_array_equal(after[ids[word]], np.float32(mean))
      before, after = before[kept], after[kept]
    assert before.tobytes() == after.tobytes(), name
  lines = vocab.read_bytes().split(b"\n")
  new_lines = (folder / "vocab.txt").read_bytes().split(b"\n")
  assert new_lines.pop() == b""
  assert len(new_lines) == size
  assert [new_lines[i] for i in kept] == [lines[i] for i in kept]
  for word, index in ids.items():
    assert new_lines[index] == word.encode()


def test_run_json_comes_along_and_decides_the_case(vocab, tmp_path):
  start = tmp_path / "run"
  start.mkdir()
  reader = checkpoints.CheckpointReader(str(CHECKPOINT))
  path = str(start / "model.ckpt-1")
  checkpoints.write(path, {n: reader.get(n) for n in reader.shapes})
  run = run_infos.make("pretraining", do_lower_case=False, max_seq_length=9)
  config = modeling.BertConfig.from_json_file(str(CONFIG))
  scored = dataclasses.replace(run, scores={"loss": 2.0})
  run_infos.write(str(start), scored, config, str(vocab))
  folder = tmp_path / "out"
  start_flags = {"path": path}
  extension = extend(vocab, folder, ["Qed"], do_lower_case=None, **start_flags)
  assert run_info.read_run(str(folder)) == run
  tokens = tokenization.load_vocab(str(folder / "vocab.txt"))
  assert tokens["Qed"] == extension.ids["Qed"]
  # A flag counts more.
  with pytest.raises(ValueError, match="'Qed' .* read as 'qed'"):
    extend(vocab, tmp_path / "b", ["Qed"], do_lower_case=True, **start_flags)


@pytest.mark.parametrize(
  ("word", "expected"),
  [
    ("well-known", "'well - known'"),
    ("新冠", "'新 冠'"),
    ("café", "'cafe'"),
    ("##ly2", "'# # ly2'"),
    ("x" * 201, "200 characters"),
  ],
)
def test_a_word_that_would_not_stay_whole_is_named(
  vocab, tmp_path, word, expected
):
  with pytest.raises(ValueError) as error:
    extend(vocab, tmp_path / "out", ["qed", word])
  assert repr(word) in str(error.value) and expected in str(error.value)
  assert not list(tmp_path.iterdir())


def test_a_folder_in_use_is_not_written_to(vocab, tmp_path):
  (tmp_path / "mine").write_text("kept")
  with pytest.raises(ValueError, match="output_dir"):
    extend(vocab, tmp_path)
  with pytest.raises(ValueError, match="output_dir"):
    extend(vocab, tmp_path / "mine")
  assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_config_vocabulary_and_checkpoint_must_be_of_one_model(vocab, tmp_path):
  config = json.loads(CONFIG.read_text())
  other = tmp_path / "config.json"
  for change, expected in (
    ({"hidden_size": 64}, r"is \(500, 32\), .*\(500, 64\)"),
    ({"vocab_size": 499}, "500 .*vocab_size"),
  ):
    other.write_text(json.dumps({**config, **change}))
    with pytest.raises(ValueError, match=expected):
      extend(vocab, tmp_path / "out", bert_config_file=str(other))
  with pytest.raises(ValueError, match="was trained on cased text"):
    cased = tmp_path / "cased_L-12_H-768_A-12"
    shutil.copytree(MODEL, cased)
    extend(vocab, tmp_path / "out", path=str(cased / "bert_model.ckpt"))
  assert not (tmp_path / "out").exists()


def test_the_script_writes_a_model_and_prints_a_summary(
  vocab, tmp_path, run_script
):
  (tmp_path / "words.txt").write_text("flighty\nthe\nqed\n", encoding="utf-8")
  result = run_script(
    "extend-vocab",
    f"--bert_config_file={CONFIG}",
    f"--vocab_file={vocab}",
    f"--init_checkpoint={TRAINED}",
    "--do_lower_case",
    "--words_file=words.txt",
    "--output_dir=out",
    "--method=grow",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  assert result.stdout.splitlines() == [
    "out: 2 words added by grow, 502 word pieces, 3 [unused] slots left",
    "  500  flighty  was flight ##y",
    "  501  qed  was q ##ed",
    "Already in the vocabulary, so skipped: the",
  ]
  out = tmp_path / "out"
  tokenizer = tokenization.FullTokenizer(str(out / "vocab.txt"))
  assert tokenizer.tokenize_to_ids("flighty qed") == [500, 501]
  model = modeling.BertModel(
    modeling.BertConfig.from_json_file(str(out / "bert_config.json"))
  )
  reader = checkpoints.CheckpointReader(str(out / "bert_model.ckpt"))
  assert checkpoints.load_variables(reader, model) == []
