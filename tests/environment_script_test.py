"""`run_scripts/environment.sh` chooses the Python of the other scripts."""

import os
import subprocess

import pytest

from tests.support import checkout

SCRIPT = checkout.ROOT / "run_scripts" / "environment.sh"


def stand_in(path, status):
  """Writes a Python whose imports end with a status; it logs what it runs."""
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(
    f'#!/bin/sh\necho "$@" >> {path.parent}/log\n'
    f'[ "$1" != -c ] || exit {status}\n'
  )
  path.chmod(0o755)


def install(tmp_path, *arguments):
  """Returns the output of `install`, which ends with the Python it chose."""
  stand_in(tmp_path / "venv" / "bin" / "python", 1)
  command = f'source "{SCRIPT}"; install "$@"; echo "$python"'
  return subprocess.run(
    ["bash", "-euc", command, "bash", *arguments],
    env={
      "PATH": f"{tmp_path}/path:{os.environ['PATH']}",
      "VIRTUAL_ENV": f"{tmp_path}/venv",
    },
    capture_output=True,
    text=True,
    check=True,
  ).stdout.splitlines()


@pytest.mark.parametrize("arguments", [("plots", "bert_tf"), ("test",)])
def test_a_python_with_the_package_is_used_or_gets_it_once(tmp_path, arguments):
  names_module = len(arguments) > 1
  for name in ("python", "python3"):
    # A script that names no module needs the checkout installed.
    stand_in(tmp_path / "path" / name, int(names_module))
  message, chosen = install(tmp_path, *arguments)
  assert chosen == f"{tmp_path}/venv/bin/python"
  assert "2.6 GB" in message
  [pip] = (tmp_path / "venv" / "bin" / "log").read_text().splitlines()
  assert pip.endswith(f"-e {checkout.ROOT}[{arguments[0]}]")
  assert install(tmp_path, *arguments) == [chosen]
  stand_in(tmp_path / "path" / "python3", 0)
  if names_module:
    message, chosen = install(tmp_path, *arguments)
    assert chosen == "python3"
    assert message == f"Using bert_tf of {tmp_path}/path/python3."
