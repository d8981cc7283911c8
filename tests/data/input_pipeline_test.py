"""The order, the position and the checks of training records."""

import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import input_pipeline

SPEC = {"input_ids": tf.io.FixedLenFeature([2], tf.int64)}


def write(path: pathlib.Path, ids, compression: str = "") -> str:
  """Writes a record [i, i] for each id."""
  with tf.io.TFRecordWriter(str(path), compression) as writer:
    for i in ids:
      example = tf.train.Example()
      example.features.feature["input_ids"].int64_list.value.extend([i, i])
      writer.write(example.SerializeToString())
  return str(path)


def read(files, batch_size, num_batches, seed=1, steps_done=0):
  """Returns the ids of the first batches, a list a batch."""
  dataset = input_pipeline.training_dataset(
    files, SPEC, batch_size, seed, steps_done, vocab_size=1000
  )
  return [
    batch["input_ids"].numpy()[:, 0].tolist()
    for batch in dataset.take(num_batches)
  ]


@pytest.fixture(params=["one block", "small blocks"])
def files(tmp_path, request, monkeypatch):
  """Five files with 37 records in all."""
  if request.param == "small blocks":
    monkeypatch.setattr(input_pipeline, "_SHUFFLE_BLOCK", 8)
  starts = [0, 3, 10, 11, 30, 37]
  for i, (start, end) in enumerate(itertools.pairwise(starts)):
    write(tmp_path / f"{i}.tfrecord", range(start, end))
  return input_pipeline.open_records(str(tmp_path / "*.tfrecord"))


def test_every_epoch_has_every_record_once_in_its_own_order(files):
  assert files.num_records == 37
  order = sum(read(files, 1, 3 * 37), [])
  epochs = [order[i : i + 37] for i in range(0, 3 * 37, 37)]
  for epoch in epochs:
    assert sorted(epoch) == list(range(37))
  assert epochs[0] != epochs[1] != epochs[2]
  assert epochs[0] != sorted(epochs[0])


def test_every_epoch_of_one_file_has_its_own_order(tmp_path):
  # With one file there is no order of files to tell the epochs apart.
  files = input_pipeline.open_records(write(tmp_path / "a", range(40)))
  first, second = read(files, 40, 2)
  assert sorted(first) == sorted(second)
  assert first != second


def test_batches_are_full_across_the_end_of_an_epoch(files):
  batches = read(files, 10, 11)
  assert all(len(batch) == 10 for batch in batches)
  assert sorted(sum(batches, [])[:74]) == sorted([*range(37)] * 2)


@pytest.mark.parametrize("steps_done", [1, 3, 4, 5, 20, 41])
def test_any_step_is_reached_without_the_steps_before_it(files, steps_done):
  whole = read(files, 10, 50)
  assert (
    read(files, 10, 5, steps_done=steps_done)
    == (whole[steps_done : steps_done + 5])
  )


def test_the_order_depends_on_the_seed_alone(files):
  assert read(files, 37, 2) == read(files, 37, 2)
  assert read(files, 37, 1, seed=1) != read(files, 37, 1, seed=2)


def test_records_far_apart_in_the_files_meet_in_a_batch(tmp_path):
  write(tmp_path / "all", range(900))
  files = input_pipeline.open_records(str(tmp_path / "all"))
  (batch,) = read(files, 100, 1)
  # Of 100 uniform draws from 900, outside [100, 800] in every case is the
  # chance of 1e-65.
  assert min(batch) < 100 and max(batch) > 800
  assert np.mean(np.abs(np.diff(batch))) > 100


def test_gzip_files_are_read_by_their_name(tmp_path):
  write(tmp_path / "a.tfrecord.gz", range(5), "GZIP")
  write(tmp_path / "b.tfrecord", range(5, 9))
  files = input_pipeline.open_records(
    f"{tmp_path}/a.tfrecord.gz,{tmp_path}/b.*"
  )
  assert files.num_records == 9
  assert sorted(sum(read(files, 1, 9), [])) == list(range(9))


def test_a_gzip_file_that_is_cut_short_is_named_with_the_record(tmp_path):
  path = tmp_path / "a.gz"
  write(path, range(500), "GZIP")
  path.write_bytes(path.read_bytes()[:-50])
  with pytest.raises(
    ValueError, match=r"a\.gz is not a whole .*: record 4\d\d"
  ):
    input_pipeline.open_records(str(path))


def test_gzip_that_the_name_does_not_tell_is_named(tmp_path):
  path = write(tmp_path / "a.tfrecord", range(5), "GZIP")
  with pytest.raises(ValueError, match=f"is GZIP; rename it to {path}.gz to"):
    input_pipeline.open_records(path)
  path = write(tmp_path / "b.gz", range(5))
  with pytest.raises(ValueError, match="b.gz is not GZIP, .* to .*/b, or"):
    input_pipeline.open_records(path)


def test_a_star_passes_hidden_files_by(tmp_path):
  write(tmp_path / "a", range(5))
  (tmp_path / ".a.settings.json").write_text("{}")
  assert input_pipeline.open_records(f"{tmp_path}/*").num_records == 5


