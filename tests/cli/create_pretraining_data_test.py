import dataclasses
import gzip
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_data, pretraining_shards

ROOT = pathlib.Path(__file__).parents[2]
HAND_MADE = ROOT / "tests" / "golden" / "pretraining"
SCRIPT = ROOT / "run_scripts" / "create_pretraining_data.py"


def start(*flags):
  """Starts the script in its own process group."""
  return subprocess.Popen(
    [sys.executable, str(SCRIPT), *flags],
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,
  )


def last_line(text):
  return text.strip().splitlines()[-1]


@pytest.fixture
def text(tmp_path):
  """Returns twelve documents of words in the hand-made vocabulary."""
  rng = random.Random(5)
  words = "a the on sea fish light boat storm night wind wave old".split()
  path = tmp_path / "text" / "text.txt"
  path.parent.mkdir()
  path.write_text(
    "\n\n".join(
      "\n".join(
        " ".join(rng.choices(words, k=rng.randint(4, 12))) + "."
        for _ in range(rng.randint(5, 15))
      )
      for _ in range(12)
    )
  )
  return path


@pytest.fixture
def config():
  return PretrainingDataConfig(
    vocab_file=str(HAND_MADE / "vocab.txt"), max_seq_length=32, dupe_factor=2
  )


def contents(folder):
  """Returns the content of the data files of a folder, by name."""
  return {
    path.name: path.read_bytes()
    for path in sorted(pathlib.Path(folder).iterdir())
    if not path.name.startswith(".")
  }


def hidden(folder):
  return sorted(name for name in os.listdir(folder) if name[0] == ".")


def test_the_data_do_not_depend_on_the_number_of_workers(
  text, config, tmp_path
):
  for num_workers in (1, 2):
    pretraining_shards.create(
      config,
      [str(text)],
      str(tmp_path / str(num_workers) / "data"),
      num_shards=3,
      num_workers=num_workers,
    )
  alone = contents(tmp_path / "1")
  assert list(alone) == [f"data-0000{i}-of-00003" for i in range(3)]
  assert alone == contents(tmp_path / "2")
  assert len(set(alone.values())) == 3


def test_shards_of_a_gz_are_compressed(text, config, tmp_path):
  for name in ("data", "data.gz"):
    pretraining_shards.create(
      config, [str(text)], str(tmp_path / "out" / name), 2
    )
  files = contents(tmp_path / "out")
  for i in range(2):
    name = f"data-0000{i}-of-00002"
    assert gzip.decompress(files[f"{name}.gz"]) == files[name]


def test_text_vocabulary_and_data_may_be_on_remote_storage(
  text, config, tmp_path
):
  # ram:// represents gs://: Python's open() supports neither.
  tf.io.gfile.copy(str(text), "ram://corpus/text.txt")
  tf.io.gfile.copy(config.vocab_file, "ram://corpus/vocab.txt")
  there = dataclasses.replace(config, vocab_file="ram://corpus/vocab.txt")
  for made_of, files, folder in [
    (config, [str(text)], str(tmp_path / "out")),
    (there, ["ram://corpus/text.txt"], "ram://data"),
  ]:
    pretraining_shards.create(made_of, files, f"{folder}/data", 3)
  here = contents(tmp_path / "out")
  assert sorted(tf.io.gfile.listdir("ram://data")) == [
    ".data.settings.json",
    *here,
  ]
  for name, data in here.items():
    with tf.io.gfile.GFile(f"ram://data/{name}", "rb") as reader:
      assert reader.read() == data


def test_the_seed_of_a_shard_is_a_recorded_hash():
  # printf '12345/0' | sha256sum, and so on; the first sixteen digits.
  assert pretraining_shards.derive_shard_seed(12345, 0, 1) == 12345
  assert pretraining_shards.derive_shard_seed(12345, 0, 2) == 0x972F0D33477166FC
  assert (
    pretraining_shards.derive_shard_seed(12345, 63, 64) == 0x5BB9EB98A9FDA816
  )


