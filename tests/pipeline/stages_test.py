"""Pre-training from raw text to a served model in one command."""

import bz2
import dataclasses
import json
import math
import random
import sys

import keras
import pytest
from safetensors import numpy as safetensors_numpy

from bert_tf.checkpoint import convert, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data.pretraining import pretraining_shards
from bert_tf.files import json_files
from bert_tf.model import heads
from bert_tf.pipeline import stages
from bert_tf.pipeline.config import SIZES, PipelineConfig
from bert_tf.text import text_config, vocabulary
from bert_tf.training import config as training_config
from tests.support import run_infos, runs, tiny_models

WORDS = "the of and in to was he is as for on with that it his by".split()


def text(num_documents=60):
  """Returns documents of a few words in an order that a model can learn."""
  rng = random.Random(1)
  documents = []
  for _ in range(num_documents):
    starts = [rng.randrange(len(WORDS)) for _ in range(8)]
    sentences = [" ".join((WORDS * 2)[s : s + 9]).capitalize() for s in starts]
    documents.append(" ".join(f"{sentence}." for sentence in sentences))
  return "\n\n".join(documents)


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


def in_language(tmp_path, language, **changes):
  reading = text_config.TextConfig(language=language)
  return make_config(tmp_path, reading=reading, **changes)


def write_model(folder, seed=1, model_class=heads.PretrainingModel, **run):
  """Writes a model of width 16 with a run.json; returns its folder."""
  keras.utils.set_random_seed(seed)
  tiny_models.write_run(folder, model_class(tiny_models.CONFIG))
  info = run_infos.make(task="pretraining", **run)
  run_info.write_json(str(folder), info)
  return folder


@pytest.fixture
def trained(monkeypatch):
  """Replaces training by a signal; returns the configs it was called with."""
  configs = []
  monkeypatch.setattr(stages.pretraining, "run", configs.append)
  monkeypatch.setattr(stages, "_estimate_steps", lambda *arguments: 5950)
  return configs


def test_one_command_makes_a_model_that_answers(tmp_path, run_script):
  with bz2.open(tmp_path / "text.txt.bz2", "wt") as writer:
    writer.write(text())
  flags = ["--text=text.txt.bz2", "--output_dir=out", "--max_seq_length=32"]
  # On a slow machine the shorter times are refused as too short.
  for minutes in (0.15, 0.3, 1, 10):
    timed = [*flags, "--train_batch_size=8", f"--train_minutes={minutes}"]
    result = run_script("run_pretraining.py", *timed, cwd=tmp_path)
    if "too short" not in result.stderr:
      break
  assert result.returncode == 0, result.stderr
  out = tmp_path / "out"
  assert "masked_lm_accuracy" in runs.results(out)
  assert (out / "curves.png").read_bytes()[:4] == b"\x89PNG"
  model = "--model=out/saved_model/1"
  answer = run_script(
    "fill-mask", model, "--text=he is [MASK] for", cwd=tmp_path
  )
  assert "[MASK] 1" in answer.stdout
  # The same command again repeats no step.
  before = (out / "data" / "train.tfrecord").stat().st_mtime_ns
  again = run_script("run_pretraining.py", *timed, cwd=tmp_path)
  assert again.returncode == 0, again.stderr
  assert "nothing is left to train" in again.stderr
  assert (out / "data" / "train.tfrecord").stat().st_mtime_ns == before


@pytest.mark.parametrize("loss", [1.0, 9.0])
def test_a_model_no_better_than_frequencies_is_called_useless(
  tmp_path, monkeypatch, loss
):
  results = {"masked_lm_loss": loss}
  monkeypatch.setattr(stages.pretraining, "run", lambda config: results)
  monkeypatch.setattr(stages, "_estimate_steps", lambda *arguments: 1000)
  for module, name in ((stages.curves, "plot"), (stages.export, "run")):
    monkeypatch.setattr(module, name, lambda *args, **kwargs: None)
  with runs.logged() as log:
    stages.run(make_config(tmp_path))
  assert ("useless" in log()) == (loss == 9.0)
  # 16 words and the full stop, all about equally frequent.
  coverage = vocabulary.measure_coverage({"a": 0, "b": 1}, {"a": 1, "b": 3})
  assert coverage.entropy == pytest.approx(
    0.25 * math.log(4) + 0.75 * math.log(4 / 3)
  )


@pytest.mark.parametrize("num_steps", [999, 1000])
def test_few_steps_are_warned_about(tmp_path, trained, monkeypatch, num_steps):
  monkeypatch.setattr(stages, "_estimate_steps", lambda *unused: num_steps)
  with runs.logged() as log:
    stages.run(make_config(tmp_path))
  assert ("fewer than 1,000 steps" in log()) == (num_steps == 999)


