"""Tests that SavedModels without bert_tf compute the same as the scripts."""

import dataclasses
import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoints, heads, modeling, tokenization
from bert_tf.data import packing
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.model_folder import run_info
from bert_tf.tasks.classification import examples as examples_lib
from bert_tf.tasks.classification import glue
from bert_tf.tasks.classification import records as classification_data
from tests.support import near_ties, tiny_models

# Exporting all kinds of models and loading them takes longer than the tests.
pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
VOCAB = GOLDEN / "tiny" / "vocab.txt"
CONFIG = modeling.BertConfig(
  vocab_size=500,
  hidden_size=16,
  num_hidden_layers=1,
  num_attention_heads=2,
  intermediate_size=32,
  max_position_embeddings=32,
  type_vocab_size=2,
  initializer_range=0.3,
)
# Encoder tests request the outputs of all layers.
ENCODER_CONFIG = dataclasses.replace(CONFIG, num_hidden_layers=2)
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
SHORTER = {name: [row[:3] for row in rows[:1]] for name, rows in IDS.items()}


def made_model(task):
  tf.keras.utils.set_random_seed(3)
  if task in LABELS:
    problem_type, labels = LABELS[task]
    model = heads.TokenModel if task == "ner" else heads.ClassifierModel
    return tiny_models.widen(model(CONFIG, len(labels) or 1))
  if task == "encoder":
    return tiny_models.widen(modeling.BertModel(ENCODER_CONFIG))
  model = {
    "pretraining": heads.PretrainingModel,
    "squad": heads.SpanModel,
    "swag": heads.MultipleChoiceModel,
  }[task](CONFIG)
  return tiny_models.widen(model)


def write_run(folder, model, task):
  """Writes the files of a run: a training checkpoint, config and labels."""
  tensors = {v.path: v.numpy() for v in model.weights}
  slots = {f"{n}/adam_m": np.ones_like(x) for n, x in tensors.items()}
  step = {checkpoints.GLOBAL_STEP: np.int64(7)}
  folder.mkdir(parents=True)
  checkpoints.save(str(folder), {**tensors, **slots, **step}, 5)
  config = ENCODER_CONFIG if task == "encoder" else CONFIG
  (folder / "bert_config.json").write_text(config.to_json_string())
  if task in LABELS:
    write_labels(folder, task, *LABELS[task])


def write_labels(folder, name, problem_type, labels):
  task = run_info.LabelSpec(name, problem_type, tuple(labels))
  run_info.write_labels(str(folder), task)


MADE = (*LABELS, "pretraining", "squad", "swag", "encoder")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
  """Returns a folder with runs/TASK and their SavedModels, models/TASK."""
  folder = tmp_path_factory.mktemp("exported")
  (folder / "runs").mkdir()
  configs = {name: {} for name in MADE}
  for name in MADE:
    write_run(folder / "runs" / name, made_model(name), name)
  classifier = folder / "runs" / "tiny_classifier"
  shutil.copytree(GOLDEN / "tiny_classifier", classifier)
  labels = glue.get_task("MNLI").labels
  write_labels(classifier, "MNLI", "classification", labels)
  configs |= {
    "classification": {
      "init_checkpoint": "tiny_classifier/bert_model.ckpt",
      "max_seq_length": 64,
    },
    "preprocessing": {"init_checkpoint": "encoder", "task": "preprocessing"},
    "regression": {"with_text": False},
    "ner": {"with_text": False, "with_attention": True},
    "squad": {"max_query_length": 5, "doc_stride": 4},
  }
  for name, changes in configs.items():
    run = folder / "runs" / changes.pop("init_checkpoint", name)
    arguments = {
      "export_dir": str(folder / "models" / name),
      "init_checkpoint": str(run),
      "vocab_file": str(VOCAB),
      "max_seq_length": 16,
      **changes,
    }
    export.run(export_config.ExportConfig(**arguments))
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
    return {
      "model": str(models / name),
      "signature": signature,
      "inputs": inputs,
    }

  long_ids = {name: [[1] * 33] for name in IDS}
  requests = {
    **{f"ids of {n}": request(n, "ids", **ids_of(n)) for n in MADE},
    "shorter ids": request("classification", "ids", **SHORTER),
    "all positions": request("pretraining", "ids_all_positions", **IDS),
    "too long ids": request("encoder", "ids", **long_ids),
    "attention": request("ner", "attention", **IDS),
    "too long attention": request("ner", "attention", **long_ids),
    "multilabel": request("multilabel", "serving_default", text=TEXTS),
    "multilabel pair": request(
      "multilabel", "text_pair", text=TEXTS, text_b=TEXTS_B
    ),
    "encoder": {"encoder": str(models / "encoder"), "inputs": HUB_IDS},
    "preprocessor": {
      "preprocessor": str(models / "preprocessing"),
      "texts": TEXTS,
      "texts_b": TEXTS_B,
      "seq_length": 24,
    },
  }
  for name, value, _ in BEYOND:
    inputs = ids_of("pretraining")
    inputs[name] = [inputs[name][0], [*inputs[name][1][:-1], value]]
    requests[f"{name} {value}"] = request("pretraining", "ids", **inputs)
  if shared.is_dir():
    texts = mnli_texts(shared)
    requests["mnli"] = request("classification", "serving_default", **texts)
  return requests


