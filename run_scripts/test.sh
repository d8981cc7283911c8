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
# Tests of a file run in one process, since they share fixtures. The slowest
# files start first; see tests/support/durations.py.
exec "$python" -m pytest \
  --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder \
  "${selection[@]}" "$@"
