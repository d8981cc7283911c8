#!/usr/bin/env bash
# Attacks trainings, files and disks; see docs/evidence.md:
#
#   bash run_scripts/chaos.sh --kills=300 --damaged=2000 --disks=100 \
#     [--seed=1] [--write]
#
# Prints a table of attacks, attempts and results. The exit status is 1 if an
# attack succeeded.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install test
cd "$root"
export PYTHONPATH=$root TF_CPP_MIN_LOG_LEVEL=3
exec "$python" -m tests.chaos.run "$@"
