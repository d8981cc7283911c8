"""The order of training records, resuming, and checks of records."""

import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import input_pipeline
from bert_tf.data import records as records_lib
from bert_tf.data.pretraining import pretraining_records
from bert_tf.files import errors

SPEC = {"input_ids": tf.io.FixedLenFeature([2], tf.int64)}


def write_records(path: pathlib.Path, records, compression: str = "") -> str:
  """Writes records, each as values by name or as bytes."""
  with tf.io.TFRecordWriter(str(path), compression) as writer:
    for record in records:
      if isinstance(record, dict):
        ints, floats = {}, {}
        for name, values in record.items():
          is_float = values and isinstance(values[0], float)
          (floats if is_float else ints)[name] = values
        record = records_lib.encode_example(ints, floats)
      writer.write(record)
  return str(path)


def write(path: pathlib.Path, ids, compression: str = "") -> str:
  """Writes a record [i, i] for each id."""
  return write_records(path, [{"input_ids": [i, i]} for i in ids], compression)


def read(files, batch_size, num_batches, seed=1, steps_done=0):
  """Returns the ids of the first batches, a list per batch."""
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
  batches = read(files, 10, 12)
  assert all(len(batch) == 10 for batch in batches)  # A batch spans epochs.
  order = sum(batches, [])
  epochs = [order[i : i + 37] for i in range(0, 3 * 37, 37)]
  for epoch in epochs:
    assert sorted(epoch) == list(range(37)) != epoch
  assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize("steps_done", [1, 4, 41])
def test_any_step_is_reached_without_the_steps_before_it(files, steps_done):
  batches = read(files, 10, 50)
  resumed = read(files, 10, 5, steps_done=steps_done)
  assert resumed == batches[steps_done : steps_done + 5]


def test_the_order_depends_only_on_the_seed(files):
  assert read(files, 37, 2) == read(files, 37, 2)
  assert read(files, 37, 1, seed=1) != read(files, 37, 1, seed=2)


def test_a_name_ending_in_gz_is_read_as_gzip(tmp_path):
  write(tmp_path / "a.tfrecord.gz", range(5), "GZIP")
  write(tmp_path / "b.tfrecord", range(5, 9))
  files = input_pipeline.open_records(
    f"{tmp_path}/a.tfrecord.gz,{tmp_path}/b.*"
  )
  assert files.num_records == 9
  assert sorted(sum(read(files, 1, 9), [])) == list(range(9))


def changed_byte(data: bytes) -> bytes:
  middle = len(data) * 5 // 14  # In the third of seven records.
  return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


@pytest.mark.parametrize(
  ("name", "compression", "damage", "message"),
  [
    ("a", "", lambda data: data[:-1], "a is not a whole TFRecord"),
    ("a", "", lambda data: data[:-17], "a is not a whole TFRecord"),
    ("a", "", changed_byte, "a is not a whole TFRecord"),
    ("a", "", lambda data: b"This is text.\n" * 9, "a is not a whole TFRecord"),
    ("a", "", lambda data: b"", "a holds no records"),
    ("a.gz", "GZIP", lambda data: data[:-10], r"a\.gz is not a whole TFRecord"),
    ("a", "GZIP", lambda data: data, "a is not .*GZIP"),
    ("a.gz", "", lambda data: data, r"a\.gz is not .*GZIP"),
  ],
)
def test_a_damaged_file_is_named(tmp_path, name, compression, damage, message):
  good = write(tmp_path / "good", range(3))
  path = tmp_path / name
  write(path, range(7), compression)
  path.write_bytes(damage(path.read_bytes()))
  with pytest.raises(ValueError, match=f"{tmp_path}/{message}"):
    input_pipeline.open_records(f"{good},{path}")


@pytest.mark.parametrize(
  ("pattern", "num_records"),
  [
    ("1/*", 5),  # Without the hidden file.
    ("[1]/a", 2),  # The name of a folder.
    ("[0-9]/a", 5),
    ("*/a", 7),
    ("1/s-0000[02]-of-*", 4),
    ("1/s-00000-of-00003,{}/1/s-*2-of-00003", 4),
  ],
)
def test_files_are_those_of_names_and_globs(tmp_path, pattern, num_records):
  for name, size in [("1/a", 5), ("[1]/a", 2), ("1/.a.settings.json", 1)]:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    write(tmp_path / name, range(size))
  if "s-" in pattern:
    for i in (0, 2):
      write(tmp_path / "1" / f"s-0000{i}-of-00003", range(2))
    with pytest.raises(ValueError, match="s-00001-of-00003 is missing"):
      input_pipeline.open_records(f"{tmp_path}/1/s-*")
  patterns = f"{tmp_path}/{pattern.format(tmp_path)}"
  assert input_pipeline.open_records(patterns).num_records == num_records


def test_a_finite_data_set_has_every_record_once_in_order(tmp_path):
  write(tmp_path / "b", [3, 4])
  write(tmp_path / "a", [0, 1, 2])
  files = input_pipeline.open_records(f"{tmp_path}/b,{tmp_path}/a")
  dataset = input_pipeline.finite_dataset(files, SPEC, 3, 1000)
  batches = [b["input_ids"].numpy()[:, 0].tolist() for b in dataset]
  assert batches == [[3, 4, 0], [1, 2]]


PRETRAINING = {
  "input_ids": [1, 2, 3, 0],
  "input_mask": [1, 1, 1, 0],
  "segment_ids": [0, 0, 1, 0],
  "masked_lm_positions": [1, 0],
  "masked_lm_ids": [9, 0],
  "masked_lm_weights": [1.0, 0.0],
  "next_sentence_labels": [1],
}


