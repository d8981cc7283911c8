"""Numbers that several pages give agree with the table that they come from."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
SPEED = (DOCS / "speed.md").read_text()
COMPARISON = (ROOT / "research" / "benchmarks" / "comparison.md").read_text()
FINE_TUNING = (
  ROOT / "research" / "reproduction" / "fine_tuning.md"
).read_text()
# The section of research/reproduction/fine_tuning.md with the results of a
# task, and the start of their row there.
RESULTS = {
  "MRPC": ("Classification", "MRPC, F1; "),
  "RTE": ("Classification", "RTE"),
  "SST-2": ("Classification", "SST-2, accuracy; the first 4,000"),
  "SQuAD": ("Question answering", "1.1"),
  "CoNLL-2003": ("Named entities", "fine-tuned, single"),
}
# Scores in the README of the original release.
ORIGINAL_SCORES = {
  "classification.md": ("84%", "88%"),
  "coming_from_2018.md": ("84%", "88%", "88.41", "81.25", "90.87", "84.39"),
  "question_answering.md": ("88.41", "81.25"),
}
# The titles of the tables behind a row of the summary of docs/speed.md.
BENCHMARKS = {
  "training step, float32": "train, {}.*float32",
  "training step, bfloat16": "train, {}.*bfloat16",
  "forward pass": "forward, {}",
  "start until the first step": "start, {}",
  "one prediction, loading included": "predict, .*{}",
}


def table_rows(text):
  """Returns the cells of the rows of the tables in a text."""
  lines = [line for line in text.splitlines() if line.startswith("| ")]
  return [[c.strip() for c in line.strip("|").split("|")] for line in lines]


def section(text, heading):
  """Returns the text from a heading to the next one of its level."""
  return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def decimals(text):
  """Returns the numbers of a text that have a decimal point."""
  return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def relative_speeds(text, title):
  """Returns the best `x peer` of bert_tf in each table with this title."""
  tables = re.findall(rf"^{title}.*\n((?:.+\n)+)", text, re.M)
  return [
    max(
      float(value)
      for value in re.findall(r"^bert_tf.* (\d\.\d\d) ", table, re.M)
    )
    for table in tables
  ]


def test_results_of_the_readme_are_those_of_the_measurements():
  _, *rows = table_rows(section(README, "Results"))
  assert len(rows) == len(RESULTS)
  for task, _, scores, _ in rows:
    heading, start = RESULTS[re.split("[ ,]", task)[0]]
    text = section(FINE_TUNING, heading)
    [cells] = [row for row in table_rows(text) if row[0].startswith(start)]
    known = {round(number, 1) for number in decimals(" ".join(cells[1:]))}
    assert decimals(scores) and set(decimals(scores)) <= known, task


def test_times_of_the_readme_are_those_of_the_measurements():
  _, *rows = table_rows(section(README, "Results"))
  for task, _, _, time in rows:
    heading, _ = RESULTS[re.split("[ ,]", task)[0]]
    text = section(FINE_TUNING, heading)
    seconds = map(int, re.findall(r"(\d+) s\b", text))
    minutes = float(time.removesuffix(" min"))
    if "SQuAD" not in task:  # Its time is extrapolated.
      assert any(abs(s / 60 - minutes) < 0.5 for s in seconds), task


@pytest.mark.parametrize("page", ORIGINAL_SCORES)
def test_scores_of_the_original_are_the_same_everywhere(page):
  text = (DOCS / page).read_text()
  missing = [n for n in ORIGINAL_SCORES[page] if n not in text]
  assert not missing, page


def test_the_summary_of_speeds_follows_from_the_tables():
  rows = {row[0]: row[1:] for row in table_rows(section(SPEED, "Summary"))}
  for name, title in BENCHMARKS.items():
    for cell, size in zip(rows[name], ("L2 H128", "L12 H768"), strict=False):
      speeds = relative_speeds(COMPARISON, title.format(size))
      assert decimals(cell) == sorted({min(speeds), max(speeds)}), (name, size)
  [*_, finetuning] = next(v for k, v in rows.items() if "MRPC" in k)
  beside = section(COMPARISON, "Fine-tuning beside transformers")
  assert decimals(finetuning) == relative_speeds(beside, "finetune, ")


def test_speeds_on_the_slow_machine_follow_from_the_tables():
  text = section(COMPARISON, "Training steps of other sizes")
  rows = table_rows(text.split("AMD EPYC")[1])[1:]
  speeds = [float(row[-1]) for row in rows]
  _, squad = relative_speeds(
    section(COMPARISON, "Fine-tuning on a slow machine"), "finetune, "
  )
  summary = re.search("On a slow AMD EPYC(?:.+\n)+", SPEED)[0]
  assert decimals(summary) == [min(speeds), max(speeds), squad]


@pytest.mark.parametrize(
  "size, claim",
  [
    ("L12 H768", r"step is ([\d.]+) to ([\d.]+) times as .* with BERT-Base"),
    ("L2 H128", r", ([\d.]+) to ([\d.]+) times with two layers of 128"),
  ],
)
def test_speeds_of_the_readme_follow_from_the_tables(size, claim):
  speeds = relative_speeds(COMPARISON, f"train, {size}")
  text = section(COMPARISON, "Training steps of other sizes")
  speeds += [
    float(row[-1]) for row in table_rows(text) if row[0].startswith(size)
  ]
  low, high = re.search(claim, " ".join(README.split())).groups()
  assert (float(low), float(high)) == (
    round(min(speeds), 1),
    round(max(speeds), 1),
  )