def test_resume_builds_only_missing_shards(text, config, tmp_path):
  out = tmp_path / "out[1]"

  def create(**flags):
    return pretraining_shards.create(
      config, [str(text)], str(out / "data"), 4, **flags
    )

  create()
  result = contents(out)
  lost = out / "data-00002-of-00004"
  lost.unlink()
  left = out / ".data-00002-of-00004.tmp-bert_tf-1"
  left.write_bytes(b"half")
  existing = out / "data-00001-of-00004"
  existing.write_bytes(b"kept, not built again")
  # Left by a process that was killed just after it renamed the shard.
  (out / ".data-00001-of-00004.tmp-bert_tf-1").mkdir()
  summary = create(resume=True)
  assert existing.read_bytes() == b"kept, not built again"
  assert lost.read_bytes() == result[lost.name]
  assert summary.num_shards_kept == 3
  assert hidden(out) == [".data.settings.json"]
  create()
  assert contents(out) == result


def test_resume_with_other_settings_text_or_shards_is_refused(
  text, config, tmp_path
):
  output = str(tmp_path / "out" / "data")
  pretraining_shards.create(config, [str(text)], output, 2)
  other = tmp_path / "other.txt"
  other.write_text((HAND_MADE / "vocab.txt").read_text() + "more\n")
  edited = tmp_path / "edited" / text.name  # Of equal name and size.
  edited.parent.mkdir()
  edited.write_text(text.read_text().swapcase())
  for name, changes, path, num_shards in (
    ("max_seq_length", {"max_seq_length": 40}, text, 2),
    ("vocab_file", {"vocab_file": str(other)}, text, 2),
    ("num_shards", {}, text, 3),
    ("input_file", {}, edited, 2),
  ):
    changed = dataclasses.replace(config, **changes)
    with pytest.raises(ValueError, match=f"`{name}`"):
      pretraining_shards.create(
        changed, [str(path)], output, num_shards, resume=True
      )
  assert len(contents(tmp_path / "out")) == 2


def test_resume_beside_files_of_unknown_origin_is_refused(
  text, config, tmp_path
):
  output = tmp_path / "data"
  output.write_bytes(b"by another program")
  message = f"cannot resume: .* is missing.*{output} .*`resume`"
  with pytest.raises(ValueError, match=message):
    pretraining_shards.create(config, [str(text)], str(output), resume=True)
  assert output.read_bytes() == b"by another program"


def test_a_new_run_removes_the_shards_of_the_old_run(
  text, config, tmp_path, monkeypatch
):
  output = str(tmp_path / "out" / "data")
  pretraining_shards.create(config, [str(text)], output, 3)
  build = pretraining_data.build_shard

  def stop_at_the_second(config, task, *args):
    if task.shard.index == 1:
      raise KeyboardInterrupt
    return build(config, task, *args)

  monkeypatch.setattr(pretraining_data, "build_shard", stop_at_the_second)
  other = dataclasses.replace(config, max_seq_length=24)
  with pytest.raises(KeyboardInterrupt):
    pretraining_shards.create(other, [str(text)], output, 3)
  assert list(contents(tmp_path / "out")) == ["data-00000-of-00003"]
  assert hidden(tmp_path / "out") == [".data.settings.json"]


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_written", [False, True])
def test_a_killed_run_resumes_with_its_settings_only(
  text, config, tmp_path, monkeypatch, is_first, is_written
):
  output = str(tmp_path / "data")
  cased = dataclasses.replace(config, do_lower_case=False)
  if not is_first:
    pretraining_shards.create(cased, [str(text)], output)
  build = pretraining_data.build_shard

  def build_and_stop(*args):
    if is_written:
      build(*args)
    raise KeyboardInterrupt

  with monkeypatch.context() as patched:
    patched.setattr(pretraining_data, "build_shard", build_and_stop)
    with pytest.raises(KeyboardInterrupt):
      pretraining_shards.create(config, [str(text)], output)
  assert os.path.exists(output) == is_written
  with pytest.raises(ValueError, match="`do_lower_case`"):
    pretraining_shards.create(cased, [str(text)], output, resume=True)
  again = pretraining_shards.create(config, [str(text)], output, resume=True)
  assert again.num_shards_kept == is_written
  assert pretraining_shards.read_case([output]).do_lower_case is True


ADVICE = "build-corpus"


