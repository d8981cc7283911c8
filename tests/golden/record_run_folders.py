"""Records small run folders of this version, and the numbers they give.

The folders in run_folders/ were written at commit 665eee0 and stand for the
folders that users have. Never record them again: they show that later versions
read what that version wrote. `README.md` beside this file says more.

    python tests/golden/record_run_folders.py WORK_FOLDER
"""

import csv
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.support import run_folders  # noqa: E402

CONFIG = {
  "vocab_size": 64,
  "hidden_size": 8,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 16,
  "max_position_embeddings": 24,
  "type_vocab_size": 2,
  "hidden_act": "gelu",
  # Wide, so that the answers to different texts differ clearly.
  "initializer_range": 0.5,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0,
}
WORDS = (
  "the a red old cold fox dog river town girl she it and in of runs sings "
  "sleeps rains waits . , ? who what where ada lee rome oslo good bad so"
).split()
PIECES = ["##s", "##ing", "##er", *"bcdefghijklmnopq"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NOUNS = ["fox", "dog", "river", "town", "girl"]
VERBS = ["runs", "sings", "sleeps", "rains", "waits"]


def sentence(rng):
  """Returns a sentence of the vocabulary's words."""
  return f"the {rng.choice(NOUNS)} {rng.choice(VERBS)}"


def write_data(folder):
  """Writes config, vocabulary and the examples of all tasks."""
  folder.mkdir(parents=True)
  rng = random.Random(0)
  vocab = [*SPECIAL, *WORDS, *PIECES]
  vocab += [f"[unused{i}]" for i in range(CONFIG["vocab_size"] - len(vocab))]
  (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
  (folder / "bert_config.json").write_text(json.dumps(CONFIG, indent=2))
  documents = ("\n".join(sentence(rng) for _ in range(6)) for _ in range(5))
  (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
  write_texts(folder, rng)
  write_squad(folder / "squad.json", rng)
  write_swag(folder / "swag", rng)
  for split in ("train", "dev", "test"):
    lines = (conll_sentence(rng) for _ in range(12))
    (folder / f"{split}.txt").write_text("\n".join(lines))


def write_texts(folder, rng):
  """Writes files of a classifier, a regression on pairs and a multilabel."""
  labels = ("so", "good", "bad", "so", "good")
  for split in ("train", "dev", "test"):
    with (folder / f"{split}.csv").open("w", newline="") as file:
      writer = csv.writer(file)
      writer.writerow(["text", "label"])
      for _ in range(12):
        text = sentence(rng)
        writer.writerow([text, labels[NOUNS.index(text.split()[1])]])
    with (folder / f"{split}.tsv").open("w") as file:
      file.write("text\ttext_b\tlabel\n")
      for i in range(12):
        file.write(f"{sentence(rng)}\t{sentence(rng)}\t{i % 4}.5\n")
    with (folder / f"{split}.jsonl").open("w") as file:
      for _ in range(12):
        text = sentence(rng)
        noun, verb = text.split()[1:]
        several = {labels[NOUNS.index(noun)], labels[VERBS.index(verb)]}
        row = {"text": text, "label": sorted(several)}
        file.write(json.dumps(row) + "\n")


def write_squad(path, rng):
  """Writes 12 questions; every fourth has no answer."""
  paragraphs = []
  for i in range(12):
    noun, verb = rng.choice(NOUNS), rng.choice(VERBS)
    context = f"she waits . the {noun} {verb} in rome ."
    answer = {"text": noun, "answer_start": context.index(noun)}
    question = {
      "id": f"q{i}",
      "question": f"what {verb} ?",
      "is_impossible": i % 4 == 3,
      "answers": [] if i % 4 == 3 else [answer],
    }
    paragraphs.append({"context": context, "qas": [question]})
  data = {"version": "v2.0", "data": [{"paragraphs": paragraphs}]}
  path.write_text(json.dumps(data))


def write_swag(folder, rng):
  """Writes files in SWAG's columns."""
  folder.mkdir()
  columns = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2"]
  columns += ["gold-source", *(f"ending{i}" for i in range(4)), "label"]
  for split in ("train", "val", "test"):
    with (folder / f"{split}.csv").open("w", newline="") as file:
      writer = csv.writer(file)
      writer.writerow(columns)
      for i in range(12):
        first, endings = sentence(rng), [sentence(rng) for _ in range(4)]
        row = [i, "v", i, f"{first} she", first, "she", "gold", *endings]
        writer.writerow([*row, i % 4])


def conll_sentence(rng):
  """Returns lines of a word and its tag, and an empty one."""
  person = rng.choice([["ada"], ["ada", "lee"], ["lee"]])
  pairs = list(zip(person, ["B-PER", "I-PER"]))
  pairs += [(rng.choice(VERBS), "O"), ("in", "O")]
  pairs += [(rng.choice(["rome", "oslo"]), "B-LOC")]
  return "".join(f"{word} {tag}\n" for word, tag in pairs)


def run(command, folder):
  """Runs a script of this checkout; raises if it fails."""
  script, *arguments = command
  path = ROOT / "run_scripts" / script
  environment = {**os.environ, "PYTHONPATH": str(ROOT)}
  subprocess.run(
    [sys.executable, path, *arguments], cwd=folder, check=True, env=environment
  )


def record(folder):
  """Writes all folders that are recorded."""
  write_data(folder / "data")
  run(
    [
      "create_pretraining_data.py",
      "--input_file=data/text.txt",
      "--output_file=data/train.tfrecord",
      "--vocab_file=data/vocab.txt",
      "--max_seq_length=16",
      "--max_predictions_per_seq=3",
      "--dupe_factor=2",
    ],
    folder,
  )
  for name, recorded in run_folders.RUNS.items():
    run(recorded.command(name, recorded.recorded), folder)
  for source, target, output in (
    ("classifier", "original", "original/bert_model.ckpt"),
    ("classifier", "hf", "hf"),
    ("hf", "back", "back/bert_model.ckpt"),
  ):
    flags = [f"--model={source}", f"--output_checkpoint={output}"]
    flags += ["--to=hf"] * (target == "hf")
    run(["convert_checkpoint.py", *flags], folder)
  run(
    ["export_savedmodel.py", "--model=classifier", "--export_dir=saved_model"],
    folder,
  )
  for path in folder.rglob("events.out.tfevents*"):
    path.unlink()  # Large, and never read again.
  for path in folder.rglob("commands.jsonl"):
    path.write_text(path.read_text().replace(f"{ROOT}/", ""))


def measure(folder, scratch):
  """Returns answers and results of the recorded folders."""
  return {
    "answers": {
      name: run_folders.answers(folder / name, rows)
      for name, rows in run_folders.ROWS.items()
    },
    "evaluated": {
      name: run_folders.evaluate(run, new_copy(folder, scratch), name)
      for name in run_folders.EVALUATIONS
    },
    "resumed": {
      name: run_folders.resume(run, new_copy(folder, scratch), name)
      for name in run_folders.RUNS
    },
  }


def new_copy(folder, scratch):
  """Returns a copy of the recorded folders that a command may change."""
  shutil.rmtree(scratch, ignore_errors=True)
  return shutil.copytree(folder, scratch)


def pack(folder):
  """Packs the folders, without the name of whoever recorded them."""

  def without_owner(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member

  run_folders.FOLDER.mkdir(exist_ok=True)
  with tarfile.open(run_folders.ARCHIVE, "w:xz", preset=9) as archive:
    for path in sorted(folder.iterdir()):
      archive.add(path, path.name, filter=without_owner)


def to_text(expected):
  """Returns JSON with 8 digits per number and a list of numbers per line."""
  text = json.dumps(expected, indent=1, ensure_ascii=False)
  text = re.sub(r"-?\d+\.\d+(e-?\d+)?", short_number, text)
  return re.sub(r"\[[^][{}]*\]", lambda m: " ".join(m[0].split()), text) + "\n"


def short_number(match):
  """Returns a float of JSON with 8 significant digits."""
  return json.dumps(float(f"{float(match[0]):.8g}"))


def main():
  """Records the folders beside this file."""
  work = pathlib.Path(sys.argv[1]).resolve()
  folder = work / "recorded"
  record(folder)
  pack(folder)
  expected = measure(folder, work / "scratch")
  run_folders.EXPECTED.write_text(to_text(expected))


if __name__ == "__main__":
  main()
