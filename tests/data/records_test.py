import os

import tensorflow as tf

from bert_tf.data import records


def test_records_go_round_robin_over_the_files(tmp_path):
  names = ("a", "b.gz", "c")  # A name ending in .gz means compression.
  paths = [str(tmp_path / "new_folder" / name) for name in names]
  with records.open_writer(paths) as writer:
    for i in range(7):
      writer.write(b"%d" % i)
  written = [
    list(tf.data.TFRecordDataset(path, compression).as_numpy_iterator())
    for path, compression in zip(paths, ("", "GZIP", ""))
  ]
  assert written == [[b"0", b"3", b"6"], [b"1", b"4"], [b"2", b"5"]]
  assert sorted(os.listdir(tmp_path / "new_folder")) == list(names)
