"""Fine-tuning in this process: steps, labels, metrics, files, mistakes."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.files import atomic
from bert_tf.tasks import fine_tuning, splits
from bert_tf.tasks.classification import glue
from bert_tf.tasks.classification.config import ClassificationSettings
from bert_tf.tasks.classification.metrics import METRICS
from bert_tf.tasks.classification.task import (
  ClassificationTask,
  to_answer,
)
from bert_tf.training import curves
from tests.support import own_classification, runs
from tests.support.own_classification import (
  CONFIG,
  make,
  make_source,
  rows,
  write_tsv,
)

base = own_classification.base


@pytest.fixture(scope="module")
def trained(base):
  """The folder of a run that has trained, evaluated and predicted."""
  output_dir = base / "out"
  fine_tuning.run(
    make(
      base,
      output_dir,
      do_train=True,
      do_eval=True,
      do_predict=True,
      num_train_epochs=12.3,
      warmup_proportion=0.25,
    )
  )
  return output_dir


def test_a_run_learns_the_labels(trained):
  losses = curves.read(str(trained))["loss"]
  assert losses[67] < 0.3 * losses[1]
  evaluation = runs.results(trained)
  assert evaluation["eval_accuracy"] == evaluation["macro_f1"] == 1.0
  predictions = [
    json.loads(line)
    for line in (trained / "predictions.jsonl").read_text().splitlines()
  ]
  assert [(p["text"], p["label"]) for p in predictions] == list(rows(5))


def test_an_ensemble_predicts_the_means_of_its_runs(base, trained, tmp_path):
  other, output_dir = tmp_path / "other", tmp_path / "ensemble"
  fine_tuning.run(make(base, other, do_train=True, do_predict=True))
  folders = [str(folder) for folder in (trained, other, other)]
  start, others = {"init_checkpoint": folders[0]}, tuple(folders[1:])
  fine_tuning.run(
    make(base, output_dir, start, do_predict=True, ensemble_with=others)
  )
  runs_of = [np.loadtxt(f"{f}/test_results.tsv") for f in folders]
  expected = np.mean(runs_of, axis=0)
  assert np.abs(expected - runs_of[0]).max() > 1e-3
  found = np.loadtxt(output_dir / "test_results.tsv")
  np.testing.assert_allclose(found, expected, rtol=1e-6)
  lines = (output_dir / "predictions.jsonl").read_text().splitlines()
  names = np.array(["bad", "good"])[expected.argmax(axis=1)]
  assert [json.loads(line)["label"] for line in lines] == names.tolist()


def test_steps_and_warmup_are_the_originals(trained):
  # 44 examples / 8 x 12.3 epochs = 67.65 steps; a quarter of 67 is 16.75.
  rates = curves.read(str(trained))["learning_rate"]
  assert max(rates) == 67
  assert rates[1] == 0.0
  assert rates[16] == pytest.approx(3e-3 * 15 / 16, rel=1e-5)
  assert rates[17] == pytest.approx(3e-3 * (1 - 16 / 67), rel=1e-5)
  assert (trained / "model.ckpt-67.index").exists()


def test_a_run_leaves_these_files(trained):
  names = {p.name for p in trained.iterdir() if "ckpt" not in p.name}
  records = [f"{name}.tf_record" for name in ("train", "eval", "predict")]
  assert {n for n in names if "tfevents" not in n} == {
    *records,
    *("bert_config.json", "label_map.json", "run.json", "vocab.txt"),
    *("eval_predictions.jsonl", "eval_results.txt", "predictions.jsonl"),
    *("test_results.tsv", "checkpoint", "commands.jsonl", "eval", ".run.lock"),
  }
  label_map = json.loads((trained / "label_map.json").read_text())
  assert label_map["labels"] == ["bad", "good"]


def test_eval_loss_averages_examples_and_loss_averages_batches(base, trained):
  # 11 examples in batches of 8 and 3, of a model that has not learned yet.
  output_dir = base / "untrained"
  start = {"init_checkpoint": str(trained / "model.ckpt-0")}
  with pytest.MonkeyPatch.context() as patch:
    source = dataclasses.replace(make_source(base), metrics=("f1",))
    module = ClassificationTask.__module__
    patch.setattr(f"{module}.open_source", lambda *_: source)
    fine_tuning.run(make(base, output_dir, start, do_eval=True))
  expected = runs.results(output_dir)
  names = "eval_accuracy eval_loss global_step loss f1"
  assert list(expected) == names.split()
  losses = []
  for size in (1, 11):
    fine_tuning.run(
      make(base, output_dir, start, do_eval=True, eval_batch_size=size)
    )
    again = runs.results(output_dir)
    assert again["eval_loss"] == pytest.approx(expected["eval_loss"], rel=1e-5)
    losses.append(again["loss"])
  assert losses == pytest.approx([expected["eval_loss"]] * 2, rel=1e-5)
  assert expected["loss"] != pytest.approx(expected["eval_loss"], rel=1e-4)


def test_training_keeps_the_best_by_the_tasks_metric(base, tmp_path):
  changes = {"do_train": True, "num_train_epochs": 3.0}
  plan = {"eval_every_steps": 5}
  fine_tuning.run(make(base, tmp_path / "out", train=plan, **changes))
  assert not (tmp_path / "out" / "eval_results.txt").exists()  # No do_eval.
  curve = curves.read(str(tmp_path / "out" / "eval"))["macro_f1"]
  assert list(curve) == [5, 10, 15, 16]
  best = tmp_path / "out" / "best"
  step = max(curve, key=curve.get)
  assert (best / f"model.ckpt-{step}.index").exists()
  fine_tuning.run(make(base, best, do_eval=True))
  assert runs.results(best)["macro_f1"] == pytest.approx(curve[step])
  assert runs.results(best)["global_step"] == step


def test_frozen_layers_do_not_change_and_are_saved_without_slots(
  base, tmp_path
):
  changes = with_config(tmp_path, num_hidden_layers=2)
  plan = {"freeze_layers": 1}
  fine_tuning.run(
    make(base, tmp_path / "out", train=plan, do_train=True, **changes)
  )
  before, after = (
    checkpoints.CheckpointReader(str(tmp_path / "out" / f"model.ckpt-{step}"))
    for step in (0, 5)
  )
  frozen = ("bert/embeddings/", "bert/encoder/layer_0/")
  names = [name for name in after.shapes if name.startswith(frozen)]
  assert len(names) == 5 + 16  # Embeddings and one layer; no slots.
  for name in after.shapes:
    is_equal = np.array_equal(before.get(name), after.get(name))
    assert is_equal or name not in names
    assert not is_equal or "kernel" not in name or name in names


@pytest.mark.parametrize(
  ("flag", "start", "expected"),
  [
    ("do_eval", "nothing", "has no checkpoint"),
    ("do_predict", "no head", "no output_weights"),
  ],
)
def test_an_untrained_model_is_not_used(
  base, trained, tmp_path, flag, start, expected
):
  train = {}
  if start == "no head":
    path = train["init_checkpoint"] = str(tmp_path / "pretrained.ckpt")
    reader = checkpoints.CheckpointReader(str(trained / "model.ckpt-67"))
    names = [n for n in reader.shapes if n.startswith("bert/")]
    checkpoints.write(path, {name: reader.get(name) for name in names})
  config = make(base, tmp_path / "out", train, **{flag: True})
  runs.assert_refused(fine_tuning.run, config, expected)


def test_paths_with_a_scheme_are_read(base, trained, tmp_path):
  remote = "ram://classification"
  for name in ("dev.tsv", "test.tsv", "config.json", "vocab.txt"):
    tf.io.gfile.copy(str(base / name), f"{remote}/{name}", overwrite=True)
  start, parts = {"init_checkpoint": str(trained)}, {"do_predict": True}
  config = make(base, tmp_path, start, do_eval=True, data_dir=remote, **parts)
  files = {"bert_config_file": "config.json", "vocab_file": "vocab.txt"}
  files = {name: f"{remote}/{file}" for name, file in files.items()}
  fine_tuning.run(dataclasses.replace(config, **files))
  assert runs.results(tmp_path) == {**runs.results(trained), "global_step": 0}
  for name in ("test_results.tsv", "predictions.jsonl"):
    assert (tmp_path / name).read_text() == (trained / name).read_text()


def test_run_json_gives_settings_that_are_left_out(base, trained, tmp_path):
  saved = json.loads((trained / "run.json").read_text())
  assert saved["task"] == "classification"
  assert saved["labels"]["labels"] == ["bad", "good"]
  settings = saved["settings"]
  assert (settings["max_seq_length"], settings["do_lower_case"]) == (16, True)
  vocab = (base / "vocab.txt").read_bytes()
  assert (trained / "vocab.txt").read_bytes() == vocab
  out = shutil.copytree(trained, tmp_path / "out")
  expected = runs.results(trained)
  for length in (None, 17):
    fine_tuning.run(make(base, out, do_eval=True, max_seq_length=length))
    assert runs.results(out) == expected
    # An evaluation does not change how the model was trained.
    now = json.loads((out / "run.json").read_text())
    assert now["settings"] == settings


def test_evaluations_in_one_folder_keep_their_records_apart(
  base, trained, tmp_path
):
  out = shutil.copytree(trained, tmp_path / "out")
  write_tsv(tmp_path / "dev.tsv", [("of of", "bad"), ("of of", "good")])
  config = make(base, out, do_eval=True, data_dir=str(tmp_path))
  records = (out / "eval.tf_record").read_bytes()
  between = []

  def records_then_another_run(*arguments):
    written = splits.encode(*arguments)
    between.append(fine_tuning.run(config))  # As another process does.
    return written

  results = fine_tuning.run(
    make(base, out, do_eval=True), encode=records_then_another_run
  )
  assert results["eval_accuracy"] == 1.0
  assert [other["eval_accuracy"] for other in between] == [0.5]
  assert (out / "eval.tf_record").read_bytes() == records


def test_a_folder_that_can_only_be_read_is_evaluated(
  base, trained, tmp_path, monkeypatch
):
  folder = shutil.copytree(trained, tmp_path / "out")
  for name in ("label_map.json", "eval.tf_record", "eval_results.txt"):
    (folder / name).unlink(missing_ok=True)
  before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
  monkeypatch.setattr(atomic, "can_write", lambda folder: False)
  with runs.logged() as log:
    results = fine_tuning.run(make(base, folder, do_eval=True))
  assert results["eval_accuracy"] == 1.0
  assert "eval_results.txt is not written" in log()
  after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
  assert after == before


def test_multilabel_predicts_each_label_separately(base, tmp_path):
  rows = [("of of", "x"), ("and and", "y"), ("of and", "x|y"), ("the the", "")]
  write_tsv(tmp_path / "train.tsv", rows * 10)
  write_tsv(tmp_path / "dev.tsv", rows)
  write_tsv(tmp_path / "test.tsv", [(text,) for text, _ in rows], "text")
  parts = dict.fromkeys(("do_train", "do_eval", "do_predict"), True)
  changes = {"data_dir": str(tmp_path), "num_train_epochs": 100.0, **parts}
  out, kind = tmp_path / "out", "multilabel"
  fine_tuning.run(make(base, out, problem_type=kind, **changes))
  evaluation = runs.results(out)
  assert evaluation["eval_accuracy"] == evaluation["micro_f1"] == 1.0
  lines = (out / "predictions.jsonl").read_text().splitlines()
  labels = [json.loads(line)["label"] for line in lines]
  assert labels == [["x"], ["y"], ["x", "y"], []]


def test_a_regression_learns_numbers(base, tmp_path):
  numbers = [("of a", "1.5"), ("and a", "-0.5"), ("the a", "0.5")]
  write_tsv(tmp_path / "train.tsv", numbers * 10)
  write_tsv(tmp_path / "dev.tsv", numbers)
  # With a few seeds, such as the default, the dropout masks of so small a model
  # prevent it from learning in these steps.
  changes = {"data_dir": str(tmp_path), "num_train_epochs": 60.0}
  changes |= {"problem_type": "regression", "do_train": True, "do_eval": True}
  fine_tuning.run(make(base, tmp_path / "out", {"seed": 1}, **changes))
  evaluation = runs.results(tmp_path / "out")
  names = "eval_loss global_step loss pearson spearman"
  assert list(evaluation) == names.split()
  assert evaluation["eval_loss"] < 0.1
  assert evaluation["pearson"] > 0.9
  assert evaluation["spearman"] == 1.0


OWN_SPEC = run_info.LabelSpec("own data", "classification", ("bad", "good"))


def make_task(spec=OWN_SPEC, **fields):
  settings = ClassificationSettings(long_text="truncate")
  return ClassificationTask(
    tokenizer=None, settings=settings, labels=spec, **fields
  )


def make_official(name):
  source = glue.get_task(name)
  spec = run_info.LabelSpec(source.name, source.problem_type, source.labels)
  config = make(pathlib.Path(), "")
  return make_task(spec, source=source, config=config)


def to_answers(task, probabilities):
  probabilities = np.float32(probabilities)
  return [to_answer(task.labels, row) for row in probabilities]


# Two standard errors, 2 * sqrt(p * (1 - p) / 100), lead above 1 for p = 0.98.
@pytest.mark.parametrize(
  ("num", "num_hits", "is_near"),
  [(60, 30, True), (60, 69, True), (60, 70, False), (98, 100, False)],
)
def test_an_accuracy_is_near_chance_up_to_two_standard_errors(
  tmp_path, num, num_hits, is_near
):
  labels = ["good"] * num + ["bad"] * (100 - num)
  rows = [{"text": "a", "label": label} for label in labels]
  is_good = [(i < num_hits) == (x == "good") for i, x in enumerate(labels)]
  task = make_task()
  answers = to_answers(task, [[1.0 - good, good] for good in is_good])
  with runs.logged() as log:
    task.write_evaluation(str(tmp_path), rows, answers)
  assert ("close to chance" in log()) == is_near


def test_the_scores_of_each_label_match_a_count_by_hand(tmp_path):
  labels = ("bad", "bad", "good", "good", "good")
  data = [{"text": "a", "label": label} for label in labels]
  task = make_task()
  answers = to_answers(task, [[0.9, 0.1], *[[0.2, 0.8]] * 4])
  with runs.logged() as log:
    task.write_evaluation(str(tmp_path), data, answers)
  lines = (tmp_path / "eval_predictions.jsonl").read_text().splitlines()
  line = json.loads(lines[1])
  assert (line["true_label"], line["label"]) == ("bad", "good")
  for row in ("bad 1.000 0.500 0.667 2", "good 0.750 1.000 0.857 3"):
    assert row in " ".join(log().split())


def test_a_test_file_may_have_labels(tmp_path):
  task = make_task(source=make_source(tmp_path))
  for label, known in (("bad", "bad"), ("?", None)):
    write_tsv(tmp_path / "test.tsv", [("a", "good"), ("b", label)])
    read = task.read("test")
    assert [row.get("label") for row in read] == ["good", known]


# 3 true and 2 false positives, 1 false and 2 true negatives.
LABELS, CHANCES = "11100100", [0.9, 0.8, 0.6, 0.7, 0.9, 0.2, 0.4, 0.3]
NUMBERS, PREDICTED = [0.0, 1.0, 2.0, 5.0], [0.1, 3.0, 2.0, 2.5]
ROOT = np.sqrt((3 + 2) * (3 + 1) * (2 + 2) * (2 + 1))
# The results of each task by name.
OFFICIAL = {
  "mrpc": {"f1": 2 * 3 / (2 * 3 + 2 + 1)},
  "cola": {"matthews_correlation": (3 * 2 - 2 * 1) / ROOT},
  "sts-b": {
    "pearson": np.corrcoef(NUMBERS, PREDICTED)[0, 1],
    "spearman": np.corrcoef([0, 1, 2, 3], [0, 3, 1, 2])[0, 1],
  },
}


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_metrics_match_a_count_by_hand(name):
  labels, outputs = LABELS, [[1 - p, p] for p in CHANCES]
  if name == "sts-b":
    labels, outputs = NUMBERS, [[number] for number in PREDICTED]
  task, rows = make_official(name), [{"label": label} for label in labels]
  scores = task.score(rows, to_answers(task, outputs))
  assert scores == pytest.approx(OFFICIAL[name])


def test_f1_of_a_single_label_does_not_count_its_absence():
  labels = np.array([[1], [1], [0], [0]])
  predicted = np.array([[1], [0], [0], [0]])
  for name in ("micro_f1", "macro_f1"):
    f1 = METRICS[name]
    assert f1(labels, predicted) == pytest.approx(2 / 3)
    assert f1(labels, 0 * labels) == 0.0


def write_predictions(folder, name, rows, probabilities):
  task = make_official(name)
  task.write_predictions(str(folder), rows, to_answers(task, probabilities))


def test_predictions_of_a_pair_have_id_texts_label_and_probabilities(tmp_path):
  pairs = [
    {"id": "test-0", "text": "é one", "text_b": "two"},
    {"id": "test-1", "text": "three", "text_b": "four"},
  ]
  write_predictions(tmp_path, "rte", pairs, [[0.25, 0.75], [0.6, 0.4]])
  assert (tmp_path / "test_results.tsv").read_text() == "0.25\t0.75\n0.6\t0.4\n"
  assert (tmp_path / "RTE.tsv").read_text() == (
    "index\tprediction\n0\tnot_entailment\n1\tentailment\n"
  )
  first = (tmp_path / "predictions.jsonl").read_text().splitlines()[0]
  assert first == (
    '{"id": "test-0", "text": "é one", "text_b": "two", '
    '"label": "not_entailment", '
    '"probabilities": {"entailment": 0.25, "not_entailment": 0.75}}'
  )
  assert len(list(tmp_path.iterdir())) == 3


def test_submitted_scores_stay_between_0_and_5(tmp_path):
  pairs = [{"id": str(i), "text": "a", "text_b": "b"} for i in range(3)]
  write_predictions(tmp_path, "sts-b", pairs, [[-0.5], [2.34567], [5.5]])
  assert (tmp_path / "STS-B.tsv").read_text() == (
    "index\tprediction\n0\t0.000\n1\t2.346\n2\t5.000\n"
  )
  assert (tmp_path / "test_results.tsv").read_text() == "-0.5\n2.34567\n5.5\n"


def with_config(folder, **changes):
  path = folder / "other.json"
  path.write_text(json.dumps({**CONFIG, **changes}))
  return {"bert_config_file": str(path)}


@pytest.mark.parametrize(
  ("changes", "expected"),
  [
    ({"task_name": "mnli"}, "There is no {}/dev_matched.tsv. Set `data_dir`"),
    ({"task_name": "xnli"}, "There is no {}/multinli"),
    ({}, "test.tsv:2: 3 columns instead of 2"),
    ({"train": {"freeze_layers": 2}}, "freeze_layers 2 exceeds num_hidden_la"),
  ],
)
def test_a_mistake_is_one_line_before_anything_is_written(
  base, tmp_path, changes, expected
):
  folder = tmp_path / "data"
  shutil.copytree(base, folder, ignore=shutil.ignore_patterns("out*"))
  write_tsv(folder / "test.tsv", [("a", "b", "")])
  parts = {"do_train": True, "do_eval": True, "do_predict": True}
  config = make(folder, tmp_path / "run", **parts, **changes)
  runs.assert_refused(fine_tuning.run, config, expected.format(folder))


def test_a_run_without_a_classifier_is_refused_and_unchanged(base, tmp_path):
  checkpoints.save(
    str(tmp_path),
    {"global_step": tf.constant(7, tf.int64), "cls/squad/output_bias": [0.0]},
    keep_checkpoint_max=5,
  )
  (tmp_path / "train.tf_record").write_bytes(b"of the other task")
  names = {p.name for p in tmp_path.iterdir()}
  with pytest.raises(ValueError, match="model.ckpt-7 has no output_weights"):
    fine_tuning.run(make(base, tmp_path, do_train=True))
  assert {p.name for p in tmp_path.iterdir()} == names
  assert (tmp_path / "train.tf_record").read_bytes() == b"of the other task"
