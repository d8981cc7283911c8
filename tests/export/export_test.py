"""Tests that SavedModels without bert_tf compute the same as the scripts."""

import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.data import packing
from bert_tf.export import export
from bert_tf.export.config import ExportConfig
from bert_tf.model import heads
from bert_tf.tasks import base
from bert_tf.tasks.classification import glue
from tests.support import near_ties, tiny_models

# Exporting all kinds of models and loading them takes longer than the tests.
pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
LABELS = {
  "regression": ("regression", ()),
  "multilabel": ("multilabel", ("of", "thé", "and")),
  "ner": (run_info.WORDS, ("O", "B-PER", "I-PER")),
}
TEXTS = ["The of and", "thé [MASK] was.", "in " * 60]
TEXTS_B = ["was his", "", "and it " * 30]
IDS = {
  "input_ids": [[2, 120, 122, 3, 0], [2, 126, 3, 124, 3]],
  "input_mask": [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]],
  "segment_ids": [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]],
}
HUB_IDS = dict(
  zip(("input_word_ids", "input_mask", "input_type_ids"), IDS.values())
)
# Inputs with a value out of range, and the highest value.
BEYOND = [
  ("input_ids", 500, 499),
  ("input_ids", -1, 499),
  ("input_mask", 2, 1),
  ("segment_ids", -(2**31), 1),
  ("masked_lm_positions", 5, 4),
]


def made_model(task):
  tf.keras.utils.set_random_seed(3)
  config = tiny_models.CONFIG
  if task in LABELS:
    labels = LABELS[task][1]
    model = heads.TokenModel if task == "ner" else heads.ClassifierModel
    return tiny_models.widen(model(config, len(labels) or 1))
  model = {
    "encoder": modeling.BertModel,
    "pretraining": heads.PretrainingModel,
    "squad": heads.SpanModel,
    "swag": heads.MultipleChoiceModel,
  }[task]
  return tiny_models.widen(model(config))


def write_run(folder, task):
  """Writes the files of a run, whose checkpoint has optimizer slots."""
  model = made_model(task)
  tiny_models.write_run(folder, model)
  tensors = {v.path: v.numpy() for v in model.weights}
  slots = {f"{n}/adam_m": np.ones_like(x) for n, x in tensors.items()}
  step = {checkpoints.GLOBAL_STEP: np.int64(1)}
  checkpoints.write(str(folder / "model.ckpt-1"), {**tensors, **slots, **step})
  if task in LABELS:
    write_labels(folder, task, *LABELS[task])
  if task == "regression":
    (folder / "vocab.txt").unlink()


def write_labels(folder, name, problem_type, labels):
  spec = run_info.LabelSpec(name, problem_type, tuple(labels))
  (folder / "label_map.json").write_text(json.dumps(spec.label_map()))


MADE = (*LABELS, "pretraining", "squad", "swag", "encoder")
TASKS = dict.fromkeys(("regression", "multilabel"), "classification")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
  """Returns a folder with runs/TASK and their SavedModels, models/TASK."""
  folder = tmp_path_factory.mktemp("exported")
  for name in MADE:
    write_run(folder / "runs" / name, name)
  classifier = folder / "runs" / "tiny_classifier"
  shutil.copytree(GOLDEN / "tiny_classifier", classifier)
  shutil.copy(GOLDEN / "tiny" / "vocab.txt", classifier)
  labels = glue.get_task("MNLI").labels
  write_labels(classifier, "MNLI", "classification", labels)
  changes = {
    "classification": {
      "init_checkpoint": str(classifier / "bert_model.ckpt"),
      "max_seq_length": 64,
    },
    "regression": {"with_text": False},
    "ner": {"with_text": False},
    "squad": {"max_query_length": 5, "doc_stride": 4},
  }
  for name in (*MADE, "classification"):
    settings = {
      "export_dir": str(folder / "models" / name),
      "init_checkpoint": str(folder / "runs" / name),
      "max_seq_length": 16,
      **changes.get(name, {}),
    }
    export.run(ExportConfig(**settings))
  return folder


