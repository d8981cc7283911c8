"""Tests for run_squad.py: recorded runs, training, scores and mistakes."""

import dataclasses
import functools
import gzip
import json
import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.squad import config as squad_config_lib
from bert_tf.training import config as training_config
from bert_tf.training import curves, estimator
from tests.support import near_ties, runs

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
TINY = GOLDEN / "tiny_squad"
VOCAB = GOLDEN / "tiny" / "vocab.txt"
WORDS = "the of and a in to is was for on as by with at from".split()
CONFIG = {
  **runs.CONFIG,
  "hidden_size": 32,
  "intermediate_size": 64,
  "max_position_embeddings": 64,
}


def assert_files_agree(folder, recorded, nbest, odds=None, threshold=0.0):
  """Asserts equal questions, n-best texts and answers, except for near ties."""
  text = (folder / "predictions.json").read_text()
  answers = json.loads(text)
  # The format of the original.
  assert text == json.dumps(answers, indent=4) + "\n"
  ours = json.loads((folder / "nbest_predictions.json").read_text())
  theirs = json.loads((recorded / "predictions.json").read_text())
  assert list(answers) == list(ours) == list(theirs) == list(nbest)
  for qas_id, candidates in nbest.items():
    near_ties.assert_nbest(ours[qas_id], candidates)
    allowed = near_ties.answers(candidates, odds and odds[qas_id], threshold)
    assert {answers[qas_id], theirs[qas_id]} <= allowed


def test_a_recorded_run_on_1_1_gives_the_originals_answers(shared, tmp_path):
  fine_tuning.run(
    squad_config_lib.SquadConfig(
      bert_config_file=str(TINY / "bert_config.json"),
      vocab_file=str(VOCAB),
      predict_file=str(shared / "golden" / "squad" / "dev-v1.1.json"),
      do_predict=True,
      max_seq_length=128,
      doc_stride=48,
      max_query_length=40,
      train=train_config(
        tmp_path, init_checkpoint=str(TINY / "bert_model.ckpt")
      ),
    )
  )
  recorded = shared / "golden" / "e2e" / "squad_v1"
  nbest = json.loads((recorded / "nbest_predictions.json").read_text())
  assert_files_agree(tmp_path, recorded, nbest)
  assert not (tmp_path / "null_odds.json").exists()
  assert set(runs.results(tmp_path)) == {"exact_match", "f1", "total"}


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
  name = "null_odds.json"
  ours = json.loads((out / name).read_text())
  odds = json.loads((recorded / name).read_text())
  assert list(ours) == list(odds)
  packed = (recorded / "nbest_predictions.json.gz").read_bytes()
  assert_files_agree(
    out, recorded, json.loads(gzip.decompress(packed)), odds, -5.5
  )
  np.testing.assert_allclose(
    list(ours.values()), list(odds.values()), atol=1e-5
  )
  assert {"best_f1", "best_f1_thresh", "NoAns_f1"} <= set(runs.results(out))
  names = sorted(p.name for p in out.iterdir())
  assert [n for n in names if not n.startswith("events")] == [
    "bert_config.json",
    "commands.jsonl",
    "eval_results.txt",
    "nbest_predictions.json",
    "null_odds.json",
    "predictions.json",
    "run.json",
    "vocab.txt",
  ]


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
  """Returns a folder with config, vocabulary and questions."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(VOCAB, folder / "vocab.txt")
  for name, is_v2 in (("v1", False), ("v2", True)):
    for split, number in (("train", 64), ("dev", 20)):
      path = folder / f"{split}-{name}.json"
      path.write_text(json.dumps(questions(number, is_v2)))
  return folder


def train_config(output_dir, **changes):
  return training_config.FineTuningTrainConfig(
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


def window_settings(max_seq_length, doc_stride, max_query_length):
  return {
    "max_seq_length": max_seq_length,
    "doc_stride": doc_stride,
    "max_query_length": max_query_length,
  }


def squad_config(data, output_dir, version="v1", **changes):
  """Returns a config that trains and answers the made questions."""
  return squad_config_lib.SquadConfig(
    **{
      "bert_config_file": str(data / "config.json"),
      "vocab_file": str(data / "vocab.txt"),
      "train_file": str(data / f"train-{version}.json"),
      "predict_file": str(data / f"dev-{version}.json"),
      "do_train": True,
      "do_predict": True,
      "num_train_epochs": 40.0,
      **window_settings(24, 10, 1),
      "version_2_with_negative": version == "v2",
      "train": train_config(output_dir),
      **changes,
    }
  )


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
  """A function from "v1" or "v2" to a run on it and the run's log."""

  @functools.cache
  def train(version):
    folder = tmp_path_factory.mktemp("trained")
    with runs.logged() as log:
      fine_tuning.run(squad_config(data, folder, version))
    return folder, log()

  return train


