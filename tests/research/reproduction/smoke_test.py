"""Runs of a tiny model through the commands of a user."""

import json
import re
import subprocess

import pytest

from research import rows
from research.reproduction import report
from tests.support import checkout, docs_files, triviaqa_files

_PAIRS = (
  "the man was as he is\tthe man was",
  "he was in it\tthat is his by the",
  "it was as he is\tthe in and",
  "to the man by it\tfor that is his",
)
_LABELS = ("entailment", "contradiction", "neutral", "entailment")


def write_mnli(folder):
  """Writes the files of MNLI and AX."""
  header = "index\tsentence1\tsentence2"
  lines = [f"{i}\t{pair}" for i, pair in enumerate(_PAIRS)]
  labelled = [f"{x}\t{label}" for x, label in zip(lines, _LABELS)]
  for name in ("train", "dev_matched", "dev_mismatched"):
    path = folder / "MNLI" / f"{name}.tsv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([f"{header}\tgold_label", *labelled]) + "\n")
  (folder / "AX").mkdir()
  text = "\n".join([header, *lines]) + "\n"
  (folder / "AX" / "diagnostic.tsv").write_text(text)


def write_squad_2(folder):
  """Writes SQuAD 2.0 from 1.1: every second question has no answer."""
  for split in ("train", "dev"):
    content = json.loads((folder / f"{split}-v1.1.json").read_text())
    paragraphs = [p for text in content["data"] for p in text["paragraphs"]]
    questions = [question for p in paragraphs for question in p["qas"]]
    for number, question in enumerate(questions):
      question["is_impossible"] = bool(number % 2)
      question["answers"] *= 1 - number % 2
    (folder / f"{split}-v2.0.json").write_text(json.dumps(content))


def test_commands_with_several_steps_give_rows_and_a_report(
  tmp_path, run_script, start_python
):
  docs_files.write_all(tmp_path)
  write_mnli(tmp_path / "GLUE")
  write_squad_2(tmp_path)
  words = vars(triviaqa_files.write(tmp_path)).items()
  converted = start_python(
    *("-m", "research.reproduction.triviaqa"),
    *(f"--{name}={value}" for name, value in words),
    cwd=checkout.ROOT,
    stdout=subprocess.PIPE,
    text=True,
  ).communicate()[0]
  assert converted.startswith("3 questions on 2 documents. Left out: 3 ")
  flags = (
    *("--model=minilm", "--data=.", "--output_dir=out", "--seeds=1"),
    "--tasks=MNLI,SQuAD-2.0,SQuAD-1.1-TriviaQA,CoNLL-2003",
    "--batch_sizes=2",
    *("--learning_rates=1e-4", "--num_train_epochs=1", "--max_seq_length=80"),
  )
  result = run_script("reproduce.py", *flags, cwd=tmp_path)
  assert result.returncode == 0, result.stderr[-3000:]
  out = tmp_path / "out"
  results = {
    row.config["task"]: row.results
    for row in rows.read_all(str(out / "rows"), report.Row)
  }
  assert {"eval_accuracy", "mm_eval_accuracy"} < results["MNLI"].keys()
  assert {"f1", "exact_match", "best_f1_thresh"} < results["SQuAD-2.0"].keys()
  # With the best threshold, the scores are the best ones.
  squad = results["SQuAD-2.0"]
  assert squad["f1"] == pytest.approx(squad["best_f1"], abs=0.01)
  assert {"f1", "test_f1"} < results["CoNLL-2003"].keys()
  assert {"f1", "exact_match"} <= results["SQuAD-1.1-TriviaQA"].keys()
  (log,) = out.glob("logs/*TriviaQA*")
  first, second = re.findall(r"^\$ (.*)", log.read_text(), re.MULTILINE)
  (trained,) = re.findall(r"--output_dir=(\S+)", first)
  assert "/triviaqa-train.json " in first and f"--model={trained} " in second
  assert len(list(out.glob("runs/*/ax/AX.tsv"))) == 1
  suffixes = {path.suffix for path in out.glob("runs/**/*") if path.is_file()}
  assert suffixes <= {".txt", ".tsv", ".json"}
  assert "MNLI | accuracy, mismatched" in (out / "report.md").read_text()

  # All runs are finished, so none is executed again.
  before = {p: p.stat().st_mtime_ns for p in (out / "rows").iterdir()}
  result = run_script("reproduce.py", *flags, cwd=tmp_path)
  assert result.returncode == 0 and "4 runs, of which 4" in result.stderr
  assert before == {p: p.stat().st_mtime_ns for p in (out / "rows").iterdir()}
