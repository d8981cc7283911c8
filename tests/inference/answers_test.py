"""Tests for answers: those of the commands' files, from all kinds of models."""

import csv
import json

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import tokenization
from bert_tf.checkpoint import run_info
from bert_tf.export import export
from bert_tf.export.config import ExportConfig
from bert_tf.model import heads, losses
from bert_tf.tasks import base
from bert_tf.tasks.ner import examples
from tests.support import near_ties, runs, tiny_models

TEXTS = ["the of and", "a in to", "is was for on the of", "the in"]
CHOICES = [(text, [*TEXTS[i:], *TEXTS[:i]]) for i, text in enumerate(TEXTS)]
# The script of each task, its flags, and the rows of its test file.
COMMANDS = {
  "classifier": (
    ("run_classifier.py", "--task_name=csv", "--data_dir=."),
    TEXTS,
  ),
  "ner": (("ner", "--data_dir=."), TEXTS),
  "swag": (
    ("swag", "--data_dir=swag"),
    [(context, [f"the {x}" for x in ends]) for context, ends in CHOICES],
  ),
}


def write_data(folder):
  """Writes a few examples for each task, and the config of a model."""
  (folder / "bert_config.json").write_text(json.dumps(runs.CONFIG))
  (folder / "swag").mkdir()
  columns = ["sent1", "sent2", *(f"ending{i}" for i in range(4)), "label"]
  for split in ("train", "test"):
    with open(folder / f"{split}.csv", "w", newline="") as file:
      rows = zip(TEXTS, "abca")
      csv.writer(file).writerows([("text", "label"), *rows])
    tagged = [
      "".join(f"{word} B-X{i}\n" for word in text.split())
      for i, text in enumerate(TEXTS)
    ]
    (folder / f"{split}.txt").write_text("\n".join(tagged))
    with open(folder / "swag" / f"{split}.csv", "w", newline="") as file:
      rows = [(text, "the", *x, i) for i, (text, x) in enumerate(CHOICES)]
      csv.writer(file).writerows([columns, *rows])


