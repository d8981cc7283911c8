"""The root of the checkout and its programs."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program(name: str | pathlib.Path) -> list[str]:
  """The arguments of Python for a `bert-tf` command or a script, NAME.py."""
  if str(name).endswith(".py"):
    return [str(ROOT / "run_scripts" / name)]
  return ["-m", "bert_tf", str(name)]
