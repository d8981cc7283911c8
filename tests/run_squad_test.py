"""run_squad.py from JSON to scores: recorded runs, training, mistakes."""

import dataclasses
import gzip
import json
import pathlib
import random
import shutil
import xml.etree.ElementTree

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoints, curves, estimator, tokenization
from bert_tf.tasks import squad, squad_features, squad_predictions
from tests import runs

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
TINY = GOLDEN / "tiny_squad"
VOCAB = GOLDEN / "tiny" / "vocab.txt"
WORDS = "the of and a in to is was for on as by with at from".split()
CONFIG = {
  "vocab_size": 500,
  "hidden_size": 32,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 64,
  "max_position_embeddings": 64,
  "type_vocab_size": 2,
  "initializer_range": 0.1,
}

# What the original's flags are by default (behaviour.md).
DEFAULTS = {
  "bert_config_file": None,
  "vocab_file": None,
  "output_dir": None,
  "train_file": None,
  "predict_file": None,
  "init_checkpoint": None,
  "do_lower_case": "true",
  "max_seq_length": "384",
  "doc_stride": "128",
  "max_query_length": "64",
  "do_train": "false",
  "do_predict": "false",
  "train_batch_size": "32",
  "predict_batch_size": "8",
  "learning_rate": "5e-05",
  "num_train_epochs": "3.0",
  "warmup_proportion": "0.1",
  "save_checkpoints_steps": "1000",
  "iterations_per_loop": "1000",
  "n_best_size": "20",
  "max_answer_length": "30",
  "use_tpu": "false",
  "tpu_name": None,
  "tpu_zone": None,
  "gcp_project": None,
  "master": None,
  "num_tpu_cores": "8",
  "verbose_logging": "false",
  "version_2_with_negative": "false",
  "null_score_diff_threshold": "0.0",
}


def results(folder):
  lines = (folder / "eval_results.txt").read_text().splitlines()
  return {
    name: float(value) for name, value in (line.split(" = ") for line in lines)
  }


def assert_nbest_close(ours, recorded):
  """Same questions and texts in the same order, numbers to 1e-5."""
  assert list(ours) == list(recorded)
  for qas_id, candidates in recorded.items():
    found = ours[qas_id]
    assert [c["text"] for c in found] == [c["text"] for c in candidates]
    for name in ("probability", "start_logit", "end_logit"):
      np.testing.assert_allclose(
        [c[name] for c in found], [c[name] for c in candidates], atol=1e-5
      )


def test_a_recorded_run_on_1_1_gives_the_originals_answers(shared, tmp_path):
  squad.run(
    squad.SquadConfig(
      bert_config_file=str(TINY / "bert_config.json"),
      vocab_file=str(VOCAB),
      predict_file=str(shared / "golden" / "squad" / "dev-v1.1.json"),
      do_predict=True,
      windows=squad_features.WindowConfig(128, 48, 40),
      predictions=squad_predictions.PredictionConfig(),
      train=train_config(
        tmp_path, init_checkpoint=str(TINY / "bert_model.ckpt")
      ),
    )
  )
  recorded = shared / "golden" / "e2e" / "squad_v1"
  name = "predictions.json"
  assert (tmp_path / name).read_bytes() == (recorded / name).read_bytes()
  name = "nbest_predictions.json"
  assert_nbest_close(
    json.loads((tmp_path / name).read_text()),
    json.loads((recorded / name).read_text()),
  )
  assert not (tmp_path / "null_odds.json").exists()
  assert set(results(tmp_path)) == {"exact_match", "f1", "total"}


