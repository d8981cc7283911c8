"""Runs research.curves.command from this checkout."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from research import start  # noqa: E402

if __name__ == "__main__":
  start.run("curves")
