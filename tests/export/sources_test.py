"""Tests for the settings of an export from run.json and the vocabulary."""

import dataclasses
import shutil

import keras
import pytest

from bert_tf.export import config as configs
from bert_tf.export import export
from bert_tf.inference import ids_functions
from bert_tf.model import heads
from tests.support import run_infos, tiny_models

CLASSIFIER = run_infos.make(
  task="classification",
  do_lower_case=True,
  strip_accents=False,
  max_seq_length=24,
  task_name="jsonl",
  problem_type="classification",
  labels=("no", "yes", "maybe"),
  is_pair=True,
)
SQUAD = run_infos.make(
  task="squad",
  do_lower_case=True,
  max_seq_length=48,
  doc_stride=9,
  max_query_length=11,
  version_2_with_negative=True,
  null_score_diff_threshold=-1.5,
  n_best_size=7,
  max_answer_length=4,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  """Returns folders of runs by task, without run.json."""
  folder = tmp_path_factory.mktemp("runs")
  keras.utils.set_random_seed(1)
  models = {
    "classification": heads.ClassifierModel(tiny_models.CONFIG, 3),
    "squad": heads.SpanModel(tiny_models.CONFIG),
  }
  for task, model in models.items():
    tiny_models.write_run(folder / task, tiny_models.widen(model))
  return folder


def make_run(runs, info, tmp_path):
  """Returns a run whose run.json is `info`."""
  folder = tmp_path / "run"
  shutil.copytree(runs / info.task, folder)
  run_infos.write(
    str(folder), info, tiny_models.CONFIG, str(folder / "vocab.txt")
  )
  return str(folder)


def build(folder, with_text=False, **settings):
  config = configs.ModelConfig(init_checkpoint=folder, **settings)
  return export.build(config, with_text)


def test_a_cased_run_is_exported_as_cased(runs, tmp_path):
  settings = dataclasses.replace(CLASSIFIER.settings, do_lower_case=False)
  info = dataclasses.replace(CLASSIFIER, settings=settings)
  folder = make_run(runs, info, tmp_path)
  built = build(folder, with_text=True)
  assert built.files.settings.do_lower_case is False
  ids = built.files.tokenizer.tokenize_to_ids("The the")
  the = built.files.vocab["the"]
  assert ids[-1] == the and ids != [the, the]
  assert built.module.tokenizer.tokenize(["The the"]).to_list() == [ids]
  assert build(folder, do_lower_case=True).files.settings.do_lower_case is True


def test_without_run_json_the_vocabulary_decides_the_case(runs, tmp_path):
  folder = tmp_path / "run"
  shutil.copytree(runs / "squad", folder)
  settings = build(str(folder)).files.settings
  assert settings.doc_stride == 61  # 128 positions - 64 - 3.
  assert build(str(folder), doc_stride=9).files.settings.do_lower_case is True
  with pytest.raises(ValueError, match="do_lower_case=False .*vocab.txt"):
    build(str(folder), doc_stride=9, do_lower_case=False)
  words = (folder / "vocab.txt").read_text().splitlines()
  cased = [w if w.startswith(("[", "##")) else w.title() for w in words]
  numbered = [f"{w}{i}" if w in cased[:i] else w for i, w in enumerate(cased)]
  (folder / "vocab.txt").write_text("\n".join(numbered) + "\n")
  assert build(str(folder), doc_stride=9).files.settings.do_lower_case is False


def test_the_default_function_takes_what_the_run_was_trained_on(runs, tmp_path):
  for is_pair, names in ((True, ["text", "text_b"]), (False, ["text"])):
    settings = dataclasses.replace(CLASSIFIER.settings, is_pair=is_pair)
    info = dataclasses.replace(CLASSIFIER, settings=settings)
    built = build(make_run(runs, info, tmp_path / str(is_pair)), with_text=True)
    default = built.signatures[ids_functions.DEFAULT]
    assert [spec.name for spec in default.input_signature] == names


def test_a_model_has_the_settings_of_its_run_unless_the_user_gives_others(
  runs, tmp_path
):
  folder = make_run(runs, SQUAD, tmp_path)
  others = {"null_score_diff_threshold": 2.0, "max_seq_length": 64}
  for changes in ({}, others):
    settings = build(folder, **changes).files.settings
    expected = dataclasses.replace(SQUAD.settings, **changes)
    assert dataclasses.replace(settings, strip_accents=None) == expected


def test_another_vocabulary_than_the_runs_is_refused(runs, tmp_path):
  folder = make_run(runs, SQUAD, tmp_path)
  words = (tmp_path / "run" / "vocab.txt").read_text().splitlines()
  other = tmp_path / "other.txt"
  other.write_text("\n".join([*words[:-1], "other"]) + "\n")
  with pytest.raises(ValueError, match="other.txt contradicts .*vocab.txt"):
    build(folder, vocab_file=str(other))