@pytest.fixture(scope="module")
def served(exported, tmp_path_factory, start_python):
  """Returns the answers to requests; the process imports no bert_tf."""
  folder = tmp_path_factory.mktemp("client")
  shutil.copy(ROOT / "tests" / "support" / "saved_model_client.py", folder)
  requests = made_requests(exported / "models")
  (folder / "requests.json").write_text(json.dumps(requests))
  client = start_python(
    *("saved_model_client.py", "requests.json", "results.json"),
    cwd=folder,
    stderr=subprocess.PIPE,
    text=True,
  )
  errors = client.communicate(timeout=1800)[1]
  assert client.returncode == 0, errors
  return json.loads((folder / "results.json").read_text())


def ids_of(task):
  """Returns inputs of a task's function `ids`."""
  if task == "pretraining":
    return {**IDS, "masked_lm_positions": [[1], [3]]}
  if task == "swag":
    return {name: [x, x[::-1]] for name, x in IDS.items()}
  return IDS


def made_requests(models):
  """Returns all requests to the process."""
  shared = ROOT.parent / "shared"

  def request(name, signature, **inputs):
    model = str(models / name)
    return {"model": model, "signature": signature, "inputs": inputs}

  long_ids = {name: [[1] * 129] for name in IDS}
  requests = {
    **{f"ids of {n}": request(n, "ids", **ids_of(n)) for n in MADE},
    "too long ids": request("encoder", "ids", **long_ids),
    "multilabel": request("multilabel", "serving_default", text=TEXTS),
    "multilabel pair": request(
      "multilabel", "text_pair", text=TEXTS, text_b=TEXTS_B
    ),
    "encoder": {"encoder": str(models / "encoder"), "inputs": HUB_IDS},
  }
  for name, value, _ in BEYOND:
    inputs = ids_of("pretraining")
    inputs[name] = [inputs[name][0], [*inputs[name][1][:-1], value]]
    requests[f"{name} {value}"] = request("pretraining", "ids", **inputs)
  if shared.is_dir():
    texts = mnli_texts(shared)
    requests["mnli"] = request("classification", "text_pair", **texts)
  return requests


def mnli_texts(shared):
  folder = str(shared / "golden/classifier/data/MNLI")
  rows = glue.get_task("MNLI", data_dir=folder).read("test", None)
  return {name: [row[name] for row in rows] for name in ("text", "text_b")}


def close(result, expected):
  np.testing.assert_allclose(result, np.asarray(expected), atol=1e-5)


def arrays(**rows):
  return {name: np.asarray(x, np.int32) for name, x in rows.items()}


def packed(texts, texts_b, length):
  """Returns the inputs of a script for texts or pairs, int32 [B, F]."""
  tokenizer = tokenization.FullTokenizer(str(tiny_models.TINY / "vocab.txt"))
  cut = tokenizer.tokenize_to_ids
  marks = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  rows = [
    packing.assemble(cut(a), b and cut(b), *marks, length)
    for a, b in zip(texts, texts_b or [None] * len(texts))
  ]
  return base.batch([base.model_input(*r) for r in rows], length)


def test_nothing_of_this_package_is_needed(served):
  assert "bert_tf" not in served["modules"]


def test_pairs_are_classified_as_by_the_original(shared, served):
  recorded = np.loadtxt(shared / "golden/e2e/mnli/test_results.tsv")
  close(served["mnli"]["probabilities"], recorded)
  labels = ["contradiction", "entailment", "neutral"]
  assert served["mnli"]["labels"] == [labels] * len(recorded)
  near_ties.assert_best(served["mnli"]["label"], recorded, labels)


def softmax(logits):
  return tf.nn.softmax(logits).numpy()


def expected_outputs(task, inputs, model):
  """Returns what the function `ids` of a task should return."""
  output = model(inputs)
  if task == "squad":
    return output._asdict()
  if task == "encoder":
    names = ("pooled_output", "sequence_output")
    return {name: getattr(output, name) for name in names}
  if task == "pretraining":
    names = ("masked_lm", "next_sentence")
    logits = {n: getattr(output, f"{n}_logits") for n in names}
    return {
      **{f"{n}_logits": x for n, x in logits.items()},
      **{f"{n}_probabilities": softmax(x) for n, x in logits.items()},
    }
  if task == "regression":
    return {"logits": output, "prediction": output[:, 0]}
  if task == "multilabel":
    return {"logits": output, "probabilities": tf.sigmoid(output)}
  choice = {"choice": np.argmax(output, axis=-1)} if task == "swag" else {}
  return {"logits": output, "probabilities": softmax(output), **choice}