def mnli_texts(shared):
  task = glue.get_task("MNLI")
  examples = examples_lib.read_examples(
    str(shared / "golden/classifier/data/MNLI"), task.test, task
  )
  return {
    "text": [example.text_a for example in examples],
    "text_b": [example.text_b for example in examples],
  }


def close(result, expected):
  np.testing.assert_allclose(result, np.asarray(expected), atol=1e-5)


def arrays(**rows):
  return {name: np.asarray(x, np.int32) for name, x in rows.items()}


def loaded(exported, task):
  """Returns the Keras model of a run, loaded as by the scripts."""
  model = made_model(task)
  for variable in model.weights:
    variable.assign(np.zeros(variable.shape))
  path = checkpoints.find_latest(str(exported / "runs" / task))
  checkpoints.init_from_checkpoint(model, path)
  return model


def tokenizer():
  return tokenization.FullTokenizer(str(VOCAB))


def test_nothing_of_this_package_is_needed(served):
  assert served["modules"] == ["keras"] or served["modules"] == []


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
def test_ids_give_the_outputs_of_the_model(exported, served, task):
  inputs = arrays(**ids_of(task))
  expected = expected_outputs(task, inputs, loaded(exported, task))
  result = served[f"ids of {task}"]
  assert result.keys() == expected.keys()
  for name, value in expected.items():
    close(result[name], value)


def test_ids_may_have_any_length_and_batch_size(served):
  assert np.shape(served["shorter ids"]["logits"]) == (1, 3)


def test_attention_is_that_of_the_model_and_0_for_padding(exported, served):
  model = loaded(exported, "ner").bert
  output = model(arrays(**IDS), return_attention_probs=True)
  expected = np.stack(output.attention_probs, axis=1)  # [B, L, N, F, T]
  expected[0, :, :, 4] = expected[0, ..., 4] = 0
  close(served["attention"]["attention"], expected)


@pytest.mark.parametrize("pairs", [False, True])
def test_texts_are_cut_and_classified_as_by_the_script(exported, served, pairs):
  texts_b = TEXTS_B if pairs else [None] * len(TEXTS)
  task = run_info.read_labels(str(exported / "runs" / "multilabel"))
  rows = [
    classification_data.convert_example(
      examples_lib.InputExample("", a, b), task, tokenizer(), 16
    )[0][0]
    for a, b in zip(TEXTS, texts_b)
  ]
  ints = tf.io.parse_example(
    rows, {n: tf.io.FixedLenFeature([16], tf.int64) for n in IDS}
  )
  logits = loaded(exported, "multilabel")(ints).numpy()
  result = served["multilabel pair" if pairs else "multilabel"]
  close(result["probabilities"], 1 / (1 + np.exp(-logits)))
  assert result["applies"] == (logits > 0).tolist()
  assert result["labels"] == [["of", "thé", "and"]] * 3


@pytest.mark.parametrize("request_name", ["too long ids", "too long attention"])
def test_ids_beyond_the_positions_are_refused(served, request_name):
  assert "longer than the 32 positions" in served[request_name]["error"]


@pytest.mark.parametrize(("name", "value", "highest"), BEYOND)
def test_numbers_out_of_range_are_refused_by_name(served, name, value, highest):
  message = served[f"{name} {value}"]["error"]
  assert f"{name} has the value {value}," in message
  assert f"use 0 to {highest}" in message


def test_the_masked_lm_sees_chosen_or_all_positions(served):
  chosen, whole = served["ids of pretraining"], served["all positions"]
  for row, position in ((0, 1), (1, 3)):
    for name in ("masked_lm_logits", "masked_lm_probabilities"):
      close(chosen[name][row][0], whole[name][row][position])
  close(chosen["next_sentence_logits"], whole["next_sentence_logits"])


