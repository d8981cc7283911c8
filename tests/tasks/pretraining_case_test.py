"""The case of the text goes from the records to whoever uses the model."""

import json

import numpy as np
import pytest

from bert_tf import letter_case
from bert_tf.data import config as data_config
from bert_tf.data import pretraining_shards
from bert_tf.export import sources
from bert_tf.formats import run_info
from bert_tf.tasks import pretraining, pretraining_config
from bert_tf.training import config as training_config
from tests import runs

LENGTH = 16
WORDS = "हिन्दी में और किताब नहीं क्या मैं यहाँ".split()
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture
def folder(tmp_path):
  """Text without capital letters, its vocabulary, and a config."""
  lines = [" ".join((WORDS * 2)[i : i + 6]) for i in range(len(WORDS))]
  (tmp_path / "text").write_text("\n\n".join(lines * 2))
  (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
  config = {**runs.CONFIG, "vocab_size": len(VOCAB)}
  (tmp_path / "config.json").write_text(json.dumps(config))
  return tmp_path


def make_records(folder, name="train.tfrecord", num_shards=1, **changes):
  config = data_config.PretrainingDataConfig(
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
  """Pre-trains for a step; returns what run.json says."""
  pretraining.run(
    pretraining_config.PretrainingConfig(
      **{
        "bert_config_file": str(folder / "config.json"),
        "vocab_file": str(folder / "vocab.txt"),
        "input_file": str(folder / "train.tfrecord*"),
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": 4,
        "no_nsp": True,
        "do_train": True,
        "max_eval_steps": 1,
        "eval_batch_size": 2,
        "train": training_config.TrainConfig(
          output_dir=str(folder / "out"),
          train_batch_size=2,
          num_train_steps=1,
          num_warmup_steps=0,
          use_xla=False,
        ),
        **changes,
      }
    )
  )
  return run_info.read_run(str(folder / "out"))


def remove_settings(folder):
  for path in folder.glob(".*.settings.json"):
    path.unlink()


@pytest.mark.parametrize("num_shards", [1, 2])
def test_the_records_say_their_case_and_the_model_keeps_it(folder, num_shards):
  make_records(folder, num_shards=num_shards, do_lower_case=False)
  assert run(folder).do_lower_case is False
  # What is evaluated on does not change it.
  remove_settings(folder)
  assert run(folder, do_train=False, do_eval=True).do_lower_case is False
  for given in (None, False):
    source = sources.open_source(str(folder / "out"))
    tokenizer = sources.tokenizer_of(source, given, None)
    pieces = tokenizer.tokenize([" ".join(WORDS)]).to_list()[0]
    assert np.ravel(pieces).tolist() == list(range(5, len(VOCAB)))


def test_records_that_do_not_say_their_case_leave_it_open(folder):
  make_records(folder, do_lower_case=False)
  remove_settings(folder)
  assert run(folder).do_lower_case is None
  source = sources.open_source(str(folder / "out"))
  assert sources.tokenizer_of(source, False, None).do_lower_case is False


def test_files_of_one_case_have_it_and_others_none(folder):
  cased = make_records(folder, "cased", 2, do_lower_case=False)
  config = {"do_lower_case": True, "strip_accents": False}
  [kept] = make_records(folder, "kept", **config)
  case_of = pretraining_shards.case_of
  assert case_of(cased) == letter_case.Case(False, None)
  assert case_of([kept]) == letter_case.Case(True, False)
  assert case_of([*cased, kept]) == letter_case.Case()
  assert case_of([kept, str(folder / "text")]) == letter_case.Case()
  # A file that two runs say to have made.
  make_records(folder, f"other,{folder}/kept", do_lower_case=False)
  assert case_of([kept]) == letter_case.Case()
