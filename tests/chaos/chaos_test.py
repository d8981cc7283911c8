"""A small sample of the attacks of run.py."""

import pytest

from tests.chaos import bert_run, damage, disks, kills


def assert_no_faults(outcome, num_tries):
  assert not outcome.faults, "\n".join(outcome.faults)
  assert outcome.tries == num_tries


@pytest.fixture(scope="module")
def training(tmp_path_factory):
  """Yields servers, a run that was never killed, and the folder of both."""
  folder = tmp_path_factory.mktemp("training")
  bert_run.prepare(folder)
  with kills.Servers("bert_run", 1) as servers:
    yield servers, kills.run_unkilled(servers, folder), folder


def test_a_save_is_killed_at_its_operations_and_loses_nothing(tmp_path):
  with kills.Servers("save_run", 1) as servers:
    reference = kills.run_unkilled(servers, tmp_path)
    operations = kills.save_operations(reference)
    names = " ".join(reference.operations[i] for i in operations)
    # A save writes and renames both files, lists them, and removes an old one.
    for part in ("SaveV2", "os.rename", "checkpoint", "os.remove /model.ckpt-"):
      assert part in names
    some = operations[::3]  # run.py takes them all.
    outcome = kills.attack_at_operations(some, servers, reference, tmp_path)
  assert_no_faults(outcome, len(some))


def test_a_training_is_killed_at_random_and_ends_with_the_same_bits(training):
  servers, reference, folder = training
  assert all(reference.weights)
  outcome = kills.attack_at_random(2, 1, servers, reference, folder)
  assert_no_faults(outcome, 2)


def test_a_training_is_killed_at_operations_of_a_save(training):
  servers, reference, folder = training
  operations = kills.save_operations(reference)[::16]  # run.py takes all.
  outcome = kills.attack_at_operations(operations, servers, reference, folder)
  assert_no_faults(outcome, len(operations))


def test_damaged_files_are_read_correctly_or_refused(tmp_path):
  outcome = damage.attack(90, seed=1, folder=tmp_path)
  assert_no_faults(outcome, 90)
  assert len(outcome.counts) == 3


def test_a_full_disk_is_named_and_no_partial_file_is_left(tmp_path):
  if not disks.can_mount(tmp_path):
    pytest.skip("needs the right to mount a tmpfs, as root has it")
  outcome = disks.attack(8, seed=1, folder=tmp_path)
  assert_no_faults(outcome, 8)
  assert outcome.counts["errors that name file and reason"] > 1