@pytest.mark.parametrize("task", MADE)
def test_ids_give_the_outputs_of_the_model(served, task):
  inputs = arrays(**ids_of(task))
  expected = expected_outputs(task, inputs, made_model(task))
  result = served[f"ids of {task}"]
  assert result.keys() == expected.keys()
  for name, value in expected.items():
    close(result[name], value)


@pytest.mark.parametrize("texts_b", [None, TEXTS_B])
def test_texts_are_cut_and_classified_as_by_the_script(served, texts_b):
  logits = made_model("multilabel")(packed(TEXTS, texts_b, 16)).numpy()
  result = served["multilabel pair" if texts_b else "multilabel"]
  close(result["probabilities"], tf.sigmoid(logits))
  assert result["applies"] == (logits > 0).tolist()
  assert result["labels"] == [["of", "thé", "and"]] * 3


def test_ids_beyond_the_positions_are_refused(served):
  assert "longer than the 128 positions" in served["too long ids"]["error"]


@pytest.mark.parametrize(("name", "value", "highest"), BEYOND)
def test_numbers_out_of_range_are_refused_by_name(served, name, value, highest):
  message = served[f"{name} {value}"]["error"]
  assert f"{name} has the value {value}," in message
  assert f"use 0 to {highest}" in message


def test_an_encoder_has_the_interface_of_tf_hubs(served):
  output = made_model("encoder")(arrays(**IDS))
  result = served["encoder"]
  close(result["outputs"]["pooled_output"], output.pooled_output)
  close(result["outputs"]["default"], output.pooled_output)
  close(result["outputs"]["sequence_output"], output.sequence_output)
  close(result["encoder_outputs"], np.stack(output.all_encoder_layers))
  names = {v.path for v in made_model("encoder").weights}
  assert {name.removesuffix(":0") for name in result["variables"]} == names
  assert result["without_gradient"] == 0
  assert pathlib.Path(result["vocab_file"]).name == "vocab.txt"
  assert result["do_lower_case"] is True
  # Dropout only in training.
  first, second, third, fourth = result["default_of_calls"]
  assert np.abs(np.subtract(first, second)).max() > 1e-3
  assert third == fourth


@pytest.mark.parametrize("task", MADE)
def test_a_saved_model_has_weights_functions_and_files(exported, task):
  folder = exported / "models" / task
  names = set(checkpoints.CheckpointReader(str(folder)).shapes)
  # No optimizer slots.
  assert names - {"do_lower_case"} == {v.path for v in made_model(task).weights}
  others = {
    "multilabel": {"text", "text_pair"},
    "encoder": {"text"},
  }
  signatures = set(tf.saved_model.load(str(folder)).signatures)
  assert signatures == {"ids", "serving_default", *others.get(task, ())}
  # What `bert_tf.load` and the server need to read texts.
  info = run_info.read_run(str(folder))
  assert info.task == TASKS.get(task, task)
  assert info.settings.max_seq_length == 16
  assert (info.labels is not None) == (task in LABELS)
  has_vocab = task != "regression"
  assert info.settings.do_lower_case is (has_vocab or None)
  assert (folder / "vocab.txt").exists() == has_vocab


@pytest.mark.parametrize(
  ("changes", "names"),
  [
    ({"run": "swag", "task": "squad"}, ("no head for squad", "swag")),
    ({"task": "pretraining"}, ("encoder", "no head for pretraining")),
    ({"run": "regression"}, ("`vocab_file`",)),
    ({"run": "swag", "max_seq_length": 129}, ("max_seq_length 129",)),
    ({"folder": "used"}, ("used is not empty", "`export_dir`")),
  ],
)
def test_settings_that_do_not_fit_are_named(exported, tmp_path, changes, names):
  run = exported / "runs" / changes.pop("run", "encoder")
  (tmp_path / "used").mkdir()
  (tmp_path / "used" / "file").write_text("")
  config = ExportConfig(
    export_dir=str(tmp_path / changes.pop("folder", "new")),
    init_checkpoint=str(run),
    **{"max_seq_length": 16, **changes},
  )
  with pytest.raises(ValueError) as error:
    export.run(config)
  for name in names:
    assert name in str(error.value)
  assert [path.name for path in tmp_path.rglob("*")] == ["used", "file"]