def read_answers(name, folder):
  """Returns the answers in the files of a command."""
  if name == "ner":
    text = (folder / "test_predictions.txt").read_text().strip()
    return [
      [line.split()[-1] for line in block.splitlines()]
      for block in text.split("\n\n")
    ]
  lines = (folder / "predictions.jsonl").read_text().splitlines()
  rows = map(json.loads, lines)
  key = "choice" if name == "swag" else "label"
  return [
    {key: row["label"], "probabilities": row["probabilities"]} for row in rows
  ]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_answers_are_those_of_the_commands_files(tmp_path, run_script, name):
  write_data(tmp_path)
  command, rows = COMMANDS[name]
  result = run_script(
    *command,
    "--bert_config_file=bert_config.json",
    f"--vocab_file={tiny_models.TINY}/vocab.txt",
    "--max_seq_length=24",
    "--do_train",
    "--do_predict",
    "--train_batch_size=4",
    "--learning_rate=1e-2",
    "--use_xla=false",
    f"--output_dir={name}",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  expected = read_answers(name, tmp_path / name)
  exported = tmp_path / "exported" / "1"
  export.run(
    ExportConfig(init_checkpoint=str(tmp_path / name), export_dir=str(exported))
  )
  for folder in (tmp_path / name, exported):
    answers = bert_tf.load(folder).predict(rows)
    if name == "ner":
      answers = [[word["label"] for word in a["words"]] for a in answers]
    assert near_ties.close(answers, expected)


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
def test_plain_text_is_split_at_signs_beside_words(text, expected):
  places = list(examples.split_punctuation(text))
  assert [word for word, _ in places] == expected.split()
  assert all(text[start:].startswith(word) for word, start in places)


def test_words_are_labelled_in_windows_and_found_in_the_text(tmp_path):
  keras.utils.set_random_seed(1)
  model = tiny_models.widen(heads.TokenModel(tiny_models.CONFIG, 3))
  labels = {
    "task_name": "ner",
    "problem_type": "words",
    "labels": ["O", "B-X", "I-X"],
  }
  folder = tiny_models.write_run(tmp_path, model, labels)
  recognizer = bert_tf.Predictor(str(folder))
  text = "  the\u00a0of " + "and in " * 100 + "🙂 \ufeff was "
  empty, answer = recognizer.predict(["", text])
  assert empty == {"words": []}
  found = answer["words"]
  assert [word["word"] for word in found] == text.split()
  assert all(text[w["start"] : w["end"]] == w["word"] for w in found)
  assert all(1 / 3 <= word["probability"] <= 1 for word in found)


def test_the_likeliest_tokens_of_each_mask_are_returned(tmp_path, caplog):
  keras.utils.set_random_seed(1)
  model = heads.PretrainingModel(tiny_models.CONFIG)
  folder = tiny_models.write_run(tmp_path, model)
  filler = bert_tf.Predictor(str(folder))
  text = "the [MASK] of [MASK]" + " [MASK]" * 60
  none, answer = filler.predict(["no mask", text])
  assert none == {"masks": []}
  assert "row 0 has no [MASK]" in caplog.text
  with pytest.raises(ValueError, match="has no .MASK.: 'no mask'"):
    filler.predict("no mask")
  vocab = tokenization.load_vocab(str(folder / "vocab.txt"))
  tokens = ["[CLS]", *text.split(), "[SEP]"]
  ids = np.array([[vocab[token] for token in tokens]])
  positions = np.nonzero(ids == vocab["[MASK]"])[1][None]
  logits = model({"input_ids": ids, "masked_lm_positions": positions})[0][0]
  # The tiny model has more rows than the vocabulary has tokens.
  rows = np.exp(np.float64(logits))[:, : len(vocab)]
  rows /= rows.sum(axis=1, keepdims=True)
  assert len(answer["masks"]) == 62
  for row, mask in zip(rows, answer["masks"]):
    best = np.sort(row)[::-1][:5]
    np.testing.assert_allclose([m["probability"] for m in mask], best, 1e-4)
    np.testing.assert_allclose([row[vocab[m["token"]]] for m in mask], best)
  assert filler.attention("the [MASK]").tokens == (
    *("[CLS]", "the", "[MASK]", "[SEP]"),
  )
  with pytest.raises(ValueError, match="row 0: .* 202 word pieces"):
    filler.predict("[MASK] " + "the " * 199)


def test_rows_of_ids_return_what_the_model_does(tmp_path):
  model = bert_tf.Predictor(tiny_models.write_classifier(tmp_path / "run"))
  row = {"input_ids": [2, 8, 9, 3], "input_mask": [1] * 4}
  row["segment_ids"] = [0] * 4
  reader = model.ids_reader
  [inputs] = reader.preprocess([row])
  answer = reader.postprocess(inputs, model.compute(inputs.sequences, reader))
  assert answer.keys() == {"logits", "probabilities"}
  exponentials = np.exp(answer["logits"])
  np.testing.assert_allclose(
    answer["probabilities"], exponentials / exponentials.sum(), rtol=1e-5
  )
  with pytest.raises(ValueError, match="differ in length"):
    list(reader.preprocess([{**row, "segment_ids": [0]}]))
  with pytest.raises(ValueError, match="9999, which is not in 0 to"):
    [bad] = reader.preprocess([{**row, "input_ids": [9999] * 4}])
    model.compute(bad.sequences, reader)


def test_a_saved_model_without_vocabulary_takes_no_texts(tmp_path):
  run = tiny_models.write_classifier(tmp_path / "run")
  folder = tmp_path / "exported"
  export.run(ExportConfig(init_checkpoint=str(run), export_dir=str(folder)))
  assert bert_tf.load(folder).predict("the")["label"]
  (folder / "vocab.txt").unlink()
  with pytest.raises(ValueError, match=r"lacks vocab\.txt"):
    bert_tf.load(folder).predict("the")


@pytest.mark.parametrize("kind", run_info.PROBLEM_TYPES)
def test_probabilities_are_those_of_the_graph(kind):
  rng = np.random.default_rng(1)
  logits = rng.normal(0, 40, (50, 4)).astype(np.float32)
  result = base.probabilities(logits, kind)
  assert result.dtype == np.float32
  expected = losses.probabilities(logits, kind)
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-30)
