"""Commands' advice, followed on the command line."""

import pytest

from tests.advice import command_cases, following


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  folder = tmp_path_factory.mktemp("models")
  following.write_models(folder)
  return folder


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
