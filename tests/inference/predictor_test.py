"""Tests for Predictor: checkpoints and SavedModels answer as the scripts do."""

import concurrent.futures
import gc
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import modeling, tokenization
from bert_tf.checkpoint import checkpoint_names, checkpoints
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import export
from bert_tf.export.config import ExportConfig
from bert_tf.model import heads
from tests.support import near_ties, tiny_models

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"

TEXTS = [
  "the of and",
  "",
  "a in to, was?",
  "İ was 40 \U0001f600",
  *(f"of {'the in ' * n}and" for n in range(9)),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
  return tiny_models.write_classifier(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def saved_model(run_folder):
  path = run_folder / "models" / "3"
  checkpoint = str(run_folder / "model.ckpt-1")
  export.run(ExportConfig(export_dir=str(path), init_checkpoint=checkpoint))
  return path


@pytest.fixture(scope="module")
def checkpoint_predictor(run_folder):
  return bert_tf.Predictor(str(run_folder / "model.ckpt-1"))


@pytest.fixture(scope="module")
def saved_model_predictor(saved_model):
  return bert_tf.Predictor(str(saved_model.parent), max_batch_size=4)


def assert_same(answers, expected):
  """Asserts that labels and probabilities are equal to float32 precision."""
  for answer, other in zip(answers, expected, strict=True):
    assert answer["label"] in near_ties.best(other["probabilities"])
    assert near_ties.close(answer["probabilities"], other["probabilities"])


@pytest.mark.parametrize("use", ["predict", "extract", "encode"])
def test_a_model_warns_once_of_texts_that_its_vocabulary_lacks(
  run_folder, caplog, use
):
  model = bert_tf.Predictor(str(run_folder))
  if use != "predict":
    model = bert_tf.FeatureExtractor(str(run_folder))
  texts = ["the of and a in to", "привет"]
  list(getattr(model, use)(texts))
  assert "are [UNK]" not in caplog.text  # A rare word.
  for _ in range(3):
    list(getattr(model, use)(["как дела сегодня утром"] * 5))
  assert caplog.text.count("are [UNK]") == 1


def test_a_saved_model_predicts_the_same_whatever_the_batch(
  checkpoint_predictor, saved_model_predictor
):
  expected = checkpoint_predictor.predict(TEXTS)
  assert len({answer["label"] for answer in expected}) > 1
  assert_same(saved_model_predictor.predict(TEXTS), expected)
  assert_same(saved_model_predictor.predict(TEXTS[::-1]), expected[::-1])
  assert_same([*map(saved_model_predictor.predict, TEXTS)], expected)
  assert saved_model_predictor.predict([]) == []


def test_the_newest_version_is_loaded_and_its_weights_counted(
  saved_model_predictor, checkpoint_predictor
):
  saved, restored = saved_model_predictor, checkpoint_predictor
  assert (saved.version, restored.version) == (3, 1)
  assert saved.num_parameters == restored.num_parameters > 0


def test_threads_get_their_own_answers(saved_model_predictor):
  texts = [f"{'of the ' * (i % 7)}and {'in ' * (i % 5)}" for i in range(40)]
  expected = saved_model_predictor.predict(texts)
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert_same([*pool.map(saved_model_predictor.predict, texts)], expected)


@pytest.mark.parametrize(
  "rows,words",
  [
    (3, "not 3"),
    ([3], "row 0: it must be text and text_b.* 3"),
    (("a", "b", "c"), "row 0: it must be text and text_b"),
    (["a", {"question": "b"}], "row 1: it must be text.*question"),
    ([{"text": 3}], "row 0: text .*: 3"),
    ([{"text": "a", "text_b": None}], "row 0: text_b .*: None"),
    (["a\ud800"], "row 0: text .*Unicode"),
    ([{}], "row 0: it must be text"),
  ],
)
def test_invalid_rows_are_named(saved_model_predictor, rows, words):
  with pytest.raises(ValueError, match=words):
    saved_model_predictor.predict(rows)


def test_a_saved_model_has_its_settings_and_the_users(saved_model):
  def predict(text, **changes):
    return bert_tf.Predictor(saved_model, **changes).predict(text)

  text = "the of " * 8 + "and"
  assert predict(text) == predict(text, max_seq_length=128)
  assert predict(text, max_seq_length=5) == predict("the of the")
  with pytest.raises(ValueError, match="do_lower_case=False .*vocab.txt"):
    predict(text, do_lower_case=False)
  with pytest.raises(ValueError, match="task=ner"):
    predict(text, task="ner")
  with pytest.raises(ValueError, match="no attention"):
    bert_tf.Predictor(saved_model).attention(text)
  with pytest.raises(ValueError, match="max_batch_size 0"):
    bert_tf.Predictor(str(saved_model), max_batch_size=0)
  # Settings also count for a model that is already open.
  opened = ModelFolder.open(str(saved_model), max_seq_length=9)
  model = bert_tf.Predictor(opened, max_seq_length=5)
  assert model.predict(text) == predict("the of the")


def test_a_saved_model_with_other_signatures_is_refused(tmp_path):
  module = tf.Module()
  module.double = tf.function(
    lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([None], name="x")]
  )
  tf.saved_model.save(module, tmp_path, signatures={"twice": module.double})
  (tmp_path / "bert_config.json").write_text(
    tiny_models.CONFIG.to_json_string()
  )
  with pytest.raises(ValueError, match="twice"):
    bert_tf.Predictor(str(tmp_path))


def test_a_saved_model_whose_weights_are_not_finite_is_refused(
  tmp_path, monkeypatch
):
  run = tiny_models.write_classifier(tmp_path / "run")
  reader = checkpoints.CheckpointReader(str(run))
  tensors = {name: reader.get(name) for name in reader.shapes}
  name = "bert/encoder/layer_1/output/dense/bias"
  tensors[name] = np.full_like(tensors[name], np.inf)
  checkpoints.write(str(run / "model.ckpt-1"), tensors)
  path = str(tmp_path / "model")
  config = ExportConfig(export_dir=path, init_checkpoint=str(run))
  with monkeypatch.context() as patch:
    patch.setattr(checkpoints, "check_finite", lambda path, tensors: None)
    export.run(config)
  with pytest.raises(ValueError, match=f"{path} .* not finite, in {name}"):
    bert_tf.Predictor(path)


def test_attention_is_that_of_the_model(checkpoint_predictor, run_folder):
  bert = modeling.BertModel.from_pretrained(run_folder)
  vocab = tokenization.load_vocab(str(run_folder / "vocab.txt"))
  for texts in (("the of and",), ("the of", "and a in")):
    attention = checkpoint_predictor.attention(*texts)
    ids = np.array([[vocab[token] for token in attention.tokens]])
    segments = np.zeros_like(ids)
    segments[:, attention.tokens.index("[SEP]") + 1 :] = 1
    output = bert(
      {"input_ids": ids, "segment_ids": segments}, return_attention_probs=True
    )
    expected = np.concatenate(output.attention_probs)
    np.testing.assert_allclose(attention.probabilities, expected, atol=1e-5)


def count_variable_bytes():
  """Returns the number of bytes of all variables that are alive."""
  gc.collect()
  alive = [x for x in gc.get_objects() if isinstance(x, tf.Variable)]
  return sum(v.shape.num_elements() * v.dtype.size for v in alive)


def test_a_checkpoint_is_in_memory_once(run_folder):
  before = count_variable_bytes()
  predictor = bert_tf.Predictor(str(run_folder / "model.ckpt-1"))
  predictor.predict(TEXTS)
  shapes = checkpoints.CheckpointReader(str(run_folder)).shapes
  names = checkpoint_names.parameters(shapes)
  weights = 4 * sum(int(np.prod(shapes[name])) for name in names)
  # The model's weights and the seed of its dropout.
  assert weights <= count_variable_bytes() - before < 1.1 * weights


@pytest.mark.parametrize("task", ["classification", "encoder", "pretraining"])
def test_eager_and_traced_answers_are_equal(tmp_path, run_folder, task):
  folder = run_folder
  if task == "pretraining":
    model = tiny_models.widen(heads.PretrainingModel(tiny_models.CONFIG))
    folder = tiny_models.write_run(tmp_path / "run", model)
  predictor = bert_tf.Predictor(str(folder or tmp_path / "run"), task=task)
  rows = ["the of [MASK] and", "a in [MASK] to"]
  [inputs] = zip(*[predictor.task().preprocess([{"text": r}]) for r in rows])
  sequences = [sequence for row in inputs for sequence in row.sequences]
  reader = predictor.task()
  eager = predictor.compute(sequences, reader)
  predictor.functions["ids"].prepare()
  for ours, theirs in zip(eager, predictor.compute(sequences, reader)):
    for name in reader.outputs:
      np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5)
