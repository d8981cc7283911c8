"""A single file of a user's own, of which a part is held out."""

import dataclasses
import json

import pytest

from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import sources
from tests.support import own_classification, runs

base = own_classification.base
LABELS = ["a"] * 50 + ["b"] * 30 + ["c"] * 19 + ["d"]


def held_out(labels, fraction=0.2, seed=1):
  data = [{"text": str(i), "label": x} for i, x in enumerate(labels)]
  return sources.choose_dev_rows(data, fraction, seed)


def test_the_same_fraction_of_each_label_is_held_out():
  dev = held_out(LABELS)
  assert len(dev) == 20 and dev == sorted(set(dev))
  counts = [sum(LABELS[i] == name for i in dev) for name in "abcd"]
  assert counts[3] == 0  # The only one is needed to train on.
  for count, expected in zip(counts, (10, 6, 4)):
    assert abs(count - expected) <= 1
  assert dev == held_out(LABELS) != held_out(LABELS, seed=2)


@pytest.mark.parametrize(
  ("labels", "num"),
  [
    ([0.1, 0.5, 2.0, 3.0, 4.0], 1),  # A regression.
    ([["x"], ["y"], ["x", "y"], ["x"]], 1),  # Multilabel.
    (["a", "b"], 0),
    (["a", "b", "b"], 1),
  ],
)
def test_every_label_keeps_an_example_to_train_on(labels, num):
  for seed in range(5):
    dev = held_out(labels, 0.1, seed)
    assert len(dev) == num
    train = [x for i, x in enumerate(labels) if i not in dev]
    assert all(x in train for x in labels if isinstance(x, str))


def test_copies_of_training_texts_are_not_held_out():
  texts = [*map(str, range(20))]
  data = [{"text": x, "label": "ab"[int(x) % 2]} for x in texts]
  assert sources.choose_dev_rows(data, 0.25, 1) == [5, 6, 7, 8, 9]
  data[12]["text"] = "7"
  held_out = sources.choose_dev_rows(data, 0.25, 1)
  assert len(held_out) == 5 and not {7, 12} & {*held_out}


def make(folder, output_dir, **changes):
  data_file = folder / "reviews.csv"
  if not data_file.exists():
    rows = enumerate(own_classification.rows(40))
    lines = [f"{text} {i};{label}" for i, (text, label) in rows]
    data_file.write_text("\n".join(["text;label", *lines]))
  return own_classification.make(
    folder,
    output_dir,
    task_name=None,
    data_dir=None,
    do_train=True,
    do_eval=True,
    **{"data_file": str(data_file), **changes},
  )


def test_a_file_is_split_and_a_later_command_keeps_the_split(base, tmp_path):
  config = make(base, tmp_path / "out", eval_fraction=0.25)
  with runs.logged() as log:
    first = fine_tuning.run(config)
  assert "30 train examples" in log() and "10 dev examples" in log()
  assert f"bert-tf serve --model={tmp_path / 'out'}" in log()
  split = json.loads((tmp_path / "out" / "data_split.json").read_text())
  assert len(split["dev"]) == 10 and split["num_rows"] == 40
  # With another seed and fraction, the model would be tested on what it knows.
  later = dataclasses.replace(
    config,
    do_train=False,
    eval_fraction=0.5,
    train=dataclasses.replace(config.train, seed=99),
  )
  assert fine_tuning.run(later) == first
  assert json.loads((tmp_path / "out" / "data_split.json").read_text()) == split
  (base / "reviews.csv").write_text("text;label\ngood;good\nbad;bad\n")
  with pytest.raises(ValueError, match="2 rows, but .* 40"):
    fine_tuning.run(later)
  (base / "reviews.csv").unlink()


MISTAKES = {
  "two sources": ({"data_dir": "data"}, "`data_dir` or `data_file`"),
  "no source": ({"data_file": None}, "`data_dir` or `data_file`"),
  "an unknown ending": ({"data_file": "a.ods"}, "a.ods (`data_file`)"),
  "texts as labels": (
    {"label_column": "text"},
    "no label has two different ones",
  ),
  "no such file": ({"data_file": "none/a.csv"}, "none/a.csv. Set `data_file`"),
  "no test file": ({"do_predict": True}, "`do_predict` needs a test file"),
  "nothing held out": ({"eval_fraction": 0.0}, "Set `eval_fraction`"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_the_setting(base, tmp_path, mistake):
  changes, expected = MISTAKES[mistake]
  with pytest.raises(ValueError) as error:
    config = make(base, tmp_path / "out")
    fine_tuning.run(dataclasses.replace(config, **changes))
  assert expected in str(error.value)
