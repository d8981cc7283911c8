"""The checkpoints that runs resume from and evaluate."""

import shutil

import pytest

from bert_tf.checkpoint import checkpoints
from tests.support.line_model import (
  assert_same,
  batches,
  evaluate_newest,
  make,
  weights_at,
)


def list_checkpoints(folder, prefix):
  """Writes the list of steps 10 and 20 as TensorFlow 1 does."""
  paths = [
    f"{prefix}model.ckpt-{step}".replace("\\", r"\\") for step in (10, 20)
  ]
  lines = [f'all_model_checkpoint_paths: "{path}"' for path in paths]
  lines.insert(0, f'model_checkpoint_path: "{paths[-1]}"')
  (folder / "checkpoint").write_text("\n".join(lines))


@pytest.mark.parametrize("prefix", ["gs://bucket/run/", "C:\\runs\\a\\"])
def test_a_list_of_another_place_means_the_files_of_its_folder(
  tmp_path, prefix
):
  make(tmp_path / "run", 20).train(batches)
  twin, moved = tmp_path / "twin", tmp_path / "moved"
  for folder in (twin, moved):
    shutil.copytree(tmp_path / "run", folder)
  list_checkpoints(moved, prefix)
  paths = [f"{moved}/model.ckpt-{step}" for step in (20, 10)]
  assert checkpoints.list_checkpoints(str(moved)) == paths
  assert checkpoints.find_weights(str(moved)) == paths[0]
  first, second = (
    evaluate_newest(make(folder), batches(0).take(1))
    for folder in (twin, moved)
  )
  assert first == second
  for folder in (twin, moved):
    assert make(folder, 30).train(batches) == 30
  assert_same(weights_at(twin, 30), weights_at(moved, 30))
  assert prefix not in (moved / "checkpoint").read_text()


def test_a_copied_run_does_not_change_the_first_runs_checkpoints(tmp_path):
  first, copy = tmp_path / "first", tmp_path / "copy"
  make(first, 20).train(batches)
  shutil.copytree(first, copy)
  list_checkpoints(copy, f"{first}/")
  before = sorted(first.iterdir())
  make(copy, 40, keep_checkpoint_max=1).train(batches)
  assert sorted(first.iterdir()) == before
  assert checkpoints.list_checkpoints(str(copy)) == [f"{copy}/model.ckpt-40"]


def test_a_list_may_name_checkpoints_that_only_another_folder_has(tmp_path):
  first, other = tmp_path / "first", tmp_path / "other"
  make(first, 20).train(batches)
  other.mkdir()
  list_checkpoints(other, f"{first}/")
  assert checkpoints.find_latest(str(other)) == f"{first}/model.ckpt-20"
  make(other, 40, keep_checkpoint_max=1).train(batches)
  assert checkpoints.find_latest(str(first)) == f"{first}/model.ckpt-20"
  assert evaluate_newest(make(first, 20), batches(0).take(1))
