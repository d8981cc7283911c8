"""Settings, data and commands of the runs."""

import pytest

from research.reproduction import config as config_lib
from research.reproduction import jobs, tasks

SMALL = (4, 256)


def make_config(**changes):
  values = {"output_dir": "out", "model": "m", **changes}
  return config_lib.ReproductionConfig(**values)


def plan(name, size, **changes):
  chosen = tasks.choose((name,))
  return jobs.plan(make_config(**changes), "m", size, chosen)


@pytest.mark.parametrize(
  ("name", "size", "batch_sizes", "rates", "epochs", "length"),
  [
    ("MRPC", jobs.BASE, {32}, "5e-5 4e-5 3e-5 2e-5", 3, 128),
    ("MRPC", SMALL, {8, 16, 32, 64, 128}, "3e-4 1e-4 5e-5 3e-5", 4, 128),
    ("SQuAD-1.1", jobs.BASE, {32}, "5e-5", 3, 384),
    ("SQuAD-1.1-README", jobs.BASE, {12}, "3e-5", 2, 384),
    ("SQuAD-1.1-README", jobs.LARGE, {24}, "3e-5", 2, 384),
    ("SQuAD-2.0", jobs.LARGE, {48}, "5e-5", 2, 384),
    ("SWAG", jobs.BASE, {16}, "2e-5", 3, 128),
    ("CoNLL-2003-last", SMALL, {16}, "1e-3", 6, 128),
  ],
)
def test_the_settings_are_those_of_the_paper_and_the_readme(
  name, size, batch_sizes, rates, epochs, length
):
  runs = plan(name, size)
  assert {run.train_batch_size for run in runs} == batch_sizes
  assert {run.learning_rate for run in runs} == set(rates.split())
  assert {run.num_train_epochs for run in runs} == {epochs}
  assert {run.max_seq_length for run in runs} == {length}
  assert len(runs) == 3 * len(batch_sizes) * len(rates.split())
  assert len({run.name for run in runs}) == len(runs)


def commands(name, **arguments):
  run = plan(name, jobs.BASE, seeds=(7,))[0]
  files = tasks.TASKS[name].files[0]
  data = tasks.Data("data", files)
  return jobs.commands(run, "model", data, "out", **arguments)


def test_mnli_also_evaluates_mismatched_and_predicts_ax():
  first, mismatched, ax = commands("MNLI", diagnostics="ax_data")
  assert {"--do_train", "--seed=7", "--model=model"} < set(first)
  assert {"--task_name=MNLI-mm", "--model=out"} < set(mismatched)
  assert {"--task_name=AX", "--do_predict", "--data_dir=ax_data"} < set(ax)
  assert "--do_train" not in [*mismatched, *ax]
  assert len(commands("MNLI")) == 2


def test_triviaqa_is_learned_before_squad():
  first, second = commands("SQuAD-1.1-TriviaQA")
  assert {"--num_train_epochs=1", "--model=model", "--seed=7"} < set(first)
  assert "--train_file=data/triviaqa-train.json" in first
  assert "--do_predict" not in first
  assert {"--num_train_epochs=3", "--model=out/triviaqa"} < set(second)
  assert "--train_file=data/train-v1.1.json" in second


def test_squad_2_answers_again_with_the_best_threshold():
  first, second = commands("SQuAD-2.0")
  assert "--doc_stride=128" in first and "--do_train" in first
  filled = jobs.fill(second, {"best_f1": 80.0, "best_f1_thresh": -1.25})
  assert "--null_score_diff_threshold=-1.25" in filled
  assert "--do_train" not in filled


def test_flags_that_change_results_are_part_of_a_run():
  compute = config_lib.training_config.ComputeConfig(precision="bfloat16")
  [run] = plan(
    "SQuAD-1.1", jobs.BASE, seeds=(1,), compute=compute, cut_padding=True
  )
  assert run.config["flags"] == {"cut_padding": "true", "precision": "bfloat16"}
  words = jobs.commands(
    run, "m", tasks.Data("d", ("a", "b")), "o", None, ["-x"]
  )
  assert {"--precision=bfloat16", "--cut_padding=true", "-x"} < set(words[0])


@pytest.mark.parametrize(
  ("name", "folder"),
  [
    ("MRPC", "MRPC"),
    ("MRPC", "GLUE/MRPC"),
    ("MRPC", "glue/MRPC"),
    ("SQuAD-1.1", "squad"),
    ("SQuAD-1.1", "SQuAD-1.1"),
    ("CoNLL-2003", "conll2003/iob1_docstart"),
    ("SWAG", "swag"),
  ],
)
def test_data_are_found_in_the_usual_layouts(name, folder, tmp_path):
  task = tasks.TASKS[name]
  other = str(tmp_path / "downloads")
  assert tasks.find_data(task, [str(tmp_path), other]) is None
  (tmp_path / folder).mkdir(parents=True)
  for file in task.files[0]:
    (tmp_path / folder / file).write_text("x")
  data = tasks.find_data(task, [other, str(tmp_path)])
  assert data.path(0) == str(tmp_path / folder / task.files[0][0])
  (tmp_path / folder / task.files[0][1]).unlink()
  assert tasks.find_data(task, [other, str(tmp_path)]) is None
