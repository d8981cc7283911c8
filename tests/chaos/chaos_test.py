"""A small part of what run_scripts/chaos.sh tries at large."""

import importlib.util

import pytest

from tests.chaos import (
  bert_run,
  damage,
  disks,
  http_requests,
  kills,
  outcomes,
  run,
  texts,
)


def assert_right(found, num_tries):
  assert not found.faults, "\n".join(found.faults)
  assert found.tries == num_tries


@pytest.fixture(scope="module")
def training(tmp_path_factory):
  """Servers, a run that was never killed, and their folder."""
  folder = tmp_path_factory.mktemp("training")
  bert_run.prepare(folder)
  with kills.Servers("bert_run", 1) as servers:
    yield servers, kills.whole_run(servers, folder), folder


def test_a_save_is_killed_at_its_operations_and_loses_nothing(tmp_path):
  with kills.Servers("save_run", 1) as servers:
    whole = kills.whole_run(servers, tmp_path)
    operations = kills.save_operations(whole)
    names = " ".join(whole.operations[i] for i in operations)
    # Both files go to their place, are listed, and an older one goes.
    for part in ("SaveV2", "os.rename", "checkpoint", "os.remove /model.ckpt-"):
      assert part in names
    some = operations[::3]  # All of them at large.
    found = kills.attack_at_operations(some, servers, whole, tmp_path)
  assert_right(found, len(some))


def test_a_training_is_killed_at_random_and_ends_with_the_same_bits(training):
  servers, whole, folder = training
  assert all(whole.weights)
  found = kills.attack_at_random(2, 1, servers, whole, folder)
  assert_right(found, 2)


@pytest.mark.slow
def test_a_training_is_killed_at_operations_of_a_save(training):
  servers, whole, folder = training
  operations = kills.save_operations(whole)[::4]  # chaos.sh takes them all.
  found = kills.attack_at_operations(operations, servers, whole, folder)
  assert_right(found, len(operations))


@pytest.mark.slow
def test_a_training_that_chooses_its_step_is_killed_in_the_same_way(tmp_path):
  found = run._kill_choosing(tmp_path, every=36)
  assert_right(found, 3)


@pytest.mark.slow
@pytest.mark.skipif(
  not all(map(importlib.util.find_spec, run._PEER)),
  reason=f"needs {', '.join(run._PEER)}",
)
def test_hugging_faces_trainer_is_killed_in_the_same_way(tmp_path):
  found = run._kill_peer(tmp_path, 4, seed=1)
  assert found.tries  # What came of it is its own matter.


def test_lost_steps_other_weights_and_tracebacks_are_seen(training):
  _, whole, folder = training
  copy = folder / "copy"
  copy.mkdir()
  ended = {"status": 0}
  for name, data in whole.weights[0].items():
    (copy / name).write_bytes(data)

  def fault(log):
    (folder / "copy.log").write_text(log)
    return kills.fault_of(copy, ended, whole)

  resumed = (
    "Saved a/model.ckpt-6.\nResuming from a/model.ckpt-{0}, at step {0}."
  )
  assert fault(resumed.format(6)) == ""
  assert "step 6 was saved, but lost" in fault(resumed.format(3))
  assert "Traceback" in fault("Traceback (most recent call last):")
  [name] = [name for name in whole.weights[0] if "data" in name]
  (copy / name).write_bytes(whole.weights[0][name][:-1] + b"\x01")
  assert "other weights" in fault("")


def test_damaged_files_are_read_rightly_or_refused(tmp_path):
  found = damage.attack(90, seed=1, folder=tmp_path)
  assert_right(found, 90)
  assert len(found.counts) == 3


def test_a_full_disk_is_named_and_nothing_half_is_left(tmp_path):
  if not disks.can_mount(tmp_path):
    pytest.skip("needs the right to mount a tmpfs, as root has it")
  found = disks.attack(8, seed=1, folder=tmp_path)
  assert_right(found, 8)
  assert found.counts["errors that name file and reason"] > 1


def test_malformed_requests_are_refused_and_others_answered(tmp_path):
  pytest.importorskip("aiohttp", reason="pip install 'bert_tf[serve]'")
  found = http_requests.attack(500, seed=1, folder=tmp_path)
  assert_right(found, 500)
  assert min(found.counts.values()) > 20


def test_random_texts_are_tokenized_as_by_full_tokenizer():
  assert_right(texts.attack(2000, seed=1), 2000)


def test_the_table_counts_tries_results_and_faults():
  found = outcomes.Outcome("kills")
  for _ in range(1200):
    found.add("resumed")
  found.add("", "model.ckpt-3: lost")
  assert outcomes.table([found], "2026-01-02").splitlines()[2:] == [
    "| kills | 1,201 | 1,200 resumed, 1 wrong | 2026-01-02 |"
  ]
