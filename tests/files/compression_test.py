import bz2
import gzip

import pytest

from bert_tf.files import compression

CONTENT = b"one\ntwo\n" * 1000
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".txt": bytes}


def write(folder, suffix, content):
  path = folder / f"a{suffix}"
  path.write_bytes(content)
  return str(path)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_suffix_decides_on_decompression(suffix, tmp_path):
  path = write(tmp_path, suffix, COMPRESS[suffix](CONTENT))
  with compression.open_file(path) as reader:
    assert reader.readline() == b"one\n"
    assert reader.read() == CONTENT[4:]


def test_concatenated_streams_are_read_as_one(tmp_path):
  # Wikipedia's multistream dumps have several.
  path = write(tmp_path, ".bz2", bz2.compress(CONTENT) * 3)
  with compression.open_file(path) as reader:
    assert reader.read() == CONTENT * 3


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
@pytest.mark.parametrize("damage", [lambda c: c[:-9], lambda c: b"no" + c])
def test_a_damaged_file_is_named(suffix, damage, tmp_path):
  path = write(tmp_path, suffix, damage(COMPRESS[suffix](CONTENT)))
  with pytest.raises(ValueError, match=path):
    with compression.open_file(path) as reader:
      reader.read()
