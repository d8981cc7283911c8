"""Estimates of the dry run."""

import dataclasses
import pathlib

import pytest

from bert_tf import model_config
from research.reproduction import config as config_lib
from research.reproduction import jobs, planning, tasks
from tests.support import docs_files

TINY = pathlib.Path(__file__).resolve().parents[2] / "golden" / "tiny"
MODEL = planning.Model(
  name="mine",
  path="model",
  bert_config=model_config.BertConfig(
    vocab_size=500,
    hidden_size=10,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=40,
  ),
  vocab_file=str(TINY / "vocab.txt"),
  hash="abc",
)
RUN = jobs.Run(
  model="mine",
  task="MRPC",
  train_batch_size=4,
  learning_rate="5e-5",
  num_train_epochs=2.0,
  max_seq_length=100,
  flags=(),
  seed=1,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  folder = tmp_path_factory.mktemp("data")
  docs_files.write_all(folder)
  return folder


def test_a_classifier_counts_the_last_layer_at_cls_only():
  cost = planning.estimate(RUN, MODEL, planning.Inputs(10, 1, 50), 1e6)
  assert cost.num_steps == 5
  # Two layers of 24 H^2 + 4 S H operations a position, keys and values of the
  # third, its rest at [CLS], and the pooler.
  position, keys = 24 * 100 + 4 * 50 * 10, 4 * 100
  sequence = 2 * 50 * position + 50 * keys + position - keys + 2 * (100 + 20)
  operations = 5 * 4 * sequence * 3
  expected = 30 + operations / (planning.UTILISATION * 1e6)
  assert cost.seconds == pytest.approx(expected)
  # A fast device still has to launch the operations of each step.
  cost = planning.estimate(RUN, MODEL, planning.Inputs(1000, 1, 50), 1e18)
  assert cost.seconds == pytest.approx(30 + 500 * 0.01)


def test_memory_is_that_of_the_full_length():
  cost = planning.estimate(RUN, MODEL, planning.Inputs(10, 1, 50), 1e6)
  activations = 3 * 4 * (64 * 100 * 10 + 8 * 2 * 100 * 100)
  # Words, positions, three layers and the rest: 16 bytes a parameter.
  parameters = 500 * 10 + 512 * 10 + 3 * (12 * 100 + 13 * 10)
  rest = cost.num_bytes - activations - 16 * parameters
  assert 0 < rest < 16 * 1000
  features = dataclasses.replace(RUN, task="CoNLL-2003-last")
  frozen = planning.estimate(features, MODEL, planning.Inputs(10, 1, 50), 1e6)
  assert frozen.num_bytes < cost.num_bytes / 2


def test_spans_cost_more_than_a_class_and_choices_four_times():
  inputs = planning.Inputs(1000, 1, 50)
  classifier = planning.estimate(RUN, MODEL, inputs, 1e6).seconds
  squad = dataclasses.replace(RUN, task="SQuAD-1.1")
  assert planning.estimate(squad, MODEL, inputs, 1e6).seconds > 1.2 * classifier
  swag = dataclasses.replace(RUN, task="SWAG")
  four = planning.estimate(swag, MODEL, planning.Inputs(1000, 4, 50), 1e6)
  assert four.seconds - 30 == pytest.approx(4 * (classifier - 30))


@pytest.mark.parametrize(
  ("name", "num_examples", "sequences", "is_full"),
  [
    ("MRPC", 12, 1, False),
    ("RTE", 12, 1, False),
    ("SWAG", 12, 4, False),
    ("CoNLL-2003", 12, 1, True),
    ("SQuAD-1.1", None, 1, True),
  ],
)
def test_inputs_are_counted(name, num_examples, sequences, is_full, data):
  task = tasks.TASKS[name]
  files = tasks.find_data(task, [str(data)])
  inputs = planning.read_inputs(task, files, MODEL, 128)
  assert inputs.num_examples == (num_examples or inputs.num_examples) > 0
  assert inputs.sequences == sequences
  assert (inputs.length == 128) == is_full and inputs.length > 5


def test_the_plan_names_the_runs_and_the_total(data, capsys):
  config = config_lib.ReproductionConfig(
    output_dir="out", model="m", dry_run=True, teraflops=0.001
  )
  task = tasks.TASKS["MRPC"]
  files = {"MRPC": tasks.find_data(task, [str(data)])}
  plan = jobs.plan(config, "mine", jobs.BASE, [task])
  planning.print_plan(config, MODEL, files, plan, plan[:5])
  lines = capsys.readouterr().out.splitlines()
  assert "12 runs, 7 of them done" in lines[0]
  assert lines[2].split()[:6] == ["MRPC", "32", "12", "5", "12", "1"]
  assert "hours" in lines[-1] and "0.001 TFLOP/s (given)" in lines[-1]
