"""Tests that invalid output paths are refused before data are read."""

import pytest

from bert_tf.files import atomic

# The inputs are missing or empty, so only a check before reading names the
# output.
COMMANDS = {
  "build-corpus": "--input_file=none --output_file={}",
  "create_pretraining_data.py": (
    "--input_file=none --vocab_file=none --output_file=a.tf_record,{}"
  ),
  "run_squad.py": (
    "--bert_config_file=/dev/null --vocab_file=/dev/null --do_train "
    "--train_file=none --output_dir={}"
  ),
  "convert": "--model=. --output_checkpoint={}",
}


@pytest.mark.parametrize("script", COMMANDS)
def test_an_output_that_cannot_be_written_is_named_first(
  tmp_path, run_script, script
):
  (tmp_path / "file").write_text("a")
  path = "file/new/name"  # A path below a file cannot be written.
  given = COMMANDS[script].format(path).split()
  result = run_script(script, *given, cwd=tmp_path)
  assert result.returncode == 1
  *_, line = result.stderr.splitlines()
  assert path in line and f"{tmp_path}/file: Not a directory" in line
  assert given[-1].partition("=")[0] in line
  assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_check_leaves_no_file_and_accepts_existing_ones(tmp_path):
  atomic.check_writable(str(tmp_path / "a" / "b"), "output_dir", True)
  atomic.check_writable(str(tmp_path / "a" / "b"), "output_file", False)
  assert not list(tmp_path.iterdir())
  (tmp_path / "run").mkdir()
  (tmp_path / "out.txt").write_text("a")
  atomic.check_writable(str(tmp_path / "run"), "output_dir", True)
  atomic.check_writable(str(tmp_path / "out.txt"), "output_file", False)
  with pytest.raises(OSError, match="`output_dir`.*out.txt"):
    atomic.check_writable(str(tmp_path / "out.txt"), "output_dir", True)
