"""Packed records hold the instances of unpacked ones."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_shards
from tests.support import checkout

VOCAB_FILE = str(checkout.ROOT / "tests" / "golden" / "tiny" / "vocab.txt")


def create(folder, name, text, length, **settings):
  """Writes the records of a text; returns the summary."""
  config = PretrainingDataConfig(
    **{
      "vocab_file": VOCAB_FILE,
      "max_seq_length": length,
      "dupe_factor": 1,
      **settings,
    }
  )
  return pretraining_shards.create(config, [str(text)], str(folder / name))


def values(path):
  """Yields the features of each record as lists."""
  for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
    features = tf.train.Example.FromString(record).features.feature
    yield {
      name: list(value.int64_list.value or value.float_list.value)
      for name, value in features.items()
    }


def instances(path):
  """Counts the distinct instances of a file."""
  counts = collections.Counter()
  for record in values(path):
    starts = record.get("cls_positions", [0])
    starts = [0, *(start for start in starts[1:] if start)]
    ends = [*starts[1:], sum(record["input_mask"])]
    masked = [
      (position, label)
      for position, label, weight in zip(
        record.get("masked_lm_positions", []),
        record.get("masked_lm_ids", []),
        record.get("masked_lm_weights", []),
      )
      if weight
    ]
    for start, end, label in zip(starts, ends, record["next_sentence_labels"]):
      own = tuple((p - start, i) for p, i in masked if start <= p < end)
      ids, segments = (
        tuple(record[name][start:end]) for name in ("input_ids", "segment_ids")
      )
      counts[ids, segments, own, label] += 1
    assert not any(record["next_sentence_labels"][len(starts) :])
    assert not any(record["input_ids"][ends[-1] :])
  return counts


@pytest.mark.parametrize("mask", [True, False])
def test_packed_records_hold_the_instances_of_unpacked_ones(tmp_path, mask):
  rng = np.random.default_rng(2)
  words = "the of and in to was he is as for on with that it his by".split()
  documents = [
    "\n".join(" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(4))
    for _ in range(40)
  ]
  text = tmp_path / "text"
  text.write_text("\n\n".join(documents))
  settings = {"mask": mask, "short_seq_prob": 0.5, "dupe_factor": 2}
  plain = create(tmp_path, "plain", text, 32, **settings)
  packed = create(tmp_path, "packed", text, 32, pack_sequences=True, **settings)
  assert instances(tmp_path / "packed") == instances(tmp_path / "plain")
  records = list(values(tmp_path / "packed"))
  assert {len(record["cls_positions"]) for record in records} == {4}
  assert packed.counts.num_records == len(records)
  assert packed.counts.num_instances == plain.counts.num_records
  assert len(records) < 0.8 * plain.counts.num_records
  tokens = sum(sum(record["input_mask"]) for record in records)
  assert packed.counts.num_tokens == tokens
