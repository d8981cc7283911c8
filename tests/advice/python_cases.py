"""Advice of the Python classes for models."""

import bert_tf
from bert_tf.export import config as export_config
from bert_tf.export.signatures import classification as signatures
from bert_tf.inference import (
  classifier,
  entity_recognizer,
  feature_extraction,
  fill_mask,
  inputs,
  multiple_choice,
)
from bert_tf.inference import config as inference_config
from bert_tf.model_folder import run_info
from tests.advice import model_cases
from tests.advice.following import Case, Warned


def classify(world, **values):
  return bert_tf.Classifier(
    **{"init_checkpoint": world.model("classifier"), **values}
  )


def untrained(world, **values):
  return bert_tf.Classifier(
    **{
      "init_checkpoint": world.model("encoder"),
      "output_dir": world.path("out"),
      **values,
    }
  )


def prepared(world, has_validation=False, **values):
  """Checks the settings of `fit`."""
  untrained(world)._prepare_fit(values, has_validation)


def labelled(world, rows, labels):
  return untrained(world)._labelled(rows, labels)


def features(world, input_file, output_file, kind="jsonl"):
  config = inference_config.ExtractionConfig(
    init_checkpoint=world.model("encoder"), layers=(-1,), max_seq_length=16
  )
  feature_extraction.extract_file(config, input_file, output_file, kind)


def lines(world):
  return world.write("in.txt", "a text\n")


def changed(world, num_lines):
  list(feature_extraction._texts(lines(world), num_lines))


def entities(row, label=None):
  recognizer = entity_recognizer.EntityRecognizer.__new__(
    entity_recognizer.EntityRecognizer
  )
  row = recognizer._row(0, row)
  if label:
    entity_recognizer._sentence(0, row["text"], label, ())


def choose(*rows):
  model = multiple_choice.MultipleChoice.__new__(multiple_choice.MultipleChoice)

  class Task:
    class layout:
      label_type = "number"

  examples = [{"context": "c", "choices": row} for row in rows]
  model._examples(Task(), "train", examples, [0] * len(rows))


def masked(text):
  filler = fill_mask.MaskFiller.__new__(fill_mask.MaskFiller)
  filler._row(0, text)


def probabilities(world, prediction):
  classify(world)._probabilities(prediction)


def read_long(task):
  info = run_info.RunInfo(
    task=task, long_text="windows", max_seq_length=16, labels=("a", "b")
  )
  signatures.warn_if_cut(info)


