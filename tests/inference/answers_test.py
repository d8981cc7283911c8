"""Tests for answers: those of the commands' files, from all kinds of models."""

import csv
import json
import shutil

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
from tests.support import runs, tiny_models

# The script of each task, and its flags.
COMMANDS = {
  "classifier": ("run_classifier.py", "--task_name=csv", "--data_dir=."),
  "ner": ("ner", "--data_dir=."),
  "swag": ("swag", "--data_dir=swag"),
}


def write_data(folder):
  """Writes a few examples for each task, and the config of a model."""
  (folder / "bert_config.json").write_text(json.dumps(runs.CONFIG))
  texts = ["the of and", "a in to", "is was for on the of", "the in"]
  table = [f"{text},{label}" for text, label in zip(texts, "abca")]
  tagged = [
    [f"{word} B-X{i}" for word in t.split()] for i, t in enumerate(texts)
  ]
  for split in ("train", "test"):
    (folder / f"{split}.csv").write_text("\n".join(["text,label", *table]))
    sentences = ["\n".join(sentence) for sentence in tagged]
    (folder / f"{split}.txt").write_text("\n\n".join(sentences))
  (folder / "swag").mkdir()
  columns = ["sent1", "sent2", *(f"ending{i}" for i in range(4)), "label"]
  for split in ("train", "test"):
    with open(folder / "swag" / f"{split}.csv", "w", newline="") as file:
      writer = csv.writer(file)
      writer.writerow(columns)
      for i, text in enumerate(texts):
        writer.writerow([text, "the", *texts[i:], *texts[:i], i])


def read_json_lines(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def read_words(path):
  """Returns the sentences of a file, each a list of the columns of words."""
  blocks = path.read_text().strip().split("\n\n")
  return [[line.split() for line in block.splitlines()] for block in blocks]


def classifier_rows(folder, out):
  rows = read_json_lines(out / "predictions.jsonl")
  return [row["text"] for row in rows], [
    {"label": row["label"], "probabilities": row["probabilities"]}
    for row in rows
  ]


def ner_rows(folder, out):
  sentences = read_words(out / "test_predictions.txt")
  return [" ".join(word for word, *_ in rows) for rows in sentences], [
    [label for *_, label in rows] for rows in sentences
  ]


def swag_rows(folder, out):
  with open(folder / "swag" / "test.csv", newline="") as file:
    rows = list(csv.DictReader(file))
  answers = read_json_lines(out / "predictions.jsonl")
  return [
    (
      row["sent1"],
      [f"{row['sent2']} {row[f'ending{i}']}" for i in range(4)],
    )
    for row in rows
  ], [
    {"choice": answer["label"], "probabilities": answer["probabilities"]}
    for answer in answers
  ]


# For each task a function that reads the inputs and answers of a command's
# files, and one that puts an answer of `predict` into this form.
FILES = {
  "classifier": (classifier_rows, lambda answer: answer),
  "ner": (ner_rows, lambda a: [word["label"] for word in a["words"]]),
  "swag": (swag_rows, lambda answer: answer),
}


def close(value, other):
  """Returns whether values are equal, floats except for rounding."""
  if isinstance(value, dict):
    return value.keys() == other.keys() and all(
      close(value[key], other[key]) for key in value
    )
  if isinstance(value, list):
    return len(value) == len(other) and all(map(close, value, other))
  if isinstance(value, float):
    return value == pytest.approx(other, rel=1e-5, abs=1e-6)
  return value == other


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_answers_are_those_of_the_commands_files(tmp_path, run_script, name):
  write_data(tmp_path)
  result = run_script(
    *COMMANDS[name],
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
  read, convert = FILES[name]
  rows, expected = read(tmp_path, tmp_path / name)
  assert rows
  exported = tmp_path / "exported" / "1"
  export.run(
    ExportConfig(init_checkpoint=str(tmp_path / name), export_dir=str(exported))
  )
  for folder in (tmp_path / name, exported):
    answers = bert_tf.load(folder).predict(rows)
    assert close([convert(answer) for answer in answers], expected)


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
  folder = tiny_models.write_classifier(tmp_path / "run")
  model = bert_tf.Predictor(str(folder))
  row = {
    "input_ids": [2, 8, 9, 3],
    "input_mask": [1] * 4,
    "segment_ids": [0] * 4,
  }
  reader = model.ids_reader
  [inputs] = reader.preprocess([row])
  outputs = model.compute(inputs.sequences, reader)
  answer = reader.postprocess(inputs, outputs)
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
  folder = tiny_models.write_classifier(tmp_path / "run")
  exported = tmp_path / "exported"
  export.run(
    ExportConfig(init_checkpoint=str(folder), export_dir=str(exported))
  )
  shutil.copytree(exported, tmp_path / "copy")
  (tmp_path / "copy" / "vocab.txt").unlink()
  model = bert_tf.load(tmp_path / "copy")
  with pytest.raises(ValueError, match=r"lacks vocab\.txt"):
    model.predict("the")
  assert bert_tf.load(exported).predict("the")["label"]


@pytest.mark.parametrize("kind", run_info.PROBLEM_TYPES)
def test_probabilities_are_those_of_the_graph(kind):
  rng = np.random.default_rng(1)
  logits = rng.normal(0, 40, (50, 4)).astype(np.float32)
  result = base.probabilities(logits, kind)
  assert result.dtype == np.float32
  expected = losses.probabilities(logits, kind)
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-30)
