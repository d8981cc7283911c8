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


@pytest.mark.parametrize("name", ["python", "python3"])
def test_a_python_that_has_the_package_is_used(tmp_path, name):
  for other in ("python", "python3"):
    stand_in(tmp_path / "path" / other, int(other != name))
  *message, chosen = install(tmp_path, "plots", "bert_tf")
  assert chosen == name
  assert message == [f"Using bert_tf of {tmp_path}/path/{name}."]
  assert not (tmp_path / "venv" / "bin" / "log").exists()


@pytest.mark.parametrize("arguments", [("plots", "bert_tf"), ("test",)])
def test_else_the_environment_gets_the_package_once(tmp_path, arguments):
  for name in ("python", "python3"):
    # A script that names no module needs the checkout installed.
    stand_in(tmp_path / "path" / name, int(len(arguments) > 1))
  message, chosen = install(tmp_path, *arguments)
  assert chosen == f"{tmp_path}/venv/bin/python"
  assert "2.6 GB" in message
  [pip] = (tmp_path / "venv" / "bin" / "log").read_text().splitlines()
  assert pip.endswith(f"-e {checkout.ROOT}[{arguments[0]}]")
  assert install(tmp_path, *arguments) == [chosen]
