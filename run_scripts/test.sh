#!/usr/bin/env bash
# Sets up and runs the tests:
#
#   bash run_scripts/test.sh [--all] [PYTEST ARGUMENTS]
#
# --all adds the tests marked slow.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install test
cd "$root"

selection=(-m "not slow")
if [[ ${1:-} == --all ]]; then
  selection=()
  shift
fi
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
# The tests of a file run in one process: they share fixtures. The longest files
# begin first, as tests/support/durations.py orders them.
exec "$python" -m pytest \
  --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder \
  "${selection[@]}" "$@"