def write_pretraining(path, *records):
  """Writes pre-training records, or bytes; returns the file's features."""
  files = input_pipeline.open_records(write_records(path, records))
  return files, pretraining_records.RecordFormat(4, 2).spec()


@pytest.mark.parametrize(
  ("name", "values"),
  [
    ("input_ids", [1, -1, 3, 0]),
    ("input_ids", [1, 10, 3, 0]),
    ("segment_ids", [0, 7, 1, 0]),
    ("masked_lm_positions", [4, 0]),
    ("masked_lm_ids", [-3, 0]),
    ("next_sentence_labels", [-1]),
    ("input_ids", [1, 2, 3]),
    ("masked_lm_weights", [1, 0]),
  ],
)
def test_a_value_out_of_range_ends_the_reading(tmp_path, name, values):
  # A gather under XLA would silently read another row.
  bad = {**PRETRAINING, name: values}
  written = write_pretraining(tmp_path / "a", *[PRETRAINING] * 4, bad)
  with pytest.raises(tf.errors.InvalidArgumentError) as error:
    list(input_pipeline.finite_dataset(*written, 2, 10))
  assert name in errors.reason(error.value)
  files, spec = write_pretraining(tmp_path / "b", *[PRETRAINING] * 3)
  assert len(list(input_pipeline.finite_dataset(files, spec, 2, 10))) == 2


@pytest.mark.parametrize(
  ("changes", "vocab_size", "message"),
  [
    ({"input_ids": [1] * 5}, 10, "`max_seq_length=5`"),
    ({"input_ids": []}, 10, "does not hold pre-training records"),
    ({"masked_lm_positions": [1]}, 10, "`max_predictions_per_seq=1`"),
    ({}, 3, "input_ids 0 to 3, but the model has 0 to 2"),
    (None, 10, "tf.train.Example"),
  ],
)
def test_records_that_do_not_fit_are_named(
  tmp_path, changes, vocab_size, message
):
  record = b"\xff" * 9 if changes is None else {**PRETRAINING, **changes}
  files, _ = write_pretraining(tmp_path / "a", record)
  records = pretraining_records.PretrainingRecords(
    files, pretraining_records.RecordFormat(4, 2)
  )
  with pytest.raises(ValueError, match=f"{tmp_path}/a.*{message}"):
    records.check(vocab_size)


# Records of 16 word pieces. The first id is the number of the record.
LONG_SPEC = {
  name: tf.io.FixedLenFeature([16], tf.int64)
  for name in ("input_ids", "input_mask", "segment_ids")
}


def write_lengths(path: pathlib.Path, lengths) -> input_pipeline.RecordFiles:
  """Writes a record of each length. The first id is the record's number."""
  masks = [[1] * length + [0] * (16 - length) for length in lengths]
  records = [
    {"input_ids": [i, *mask[1:]], "input_mask": mask, "segment_ids": mask}
    for i, mask in enumerate(masks)
  ]
  return input_pipeline.open_records(write_records(path, records))


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


@pytest.fixture
def lengths_file(tmp_path):
  rng = np.random.default_rng(0)
  return write_lengths(tmp_path / "a", rng.integers(2, 17, size=70))


def test_records_of_similar_length_share_a_batch(lengths_file):
  batches = grouped(lengths_file, 200)
  plain = grouped(lengths_file, 200, group_by_length=False)
  places = set()
  for start in range(0, 200, 50):
    # The window has the same records, sorted over all its batches.
    windows = [rows[start : start + 50] for rows in (batches, plain)]
    ids, plain_ids = (sorted(sum((b[0] for b in w), [])) for w in windows)
    assert ids == plain_ids
    lengths = [lengths for _, lengths in windows[0]]
    in_order = sum(sorted(lengths), [])
    assert in_order == sorted(in_order)
    # But the batches are not ordered by length.
    longest = list(map(max, lengths))
    assert longest != sorted(longest)
    places.add(int(np.argmax(longest)))
  assert len(places) > 2


@pytest.mark.parametrize("steps_done", [1, 50, 120])
def test_any_step_of_grouped_batches_is_reached_directly(
  lengths_file, steps_done
):
  batches = grouped(lengths_file, 140)
  resumed = grouped(lengths_file, 12, steps_done=steps_done)
  assert resumed == batches[steps_done : steps_done + 12]
  assert grouped(lengths_file, 12, seed=2) != batches[:12]


@pytest.mark.parametrize(
  ("max_seq_length", "expected"),
  [
    (128, (32, 48, 64, 80, 96, 128)),
    (100, (32, 40, 56, 64, 80, 100)),
    (5, (5,)),
  ],
)
def test_widths_are_few_and_multiples_of_8(max_seq_length, expected):
  assert input_pipeline.list_widths(max_seq_length) == expected


@pytest.mark.parametrize(
  ("has_few_widths", "widths"), [(False, (8, 9, 16, 1)), (True, (8, 16, 16, 8))]
)
def test_a_batch_is_cut_to_its_longest_example(
  tmp_path, has_few_widths, widths
):
  files = write_lengths(tmp_path / "a", [3, 8, 9, 2, 16, 4, 1])
  uncut = input_pipeline.finite_dataset(files, LONG_SPEC, 2, 1000)
  cut = input_pipeline.cut_padding(uncut, 16, has_few_widths=has_few_widths)
  assert cut.element_spec["input_ids"].shape.as_list() == [None, None]
  batches = list(zip(uncut, cut))
  assert [b["input_ids"].shape for _, b in batches] == [
    (1 if i == 3 else 2, width) for i, width in enumerate(widths)
  ]
  for full, part in batches:
    width = part["input_ids"].shape[1]
    for name in LONG_SPEC:
      np.testing.assert_array_equal(part[name], full[name][:, :width])
      assert not full[name].numpy()[:, width:].any()
