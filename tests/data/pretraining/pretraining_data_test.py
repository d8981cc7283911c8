import gzip
import itertools
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


VOCAB = {
  token: index
  for index, token in enumerate(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    + [f"{'##' if i % 3 == 2 else ''}t{i}" for i in range(95)]
  )
}


@pytest.mark.parametrize("split", [(0.0, 0.2, 0.8), (0.8, 0.0, 0.2)])
def test_masked_pieces_are_split_as_configured(split):
  config = masking.MaskingConfig(
    **dict(zip(("mask_prob", "keep_prob", "random_prob"), split))
  )
  masker = masking.Masker(config, VOCAB)
  rng = random.Random(1)
  masked = unchanged = total = 0
  for _ in range(1000):
    # A random draw gives the same piece in 1 of 100 cases.
    original = [2] + [50] * 98 + [3]
    ids = list(original)
    positions, labels = masker.mask(ids, list(range(1, 99)), rng)
    assert len(positions) == 15 and labels == [50] * 15
    assert positions == sorted(set(positions))
    assert (ids[0], ids[-1]) == (2, 3)
    changed = [i for i in range(100) if ids[i] != original[i]]
    assert set(changed) <= set(positions)
    total += len(positions)
    masked += sum(ids[i] == VOCAB["[MASK]"] for i in positions)
    unchanged += sum(ids[i] == 50 for i in positions)
  # A random piece is [MASK] in 1 of 100 draws, and the same piece in 1 of 100.
  # Three standard deviations of 15,000 draws are at most 0.012.
  by_chance = split[2] / 100
  assert masked / total == pytest.approx(split[0] + by_chance, abs=0.012)
  assert unchanged / total == pytest.approx(split[1] + by_chance, abs=0.012)


def sentences_of_distinct_pieces(num_documents, num_sentences, length):
  """Returns documents in which every piece is distinct: ids from 5 on."""
  ids = itertools.count(5)
  return [
    [[next(ids) for _ in range(length)] for _ in range(num_sentences)]
    for _ in range(num_documents)
  ]


def write_ids(folder, documents):
  """Writes a vocabulary and a text for documents of ids; returns the paths."""
  size = 1 + max(itertools.chain(*itertools.chain(*documents)))
  names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
  names += [f"w{i}" for i in range(5, size)]
  vocab_file, text = folder / "vocab.txt", folder / "text.txt"
  vocab_file.write_text("\n".join(names) + "\n")
  text.write_text(
    "\n".join(
      "\n".join(" ".join(names[i] for i in line) for line in document) + "\n"
      for document in documents
    )
  )
  return vocab_file, text


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
  documents = sentences_of_distinct_pieces(4, 9, 5)
  vocab_file, text = write_ids(tmp_path, documents)
  config = make_config(
    vocab_file,
    no_nsp=True,
    max_seq_length=22,
    max_predictions_per_seq=4,
    short_seq_prob=0.0,
    dupe_factor=3,
  )
  [examples] = build_examples(config, [text], [tmp_path / "out"])
  seen = []
  for example in examples:
    ids = unmasked(example)
    assert (ids[0], ids[-1], ids.count(3)) == (2, 3, 1)
    # 20 pieces are four sentences of 5. The ninth sentence is left over.
    assert len(ids) in (22, 7)
    assert set(example["segment_ids"]) == {0}
    assert example["next_sentence_labels"] == [0]
    seen += ids[1:-1]
  assert sorted(seen) == sorted(list(range(5, 5 + 4 * 9 * 5)) * 3)
  rows = [unmasked(example) for example in examples]
  assert all(len({(i - 5) // 45 for i in ids[1:-1]}) == 1 for ids in rows)


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