CASES = (
  Case(
    "inference.task_model _load",
    ("output_dir", "init_checkpoint"),
    lambda w: bert_tf.Classifier(),
    lambda w: (
      classify(w),
      untrained(w),
      untrained(
        w,
        init_checkpoint=None,
        bert_config_file=w.model("encoder") + "/bert_config.json",
        vocab_file=w.model("encoder") + "/vocab.txt",
      ),
    ),
  ),
  Case(
    "inference.task_model _settings",
    ("output_dir",),
    lambda w: classify(w)._settings({}),
    lambda w: untrained(w)._settings({}),
  ),
  Case(
    "inference.task_model _trained",
    ("out", "fit", "output_dir"),
    lambda w: untrained(w).predict("a"),
    lambda w: bert_tf.Classifier(output_dir=w.model("classifier")).predict("a"),
  ),
  Case(
    "inference.task_model _prepare_fit",
    ("eval_every_steps", "validation_data"),
    lambda w: prepared(w, eval_every_steps=1),
    lambda w: prepared(w, has_validation=True, eval_every_steps=1),
  ),
  Case(
    "inference.task_model _prepare_fit",
    ("classifier", "output_dir"),
    lambda w: prepared(w, output_dir=w.model("classifier")),
    lambda w: (
      prepared(w, output_dir=w.path("other")),
      bert_tf.Classifier(output_dir=w.model("classifier")).predict("a"),
    ),
  ),
  Case(
    "inference.task_model _labelled",
    ("list",),
    lambda w: labelled(w, "a text", "good"),
    lambda w: labelled(w, ["a text"], ["good"]),
  ),
  Case(
    "inference.task_model _labelled",
    ("2", "1"),
    lambda w: labelled(w, ["a", "b"], ["good"]),
    lambda w: labelled(w, ["a", "b"], ["good", "bad"]),
  ),
  Case(
    "inference.classifier _probabilities",
    ("predict",),
    lambda w: probabilities(w, classifier.Prediction(1.0, {})),
    lambda w: classify(w).predict("a"),
  ),
  Case(
    "inference.entity_recognizer _row",
    ("row 0", "New York"),
    lambda w: entities(["in", "New York"]),
    lambda w: entities(["in", "New", "York"]),
  ),
  Case(
    "inference.entity_recognizer _sentence",
    ("row 0", "3"),
    lambda w: entities(["in", "New", "York"], ["O", "B-LOC"]),
    lambda w: entities(["in", "New", "York"], ["O", "B-LOC", "I-LOC"]),
  ),
  Case(
    "inference.feature_extraction extract_file",
    ("npy", "jsonl"),
    lambda w: features(w, lines(w), w.path("o"), "npy"),
    lambda w: features(w, lines(w), w.path("o"), "jsonl"),
  ),
  Case(
    "files.shard_files check_output",
    ("in.txt", "output_file"),
    lambda w: features(w, lines(w), w.path("in.txt")),
    lambda w: features(w, lines(w), w.path("o.jsonl")),
  ),
  Case(
    "inference.feature_extraction _texts",
    ("in.txt", "2", "1"),
    lambda w: changed(w, 2),
    lambda w: changed(w, 1),
  ),
  Case(
    "inference.fill_mask check_has_mask",
    ("[MASK]", "the dog"),
    lambda w: masked("the dog"),
    lambda w: masked("the [MASK]"),
  ),
  Case(
    "inference.fill_mask _write_records",
    ("list",),
    lambda w: fill_mask._write_records("a text", None, w.path("o")),
    lambda w: inputs.to_rows(["a text", "b"]),
  ),
  Case(
    "inference.inputs to_rows",
    ("7", "list"),
    lambda w: inputs.to_rows(7),
    lambda w: [
      inputs.to_rows(value)
      for value in ("a", ("a", "b"), {"text": "a"}, ["a", "b"])
    ],
  ),
  Case(
    "inference.multiple_choice _examples",
    ("row 1", "3", "2"),
    lambda w: choose(("a", "b"), ("a", "b", "c")),
    lambda w: choose(("a", "b"), ("a", "c")),
  ),
  Case(
    "inference.predictor __init__",
    ("ModelConfig",),
    lambda w: bert_tf.Predictor(
      export_config.ModelConfig(init_checkpoint=w.model("classifier")),
      do_lower_case=True,
    ),
    lambda w: bert_tf.Predictor(
      export_config.ModelConfig(
        init_checkpoint=w.model("classifier"), do_lower_case=True
      )
    ),
  ),
  Case(
    "inference.predictor _load",
    ("vocab_file", "texts"),
    lambda w: bert_tf.Predictor(
      model_cases.exported(w, "texts"),
      vocab_file=w.model("encoder") + "/vocab.txt",
    ),
    lambda w: bert_tf.Predictor(model_cases.exported(w, "texts")),
  ),
  Case(
    "inference.predictor attention",
    ("--attention", "checkpoint"),
    lambda w: bert_tf.Predictor(model_cases.exported(w, "texts")).attention(
      "a"
    ),
    lambda w: (
      bert_tf.Predictor(model_cases.exported(w, "attention")).attention("a"),
      bert_tf.Predictor(w.model("classifier")).attention("a"),
    ),
  ),
  Warned(
    "export.signatures.classification warn_if_cut",
    ("windows", "16", "Predictor"),
    lambda w: read_long("classification"),
    lambda w: bert_tf.Predictor(w.model("classifier")).predict("a " * 40),
  ),
)
