"""Tests for pre-training from raw text to a served model in one command."""

import bz2
import dataclasses
import hashlib
import json
import os
import random
import re
import sys

import pytest

from bert_tf.files import json_files
from bert_tf.model import heads
from bert_tf.pipeline import card, stages
from bert_tf.pipeline.config import SIZES, PipelineConfig
from bert_tf.pipeline.model import choose_model
from bert_tf.text import text_config, vocabulary
from tests.support import runs, tiny_models

WORDS = "the of and in to was he is as for on with that it his by".split()


def text(num_documents=60):
  """Returns documents of a few words in an order that a model can learn."""
  rng = random.Random(1)
  documents = []
  for _ in range(num_documents):
    starts = [rng.randrange(len(WORDS)) for _ in range(8)]
    documents.append(
      " ".join(
        " ".join((WORDS * 2)[s : s + 9]).capitalize() + "." for s in starts
      )
    )
  return "\n\n".join(documents)


@pytest.fixture
def flags(tmp_path):
  with bz2.open(tmp_path / "text.txt.bz2", "wt") as writer:
    writer.write(text())
  return [
    f"--text={tmp_path}/text.txt.bz2",
    f"--output_dir={tmp_path}/out",
    "--max_seq_length=32",
    "--train_batch_size=8",
  ]


def make_config(tmp_path, **changes):
  (tmp_path / "text.txt").write_text(text())
  return PipelineConfig(
    **{
      "text": f"{tmp_path}/text.txt",
      "output_dir": f"{tmp_path}/out",
      "reading": text_config.TextConfig(),
      "train_minutes": 10.0,
      "max_seq_length": 32,
      "train_batch_size": 8,
      "num_workers": 1,
      **changes,
    }
  )


def test_one_command_makes_a_model_that_answers(tmp_path, flags, run_script):
  # On a slow machine the shorter times are refused as too short.
  for minutes in (0.15, 0.3, 1, 10):
    timed = [*flags, f"--train_minutes={minutes}"]
    result = run_script("run_pretraining.py", *timed, cwd=tmp_path)
    if "--train_minutes" not in result.stderr:
      break
  assert result.returncode == 0, result.stderr
  out = tmp_path / "out"
  card = (out / "README.md").read_text()
  accuracy = runs.results(out)["masked_lm_accuracy"]
  assert f"| masked_lm_accuracy | {accuracy:.5g} |" in card
  assert "The vocabulary has " in card
  assert "--max_seq_length=32 \\\n" in card
  assert "(25% of the words)" in card
  assert "initial values neighbours" in card and "next_sentence" not in card
  digest = hashlib.sha256((tmp_path / "text.txt.bz2").read_bytes()).hexdigest()
  assert f"`{digest}`" in card
  assert (out / "curves.png").read_bytes()[:4] == b"\x89PNG"
  answer = run_script(
    "fill-mask",
    "--model=out/saved_model/1",
    "--text=he is [MASK] for",
    cwd=tmp_path,
  )
  assert "[MASK] 1" in answer.stdout
  # The same command again repeats no step.
  before = (out / "data" / "train.tfrecord").stat().st_mtime_ns
  again = run_script("run_pretraining.py", *timed, cwd=tmp_path)
  assert again.returncode == 0, again.stderr
  assert "nothing is left to train" in again.stderr
  assert (out / "data" / "train.tfrecord").stat().st_mtime_ns == before


