"""Tests that SavedModels without bert_tf compute the same as the scripts."""

import dataclasses
import gzip
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
from bert_tf.tasks.ner import examples as ner_data
from bert_tf.tasks.ner import records as ner_features
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
MASKED = ["the [MASK] of[MASK] and", "Was it [MASK]?"]
NER_TEXTS = [
  "Madonna was in\tthe U.S. (1984)  \u0007 thé",
  # Several windows of 16 word pieces, whose words have one to many.
  " ".join(f"the mississippi{'x' * (i % 4)} of, {i * i}" for i in range(12)),
  "",
  "supercalifragilisticexpialidocious" * 2 + " the",
]
PLAIN_TEXTS = [
  "Madonna's (in the U.S.) was, of course, \u201cthe\u201d!",
  "the",
]
SPLIT_TEXTS = [
  "Madonna 's ( in the U.S. ) was , of course , \u201c the \u201d !",
  "the",
]
CHOICES = (
  ["the of and", "in it"],
  [["was his", "thé school (and so on) " * 4, ""], ["a", "b b", "c c c"]],
)
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


MADE = ("regression", "multilabel", "ner", "pretraining", "swag", "encoder")
SQUAD = {"max_seq_length": 128, "doc_stride": 48, "max_query_length": 40}
V2 = {
  "n_best_size": 128,
  "max_answer_length": 3,
  "version_2_with_negative": True,
  "null_score_diff_threshold": -5.5,
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
  """Returns a folder with runs/TASK and their SavedModels, models/TASK."""
  folder = tmp_path_factory.mktemp("exported")
  (folder / "runs").mkdir()
  configs = {name: {} for name in MADE}
  for name in MADE:
    write_run(folder / "runs" / name, made_model(name), name)
  for name in ("tiny_squad", "tiny_classifier"):
    shutil.copytree(GOLDEN / name, folder / "runs" / name)
  write_labels(
    folder / "runs" / "tiny_classifier",
    "MNLI",
    "classification",
    glue.get_task("MNLI").labels,
  )
  squad = {"init_checkpoint": "tiny_squad/bert_model.ckpt", **SQUAD}
  configs |= {
    "classification": {
      "init_checkpoint": "tiny_classifier/bert_model.ckpt",
      "max_seq_length": 64,
    },
    "squad_v1": squad,
    "squad_v2": {**squad, **V2},
    "preprocessing": {"init_checkpoint": "encoder", "task": "preprocessing"},
    "regression": {"with_text": False},
    "pretraining": {"max_seq_length": 20},
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


def made_requests(models):
  """Returns all requests to the process."""
  shared = ROOT.parent / "shared"

  def request(name, signature, **inputs):
    return {
      "model": str(models / name),
      "signature": signature,
      "inputs": inputs,
    }

  requests = {
    f"ids of {name}": request(name, "ids", **IDS)
    for name in ("regression", "multilabel")
  }
  ids = request("classification", "ids", **SHORTER)
  long_ids = {name: [[1] * 33] for name in IDS}
  requests |= {
    "shorter ids": ids,
    "ids of pretraining": request(
      "pretraining", "ids", **IDS, masked_lm_positions=[[1], [3]]
    ),
    "all ids": request("pretraining", "ids_all_positions", **IDS),
    "ids of swag": request(
      "swag", "ids", **{n: [x, x] for n, x in IDS.items()}
    ),
    "ids of encoder": request("encoder", "ids", **IDS),
    "too long ids": request("encoder", "ids", **long_ids),
    "multilabel": request("multilabel", "serving_default", text=TEXTS),
    "multilabel pair": request(
      "multilabel", "text_pair", text=TEXTS, text_b=TEXTS_B
    ),
    "masks": request("pretraining", "serving_default", text=MASKED),
    "too long masks": request("pretraining", "text", text=["[MASK] " * 19]),
    "words": request("ner", "serving_default", text=NER_TEXTS),
    "plain words": request("ner", "plain_text", text=PLAIN_TEXTS),
    "split words": request("ner", "text", text=SPLIT_TEXTS),
    "choices": request(
      "swag", "serving_default", context=CHOICES[0], choices=CHOICES[1]
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
    inputs = {**IDS, "masked_lm_positions": [[1], [3]]}
    inputs[name] = [inputs[name][0], [*inputs[name][1][:-1], value]]
    requests[f"{name} {value}"] = request("pretraining", "ids", **inputs)
  if shared.is_dir():
    texts = mnli_texts(shared)
    requests["mnli"] = request("classification", "serving_default", **texts)
    for version in ("v1", "v2"):
      result = questions(shared, version).values()
      requests[version] = request(
        f"squad_{version}",
        "serving_default",
        question=[question for question, _ in result],
        context=[context for _, context in result],
      )
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


def questions(shared, version):
  name = {"v1": "dev-v1.1.json", "v2": "dev-v2.0.json"}[version]
  data = json.loads((shared / "golden" / "squad" / name).read_text())["data"]
  return {
    qa["id"]: (qa["question"], paragraph["context"])
    for article in data
    for paragraph in article["paragraphs"]
    for qa in paragraph["qas"]
  }


def recorded_nbest(shared, version):
  """Returns the n-best lists and, for 2.0, the null odds of the original.

  Replaces the text "empty", which only files of the original contain.
  """
  folder = shared / "golden" / "e2e" / f"squad_{version}"
  path = folder / "nbest_predictions.json"
  if version == "v1":
    text = path.read_text().replace('"text": "empty"', '"text": ""')
    return json.loads(text), {}
  packed = path.with_name(path.name + ".gz").read_bytes()
  odds = json.loads((folder / "null_odds.json").read_text())
  return json.loads(gzip.decompress(packed)), odds


def one_blank(text):
  return " ".join(text.split())


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


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_questions_are_answered_as_by_the_original(shared, served, version):
  nbest, odds = recorded_nbest(shared, version)
  results = questions(shared, version)
  result = served[version]
  assert len(result["answer"]) == len(results)
  rows = zip(results, result["answer"], result["start"], result["end"])
  for qas_id, answer, start, end in rows:
    # Result files have single spaces between words.
    allowed = near_ties.answers(nbest[qas_id], odds.get(qas_id), -5.5)
    assert one_blank(answer or "") in map(one_blank, allowed)
    if answer:
      assert results[qas_id][1][start:end] == answer


def test_the_n_best_answers_match_the_original(shared, served):
  result = served["v1"]
  nbest, _ = recorded_nbest(shared, "v1")
  names = ("text", "probability", "start_logit", "end_logit")
  for row, entries in enumerate(nbest.values()):
    columns = [result[f"nbest_{name}"][row] for name in names]
    ours = [dict(zip(names, values)) for values in zip(*columns)]
    assert not any(any(entry.values()) for entry in ours[len(entries) :])
    near_ties.assert_nbest(
      [{**e, "text": one_blank(e["text"])} for e in ours[: len(entries)]],
      [{**e, "text": one_blank(e["text"])} for e in entries],
    )


def test_null_odds_match_the_original(shared, served):
  path = shared / "golden/e2e/squad_v2/null_odds.json"
  recorded = json.loads(path.read_text())
  close(served["v2"]["null_odds"], list(recorded.values()))


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_ids_are_classified_as_by_the_model(exported, served, task):
  logits = loaded(exported, task)(arrays(**IDS)).numpy()
  result = served[f"ids of {task}"]
  close(result["logits"], logits)
  # Any length and batch size; the first three positions of the first example.
  assert np.shape(served["shorter ids"]["logits"]) == (1, 3)
  if task == "regression":
    close(result["prediction"], logits[:, 0])
  else:
    close(result["probabilities"], 1 / (1 + np.exp(-logits)))


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


def test_masks_are_filled_as_by_the_model(exported, served):
  vocab = list(tokenizer().vocab)
  model = loaded(exported, "pretraining")
  result = served["masks"]
  for row, text in enumerate(MASKED):
    # The Python tokenizer splits "[MASK]" like any word in brackets.
    parts = map(tokenizer().tokenize, text.split("[MASK]"))
    tokens = sum((["[MASK]", *part] for part in parts), [])[1:]
    ids = tokenizer().convert_tokens_to_ids(["[CLS]", *tokens, "[SEP]"])
    masks = [i for i, x in enumerate(ids) if vocab[x] == "[MASK]"]
    inputs = packing.pad(ids, len(ids), len(ids))
    inputs = {name: np.array([row]) for name, row in inputs.items()}
    output = model({**inputs, "masked_lm_positions": np.array([masks])})
    for place, logits in enumerate(output.masked_lm_logits.numpy()[0]):
      scores = np.exp(logits) / np.exp(logits).sum()
      best = np.argsort(-scores)[:5]
      columns = (result[n][row][place] for n in ("tokens", "probabilities"))
      near_ties.assert_ranking(
        list(zip(*columns)), [(vocab[i], scores[i]) for i in best]
      )
  assert result["tokens"][1][1] == [""] * 5
  assert not any(result["probabilities"][1][1])


def test_texts_and_ids_beyond_the_positions_are_refused(served):
  message = served["too long masks"]["error"]
  assert "more than 20 word pieces" in message  # max_seq_length.
  message = served["too long ids"]["error"]
  assert "longer than the 32 positions" in message


@pytest.mark.parametrize(("name", "value", "highest"), BEYOND)
def test_numbers_out_of_range_are_refused_by_name(served, name, value, highest):
  message = served[f"{name} {value}"]["error"]
  assert f"{name} has the value {value}," in message
  assert f"use 0 to {highest}" in message


def test_the_masked_lm_sees_chosen_or_all_positions(exported, served):
  positions = np.tile(np.arange(5, dtype=np.int32), (2, 1))
  model = loaded(exported, "pretraining")
  output = model({**arrays(**IDS), "masked_lm_positions": positions})
  result = served["all ids"]
  close(result["masked_lm_logits"], output.masked_lm_logits)
  close(result["next_sentence_logits"], output.next_sentence_logits)
  chosen = served["ids of pretraining"]
  close(
    np.squeeze(chosen["masked_lm_logits"], axis=1),
    np.stack([output.masked_lm_logits[0, 1], output.masked_lm_logits[1, 3]]),
  )
  close(np.sum(chosen["masked_lm_probabilities"], axis=-1), [[1.0], [1.0]])


def test_words_are_labelled_as_by_the_script(exported, served):
  model = loaded(exported, "ner")
  windower = ner_features.SentenceWindower(
    tokenizer(), 16, document_context=False
  )
  result = served["words"]
  for row, text in enumerate(NER_TEXTS):
    words = text.split()
    scores = []
    if words:
      sentence = ner_data.Sentence(tuple(words), None, 1)
      for window in windower.windows("", [sentence]):
        size = len(window.input_ids)
        logits = model(
          arrays(
            input_ids=[window.input_ids],
            input_mask=[[1] * size],
            segment_ids=[[0] * size],
          )
        ).numpy()[0]
        scores += [logits[i] for i in window.first_pieces]
    count = len(words)
    assert result["words"][row][:count] == words
    assert not any(result["words"][row][count:])
    near_ties.assert_best(
      result["labels"][row][:count], scores, LABELS["ner"][1]
    )
    probabilities = [np.exp(x).max() / np.exp(x).sum() for x in scores]
    close(result["probabilities"][row][:count], probabilities)
    for i, word in enumerate(words):
      assert text[result["starts"][row][i] : result["ends"][row][i]] == word


def test_plain_text_is_labelled_like_its_separated_words(served):
  plain, split = served["plain words"], served["split words"]
  for name in ("words", "labels"):
    assert plain[name] == split[name]
  close(plain["probabilities"], split["probabilities"])
  for row, text in enumerate(PLAIN_TEXTS):
    columns = [plain[name][row] for name in ("words", "starts", "ends")]
    for word, start, end in zip(*columns):
      assert text[start:end] == word


def test_choices_are_scored_as_by_the_script(exported, served):
  marks = tokenizer().convert_tokens_to_ids(["[CLS]", "[SEP]"])
  cut = tokenizer().tokenize_to_ids
  packed = [
    [packing.build_input(cut(context), cut(c), *marks, 16) for c in choices]
    for context, choices in zip(*CHOICES)
  ]
  inputs = {n: [[x[n] for x in row] for row in packed] for n in IDS}
  logits = loaded(exported, "swag")(arrays(**inputs)).numpy()
  result = served["choices"]
  close(result["logits"], logits)
  near_ties.assert_best(result["choice"], logits, range(logits.shape[1]))
  close(np.sum(result["probabilities"], axis=-1), [1.0, 1.0])
  assert np.shape(served["ids of swag"]["logits"]) == (2, 2)


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
  close(served["ids of encoder"]["pooled_output"], output.pooled_output)


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
