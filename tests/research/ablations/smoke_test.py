"""Experiments from text to report, with the command."""

import os
import random
import re
import subprocess
import sys

from research import rows
from research.ablations import experiments, runs, scales
from tests.support import checkout, docs_files

TYPES = ("PER", "LOC", "ORG")


def write_data(folder):
  """Writes a text with few words, and data of all tasks."""
  rng = random.Random(1)

  def sentence():
    words = [*docs_files.WORDS, "walked", "talking"]
    return " ".join(rng.choices(words, k=9))

  documents = ["\n".join(sentence() for _ in range(12)) for _ in range(40)]
  (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
  glue = folder / "glue"
  docs_files.write_glue(glue, sentence)
  questions = [
    f"{i}\t{sentence()}\t{sentence()}\t{'not_' * (i % 2)}entailment"
    for i in range(12)
  ]
  header = "index\tquestion\tsentence\tlabel"
  docs_files.write_tsv(glue / "QNLI", header, questions)
  docs_files.write_squad(folder, sentence)
  for name in ("eng.train", "eng.testa"):
    lines = ["-DOCSTART- -X- O O", ""]
    for _ in range(100):
      lines += [f"{w} N O B-{t}" for w, t in zip("he his it".split(), TYPES)]
      lines += ["by N O O", ""]
    (folder / name).write_text("\n".join(lines))


FLAGS = (
  "--scale=smoke",
  "--text=text.txt",
  "--input_format=lines",
  "--glue_dir=glue",
  "--squad_dir=.",
  "--conll_dir=.",
  "--output_dir=out",
)


# The others change only sizes, steps or probabilities of these runs.
EXPERIMENTS = ("objectives", "feature_layers", "masking_time", "packing")
EXPERIMENTS += ("curves",)


def planned_runs(names):
  """Returns the runs of experiments by key."""
  scale = scales.SCALES["smoke"]
  tasks = [f.task for f in scale.fine_tunings]
  return {
    runs.key(run)
    for experiment in experiments.build(names, scale, tasks)
    for run in experiment.runs(scale.seeds)
  }


def test_experiments_of_every_kind_run(tmp_path, run_script):
  write_data(tmp_path)
  chosen = f"--experiments={','.join(EXPERIMENTS)}"
  result = run_script("ablations.py", *FLAGS, chosen, cwd=tmp_path)
  assert result.returncode == 0, result.stderr[-3000:]
  out = tmp_path / "out"
  all_rows = rows.read_all(str(out / "rows"), runs.Row)
  planned = planned_runs(EXPERIMENTS)
  assert {runs.key(row) for row in all_rows} == planned
  assert not [row.error for row in all_rows if row.error]
  text = (out / "report.md").read_text()
  overview = re.findall(r"^\| .* \| (\d+) of (\d+) \|", text, re.MULTILINE)
  assert len(overview) == len(EXPERIMENTS)
  assert all(finished == planned for finished, planned in overview)
  for row in all_rows:
    if row.kind == "pretraining":
      num_steps = row.config["pretraining"]["num_train_steps"]
      training = row.curve["training"]
      assert training["step"][-1] == num_steps
      assert training["word_pieces"] == sorted(training["word_pieces"])
      assert row.results["perplexity"] > 1
      assert row.curve["held_out"]["step"][-1] == num_steps

  # These runs are finished, so no row is written again.
  before = {p: p.stat().st_mtime_ns for p in (out / "rows").iterdir()}
  result = run_script("ablations.py", *FLAGS, "--dry_run", cwd=tmp_path)
  assert result.returncode == 0, result.stderr[-3000:]
  num_runs = len(planned_runs(()))
  assert f"{num_runs} runs, of which {len(planned)} are done" in result.stderr
  assert before == {p: p.stat().st_mtime_ns for p in (out / "rows").iterdir()}
  _check_comparison(tmp_path)


def _check_comparison(folder):
  """A run stays within its own band."""
  run = experiments.build(("curves",), scales.SCALES["smoke"], [])[0]
  name = next(iter(run.runs([1]))).name
  result = subprocess.run(
    [
      *(sys.executable, "-m", "research.curves.command"),
      f"--output_dir=out/runs/{name}",
      "--reference_dir=out/curves",
    ],
    cwd=folder,
    env={**os.environ, "PYTHONPATH": str(checkout.ROOT)},
    capture_output=True,
    text=True,
  )
  assert result.returncode == 0, result.stderr
  assert "The run stays within the band." in result.stdout
  assert (folder / "out" / "runs" / name / "compared.png").exists()
