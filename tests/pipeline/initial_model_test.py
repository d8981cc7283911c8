"""Pre-training from text that continues a given model."""

import json

import keras
import pytest
from safetensors import numpy as safetensors_numpy

from bert_tf.checkpoint import convert, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data.pretraining import pretraining_shards
from bert_tf.model import heads
from bert_tf.pipeline import stages
from bert_tf.pipeline.config import PipelineConfig
from bert_tf.pipeline.model import choose_model
from bert_tf.tasks.pretraining import pretraining
from bert_tf.text import text_config
from bert_tf.training import config as training_config
from tests.support import run_infos, runs, tiny_models

SENTENCE = "The old man and his son were at the sea by day and by night."


def write_model(folder, seed=1, **run):
  """Writes a pre-trained model with a run.json; returns its folder."""
  keras.utils.set_random_seed(seed)
  model = heads.PretrainingModel(tiny_models.CONFIG)
  tiny_models.write_run(folder, model)
  info = run_infos.make(task="pretraining", **run)
  run_info.write_json(str(folder), info)
  return folder


def make_config(tmp_path, **changes):
  documents = [f"{SENTENCE} " * 3 + f"It was day {i}." for i in range(60)]
  (tmp_path / "text.txt").write_text("\n\n".join(documents))
  return PipelineConfig(
    **{
      "text": f"{tmp_path}/text.txt",
      "output_dir": f"{tmp_path}/out",
      "reading": text_config.TextConfig(documents="blank_line"),
      "model": f"{tmp_path}/model",
      "train_minutes": 10.0,
      "max_seq_length": 32,
      "num_workers": 1,
      **changes,
    }
  )


@pytest.fixture
def trained(monkeypatch):
  """Replaces training by a signal; returns the configs it was called with."""
  configs = []
  monkeypatch.setattr(pretraining, "run", configs.append)
  monkeypatch.setattr(stages, "_estimate_steps", lambda *arguments: 5950)
  return configs


def test_training_starts_from_the_model_with_its_vocabulary(tmp_path, trained):
  folder = write_model(
    tmp_path / "model", do_lower_case=True, strip_accents=False
  )
  compute = training_config.ComputeConfig(
    precision="bfloat16", gradient_accumulation_steps=4
  )
  with runs.logged() as log:
    stages.run(make_config(tmp_path, compute=compute))
  # The work that follows training is left to the next start.
  assert not (tmp_path / "out" / "README.md").exists()
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
  case = pretraining_shards.read_case([config.input_file])
  assert (case.do_lower_case, case.strip_accents) == (True, False)
  assert not config.no_nsp and config.masked_lm_prob == 0.15
  # 2e-5 at a width of 768; the model has 16.
  assert config.train.learning_rate == pytest.approx(2e-5 * 48)
  assert config.train.train_batch_size == 32
  assert "2 x 16" in log()


def test_a_run_resumes_only_with_its_model(tmp_path, trained):
  write_model(tmp_path / "model", do_lower_case=True)
  write_model(tmp_path / "other", seed=2, do_lower_case=True)
  stages.run(make_config(tmp_path))
  compute = training_config.ComputeConfig(precision="bfloat16")
  stages.run(make_config(tmp_path, compute=compute, train_minutes=20.0))
  # The folder may move.
  (tmp_path / "away").mkdir()
  (tmp_path / "model").rename(tmp_path / "away/model")
  stages.run(make_config(tmp_path, model=f"{tmp_path}/away/model"))
  assert len(trained) == 3
  for changes, part in (
    ({"model": f"{tmp_path}/other"}, '"other '),
    ({"model": None}, "is null"),
  ):
    with pytest.raises(ValueError, match="`model`") as error:
      stages.run(make_config(tmp_path, **changes))
    message = str(error.value)
    assert part in message
    assert "`output_dir`" in message and "`resume`" not in message
  assert len(trained) == 3


@pytest.mark.parametrize(
  ("name", "value"),
  [("size", "tiny"), ("vocab_size", 500), ("initial_values", "random")],
)
def test_settings_of_a_new_model_are_refused(tmp_path, name, value):
  with pytest.raises(ValueError, match=f"^{name}={value} .*`{name}`") as error:
    make_config(tmp_path, **{name: value})
  assert f"{tmp_path}/model" in str(error.value)
  assert "\n" not in str(error.value)


def test_contradictions_to_the_model_are_refused(tmp_path):
  folder = write_model(tmp_path / "model")
  with pytest.raises(ValueError, match="max_seq_length 200 .* 128"):
    choose_model(make_config(tmp_path, max_seq_length=200))
  config = {
    **tiny_models.CONFIG.to_dict(),
    "attention_direction": "left_to_right",
  }
  (folder / "bert_config.json").write_text(json.dumps(config))
  with pytest.raises(ValueError, match="attention_direction=left_to_right"):
    choose_model(make_config(tmp_path))
  with pytest.raises(ValueError, match="no_model"):
    choose_model(make_config(tmp_path, model="no_model"))


def test_the_folder_of_the_model_stays_as_it_is(tmp_path):
  folder = write_model(tmp_path / "model")
  before = sorted(path.name for path in folder.iterdir())
  config = make_config(tmp_path, output_dir=f"{tmp_path}/text/../model")
  with pytest.raises(ValueError, match="`output_dir`"):
    stages.run(config)
  assert sorted(path.name for path in folder.iterdir()) == before


def test_an_encoder_is_continued_without_next_sentences(tmp_path):
  keras.utils.set_random_seed(1)
  model = heads.ClassifierModel(tiny_models.CONFIG, 2)
  tiny_models.write_run(tmp_path / "model", model)
  with runs.logged() as log:
    model = choose_model(make_config(tmp_path))
  assert model.size.no_nsp
  assert "no masked-LM head" in log()
  assert not choose_model(make_config(tmp_path, no_nsp=False)).size.no_nsp


def test_an_untrained_next_sentence_head_is_not_continued(tmp_path):
  source = ModelFolder.open(str(write_model(tmp_path / "in")))
  model = tmp_path / "model"
  convert.convert(source, str(model), "hf")
  assert not choose_model(make_config(tmp_path)).size.no_nsp
  # Hugging Face's BertForMaskedLM lacks the head.
  path = model / "model.safetensors"
  tensors = safetensors_numpy.load_file(path)
  for name in [n for n in tensors if "seq_relationship" in n]:
    del tensors[name]
  safetensors_numpy.save_file(tensors, path, {"format": "pt"})
  with runs.logged() as log:
    chosen = choose_model(make_config(tmp_path))
  assert chosen.size.no_nsp
  assert "no masked-LM head" not in log()