def test_a_time_too_short_is_refused_before_anything_is_written(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(stages.budget, "count_steps", lambda *unused: 19)
  with pytest.raises(ValueError, match="60 s is too short.*`train_hours`"):
    stages.run(make_config(tmp_path, train_minutes=1))
  with pytest.raises(ValueError, match="`train_hours` or `train_minutes`"):
    make_config(tmp_path, train_minutes=0.0)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("num_steps", [60, 550, 11950])
def test_held_out_text_is_evaluated_early_and_throughout(tmp_path, num_steps):
  config = make_config(tmp_path, train_batch_size=32)
  model = stages.choose_model(config)
  training = stages.training_config(config, model, num_steps, "train.tfrecord")
  interval = training.train.eval_every_steps
  assert 0.05 <= interval / num_steps <= 0.1
  assert training.do_eval
  assert training.eval_input_file == config.file("held_out.tfrecord")
  # Training costs three times as much for a sequence as an evaluation.
  evaluated = training.max_eval_steps * training.eval_batch_size
  assert evaluated / 3 <= max(0.2 * interval * 32, training.eval_batch_size)


def test_packages_are_checked_before_the_text_is_read(tmp_path, monkeypatch):
  monkeypatch.setattr(stages, "_estimate_steps", None)
  monkeypatch.setitem(sys.modules, "sentencex", None)
  with pytest.raises(ImportError, match=r"\[corpus\]"):
    stages.run(make_config(tmp_path))


def test_a_setting_of_the_text_that_differs_is_named(tmp_path, trained):
  config = make_config(tmp_path)
  stages.run(config)
  note = config.file("settings.json")
  settings = json.loads((tmp_path / note).read_text())
  del settings["text_column"]  # As if a new version had added it.
  json_files.write(note, settings)
  for change in ({"documents": "line"}, {"text_column": "body"}):
    reading = text_config.TextConfig(**change)
    [(name, value)] = change.items()
    with pytest.raises(ValueError, match=f'`{name}` is "{value}"'):
      stages.run(make_config(tmp_path, reading=reading))
  edited = make_config(tmp_path)
  (tmp_path / "text.txt").write_text(text().swapcase())  # Of equal size.
  with pytest.raises(ValueError, match="`text` is"):
    stages.run(edited)


def test_settings_follow_from_user_size_and_language(tmp_path):
  def choose(language="en", **changes):
    return stages.choose_model(in_language(tmp_path, language, **changes)).size

  assert choose(train_batch_size=None) == SIZES["tiny"]
  assert choose(vocab_size=500).vocab_size == 500
  assert choose(size="base", learning_rate=0.5).learning_rate == 0.5
  codes = "zh-hans zh_Hans ZH ja-JP ko yue wuu lzh gan nan-hant de nan-latn"
  for code in codes.split():
    is_latin = code in ("de", "nan-latn")
    assert choose(code).vocab_size == (8000 if is_latin else 16_000), code
  for size in SIZES:
    model = stages.choose_model(make_config(tmp_path, size=size))
    sizes = model.bert_config
    assert sizes.hidden_size == 64 * sizes.num_attention_heads


@pytest.mark.parametrize(("size", "num_masked"), [("tiny", 9), ("mini", 6)])
def test_masks_of_held_out_text_do_not_depend_on_the_size(
  tmp_path, size, num_masked
):
  config = make_config(tmp_path, size=size)
  model = stages.choose_model(config)
  records, held_out = stages.record_configs(config, model, 1000)
  assert held_out.mask and not held_out.pack_sequences
  assert held_out.masking_config.masked_lm_prob == 0.15
  assert held_out.no_nsp == records.no_nsp == (size == "tiny")
  assert not records.mask
  # Both kinds of records have the same number of masked positions.
  assert model.size.max_predictions_per_seq(32) == num_masked
  assert held_out.num_predictions == num_masked


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
  for given in (None, True, False):
    config = in_language(tmp_path, language, do_lower_case=given)
    expected = is_lower_case if given is None else given
    model = stages.choose_model(config)
    assert model.case.do_lower_case == expected


def test_text_without_spaces_is_warned_about(tmp_path):
  config = in_language(tmp_path, "th")
  data = tmp_path / "out" / "data"
  data.mkdir(parents=True)
  vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ที่", "##นี่"]
  (data / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab))
  for line, is_warned in (("ที่ ที่นี่ ไป\n\nที่\n", False), ("ที่" + 5 * "นี่", True)):
    (data / "held_out.txt").write_text(line)
    with runs.logged() as log:
      stages._write_vocabulary(config, stages.choose_model(config))
    assert ("no spaces" in log()) == is_warned
    pieces = "6.00 pieces" if is_warned else "1.25 pieces"
    assert pieces in log() and ("25.00%" in log()) == (not is_warned)


