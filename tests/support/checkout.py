"""The root of the checkout."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