def test_evaluation_repeats_the_files_in_their_order(tmp_path):
  write(tmp_path / "b", [3, 4])
  write(tmp_path / "a", [0, 1, 2])
  files = input_pipeline.open_records(f"{tmp_path}/b,{tmp_path}/a")
  dataset = input_pipeline.evaluation_dataset(files, SPEC, 4, 1000)
  batches = [b["input_ids"].numpy()[:, 0].tolist() for b in dataset.take(3)]
  assert batches == [[3, 4, 0, 1], [2, 3, 4, 0], [1, 2, 3, 4]]


def test_a_finite_data_set_has_every_record_once_the_last_batch_short(tmp_path):
  write(tmp_path / "b", [3, 4])
  write(tmp_path / "a", [0, 1, 2])
  files = input_pipeline.open_records(f"{tmp_path}/b,{tmp_path}/a")
  dataset = input_pipeline.finite_dataset(files, SPEC, 3, 1000)
  batches = [b["input_ids"].numpy()[:, 0].tolist() for b in dataset]
  assert batches == [[3, 4, 0], [1, 2]]


def test_ids_are_int32_for_the_model(tmp_path):
  files = input_pipeline.open_records(write(tmp_path / "a", range(4)))
  dataset = input_pipeline.training_dataset(files, SPEC, 2, 1, 0, 1000)
  assert dataset.element_spec["input_ids"] == tf.TensorSpec((2, 2), tf.int32)


def test_a_pattern_without_a_match_is_named(tmp_path):
  path = write(tmp_path / "a", [1])
  with pytest.raises(ValueError, match="no TFRecord file matches .*/b-\\*"):
    input_pipeline.open_records(f"{path},{tmp_path}/b-*")


def test_a_file_without_records_is_named(tmp_path):
  path = write(tmp_path / "none", [])
  with pytest.raises(ValueError, match="none holds no records"):
    input_pipeline.open_records(path)


@pytest.mark.parametrize("cut", [1, 17], ids=["last byte", "half a record"])
def test_a_truncated_file_and_its_record_are_named(tmp_path, cut):
  good = write(tmp_path / "good", range(3))
  path = tmp_path / "short"
  write(path, range(7))
  path.write_bytes(path.read_bytes()[:-cut])
  with pytest.raises(ValueError, match="short is not a whole .*: record 6 "):
    input_pipeline.open_records(f"{good},{path}")