@pytest.mark.parametrize(("accuracy", "is_warned"), [(0.4, True), (0.5, False)])
def test_the_card_shows_guesses_and_compares_them_to_chance(
  tmp_path, accuracy, is_warned
):
  config = make_config(tmp_path)
  model = heads.PretrainingModel(tiny_models.CONFIG)
  folder = tiny_models.write_run(tmp_path / "out", model) / "data"
  folder.mkdir()
  (folder / "vocab.txt").write_bytes((tmp_path / "out/vocab.txt").read_bytes())
  line = "The | of the and of the and of the."  # A third is "the".
  (folder / "held_out.txt").write_text(f"{line}\n" * 9)
  names = ("documents", "eval_documents", "sentences", "characters")
  report = {"counts": dict.fromkeys(names, 1234)}
  json_files.write(f"{folder}/train.txt.report.json", report)
  results = {"loss": 9.0, "masked_lm_loss": 9.5, "global_step": 1}
  coverage = vocabulary.Coverage(11, 0, 11, 4)
  results["masked_lm_accuracy"] = accuracy
  with runs.logged() as log:
    card.write(config, choose_model(config), [], coverage, results)
  written = (tmp_path / "out" / "README.md").read_text()
  assert "1,234 documents" in written and "| loss |" not in written
  rows = re.findall(r"(?m)^\| (.*) \| (\w+) \| (`.+`) \|$", written)
  assert len(rows) == 5
  for sentence, word, guesses in rows:
    masked = sentence.replace("[MASK]", word).replace("\\|", "|")
    assert masked == line and len(guesses.split()) == 3
  assert (f"The model's {accuracy}" in log()) == is_warned


def test_a_pipe_is_refused_because_it_can_be_read_only_once(tmp_path):
  reader, writer = os.pipe()
  os.write(writer, b"a")
  config = make_config(tmp_path, text=f"/dev/fd/{reader}")
  with pytest.raises(ValueError, match="/dev/fd.* is not a file"):
    stages.run(config)
  os.close(writer)
  os.close(reader)


