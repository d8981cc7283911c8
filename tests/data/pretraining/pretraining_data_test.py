import collections
import gzip
import json
import pathlib
import random

import pytest
import tensorflow as tf

from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import (
  masking,
  pretraining_data,
  pretraining_shards,
)

HAND_MADE = pathlib.Path(__file__).parents[2] / "golden" / "pretraining"


def make_config(vocab_file, **flags):
  """Makes a config from flags, as the script does."""
  fields = masking.MaskingConfig.__dataclass_fields__
  masks = {name: flags.pop(name) for name in list(flags) if name in fields}
  return PretrainingDataConfig(
    vocab_file=str(vocab_file),
    masking_config=masking.MaskingConfig(**masks),
    **flags,
  )


def read_examples(path):
  """Returns the parsed examples of a TFRecord file, in order."""
  records = tf.data.TFRecordDataset([str(path)]).as_numpy_iterator()
  examples = []
  for record in records:
    feature = tf.train.Example.FromString(record).features.feature
    examples.append(
      {
        name: list(value.int64_list.value) or list(value.float_list.value)
        for name, value in feature.items()
      }
    )
  return examples


def build_examples(config, texts, output_files):
  """Builds one shard; returns the examples of each file."""
  pretraining_shards.create(
    config, [str(text) for text in texts], ",".join(map(str, output_files))
  )
  return [read_examples(path) for path in output_files]


README_FLAGS = {"dupe_factor": 5}
TINY_FLAGS = {"max_seq_length": 64, "max_predictions_per_seq": 10}


@pytest.mark.parametrize(
  ("text", "recorded", "flags"),
  [
    ("sample_text.txt", ["sample_text.tfrecord"], README_FLAGS),
    (
      "sample_text.txt",
      ["sample_text_wwm.tfrecord"],
      {"do_whole_word_mask": True, **README_FLAGS},
    ),
    ("wiki_corpus.txt", ["wiki.tfrecord"], README_FLAGS),
    (
      "wiki_corpus.txt",
      ["wiki_wwm.tfrecord.gz"],
      {"do_whole_word_mask": True, **README_FLAGS},
    ),
    (
      "sample_text.txt",
      ["../e2e/pretrain_tiny.tfrecord"],
      README_FLAGS | TINY_FLAGS,
    ),
    ("sample_text.txt,wiki_head60.txt", ["defaults.tfrecord"], {}),
    (
      "sample_text.txt,wiki_head60.txt",
      ["flags_a.tfrecord", "flags_b.tfrecord"],
      {
        "do_lower_case": False,
        "max_seq_length": 64,
        "max_predictions_per_seq": 7,
        "masked_lm_prob": 0.3,
        "short_seq_prob": 0.5,
        "random_seed": 42,
        "dupe_factor": 3,
      },
    ),
  ],
)
def test_instances_equal_the_2018_releases_in_order(
  text, recorded, flags, shared, unpacked, tmp_path
):
  golden = shared / "golden" / "pretrain_data"
  vocab_file = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  if "tiny" in recorded[0]:
    vocab_file = shared / "golden" / "tiny" / "vocab.txt"
  expected = []
  for name in recorded:
    path = golden / name
    if name.endswith(".gz"):
      path = tmp_path / "recorded"
      path.write_bytes(gzip.decompress((golden / name).read_bytes()))
    expected.append(read_examples(path))
  texts = [golden / name for name in text.split(",")]
  outputs = [tmp_path / f"out_{i}" for i in range(len(recorded))]
  assert (
    build_examples(make_config(vocab_file, **flags), texts, outputs) == expected
  )


@pytest.mark.parametrize("case", ["tokens", "whole_words"])
def test_instances_of_hand_made_text_equal_the_2018_releases(case, tmp_path):
  recorded = json.loads((HAND_MADE / "examples.json").read_text())[case]
  [examples] = build_examples(
    make_config(HAND_MADE / "vocab.txt", **recorded["flags"]),
    [HAND_MADE / "text.txt"],
    [tmp_path / "out"],
  )
  assert examples == recorded["examples"]


def read_instances(path):
  """Returns the distinct instances of a file with their numbers."""
  counts = collections.Counter()
  for record in read_examples(path):
    starts = record.get("cls_positions", [0])
    starts = [0, *(start for start in starts[1:] if start)]
    ends = [*starts[1:], sum(record["input_mask"])]
    names = (f"masked_lm_{name}" for name in ("positions", "ids", "weights"))
    masked = list(zip(*(record.get(name, []) for name in names)))
    for start, end, label in zip(starts, ends, record["next_sentence_labels"]):
      labels = tuple(
        (p - start, i) for p, i, w in masked if w and start <= p < end
      )
      ids, segments = (
        tuple(record[name][start:end]) for name in ("input_ids", "segment_ids")
      )
      counts[ids, segments, labels, label] += 1
    assert not any(record["next_sentence_labels"][len(starts) :])
    assert not any(record["input_ids"][ends[-1] :])
  return counts


