"""What C++ code writes to stderr: notes are dropped, nothing else."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES = (
  "os.write(2, b'E0 cuda.cc] failed call to cuInit: 303\\nF0 an error\\n')\n"
)


def run(code, **environment):
  """The lines that code writes to stderr in a process of its own."""
  result = subprocess.run(
    [sys.executable, "-c", f"import os, sys\n{code}"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    env={k: v for k, v in os.environ.items() if k[:6] != "TF_CPP"}
    | environment,
  )
  assert result.stdout == ""
  return result.stderr.splitlines()


def test_notes_are_dropped_and_errors_of_a_crash_are_not():
  code = (
    "from bert_tf.files import stderr\n"
    "stderr.drop_notes()\n"
    f"{LINES}"
    "print('of Python', file=sys.stderr)\n"
    "os.abort()\n"
  )
  assert sorted(run(code)) == ["F0 an error", "of Python"]


def test_notes_of_a_scope_are_dropped_and_lines_after_it_are_not():
  code = (
    "from bert_tf.files import stderr\n"
    "with stderr.without_notes():\n"
    f"  {LINES}"
    "  print('of Python', file=sys.stderr)\n"
    f"{LINES}"
    "os.close(2)\n"
    "with stderr.without_notes():\n"
    "  pass\n"
  )
  found = run(code)
  assert found[:2] == ["F0 an error", "of Python"]
  assert len(found) == 4 and "cuInit" in found[2]


# Loads TensorFlow and computes, which is when it looks for a GPU.
_USE = (
  "import bert_tf\n"
  "config = bert_tf.BertConfig(vocab_size=9, hidden_size=2,"
  " num_hidden_layers=1, num_attention_heads=1, intermediate_size=2)\n"
  "bert_tf.BertModel(config)\n"
)


def test_tensorflow_starts_in_python_without_notes():
  assert run(_USE) == []


def test_the_environment_decides_about_notes():
  found = run(_USE, TF_CPP_MIN_LOG_LEVEL="0", TF_ENABLE_ONEDNN_OPTS="1")
  assert any("oneDNN" in line for line in found)
