"""A single file of a user's own, of which a part is held out."""

import dataclasses
import json

import pytest

from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import layouts
from bert_tf.tasks.classification import task as classification
from tests.support import own_classification, runs

base = own_classification.base
LABELS = ["a"] * 50 + ["b"] * 30 + ["c"] * 19 + ["d"]


def held_out(labels, fraction=0.2, seed=1):
  data = [{"text": str(i), "label": x} for i, x in enumerate(labels)]
  return layouts.hold_out(data, fraction, seed)


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
  assert layouts.hold_out(data, 0.25, 1) == [5, 6, 7, 8, 9]
  data[12]["text"] = "7"
  with runs.logged() as log:
    assert layouts.hold_out(data, 0.25, 1) == [5, 6, 8, 9]
  assert "1 of the 5 rows" in log()


def test_a_split_numbers_the_rows_of_the_file(base, tmp_path):
  path, file = tmp_path / "bad.csv", tmp_path / "data_split.json"
  rows = [f"{i};{'ab'[i % 2]}" for i in range(20)]
  path.write_text("\n".join(["text;label", ";a", *rows]))
  config = make(base, tmp_path, data_file=str(path), skip_bad_rows=True)
  layout = classification.file_layout(config)

  def dev():
    task = classification.ClassificationTask(
      tokenizer=None, settings=None, config=config, layout=layout
    )
    return [int(row["text"]) for row in task.read("dev")]

  first, split = dev(), json.loads(file.read_text())
  (tmp_path / "run.json").write_text("{}")
  assert [number - 1 for number in split["dev"]] == first == dev()


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
  "texts as labels": ({"label_column": "text"}, "each label occurs once. Is"),
  "no such file": ({"data_file": "none/a.csv"}, "none/a.csv. Set `data_file`"),
  "no test file": ({"do_predict": True}, "`do_predict` needs a test file"),
  "nothing held out": ({"eval_fraction": 0.0}, "Set `eval_fraction`"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_the_setting(base, tmp_path, monkeypatch, mistake):
  monkeypatch.chdir(tmp_path)
  changes, expected = MISTAKES[mistake]
  with pytest.raises(ValueError) as error:
    config = make(base, tmp_path / "out")
    fine_tuning.run(dataclasses.replace(config, **changes))
  assert expected in str(error.value)


def test_pairs_need_a_model_with_two_segments(base, tmp_path):
  values = {**own_classification.CONFIG, "type_vocab_size": 1}
  (tmp_path / "one.json").write_text(json.dumps(values))
  config = make(
    base, tmp_path / "out", bert_config_file=str(tmp_path / "one.json")
  )
  assert fine_tuning.run(config)
  rows = [f"a {i};b;{'xy'[i % 2]}" for i in range(40)]
  (tmp_path / "pairs.csv").write_text("\n".join(["text;b;label", *rows]))
  pairs = dataclasses.replace(
    config,
    data_file=str(tmp_path / "pairs.csv"),
    text_b_column="b",
    train=dataclasses.replace(config.train, output_dir=str(tmp_path / "two")),
  )
  with pytest.raises(ValueError, match="segment_ids .*type_vocab_size 1"):
    fine_tuning.run(pairs)


@pytest.mark.parametrize("seed", range(2))
def test_texts_whose_length_tells_the_label_are_learned(tmp_path, base, seed):
  """With batches of one length, each had one label, and training failed."""
  texts = {"good": "of of of the", "bad": "of of the"}
  folder = tmp_path / "data"
  folder.mkdir()
  for name, size in (("train", 240), ("dev", 40)):
    labels = [("good", "bad")[i % 2] for i in range(size)]
    rows = [(texts[label], label) for label in labels]
    own_classification.write_tsv(folder / f"{name}.tsv", rows)
  config = own_classification.make(
    base,
    tmp_path / "out",
    {"seed": seed, "learning_rate": 3e-3},
    data_dir=str(folder),
    do_train=True,
    do_eval=True,
    num_train_epochs=2.0,
  )
  assert not config.group_by_length
  assert fine_tuning.run(config)["eval_accuracy"] == 1.0