def test_an_encoder_has_the_interface_of_tf_hubs(exported, served):
  output = loaded(exported, "encoder")(arrays(**IDS))
  result = served["encoder"]
  close(result["outputs"]["pooled_output"], output.pooled_output)
  close(result["outputs"]["default"], output.pooled_output)
  close(result["outputs"]["sequence_output"], output.sequence_output)
  close(result["encoder_outputs"], np.stack(output.all_encoder_layers))
  names = {v.path for v in modeling.BertModel(ENCODER_CONFIG).weights}
  assert {name.removesuffix(":0") for name in result["variables"]} == names
  assert result["without_gradient"] == 0
  assert pathlib.Path(result["vocab_file"]).name == "vocab.txt"
  assert result["do_lower_case"] is True


def test_an_encoder_applies_dropout_only_in_training(served):
  first, second, third, fourth = served["encoder"]["default_of_calls"]
  assert np.abs(np.subtract(first, second)).max() > 1e-3
  assert third == fourth


def test_a_preprocessor_makes_the_scripts_input(served):
  marks = tokenizer().convert_tokens_to_ids(["[CLS]", "[SEP]"])
  cut = tokenizer().tokenize_to_ids
  single, pair = served["preprocessor"]
  for row, (a, b) in enumerate(zip(TEXTS, TEXTS_B)):
    packed = packing.build_input(cut(a), None, *marks, 16)
    packed_pair = packing.build_input(cut(a), cut(b), *marks, 24)
    for name, hub_name in zip(IDS, HUB_IDS):
      assert single[hub_name][row] == packed[name]
      assert pair[hub_name][row] == packed_pair[name]


def test_saved_models_have_no_optimizer_slots(exported):
  for task in MADE:
    names = checkpoints.CheckpointReader(
      str(exported / "models" / task)
    ).shapes.keys() - {"do_lower_case"}
    assert names == {v.path for v in made_model(task).weights}, task


def test_only_classifiers_and_encoders_take_texts_unless_text_is_off(exported):
  texts = {
    "multilabel": {"text", "text_pair"},
    "encoder": {"text"},
    "pretraining": {"ids_all_positions"},
    "ner": {"attention"},
  }
  for task in MADE:
    model = tf.saved_model.load(str(exported / "models" / task))
    own = {"ids", "serving_default", *texts.get(task, ())}
    assert set(model.signatures) == own, task


def test_every_model_has_the_files_for_predictions_of_texts(exported):
  settings = {"do_lower_case": True, "strip_accents": True}
  for task in MADE:
    folder = exported / "models" / task
    assert (folder / "vocab.txt").read_bytes() == VOCAB.read_bytes()
    info = run_info.read_run(str(folder))
    assert info.max_seq_length == 16
    assert {name: getattr(info, name) for name in settings} == settings
    assert (info.label_spec is not None) == (task in LABELS)


@pytest.fixture
def mistaken(exported, tmp_path):
  """Returns a function that exports and returns the error message."""

  def run(run="encoder", **changes):
    config = export_config.ExportConfig(
      export_dir=str(tmp_path / "model"),
      init_checkpoint=str(exported / "runs" / run),
      vocab_file=str(VOCAB),
      max_seq_length=16,
    )
    with pytest.raises(ValueError) as error:
      export.run(dataclasses.replace(config, **changes))
    assert not list(tmp_path.glob("*model*"))
    return str(error.value)

  return run


@pytest.mark.parametrize(
  ("changes", "names"),
  [
    ({"run": "swag", "task": "squad"}, ("cls/squad/output_weights", "swag")),
    ({"task": "pretraining"}, ("no task",)),
    ({"with_attention": True}, ("`attention`",)),
    ({"task": "preprocessing", "with_text": False}, ("`text`",)),
    ({"vocab_file": None}, ("`vocab_file`",)),
    ({"run": "swag", "max_seq_length": 33}, ("max_seq_length 33",)),
  ],
)
def test_settings_that_do_not_fit_are_named(mistaken, changes, names):
  message = mistaken(**changes)
  for name in names:
    assert name in message


def test_a_folder_in_use_is_refused(exported, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(ValueError, match=f"{tmp_path}.*`export_dir`"):
    export.run(
      export_config.ExportConfig(
        export_dir=str(tmp_path), init_checkpoint=str(exported)
      )
    )
  assert [path.name for path in tmp_path.iterdir()] == ["file"]