def test_documents_of_one_sentence_are_warned_about(config, tmp_path, caplog):
  text = tmp_path / "text.txt"
  text.write_text("the old boat.\n\nthe night came.\n\n" * 5)
  pretraining_shards.create(config, [str(text)], str(tmp_path / "data"))
  assert "100.0% of the next sentences are random" in caplog.text
  assert ADVICE in caplog.text
  caplog.clear()
  config = dataclasses.replace(config, no_nsp=True)
  pretraining_shards.create(config, [str(text)], str(tmp_path / "data"))
  assert ADVICE not in caplog.text


def test_a_text_that_the_vocabulary_lacks_is_warned_about_before_the_work(
  text, config, tmp_path, caplog
):
  output = str(tmp_path / "data")
  pretraining_shards.create(config, [str(text)], output)
  assert "are [UNK]" not in caplog.text
  text.write_text(text.read_text().translate(str.maketrans("aeo", "аео")))

  def build(config, tasks):
    assert "are [UNK]" in caplog.text
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    pretraining_shards.create(config, [str(text)], output, build=build)


@pytest.mark.parametrize(
  ("output_file", "num_shards", "message"),
  [
    ("a,b", 2, "names 2 files, but num_shards=2 "),
    ("a,a", 1, "output_file=a,a"),
    ("a,", 1, "output_file=a,"),
    ("folder/", 1, "folder/ is a folder"),
    ("text/text.txt", 1, "text.txt is an input file"),
    ("a", 13, "num_shards 13 .* 12 documents"),
  ],
)
def test_invalid_outputs_are_refused(
  output_file, num_shards, message, text, config, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  before = text.read_text()
  with pytest.raises(ValueError, match=message):
    pretraining_shards.create(config, [str(text)], output_file, num_shards)
  assert os.listdir(tmp_path) == ["text"]
  assert text.read_text() == before


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    ((), "latin.txt:1: not UTF-8"),
    (("--mask=false", "--masked_lm_prob=0.2"), "--masked_lm_prob"),
  ],
)
def test_a_mistake_ends_the_script_in_one_line(
  flags, message, tmp_path, run_script
):
  (tmp_path / "latin.txt").write_bytes("the café.\n".encode("latin-1"))
  result = run_script(
    "create_pretraining_data.py",
    "--input_file=latin.txt",
    "--output_file=out/data",
    f"--vocab_file={HAND_MADE}/vocab.txt",
    *flags,
    cwd=tmp_path,
  )
  assert result.returncode == 1
  assert message in last_line(result.stderr)
  assert not (tmp_path / "out").exists()


def wait_for(condition, process):
  deadline = time.monotonic() + 1800
  while not condition():
    assert process.poll() is None, process.stderr.read()
    assert time.monotonic() < deadline
    time.sleep(0.05)


def group_is_gone(group):
  try:
    os.killpg(group, 0)
  except ProcessLookupError:
    return True
  return False


@pytest.mark.parametrize(
  "num_workers", [1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_ctrl_c_leaves_no_partial_files_or_processes(
  num_workers, text, tmp_path
):
  out = tmp_path / "out"
  process = start(
    f"--input_file={text}",
    f"--output_file={out / 'data'}",
    f"--vocab_file={HAND_MADE / 'vocab.txt'}",
    f"--num_shards={num_workers}",
    f"--num_workers={num_workers}",
    "--dupe_factor=100000",
  )
  notes = [".data.settings.json"]  # It is written first.
  wait_for(
    # With the lock.
    lambda: out.exists() and len(hidden(out)) == len(notes) + num_workers + 1,
    process,
  )
  assert contents(out) == {}
  # As a terminal does: to the whole process group.
  os.killpg(process.pid, signal.SIGINT)
  error = process.communicate(timeout=1800)[1]
  assert process.returncode == 130, error
  assert last_line(error) == "interrupted"
  assert "Traceback" not in error
  assert contents(out) == {}
  assert hidden(out) == notes
  wait_for_end = time.monotonic() + 600
  while not group_is_gone(process.pid) and time.monotonic() < wait_for_end:
    time.sleep(0.05)
  assert group_is_gone(process.pid)