def test_the_script_on_2_0_gives_the_originals_answers(
  shared, tmp_path, run_script
):
  result = run_script(
    "run_squad.py",
    f"--bert_config_file={TINY}/bert_config.json",
    f"--vocab_file={VOCAB}",
    f"--init_checkpoint={TINY}/bert_model.ckpt",
    f"--predict_file={shared}/golden/squad/dev-v2.0.json",
    "--output_dir=out",
    "--do_predict",
    "--max_seq_length=128",
    "--doc_stride=48",
    "--max_query_length=40",
    "--version_2_with_negative",
    "--null_score_diff_threshold=-5.5",
    "--n_best_size=128",
    "--max_answer_length=3",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  out = tmp_path / "out"
  recorded = shared / "golden" / "e2e" / "squad_v2"
  name = "predictions.json"
  assert (out / name).read_bytes() == (recorded / name).read_bytes()
  name = "nbest_predictions.json"
  assert_nbest_close(
    json.loads((out / name).read_text()),
    json.loads(gzip.decompress((recorded / f"{name}.gz").read_bytes())),
  )
  name = "null_odds.json"
  ours = json.loads((out / name).read_text())
  odds = json.loads((recorded / name).read_text())
  assert list(ours) == list(odds)
  np.testing.assert_allclose(
    list(ours.values()), list(odds.values()), atol=1e-5
  )
  assert {"best_f1", "best_f1_thresh", "NoAns_f1"} <= set(results(out))
  assert sorted(p.name for p in out.iterdir()) == [
    "bert_config.json",
    "eval.tf_record",
    "eval_results.txt",
    "nbest_predictions.json",
    "null_odds.json",
    "predictions.json",
  ]


def test_every_flag_of_the_original_has_its_default(tmp_path, run_script):
  result = run_script("run_squad.py", "--helpxml", cwd=tmp_path)
  found = {
    flag.findtext("name"): flag.findtext("default")
    for flag in xml.etree.ElementTree.fromstring(result.stdout).iter("flag")
  }
  assert {name: found[name] or None for name in DEFAULTS} == DEFAULTS


def questions(num_questions, is_v2):
  """Returns questions whose answer is "his", wherever that is; 2.0's, one in
  four of which has none."""
  rng = random.Random(num_questions)
  paragraphs = []
  for i in range(num_questions):
    words = rng.choices(WORDS, k=20)
    is_impossible = is_v2 and i % 4 == 0
    if not is_impossible:
      words[rng.randrange(20)] = "his"
    text = " ".join(words)
    answer = {"text": "his", "answer_start": text.find("his")}
    qa = {"id": f"q{i}", "question": "the", "answers": [answer]}
    if is_impossible:
      qa["answers"] = []
    if is_v2:
      qa["is_impossible"] = is_impossible
    paragraphs.append({"context": text, "qas": [qa]})
  return {"version": "made", "data": [{"paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """A folder with config, vocabulary and questions."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(VOCAB, folder / "vocab.txt")
  for name, is_v2 in (("v1", False), ("v2", True)):
    for split, number in (("train", 64), ("dev", 20)):
      path = folder / f"{split}-{name}.json"
      path.write_text(json.dumps(questions(number, is_v2)))
  return folder


def train_config(output_dir, **changes):
  return estimator.TrainConfig(
    **{
      "output_dir": str(output_dir),
      "train_batch_size": 16,
      "learning_rate": 3e-3,
      "num_train_steps": 1,
      "num_warmup_steps": 0,
      "log_every_steps": 20,
      "use_xla": False,
      **changes,
    }
  )


def squad_config(data, output_dir, version="v1", **changes):
  """Returns a config that trains and answers the made questions."""
  return squad.SquadConfig(
    **{
      "bert_config_file": str(data / "config.json"),
      "vocab_file": str(data / "vocab.txt"),
      "train_file": str(data / f"train-{version}.json"),
      "predict_file": str(data / f"dev-{version}.json"),
      "do_train": True,
      "do_predict": True,
      "num_train_epochs": 40.0,
      "windows": squad_features.WindowConfig(24, 10, 1),
      "predictions": squad_predictions.PredictionConfig(
        version_2_with_negative=version == "v2"
      ),
      "train": train_config(output_dir),
      **changes,
    }
  )


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_training_learns_to_answer(data, tmp_path, version):
  with runs.logged() as log:
    squad.run(squad_config(data, tmp_path, version))
  # 64 questions / 16 a batch * 40 epochs.
  assert "64 questions, 64 windows, 160 steps of 16" in log()
  losses = curves.read(str(tmp_path))["loss"]
  assert losses[160] < 0.1 * losses[20]
  # Updates after the first of 16 warm-up steps rise by a sixteenth each.
  rates = curves.read(str(tmp_path))["learning_rate"]
  assert rates[160] < rates[40] < 3e-3
  expected = questions(20, version == "v2")["data"][0]["paragraphs"]
  texts = {
    p["qas"][0]["id"]: "his" if p["qas"][0]["answers"] else "" for p in expected
  }
  assert json.loads((tmp_path / "predictions.json").read_text()) == texts
  found = results(tmp_path)
  assert (found["exact_match"], found["f1"]) == (100.0, 100.0)
  if version == "v2":
    assert (found["best_f1"], found["NoAns_total"]) == (100.0, 5.0)
  names = {p.name for p in tmp_path.iterdir()}
  assert {"train.tf_record", "eval.tf_record", "checkpoint"} <= names
  slots = checkpoints.CheckpointReader(str(tmp_path / "model.ckpt-160")).shapes
  assert "cls/squad/output_weights/adam_m" in slots
  # Nothing of the loss reaches the pooler.
  assert "bert/pooler/dense/kernel/adam_m" not in slots


def test_questions_are_trained_in_the_originals_shuffled_order(data, tmp_path):
  squad.run(
    squad_config(data, tmp_path, num_train_epochs=0.25, do_predict=False)
  )
  contexts = [
    p["context"] for p in questions(64, False)["data"][0]["paragraphs"]
  ]
  random.Random(12345).shuffle(contexts)
  tokenizer = tokenization.FullTokenizer(str(VOCAB))
  records = tf.data.TFRecordDataset(str(tmp_path / "train.tf_record"))
  for record, context in zip(records.as_numpy_iterator(), contexts):
    example = tf.train.Example.FromString(record)
    input_ids = example.features.feature["input_ids"].int64_list.value
    # [CLS] the [SEP] context [SEP]
    assert input_ids[3:23] == tokenizer.tokenize_to_ids(context)


def test_thresholds_are_of_what_would_be_answered_without_one(data, tmp_path):
  squad.run(squad_config(data, tmp_path, "v2"))
  odds = json.loads((tmp_path / "null_odds.json").read_text())
  predictions = squad_predictions.PredictionConfig(
    version_2_with_negative=True,
    null_score_diff_threshold=min(odds.values()) - 1,
  )
  squad.run(
    squad_config(data, tmp_path, "v2", do_train=False, predictions=predictions)
  )
  texts = json.loads((tmp_path / "predictions.json").read_text())
  assert set(texts.values()) == {""}
  found = results(tmp_path)
  assert (found["exact_match"], found["best_exact"]) == (25.0, 100.0)


def test_a_stopped_training_predicts_nothing(data, tmp_path, monkeypatch):
  monkeypatch.setattr(estimator.Estimator, "train", lambda *unused: 3)
  squad.run(squad_config(data, tmp_path))
  assert (tmp_path / "train.tf_record").exists()
  assert not (tmp_path / "eval.tf_record").exists()


def test_steps_and_warm_up_are_counted_in_questions(data, tmp_path):
  config = squad_config(
    data, tmp_path, num_train_epochs=1.6, warmup_proportion=0.4
  )
  config = dataclasses.replace(
    config,
    do_predict=False,
    windows=squad_features.WindowConfig(14, 5, 1),
    train=train_config(tmp_path, train_batch_size=10, log_every_steps=1),
  )
  squad.run(config)
  # int(64 / 10 * 1.6) and int(10 * 0.4), though there are more windows.
  rates = curves.read(str(tmp_path))["learning_rate"]
  assert list(rates) == list(range(1, 11))
  expected = [3e-3 * i / 4 for i in range(4)]
  expected += [3e-3 * (1 - i / 10) for i in range(4, 10)]
  np.testing.assert_allclose(list(rates.values()), expected, rtol=1e-5)


def test_predictions_alone_come_from_the_checkpoint_of_the_folder(
  data, tmp_path
):
  squad.run(squad_config(data, tmp_path, num_train_epochs=1.0))
  texts = (tmp_path / "nbest_predictions.json").read_text()
  (tmp_path / "nbest_predictions.json").unlink()
  squad.run(squad_config(data, tmp_path, do_train=False))
  assert (tmp_path / "nbest_predictions.json").read_text() == texts


def test_questions_without_answers_are_answered_but_not_scored(data, tmp_path):
  paragraph = {"context": "the his a", "qas": [{"id": "q", "question": "a"}]}
  (tmp_path / "test.json").write_text(
    json.dumps({"data": [{"paragraphs": [paragraph]}]})
  )
  config = squad_config(
    data,
    tmp_path / "out",
    do_train=False,
    predict_file=str(tmp_path / "test.json"),
  )
  prefix = trained_prefix(data, tmp_path)
  config = dataclasses.replace(
    config, train=train_config(tmp_path / "out", init_checkpoint=prefix)
  )
  with runs.logged() as log:
    squad.run(config)
  assert "has no answers, so there are no scores" in log()
  assert list(json.loads((tmp_path / "out/predictions.json").read_text())) == [
    "q"
  ]
  assert not (tmp_path / "out" / "eval_results.txt").exists()


def trained_prefix(data, tmp_path):
  """Trains one step; returns the checkpoint."""
  folder = tmp_path / "trained"
  squad.run(squad_config(data, folder, num_train_epochs=0.25, do_predict=False))
  return str(folder / "model.ckpt-1")


def test_2_0_data_answered_as_1_1_are_pointed_out(data, tmp_path):
  config = squad_config(data, tmp_path / "out", num_train_epochs=0.25)
  config = dataclasses.replace(config, predict_file=str(data / "dev-v2.json"))
  with runs.logged() as log:
    squad.run(config)
  assert "5 of 20 questions have no answer, but all will be given one" in log()
  found = results(tmp_path / "out")
  assert found["NoAns_exact"] == 0.0 and "best_f1" not in found


def body_only(data, tmp_path):
  return {
    "do_train": False,
    "train": train_config(
      tmp_path / "out",
      init_checkpoint=str(GOLDEN / "tiny" / "bert_model.ckpt"),
    ),
  }


def other_case(data, tmp_path):
  return {
    "train": train_config(
      tmp_path / "out",
      init_checkpoint="cased_L-12_H-768_A-12/bert_model.ckpt",
    )
  }


# What is asked for (or a function of data and tmp_path that returns it), and
# what the error must say.
MISTAKES = {
  "nothing to do": (
    {"do_train": False, "do_predict": False},
    "set --do_train or --do_predict",
  ),
  "no train_file": ({"train_file": None}, "--do_train needs --train_file"),
  "no predict_file": ({"predict_file": None}, "needs --predict_file"),
  "beyond the positions": (
    {"windows": squad_features.WindowConfig(128, 5, 1)},
    "max_seq_length 128 exceeds max_position_embeddings 64",
  ),
  "other case": (other_case, "do_lower_case=True does not fit"),
  "no checkpoint": (
    {"do_train": False},
    "out has no checkpoint; set --do_train, or --init_checkpoint",
  ),
  "not fine-tuned": (body_only, "has no cls/squad/output_weights"),
  "another vocabulary": (
    lambda data, tmp_path: {"vocab_file": str(data / "dev-v1.json")},
    "dev-v1.json",
  ),
  "no steps": ({"num_train_epochs": 0.1}, "are less than one batch of 16"),
  "2.0 as 1.1": (
    lambda data, tmp_path: {"train_file": str(data / "train-v2.json")},
    "set --version_2_with_negative if the data are SQuAD 2.0's",
  ),
  "not SQuAD to predict": (
    lambda data, tmp_path: {"predict_file": str(data / "config.json")},
    "config.json: data is missing",
  ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_before_anything_is_written(data, tmp_path, mistake):
  changes, expected = MISTAKES[mistake]
  if callable(changes):
    changes = changes(data, tmp_path)
  with pytest.raises(ValueError) as error:
    squad.run(squad_config(data, tmp_path / "out", **changes))
  assert expected in str(error.value)
  assert not (tmp_path / "out").exists()


def test_a_mistake_ends_in_one_line_and_loses_nothing(
  data, tmp_path, run_script
):
  (tmp_path / "predictions.json").write_text("kept")
  result = run_script(
    "run_squad.py",
    f"--bert_config_file={data}/config.json",
    f"--vocab_file={data}/vocab.txt",
    f"--predict_file={data}/dev-v1.json",
    "--do_predict",
    "--output_dir=.",
    "--max_seq_length=64",
    "--max_query_length=61",
    cwd=tmp_path,
  )
  assert result.returncode == 1
  assert result.stderr.splitlines()[-1].startswith(
    "run_squad.py: error: max_seq_length 64 must be greater than "
    "max_query_length 61 + 3"
  )
  assert "Traceback" not in result.stderr
  assert [p.name for p in tmp_path.iterdir()] == ["predictions.json"]
