"""Unmasked records: their detection, dynamic masking and resuming."""

import json
import random
import shutil

import numpy as np
import pytest

from bert_tf import tokenization
from bert_tf.checkpoint import checkpoints
from bert_tf.data import input_pipeline
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import (
  dynamic_masking,
  masking,
  pretraining_records,
  pretraining_shards,
)
from bert_tf.tasks.pretraining import pretraining, pretraining_config
from bert_tf.training import config as training_config
from tests.support import scale_run
from tests.support.cycling_words import VOCAB_FILE, WORDS

LENGTH = 24
CONFIG = {
  **scale_run.CONFIG,
  "vocab_size": 500,
  "max_position_embeddings": 32,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0,
}


def write_text(path, seed):
  """Writes 12 documents of 6 sentences."""
  rng = random.Random(seed)
  lines = [" ".join(rng.choices(WORDS, k=rng.randint(3, 8))) for _ in range(72)]
  documents = ["\n".join(lines[i : i + 6]) for i in range(0, 72, 6)]
  path.write_text("\n\n".join(documents))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """Two files of unmasked records, three of other formats, and a config."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "config.json").write_text(json.dumps(CONFIG))
  names = ("plain-0", "plain-1", "masked", "packed-plain", "packed-masked")
  for number, name in enumerate(names):
    write_text(folder / "text", number)
    config = PretrainingDataConfig(
      vocab_file=VOCAB_FILE,
      max_seq_length=LENGTH,
      dupe_factor=1,
      mask="masked" in name,
      pack_sequences="packed" in name,
      short_seq_prob=0.5,
      masking_config=masking.MaskingConfig(max_predictions_per_seq=4),
    )
    text, output = str(folder / "text"), str(folder / f"{name}.tfrecord")
    pretraining_shards.create(config, [text], output)
  return folder


def unmasked(data, pattern="plain-*.tfrecord"):
  """Returns the unmasked records with a dynamic masker."""
  files = input_pipeline.open_records(f"{data}/{pattern}")
  masker = dynamic_masking.DynamicMasker(
    masking.MaskingConfig(), tokenization.load_vocab(VOCAB_FILE), seed=7
  )
  form = pretraining_records.RecordFormat.read(files.paths[0])
  return pretraining_records.PretrainingRecords(files, form, masker.mask)


def rows(dataset, num_batches):
  """Returns the rows of the first batches, by feature."""
  batches = [
    {name: value.numpy() for name, value in batch.items()}
    for batch in dataset.take(num_batches)
  ]
  return {n: np.concatenate([b[n] for b in batches]) for n in batches[0]}


def original(features):
  """Returns the ids before masking."""
  ids = features["input_ids"].copy()
  names = (f"masked_lm_{n}" for n in ("positions", "ids", "weights"))
  for row, positions, labels, weights in zip(ids, *map(features.get, names)):
    row[positions[weights > 0]] = labels[weights > 0]
  return ids


@pytest.mark.parametrize(
  ("name", "sizes", "is_masked"),
  [
    ("masked", (LENGTH, 4, 0), True),
    ("plain-0", (LENGTH, 0, 0), False),
    ("packed-masked", (LENGTH, 6, 3), True),
    ("packed-plain", (LENGTH, 0, 3), False),
  ],
)
def test_the_format_of_records_is_detected(data, name, sizes, is_masked):
  path = str(data / f"{name}.tfrecord")
  record_format = pretraining_records.RecordFormat.read(path)
  assert record_format == pretraining_records.RecordFormat(*sizes)
  names = [n for n in record_format.spec() if n.startswith("masked_lm")]
  assert record_format.is_masked == bool(names) == is_masked


def training(records, batch_size, steps_done=0):
  """Returns the masked batches of a training with a seed of 1."""
  batches = input_pipeline.training_dataset(
    *(records.files, records.record_format.spec()),
    *(batch_size, 1, steps_done, 500),
  )
  return records.label(batches, batch_size, steps_done)


def test_masks_do_not_depend_on_the_batch_size_or_the_first_step(data):
  records = unmasked(data)
  expected = rows(training(records, 4), 60)
  assert 60 * 4 > records.files.num_records  # More than an epoch.
  for batch_size, steps_done in ((2, 0), (4, 5), (2, 80)):
    batches = training(records, batch_size, steps_done)
    start = steps_done * batch_size
    for name, value in rows(batches, 80 // batch_size).items():
      np.testing.assert_array_equal(value, expected[name][start : start + 80])


def test_training_epochs_have_new_masks_and_evaluation_epochs_the_same(data):
  records = unmasked(data)
  count = records.files.num_records
  trained = rows(training(records, 1), 2 * count)
  once = records.label(
    input_pipeline.finite_dataset(
      records.files, records.record_format.spec(), 1, 500
    ),
    1,
  )
  evaluated = rows(once.concatenate(once), 2 * count)
  for epochs, repeats in ((trained, False), (evaluated, True)):
    texts, ids = original(epochs), epochs["input_ids"]
    first, second = (
      sorted(zip(map(bytes, texts[part]), map(bytes, ids[part])))
      for part in (slice(count), slice(count, None))
    )
    assert [text for text, _ in first] == [text for text, _ in second]
    assert (first == second) == repeats


def make_config(data, output_dir, train=(), **settings):
  train_config = {
    "output_dir": str(output_dir),
    "train_batch_size": 8,
    "learning_rate": 1e-3,
    "num_train_steps": 8,
    "num_warmup_steps": 2,
    "save_checkpoints_steps": 4,
    "use_xla": False,
    **dict(train),
  }
  defaults = {
    "bert_config_file": str(data / "config.json"),
    "vocab_file": VOCAB_FILE,
    "input_file": f"{data}/plain-*.tfrecord",
    "eval_input_file": str(data / "plain-1.tfrecord"),
    "max_seq_length": LENGTH,
    "max_predictions_per_seq": 4,
    "do_train": True,
    "do_eval": True,
    "do_whole_word_mask": True,
    "max_eval_steps": 3,
    "train": training_config.PretrainingTrainConfig(**train_config),
  }
  return pretraining_config.PretrainingConfig(**{**defaults, **settings})


def train(data, folder, kind, **settings):
  """Trains on unmasked records. `kind` is plain or packed."""
  pattern = "packed-plain" if kind == "packed" else "plain-*"
  settings["input_file"] = f"{data}/{pattern}.tfrecord"
  pretraining.run(make_config(data, folder, **settings))


@pytest.fixture(scope="module", params=["plain", "packed"])
def kind(request):
  return request.param


@pytest.fixture(scope="module")
def trained(data, kind, tmp_path_factory):
  """The folder of a run on unmasked records."""
  folder = tmp_path_factory.mktemp(kind)
  train(data, folder, kind)
  return folder


def assert_same_weights(folders, atol=0.0):
  reader, other = (
    checkpoints.CheckpointReader(str(folder / "model.ckpt-8"))
    for folder in folders
  )
  for name in reader.shapes:
    np.testing.assert_allclose(
      reader.get(name), other.get(name), rtol=0, atol=atol
    )


def test_a_run_on_unmasked_records_resumes_to_the_bit(
  data, trained, kind, tmp_path
):
  for path in trained.glob("model.ckpt-4.*"):
    shutil.copy(path, tmp_path)
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"')
  train(data, tmp_path, kind)
  results = [f / "eval_results.txt" for f in (trained, tmp_path)]
  assert results[0].read_text() == results[1].read_text()
  assert_same_weights([trained, tmp_path])


@pytest.mark.parametrize("kind", ["packed"], indirect=True)
def test_micro_batches_of_packed_rows_give_the_same_weights(
  data, trained, tmp_path
):
  micro_batches = {"gradient_accumulation_steps": 2}
  train(data, tmp_path, "packed", train=micro_batches, do_eval=False)
  # Adam takes steps of 1e-3. Sums in float32 depend on their order.
  assert_same_weights([trained, tmp_path], atol=1e-5)


@pytest.mark.parametrize(
  ("settings", "parts"),
  [
    ({"input_file": "{0}/plain-0*,{0}/packed-p*"}, ["plain-0", "packed-p"]),
    ({"input_file": "{0}/packed-*"}, ["packed-plain", "packed-masked"]),
    ({"vocab_file": None}, ["plain-0", "`vocab_file`"]),
    (
      {"do_eval": False, "input_file": "{0}/masked.tfrecord"},
      ["do_whole_word_mask", "masked.tfrecord"],
    ),
  ],
)
def test_records_that_do_not_fit_are_refused_by_name(
  data, tmp_path, settings, parts
):
  settings = {
    name: value.format(data) if isinstance(value, str) else value
    for name, value in settings.items()
  }
  with pytest.raises(ValueError) as error:
    pretraining.run(make_config(data, tmp_path / "run", **settings))
  for part in parts:
    assert part in str(error.value)
  assert not (tmp_path / "run").exists()