def test_a_changed_byte_is_found(tmp_path):
  path = tmp_path / "bad"
  write(path, range(7))
  data = bytearray(path.read_bytes())
  data[len(data) * 5 // 14] ^= 0xFF  # In the third record.
  path.write_bytes(data)
  with pytest.raises(ValueError, match="bad is not a whole .*: record 2 "):
    input_pipeline.open_records(str(path))


def test_text_is_not_taken_for_records(tmp_path):
  path = tmp_path / "text.txt"
  path.write_text("This is a sentence.\n" * 10)
  with pytest.raises(ValueError, match="text.txt is not a whole TFRecord"):
    input_pipeline.open_records(str(path))


def test_fewer_records_than_a_batch_are_repeated(tmp_path):
  # As the original did: repeat(), then batch().
  files = input_pipeline.open_records(write(tmp_path / "a", range(3)))
  batches = read(files, 8, 3)
  assert [len(batch) for batch in batches] == [8, 8, 8]
  for i in range(0, 24, 3):
    assert sorted(sum(batches, [])[i : i + 3]) == [0, 1, 2]
  assert read(files, 8, 1, steps_done=2) == batches[2:]


def test_an_id_outside_the_vocabulary_stops_the_run(tmp_path):
  files = input_pipeline.open_records(write(tmp_path / "a", range(20)))
  dataset = input_pipeline.training_dataset(files, SPEC, 20, 1, 0, 19)
  with pytest.raises(
    tf.errors.InvalidArgumentError, match="not below vocab_size 19"
  ):
    next(iter(dataset))


def test_the_flag_that_differs_from_the_records_is_named(tmp_path):
  good = write(tmp_path / "good", [1])
  with tf.io.TFRecordWriter(str(tmp_path / "long")) as writer:
    example = tf.train.Example()
    example.features.feature["input_ids"].int64_list.value.extend([1] * 5)
    writer.write(example.SerializeToString())
  files = input_pipeline.open_records(f"{good},{tmp_path}/long")
  flags = {"input_ids": "max_seq_length"}
  with pytest.raises(
    ValueError, match="long was made with max_seq_length 5, this run has 2"
  ):
    input_pipeline.check_first_records(files, SPEC, flags, 1000)


def test_records_of_another_task_are_named(tmp_path):
  files = input_pipeline.open_records(write(tmp_path / "a", [1]))
  spec = input_pipeline.pretraining_spec(2, 1)
  with pytest.raises(ValueError, match="have no input_mask, but input_ids"):
    input_pipeline.check_first_records(files, spec, {}, 1000)


def test_a_vocabulary_larger_than_the_models_is_seen_in_the_first_record(
  tmp_path,
):
  files = input_pipeline.open_records(write(tmp_path / "a", [70, 1]))
  with pytest.raises(
    ValueError, match="/a has the word-piece id 70, but .* 70"
  ):
    input_pipeline.check_first_records(files, SPEC, {}, 70)


# Records of 16 word pieces whose first id says which one it is.
LONG_SPEC = {
  name: tf.io.FixedLenFeature([16], tf.int64)
  for name in ("input_ids", "input_mask", "segment_ids")
}


def write_lengths(path: pathlib.Path, lengths) -> input_pipeline.RecordFiles:
  """Writes a record of each length; the first id is its number."""
  with tf.io.TFRecordWriter(str(path)) as writer:
    for i, length in enumerate(lengths):
      example = tf.train.Example()
      real = [1] * length + [0] * (16 - length)
      values = {
        "input_ids": [i, *real[1:]],
        "input_mask": real,
        "segment_ids": real,
      }
      for name, ids in values.items():
        example.features.feature[name].int64_list.value.extend(ids)
      writer.write(example.SerializeToString())
  return input_pipeline.open_records(str(path))


def grouped(files, num_batches, steps_done=0, seed=1, group_by_length=True):
  """Returns numbers and lengths of the records of the first batches."""
  dataset = input_pipeline.training_dataset(
    files, LONG_SPEC, 4, seed, steps_done, 1000, group_by_length
  )
  return [
    (
      batch["input_ids"].numpy()[:, 0].tolist(),
      batch["input_mask"].numpy().sum(axis=1).tolist(),
    )
    for batch in dataset.take(num_batches)
  ]


def test_records_of_like_length_share_a_batch(tmp_path):
  rng = np.random.default_rng(0)
  files = write_lengths(tmp_path / "a", rng.integers(2, 17, size=70))
  batches = grouped(files, 80)
  plain = grouped(files, 80, group_by_length=False)
  for start in range(0, 80, 8):
    # The window holds the same records, sorted over all of its batches.
    ids, plain_ids = (
      sorted(i for batch, _ in rows[start : start + 8] for i in batch)
      for rows in (batches, plain)
    )
    assert ids == plain_ids
    window = sorted(lengths for _, lengths in batches[start : start + 8])
    assert sum(window, []) == sorted(sum(window, []))
  # The batches are not in the order of their lengths.
  longest = [max(lengths) for _, lengths in batches]
  assert any(
    longest[i : i + 8] != sorted(longest[i : i + 8]) for i in range(0, 80, 8)
  )
  places = {
    int(np.argmax(longest[start : start + 8])) for start in range(0, 80, 8)
  }
  assert len(places) > 2


@pytest.mark.parametrize("steps_done", [1, 7, 8, 9, 16, 21])
def test_any_step_of_grouped_batches_is_reached_directly(tmp_path, steps_done):
  rng = np.random.default_rng(0)
  files = write_lengths(tmp_path / "a", rng.integers(2, 17, size=70))
  whole = grouped(files, 40)
  assert (
    grouped(files, 12, steps_done=steps_done)
    == (whole[steps_done : steps_done + 12])
  )
  assert grouped(files, 12, seed=2) != whole[:12]


@pytest.mark.parametrize(
  ("max_seq_length", "expected"),
  [
    (512, (128, 192, 256, 320, 384, 512)),
    (128, (32, 48, 64, 80, 96, 128)),
    (100, (32, 40, 56, 64, 80, 100)),
    (16, (8, 16)),
    (5, (5,)),
  ],
)
def test_widths_are_few_and_multiples_of_8(max_seq_length, expected):
  assert input_pipeline.widths(max_seq_length) == expected


def test_a_batch_is_cut_to_the_width_of_its_longest_example(tmp_path):
  files = write_lengths(tmp_path / "a", [3, 8, 9, 2, 16, 4, 1])
  whole = input_pipeline.finite_dataset(files, LONG_SPEC, 2, 1000)
  cut = input_pipeline.cut_padding(whole, 16)
  assert cut.element_spec["input_ids"].shape.as_list() == [None, None]
  batches = list(zip(whole, cut))
  assert [b["input_ids"].shape for _, b in batches] == [
    (2, 8),
    (2, 16),
    (2, 16),
    (1, 8),
  ]
  for full, part in batches:
    width = part["input_ids"].shape[1]
    for name in LONG_SPEC:
      np.testing.assert_array_equal(part[name], full[name][:, :width])
      assert not full[name].numpy()[:, width:].any()


def test_a_real_position_after_padding_is_kept(tmp_path):
  features = {name: np.zeros((1, 16), np.int32) for name in LONG_SPEC}
  features["input_mask"][0, [0, 9]] = 1
  dataset = tf.data.Dataset.from_tensors(features)
  (batch,) = input_pipeline.cut_padding(dataset, 16)
  assert batch["input_ids"].shape == (1, 16)