def test_training_starts_from_the_model_with_its_vocabulary(tmp_path, trained):
  case = {"do_lower_case": True, "strip_accents": False}
  folder = write_model(tmp_path / "model", **case)
  compute = training_config.ComputeConfig(
    precision="bfloat16", gradient_accumulation_steps=4
  )
  changes = {"model": str(folder), "train_batch_size": None}
  stages.run(make_config(tmp_path, compute=compute, **changes))
  # The work that follows training is left to the next start.
  assert not (tmp_path / "out" / "saved_model").exists()
  [config] = trained
  assert config.train.init_checkpoint == str(folder / "model.ckpt-1")
  assert config.initial_values == "random"
  assert config.train.precision == "bfloat16"
  assert config.train.gradient_accumulation_steps == 4
  vocab = (folder / "vocab.txt").read_bytes()
  assert (tmp_path / "out/data/vocab.txt").read_bytes() == vocab
  sizes = json.loads((tmp_path / "out/data/bert_config.json").read_text())
  expected = tiny_models.CONFIG.to_dict()
  assert {name: sizes[name] for name in expected} == expected
  read = pretraining_shards.read_case([config.input_file])
  assert dataclasses.asdict(read) == case
  assert not config.no_nsp and config.masked_lm_prob == 0.15
  # 2e-5 at a width of 768; the model has 16.
  assert config.train.learning_rate == pytest.approx(2e-5 * 48)
  assert config.train.train_batch_size == 32


def test_a_run_resumes_only_with_its_model(tmp_path, trained):
  model = write_model(tmp_path / "model", do_lower_case=True)
  other = write_model(tmp_path / "other", seed=2, do_lower_case=True)

  def run(model, **changes):
    model = model and str(model)
    stages.run(make_config(tmp_path, model=model, **changes))

  run(model)
  compute = training_config.ComputeConfig(precision="bfloat16")
  run(model, compute=compute, train_minutes=20.0)
  (tmp_path / "away").mkdir()
  run(model.rename(tmp_path / "away/model"))
  assert len(trained) == 3
  for changed, part in ((other, '"other '), (None, "is null")):
    with pytest.raises(ValueError, match="`model`") as error:
      run(changed)
    message = str(error.value)
    assert part in message
    assert "`output_dir`" in message and "`resume`" not in message
  assert len(trained) == 3


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"size": "tiny"}, "size=tiny .*model.*`size`"),
    ({"vocab_size": 500}, "vocab_size=500 .*model.*`vocab_size`"),
    ({"max_seq_length": 200}, "max_seq_length 200 .* 128"),
    ({"model": "no_model"}, "no_model"),
    ({"output_dir": "text/../model"}, "`output_dir`"),
  ],
)
def test_contradictions_to_the_model_are_refused(
  tmp_path, monkeypatch, changes, words
):
  folder = write_model(tmp_path / "model")
  monkeypatch.chdir(tmp_path)
  before = sorted(path.name for path in folder.iterdir())
  with pytest.raises(ValueError, match=words):
    stages.run(make_config(tmp_path, **{"model": "model", **changes}))
  assert sorted(path.name for path in folder.iterdir()) == before


def test_a_unidirectional_model_is_refused(tmp_path):
  folder = write_model(tmp_path / "model")
  sizes = tiny_models.CONFIG.to_dict()
  sizes["attention_direction"] = "left_to_right"
  (folder / "bert_config.json").write_text(json.dumps(sizes))
  with pytest.raises(ValueError, match="attention_direction=left_to_right"):
    stages.choose_model(make_config(tmp_path, model=str(folder)))


def chosen(tmp_path):
  """Returns whether `model` continues without next sentences, and the log."""
  with runs.logged() as log:
    config = make_config(tmp_path, model=f"{tmp_path}/model")
    return stages.choose_model(config).size.no_nsp, log()


def test_an_encoder_is_continued_without_next_sentences(tmp_path):
  keras.utils.set_random_seed(1)
  model = heads.ClassifierModel(tiny_models.CONFIG, 2)
  tiny_models.write_run(tmp_path / "model", model)
  no_nsp, log = chosen(tmp_path)
  assert no_nsp and "no masked-LM head" in log


def test_an_untrained_next_sentence_head_is_not_continued(tmp_path):
  source = ModelFolder.open(str(write_model(tmp_path / "in")))
  convert.convert(source, str(tmp_path / "model"), "hf")
  assert not chosen(tmp_path)[0]
  # Hugging Face's BertForMaskedLM lacks the head.
  path = tmp_path / "model" / "model.safetensors"
  tensors = safetensors_numpy.load_file(path)
  for name in [n for n in tensors if "seq_relationship" in n]:
    del tensors[name]
  safetensors_numpy.save_file(tensors, path, {"format": "pt"})
  no_nsp, log = chosen(tmp_path)
  assert no_nsp and "no masked-LM head" not in log
