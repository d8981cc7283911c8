"""The case of the text goes from the records to the model's users."""

import dataclasses
import json

import pytest

from bert_tf.checkpoint import run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_shards
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.pretraining import pretraining
from bert_tf.tasks.setup import Setup
from bert_tf.text import letter_case
from bert_tf.training import config as training_config
from tests.support import pretrainings, runs

LENGTH = 16
WORDS = "हिन्दी में और किताब नहीं क्या मैं यहाँ".split()
SENTENCE = " ".join(WORDS)
IDS = list(range(5, 5 + len(WORDS)))  # Of SENTENCE.
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def write_text(folder):
  """Text without capital letters, its vocabulary, and a config."""
  lines = [" ".join((WORDS * 2)[i : i + 6]) for i in range(len(WORDS))]
  (folder / "text").write_text("\n\n".join(lines * 2))
  (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
  config = {**runs.CONFIG, "vocab_size": len(VOCAB)}
  (folder / "config.json").write_text(json.dumps(config))
  return folder


@pytest.fixture
def folder(tmp_path):
  """A folder with the files of `write_text`."""
  return write_text(tmp_path)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
  """The folder of a model of lower-cased text that keeps its accents."""
  folder = write_text(tmp_path_factory.mktemp("pretrained"))
  make_records(folder, do_lower_case=True, strip_accents=False)
  info = run(folder)
  assert (info.do_lower_case, info.strip_accents) == (True, False)
  return folder / "out"


def make_records(folder, name="train.tfrecord", num_shards=1, **changes):
  config = PretrainingDataConfig(
    vocab_file=str(folder / "vocab.txt"),
    max_seq_length=LENGTH,
    dupe_factor=1,
    no_nsp=True,
    mask=False,
    **changes,
  )
  made = pretraining_shards.create(
    config, [str(folder / "text")], str(folder / name), num_shards
  )
  return list(made.output_files)


def run(folder, **changes):
  """Pre-trains for a step and returns the settings in run.json."""
  config = pretrainings.make(
    folder,
    {"train_batch_size": 2, "num_train_steps": 1, "num_warmup_steps": 0},
    vocab_file=str(folder / "vocab.txt"),
    input_file=str(folder / "train.tfrecord*"),
    no_nsp=True,
    eval_batch_size=2,
    **changes,
  )
  pretraining.run(config)
  return run_info.read_run(config.train.output_dir).settings


def remove_settings(folder):
  for path in folder.glob(".*.settings.json"):
    path.unlink()


def test_a_model_has_the_case_of_its_records(folder):
  make_records(folder, num_shards=2, do_lower_case=False)
  assert run(folder).do_lower_case is False
  # The records for evaluation do not change the case.
  remove_settings(folder)
  assert run(folder, do_train=False, do_eval=True).do_lower_case is False
  for do_lower_case in (None, False):
    files = ModelFolder.open(str(folder / "out"), do_lower_case=do_lower_case)
    tokenizer = files.tokenizer
    assert tokenizer.tokenize_to_ids(SENTENCE) == IDS


def test_the_case_is_unknown_if_the_records_have_none(folder):
  make_records(folder, do_lower_case=False)
  remove_settings(folder)
  assert run(folder).do_lower_case is None
  files = ModelFolder.open(str(folder / "out"), do_lower_case=False)
  tokenizer = files.tokenizer
  assert tokenizer.basic_tokenizer.do_lower_case is False


def test_record_files_have_a_case_only_if_all_agree(folder):
  cased = make_records(folder, "cased", 2, do_lower_case=False)
  config = {"do_lower_case": True, "strip_accents": False}
  [uncased] = make_records(folder, "kept", **config)
  read_case = pretraining_shards.read_case
  assert read_case(cased) == letter_case.Case(False, None)
  assert read_case([uncased]) == letter_case.Case(True, False)
  assert read_case([*cased, uncased]) == letter_case.Case()
  assert read_case([uncased, str(folder / "text")]) == letter_case.Case()
  # Two notes with different cases name the same file.
  make_records(folder, f"other,{folder}/kept", do_lower_case=False)
  assert read_case([uncased]) == letter_case.Case()


def test_fine_tuning_keeps_the_accents_of_the_model(pretrained, tmp_path):
  config = ner_config.NerConfig(
    bert_config_file=str(pretrained / "bert_config.json"),
    vocab_file=str(pretrained / "vocab.txt"),
    max_seq_length=LENGTH,
    do_train=True,
    train=training_config.FineTuningTrainConfig(
      output_dir=str(tmp_path), init_checkpoint=str(pretrained)
    ),
  )
  setup = Setup.open(config)
  config = setup.config
  assert (config.do_lower_case, config.strip_accents) == (True, False)
  assert setup.tokenizer.tokenize_to_ids(SENTENCE) == IDS
  setup = Setup.open(dataclasses.replace(config, strip_accents=True))
  assert setup.config.strip_accents is True