def test_a_time_too_short_is_refused_before_anything_is_written(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(stages.budget, "count_steps", lambda *unused: 19)
  with pytest.raises(ValueError, match="60 s is too short.*`train_hours`"):
    stages.run(make_config(tmp_path, train_minutes=1))
  with pytest.raises(ValueError, match="`train_hours` or `train_minutes`"):
    make_config(tmp_path, train_minutes=0.0)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("num_steps, num_evaluations", [(550, 3), (11950, 10)])
def test_held_out_text_is_evaluated_throughout_the_training(
  tmp_path, monkeypatch, num_steps, num_evaluations
):
  config = make_config(tmp_path, train_batch_size=32)
  monkeypatch.setattr(stages.pretraining, "run", lambda config: config)
  settings = stages._train(
    config, choose_model(config), num_steps, "train.tfrecord"
  )
  interval = settings.train.eval_every_steps
  assert num_steps // interval == num_evaluations
  assert settings.eval_input_file == config.file("held_out.tfrecord")
  # Training costs three times as much for a sequence as an evaluation.
  evaluated = settings.max_eval_steps * settings.eval_batch_size
  assert evaluated / 3 <= 0.2 * interval * 32
  assert settings.do_eval


def test_packages_are_checked_before_the_text_is_read(tmp_path, monkeypatch):
  monkeypatch.setattr(stages, "_estimate_steps", None)
  monkeypatch.setitem(sys.modules, "sentencex", None)
  with pytest.raises(ImportError, match=r"\[corpus\]"):
    stages.run(make_config(tmp_path))


def test_a_setting_of_the_text_that_differs_is_named(tmp_path):
  config = make_config(tmp_path)
  inputs = stages.sources.find_files(
    config.text, config.reading, text_config.TEXT
  )
  settings = stages._settings(config, choose_model(config), inputs)
  del settings["reading"]["text_column"]  # As if a new version had added it.
  json_files.write(config.file("settings.json"), settings)
  for change in ({"documents": "line"}, {"text_column": "body"}):
    reading = text_config.TextConfig(**change)
    [(name, value)] = change.items()
    with pytest.raises(ValueError, match=f"`{name}` is {value}"):
      stages.run(make_config(tmp_path, reading=reading))
  edited = make_config(tmp_path)
  (tmp_path / "text.txt").write_text(text().swapcase())  # Of equal size.
  with pytest.raises(ValueError, match="`text` is"):
    stages.run(edited)


def choose_size(tmp_path, **changes):
  return choose_model(make_config(tmp_path, **changes)).size


def test_settings_follow_from_size_and_language(tmp_path):
  assert choose_size(tmp_path, train_batch_size=None) == SIZES["tiny"]
  assert choose_size(tmp_path, vocab_size=500).vocab_size == 500
  codes = "zh-hans zh_Hans ZH ja-JP ko yue wuu lzh gan nan-hant de nan-latn"
  for code in codes.split():
    reading = text_config.TextConfig(language=code)
    config = make_config(tmp_path, reading=reading)
    vocab_size = choose_size(tmp_path, reading=reading).vocab_size
    sizes = config.has_many_characters, vocab_size
    is_latin = code in ("de", "nan-latn")
    assert sizes == ((False, 8000) if is_latin else (True, 16_000)), code
  for size in SIZES.values():
    sizes = size.bert_config(size.vocab_size, 128)
    assert sizes["hidden_size"] == 64 * sizes["num_attention_heads"]
    assert json.dumps(sizes)


def test_settings_of_the_user_override_those_of_the_size(tmp_path):
  names = "initial_values", "masked_lm_prob", "no_nsp"
  settings = {
    "initial_values": "random",
    "masked_lm_prob": 0.2,
    "no_nsp": False,
  }
  tiny = dataclasses.asdict(choose_size(tmp_path))
  assert all(tiny[name] != settings[name] for name in names)
  resolved = dataclasses.asdict(choose_size(tmp_path, **settings))
  assert {name: resolved[name] for name in names} == settings
  size = dataclasses.asdict(choose_size(tmp_path, size="base"))
  assert [size[name] for name in names] == ["random", 0.15, False]


def test_masks_of_held_out_text_do_not_depend_on_masked_lm_prob(tmp_path):
  for masked_lm_prob in (0.15, 0.4, 1.0):
    config = make_config(tmp_path, masked_lm_prob=masked_lm_prob)
    model = choose_model(config)
    records, held_out = stages._record_configs(config, model, 1000)
    assert held_out.mask and not held_out.pack_sequences
    assert held_out.masking_config.masked_lm_prob == 0.15
    assert held_out.no_nsp and records.no_nsp and not records.mask
    # Both kinds of records have the same number of masked positions.
    expected = min(round(masked_lm_prob * 32) + 1, 32)
    assert model.size.max_predictions_per_seq(32) == expected
    assert held_out.num_predictions == expected


@pytest.mark.parametrize(
  ("language", "is_lower_case"),
  [
    *((code, True) for code in "en zh ar de_AT gom-latn".split()),
    *((code, False) for code in "th hi-IN th_TH JA ko-KP ban-bali".split()),
  ],
)
def test_text_whose_marks_are_letters_keeps_them(
  language, is_lower_case, tmp_path
):
  reading = text_config.TextConfig(language=language)
  for do_lower_case in (None, True, False):
    config = make_config(tmp_path, reading=reading, do_lower_case=do_lower_case)
    expected = is_lower_case if do_lower_case is None else do_lower_case
    model = choose_model(config)
    records, _ = stages._record_configs(config, model, 1000)
    assert (model.is_lower_case, records.do_lower_case) == 2 * (expected,)


def test_coverage_counts_held_out_words_and_warns_of_clauses(tmp_path):
  reading = text_config.TextConfig(language="th")
  config = make_config(tmp_path, reading=reading)
  data = tmp_path / "out" / "data"
  data.mkdir(parents=True)
  vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ที่", "##นี่"]
  (data / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab))
  (data / "held_out.txt").write_text("ที่ ที่นี่ ไป\n\nที่\n")
  model = choose_model(config)
  with runs.logged() as log:
    coverage = stages._measure_coverage(config, model)
  counts = coverage.num_words, coverage.num_unknown, coverage.num_pieces
  assert counts == (4, 1, 5)
  assert "1.25 pieces" in log() and "25.00%" in log()
  assert "no spaces" not in log()
  (data / "held_out.txt").write_text("ที่" + 5 * "นี่" + "\n")
  with runs.logged() as log:
    stages._measure_coverage(config, model)
  assert "6.0 pieces" in log() and "no spaces" in log()