@pytest.fixture(scope="module")
def trained_prefix(data, tmp_path_factory):
  """The checkpoint of a run of a single step."""
  folder = tmp_path_factory.mktemp("one_step")
  fine_tuning.run(
    squad_config(data, folder, num_train_epochs=0.25, do_predict=False)
  )
  return str(folder / "model.ckpt-1")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_training_learns_to_answer(trained, version):
  folder, log = trained(version)
  # 64 questions / 16 a batch * 40 epochs.
  assert "64 training questions, 160 steps of 16" in log
  losses = curves.read(str(folder))["loss"]
  assert losses[160] < 0.1 * losses[min(losses)]
  # In 16 warm-up steps, updates grow by a sixteenth per step.
  rates = curves.read(str(folder))["learning_rate"]
  assert rates[160] < rates[40] < 3e-3
  expected = questions(20, version == "v2")["data"][0]["paragraphs"]
  texts = {
    p["qas"][0]["id"]: "his" if p["qas"][0]["answers"] else "" for p in expected
  }
  assert json.loads((folder / "predictions.json").read_text()) == texts
  result = runs.results(folder)
  assert (result["exact_match"], result["f1"]) == (100.0, 100.0)
  if version == "v2":
    assert (result["best_f1"], result["NoAns_total"]) == (100.0, 5.0)
  names = {p.name for p in folder.iterdir()}
  assert {"train.tf_record", "eval.tf_record", "checkpoint"} <= names
  slots = checkpoints.CheckpointReader(str(folder / "model.ckpt-160")).shapes
  assert "cls/squad/output_weights/adam_m" in slots
  # The pooler does not receive a gradient.
  assert "bert/pooler/dense/kernel/adam_m" not in slots


@pytest.fixture
def no_training(monkeypatch):
  """Ends each run where its training would begin."""

  def stop(self, *unused):
    self.was_interrupted = True

  monkeypatch.setattr(estimator.Estimator, "train", stop)


def write_records(data, output_dir, **changes):
  """Returns the log of a run and the records that it would train on."""
  config = squad_config(
    data, output_dir, num_train_epochs=0.25, do_predict=False
  )
  with runs.logged() as log:
    fine_tuning.run(dataclasses.replace(config, **changes))
  return log(), (output_dir / "train.tf_record").read_bytes()


def test_cut_batches_give_the_answers_of_padded_ones(
  data, tmp_path, trained_prefix
):
  result = []
  for cut_padding in (False, True):
    folder = tmp_path / f"out_{cut_padding}"
    config = squad_config(
      data,
      folder,
      do_train=False,
      cut_padding=cut_padding,
      # Windows of 23 word pieces in 40 positions, so there is padding.
      **window_settings(40, 10, 1),
      train=train_config(folder, init_checkpoint=trained_prefix),
    )
    fine_tuning.run(config)
    result.append(json.loads((folder / "nbest_predictions.json").read_text()))
  padded, cut = result
  for qas_id, candidates in padded.items():
    # Padding may be among the n best, so only the first is compared.
    best = cut[qas_id][0]
    assert best["text"] in near_ties.answers(candidates)
    [other] = [c for c in candidates if c["text"] == best["text"]]
    for name in ("start_logit", "end_logit"):
      assert best[name] == pytest.approx(other[name], abs=1e-5)


def test_questions_are_trained_in_the_originals_shuffled_order(
  data, tmp_path, no_training
):
  write_records(data, tmp_path)
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


def test_thresholds_are_computed_from_answers_without_threshold(
  data, tmp_path, trained
):
  shutil.copytree(trained("v2")[0], tmp_path, dirs_exist_ok=True)
  odds = json.loads((tmp_path / "null_odds.json").read_text())
  threshold = min(odds.values()) - 1
  fine_tuning.run(
    squad_config(
      data,
      tmp_path,
      "v2",
      do_train=False,
      null_score_diff_threshold=threshold,
    )
  )
  texts = json.loads((tmp_path / "predictions.json").read_text())
  assert set(texts.values()) == {""}
  result = runs.results(tmp_path)
  assert (result["exact_match"], result["best_exact"]) == (25.0, 100.0)


def test_steps_and_warm_up_are_counted_in_questions(data, tmp_path):
  config = squad_config(
    data, tmp_path, num_train_epochs=1.6, warmup_proportion=0.4
  )
  config = dataclasses.replace(
    config,
    do_predict=False,
    **window_settings(14, 5, 1),
    train=train_config(tmp_path, train_batch_size=10, log_every_steps=1),
  )
  fine_tuning.run(config)
  # int(64 / 10 * 1.6) and int(10 * 0.4), though there are more windows.
  rates = curves.read(str(tmp_path))["learning_rate"]
  assert list(rates) == list(range(1, 11))
  expected = [3e-3 * i / 4 for i in range(4)]
  expected += [3e-3 * (1 - i / 10) for i in range(4, 10)]
  np.testing.assert_allclose(list(rates.values()), expected, rtol=1e-5)


def without_answers(folder):
  """Writes a file of one question without its answer; returns its path."""
  paragraph = {"context": "the his a", "qas": [{"id": "q", "question": "a"}]}
  path = folder / "test.json"
  path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
  return str(path)


def test_questions_without_answers_are_answered_but_not_scored(
  data, tmp_path, trained_prefix
):
  test_file = without_answers(tmp_path)
  config = squad_config(
    data,
    tmp_path / "out",
    do_train=False,
    predict_file=test_file,
  )
  train = train_config(tmp_path / "out", init_checkpoint=trained_prefix)
  config = dataclasses.replace(config, train=train)
  dev_file = str(data / "dev-v1.json")
  fine_tuning.run(dataclasses.replace(config, predict_file=dev_file))
  assert run_info.read_run(str(tmp_path / "out")).scores
  with runs.logged() as log:
    fine_tuning.run(config)
  assert "has no answers, so there are no scores" in log()
  assert run_info.read_run(str(tmp_path / "out")).scores == {}
  assert list(json.loads((tmp_path / "out/predictions.json").read_text())) == [
    "q"
  ]
  assert not (tmp_path / "out" / "eval_results.txt").exists()
