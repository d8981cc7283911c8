import gzip
import os

import tensorflow as tf

from bert_tf.data import records


def read_records(path, compression=""):
  dataset = tf.data.TFRecordDataset([str(path)], compression)
  return list(dataset.as_numpy_iterator())


def test_records_go_round_robin_over_the_files(tmp_path):
  paths = [str(tmp_path / "new_folder" / name) for name in ("a", "b", "c")]
  with records.open_writer(paths) as writer:
    for i in range(7):
      writer.write(b"%d" % i)
  assert read_records(paths[0]) == [b"0", b"3", b"6"]
  assert read_records(paths[1]) == [b"1", b"4"]
  assert read_records(paths[2]) == [b"2", b"5"]
  assert sorted(os.listdir(tmp_path / "new_folder")) == ["a", "b", "c"]


def test_a_file_ending_in_gz_is_compressed(tmp_path):
  path = tmp_path / "a.gz"
  with records.open_writer([str(path)]) as writer:
    writer.write(b"record")
  assert b"record" in gzip.decompress(path.read_bytes())
  assert read_records(path, "GZIP") == [b"record"]
