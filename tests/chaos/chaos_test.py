"""A small part of what run_scripts/chaos.sh tries at large."""

import pytest

from tests.chaos import disks, outcomes


def assert_right(found, num_tries):
  assert not found.faults, "\n".join(found.faults)
  assert found.tries == num_tries


def test_a_full_disk_is_named_and_nothing_half_is_left(tmp_path):
  if not disks.can_mount(tmp_path):
    pytest.skip("needs the right to mount a tmpfs, as root has it")
  found = disks.attack(16, seed=1, folder=tmp_path)
  assert_right(found, 16)
  assert found.counts["errors that name file and reason"] > 4


def test_the_table_counts_tries_results_and_faults():
  found = outcomes.Outcome("kills")
  for _ in range(1200):
    found.add("resumed")
  found.add("", "model.ckpt-3: lost")
  assert outcomes.table([found], "2026-01-02").splitlines()[2:] == [
    "| kills | 1,201 | 1,200 resumed, 1 wrong | 2026-01-02 |"
  ]
