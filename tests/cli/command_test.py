"""How commands start: their help, and mistakes on the command line."""

import pathlib

import pytest

from bert_tf.cli import config_flags

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "run_scripts"

# Scripts of the original release, by a flag that it had.
ORIGINAL = {
  "create_pretraining_data.py": "dupe_factor",
  "extract_features.py": "layers",
  "run_classifier.py": "warmup_proportion",
  "run_pretraining.py": "num_train_steps",
  "run_squad.py": "doc_stride",
}


@pytest.mark.parametrize("script", sorted(p.name for p in SCRIPTS.glob("*.py")))
def test_help_says_what_the_command_does_and_its_flags(script, run_script):
  result = run_script(script, "--help", cwd="/")
  assert result.stderr == ""
  assert not result.stdout.startswith("\n")
  if script in ORIGINAL:
    original = result.stdout.split(f"{config_flags.ORIGINAL}:")[1]
    assert f"--{ORIGINAL[script]}:" in original.split("\n\nOptional:")[0]


@pytest.mark.parametrize(
  ("script", "arguments", "parts"),
  [
    ("inspect_checkpoint.py", (), ("CHECKPOINT",)),
    ("inspect_checkpoint.py", ("a", "b", "c"), ("'c'",)),
    ("squad_evaluate.py", ("a",), ("PREDICTIONS", "DATA")),
    ("plot_curves.py", (), ("--output_dir", "--plot_file")),
    ("plot_curves.py", ("--plot_fil=x",), ("plot_fil", "plot_file")),
    ("serve.py", ("--model=x", "--port=65536"), ("--port", "65536", "65535")),
    ("benchmarks/benchmark.py", ("speed",), ("tokenizer", "runtimes")),
  ],
)
def test_a_mistake_on_the_command_line_is_named(
  script, arguments, parts, run_script
):
  result = run_script(script, *arguments, cwd="/")
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  for part in parts:
    assert part in result.stderr
