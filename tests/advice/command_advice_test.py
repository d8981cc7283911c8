"""Commands' advice, followed on the command line."""

import re
import shlex

import pytest

from tests.advice import command_cases


@pytest.mark.parametrize(
  "case", command_cases.COMMANDS, ids=lambda case: case.where.replace(" ", "-")
)
def test_advice_on_the_command_line_helps(
  case, models, tmp_path, run_script, monkeypatch
):
  command_cases.write_files(tmp_path)

  def run(line):
    words = line.replace("@", f"{models}/").replace("%", f"{tmp_path}/").split()
    script = case.script
    while words and not words[0].startswith(("-", "/")):
      word = words.pop(0)
      if word.endswith(".py"):
        script = word
      else:
        monkeypatch.setenv(*word.split("="))
    return run_script(script, *words, cwd=tmp_path)

  result = run(case.broken)
  assert result.returncode == 1, result.stdout
  last = result.stderr.splitlines()[-1]
  for name in case.names:
    assert name in last
  for line in case.advised:
    result = run(line)
    assert result.returncode == 0, result.stderr


def test_the_advised_conversion_command_works(models, tmp_path, run_script):
  model = tmp_path / "garden"
  made = run_script(
    *("convert_checkpoint.py", f"--model={models}/pretraining"),
    *("--to=model_garden", f"--output_checkpoint={model}/ckpt"),
    cwd=tmp_path,
  )
  assert made.returncode == 0, made.stderr
  fill = ("fill_mask.py", "--text=[MASK]")
  refused = run_script(*fill, f"--model={model}/ckpt", cwd=tmp_path)
  assert refused.returncode == 1
  last = refused.stderr.splitlines()[-1]
  command = shlex.split(re.search("`bert-tf convert (.*?)`", last)[1])
  folder = re.search("give ([^ ]+)[.]$", last)[1]
  result = run_script("convert_checkpoint.py", *command, cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  result = run_script(*fill, f"--model={folder}", cwd=tmp_path)
  assert result.returncode == 0, result.stderr