@pytest.mark.parametrize("mask", [True, False])
def test_packed_records_hold_the_instances_of_unpacked_ones(tmp_path, mask):
  rng = random.Random(2)
  words = "a the on sea fish light boat storm night wind wave old".split()
  lines = [
    " ".join(rng.choices(words, k=rng.randint(1, 8))) for _ in range(160)
  ]
  documents = ["\n".join(lines[i : i + 4]) for i in range(0, 160, 4)]
  text = tmp_path / "text"
  text.write_text("\n\n".join(documents))
  summaries = {}
  for pack_sequences in (False, True):
    config = make_config(
      HAND_MADE / "vocab.txt",
      max_seq_length=32,
      mask=mask,
      short_seq_prob=0.5,
      dupe_factor=2,
      pack_sequences=pack_sequences,
    )
    summaries[pack_sequences] = pretraining_shards.create(
      config, [str(text)], str(tmp_path / f"{pack_sequences}")
    ).counts
  plain, packed = summaries.values()
  records = read_examples(tmp_path / "True")
  assert read_instances(tmp_path / "True") == read_instances(tmp_path / "False")
  assert {len(record["cls_positions"]) for record in records} == {4}
  assert packed.num_records == len(records) < 0.8 * plain.num_records
  assert packed.num_instances == plain.num_records
  assert packed.num_tokens == sum(sum(r["input_mask"]) for r in records)


def unmasked(example):
  """Returns the ids of an example before masking, without padding."""
  ids = example["input_ids"][: sum(example["input_mask"])]
  for position, label, weight in zip(
    example["masked_lm_positions"],
    example["masked_lm_ids"],
    example["masked_lm_weights"],
  ):
    if weight:
      ids[position] = label
  return ids


def test_without_nsp_each_pass_has_the_text_once_in_single_segments(tmp_path):
  # Four documents of nine sentences of five words, all of them distinct.
  words = [f"w{i}" for i in range(4 * 9 * 5)]
  names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
  (tmp_path / "vocab.txt").write_text("\n".join(names))
  lines = [" ".join(words[i : i + 5]) for i in range(0, len(words), 5)]
  documents = ["\n".join(lines[i : i + 9]) for i in range(0, len(lines), 9)]
  (tmp_path / "text.txt").write_text("\n\n".join(documents))
  config = make_config(
    tmp_path / "vocab.txt",
    no_nsp=True,
    max_seq_length=22,
    max_predictions_per_seq=4,
    short_seq_prob=0.0,
    dupe_factor=3,
  )
  [examples] = build_examples(config, [tmp_path / "text.txt"], [tmp_path / "o"])
  seen = []
  for example in examples:
    ids = unmasked(example)
    assert (ids[0], ids[-1], ids.count(3)) == (2, 3, 1)
    # 20 pieces are four sentences of 5. The ninth sentence is left over.
    assert len(ids) in (22, 7)
    assert set(example["segment_ids"]) == {0}
    assert example["next_sentence_labels"] == [0]
    assert len({(i - 5) // 45 for i in ids[1:-1]}) == 1  # Of one document.
    seen += ids[1:-1]
  assert sorted(seen) == sorted([*range(5, 5 + 4 * 9 * 5)] * 3)


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    ({"max_seq_length": 4}, "max_seq_length 4 .* 5"),
    ({"max_seq_length": 3, "no_nsp": True}, "max_seq_length 3 .* 4"),
    ({"masked_lm_prob": 0.0}, "masked_lm_prob 0.0 "),
    (
      {"max_seq_length": 16, "max_predictions_per_seq": 17},
      "max_predictions_per_seq 17 .*max_seq_length 16",
    ),
    ({"mask_prob": 0.9}, "mask_prob, keep_prob .* 0.9 "),
    ({"mask_prob": 1.2, "keep_prob": -0.3}, r"1\.2 \+ -0\.3"),
  ],
)
def test_a_setting_out_of_range_is_refused(flags, message):
  with pytest.raises(ValueError, match=message):
    make_config("vocab.txt", **flags)


def test_missing_special_tokens_are_named(tmp_path):
  vocab_file = tmp_path / "vocab.txt"
  vocab_file.write_text("[PAD]\n[UNK]\n[SEP]\nword\n")
  with pytest.raises(ValueError, match=r"vocab.txt .* 4 .*\[CLS\], \[MASK\]"):
    pretraining_data.load_tokenizer(make_config(vocab_file))


def test_text_without_any_token_is_refused(tmp_path):
  text = tmp_path / "text.txt"
  text.write_text("\u200b\n\n\u200b\n", encoding="utf-8")
  config = make_config(HAND_MADE / "vocab.txt")
  with pytest.raises(ValueError, match="text.txt"):
    pretraining_shards.create(config, [str(text)], str(tmp_path / "out"))
  assert not (tmp_path / "out").exists()
