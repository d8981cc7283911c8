"""A task in a user's own file: docs/examples/tag_words.py, end to end."""

import json
import random
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import task_registry
from bert_tf.checkpoint import checkpoints
from tests.support import (
  checkout,
  ner_files,
  serving_client,
  setups,
  tiny_models,
)

FILE = checkout.ROOT / "docs" / "examples" / "tag_words.py"
# The words that have labels. All others have none.
LABELS = {"the": ["A"], "of": ["A", "B"], "and": ["B", "C"]}
TEXT = "the mississippix of in and"


def write_lines(path, num_lines, seed, with_labels=True):
  rng = random.Random(seed)
  lines = []
  for _ in range(num_lines):
    words = rng.choices(ner_files.WORDS, k=rng.randrange(1, 8))
    row = {"text": " ".join(words)}
    if with_labels:
      row["label"] = [LABELS.get(word, []) for word in words]
    lines.append(json.dumps(row) + "\n")
  path.write_text("".join(lines))


@pytest.fixture(scope="module")
def command(tmp_path_factory, run_script):
  """Returns a function that runs the file, and the folder it runs in."""
  folder = tmp_path_factory.mktemp("tags")
  (folder / "bert_config.json").write_text(json.dumps(ner_files.CONFIG))
  shutil.copy(tiny_models.TINY / "vocab.txt", folder)
  write_lines(folder / "train.jsonl", 120, seed=1)
  write_lines(folder / "dev.jsonl", 30, seed=2)
  write_lines(folder / "test.jsonl", 30, seed=3, with_labels=False)

  def run(*arguments):
    result = run_script(FILE, *arguments, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stderr

  return run, folder


TRAIN = (
  *("tag-words", "--data_dir=.", "--max_seq_length=24", "--use_xla=false"),
  *("--bert_config_file=bert_config.json", "--vocab_file=vocab.txt"),
  *("--do_train", "--train_batch_size=16", "--num_train_epochs=16"),
  *("--learning_rate=3e-3", "--save_checkpoints_steps=60"),
)


@pytest.fixture(scope="module")
def trained(command):
  """Returns the folder of a run that trained, evaluated and predicted."""
  run, folder = command
  log = run(*TRAIN, "--do_eval", "--do_predict", "--output_dir=out")
  assert "120 train examples; 120 records; labels: A " in log
  assert "bert-tf serve" not in log  # It does not know the task.
  return folder / "out"


@pytest.fixture(scope="module")
def registered():
  """Registers the task in this process, as `import tag_words` does."""
  sys.path.insert(0, str(FILE.parent))
  __import__(FILE.stem)
  yield
  sys.path.remove(str(FILE.parent))
  del task_registry.TASKS[sys.modules.pop(FILE.stem).TASK.name]


def test_a_run_learns_and_writes_its_results_and_predictions(trained):
  results = (trained / "eval_results.txt").read_text().splitlines()
  assert "micro_f1 = 1.0" in results
  info = json.loads((trained / "run.json").read_text())
  assert info["task"] == "tag_words"
  assert info["labels"]["labels"] == ["A", "B", "C"]
  lines = (trained / "predictions.jsonl").read_text().splitlines()
  rows = [json.loads(line) for line in lines]
  texts = (trained.parent / "test.jsonl").read_text().splitlines()
  assert [row["text"] for row in rows] == [json.loads(t)["text"] for t in texts]
  for row in rows:
    assert row["labels"] == [LABELS.get(word, []) for word in row["words"]]


def test_a_resumed_run_equals_an_uninterrupted_one(trained, command):
  run, folder = command
  shutil.copytree(trained, folder / "resumed")
  for path in (folder / "resumed").glob("model.ckpt-120.*"):
    path.unlink()
  state = folder / "resumed" / "checkpoint"
  text = state.read_text()
  state.write_text(text.replace("model.ckpt-120", "model.ckpt-60"))
  assert "model.ckpt-60" in run(*TRAIN, "--output_dir=resumed")
  first, second = (
    checkpoints.CheckpointReader(str(folder / name / "model.ckpt-120"))
    for name in ("out", "resumed")
  )
  assert first.shapes == second.shapes
  for name in first.shapes:
    np.testing.assert_array_equal(first.get(name), second.get(name))


def test_the_model_is_exported_loaded_and_served(trained, command, registered):
  run, folder = command
  run("export", "--model=out", "--export_dir=models/1")
  ids = tf.saved_model.load(str(folder / "models" / "1")).signatures["ids"]
  shape = ids.structured_outputs["probabilities"].shape.as_list()
  assert shape == [None, None, 3]
  labels = [LABELS.get(word, []) for word in TEXT.split()]
  expected = {"words": TEXT.split(), "labels": labels}
  for name in ("out", "models"):
    model = bert_tf.load(folder / name)
    assert model.predict([TEXT, {"text": "in"}]) == [
      expected,
      {"words": ["in"], "labels": [[]]},
    ]
    # The text is cut after 22 word pieces.
    assert model.predict("of " * 30)["labels"] == [["A", "B"]] * 22 + [[]] * 8
  with serving_client.running(model) as running:
    body = {"instances": [{"text": TEXT}]}
    status, answer = serving_client.ask(
      running.url, "/v1/models/model:predict", body
    )
  assert (status, answer) == (200, {"predictions": [expected]})


def test_a_task_without_losses_is_told_to_define_them():
  task = setups.Texts(tokenizer=None, settings=None)
  with pytest.raises(NotImplementedError, match="Texts .*`compute_losses`"):
    task.loss_sums(lambda features, training: None, {}, training=True)


def test_the_page_shows_parts_of_the_file():
  def lines(text):
    return "\n".join(line.strip() for line in text.splitlines())

  page = (checkout.ROOT / "docs" / "new_task.md").read_text()
  parts = re.findall(r"a part of the file -->\n```python\n(.+?)```", page, re.S)
  assert parts and all(lines(p) in lines(FILE.read_text()) for p in parts)
