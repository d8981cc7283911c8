"""Predictions from Python agree with what was there before, loaded once."""

import concurrent.futures
import gc
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoint_names, checkpoints
from bert_tf.export import config as configs
from bert_tf.export import export
from bert_tf.export.runtimes import ids_models
from bert_tf.inference import classifier, feature_extraction
from bert_tf.inference import config as inference_config
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
  export.run(
    configs.ExportConfig(
      export_dir=str(path), init_checkpoint=str(run_folder / "model.ckpt-1")
    )
  )
  return path


@pytest.fixture(scope="module")
def of_checkpoint(run_folder):
  return bert_tf.Predictor(str(run_folder / "model.ckpt-1"))


@pytest.fixture(scope="module")
def of_saved_model(saved_model):
  return bert_tf.Predictor(str(saved_model.parent), max_batch_size=4)


@pytest.fixture(scope="module")
def earlier(run_folder):
  """What run_classifier.py's own code says of texts and of pairs."""
  return classifier.Classifier(
    str(run_folder / "bert_config.json"),
    str(run_folder / "vocab.txt"),
    str(run_folder),
    max_seq_length=128,
  )


def assert_same(found, expected):
  """Asserts that labels and probabilities are the same to float32."""
  assert len(found) == len(expected)
  for one, other in zip(found, expected):
    assert one["label"] in near_ties.best(other["probabilities"])
    assert one["probabilities"].keys() == other["probabilities"].keys()
    for label, probability in one["probabilities"].items():
      assert abs(probability - other["probabilities"][label]) < 1e-5


def plain(predictions):
  return [
    {"label": p.label, "probabilities": p.probabilities} for p in predictions
  ]


def test_a_checkpoint_predicts_what_the_classifier_does(of_checkpoint, earlier):
  texts = [text for text in TEXTS if text]
  expected = plain(earlier.predict(texts))
  assert len({e["label"] for e in expected}) > 1
  assert_same(of_checkpoint.predict(texts), expected)
  pairs = [(text, texts[-1 - i]) for i, text in enumerate(texts)]
  rows = [{"text": text, "text_b": text_b} for text, text_b in pairs]
  assert_same(of_checkpoint.predict(rows), plain(earlier.predict(pairs)))


def test_a_saved_model_predicts_the_same_whatever_the_batch(
  of_checkpoint, of_saved_model
):
  expected = of_checkpoint.predict(TEXTS)
  assert_same(of_saved_model.predict(TEXTS), expected)
  assert_same(of_saved_model.predict(TEXTS[::-1]), expected[::-1])
  assert_same(sum((of_saved_model.predict([t]) for t in TEXTS), []), expected)
  assert of_saved_model.predict([]) == []


def test_texts_and_pairs_may_be_mixed(of_saved_model):
  rows = [
    "the of",
    {"text_b": "and", "text": "the of"},
    {"text": "in"},
  ]
  one_by_one = [of_saved_model.predict([row])[0] for row in rows]
  assert_same(of_saved_model.predict(rows), one_by_one)
  assert one_by_one[0]["probabilities"] != one_by_one[1]["probabilities"]


def test_the_newest_version_is_taken(of_saved_model, of_checkpoint):
  assert (of_saved_model.version, of_checkpoint.version) == (3, 1)


def test_the_numbers_of_the_weights_are_counted(of_saved_model, of_checkpoint):
  assert of_checkpoint.num_parameters > 0
  assert of_saved_model.num_parameters == of_checkpoint.num_parameters


def test_threads_get_their_own_answers(of_saved_model):
  texts = [f"{'of the ' * (i % 7)}and {'in ' * (i % 5)}" for i in range(40)]
  expected = of_saved_model.predict(texts)
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    found = pool.map(lambda text: of_saved_model.predict([text])[0], texts)
    assert_same(list(found), expected)


@pytest.mark.parametrize(
  "rows,words",
  [
    (3, "a list of them, not 3"),
    ([3], "row 0 is no text and text_b, nor texts by these names: 3"),
    (("a", "b", "c"), "row 0 is no text and text_b"),
    (["a", {"question": "b"}], "row 1 has question; the model takes text or"),
    ([{"text": 3}], "text of row 0 is no text: 3"),
    ([{"text": "a", "text_b": None}], "text_b of row 0 is no text: None"),
    (["a\ud800"], "text of row 0 is no Unicode text"),
    ([{}], "row 0 has nothing"),
  ],
)
def test_rows_that_the_model_does_not_take_are_named(
  of_saved_model, rows, words
):
  with pytest.raises(ValueError, match=words):
    of_saved_model.predict(rows)


def test_a_saved_model_brings_its_settings(saved_model):
  with pytest.raises(ValueError, match="vocab_file 'vocab.txt'"):
    bert_tf.Predictor(str(saved_model), vocab_file="vocab.txt")
  with pytest.raises(ValueError, match="do_lower_case False .* True"):
    bert_tf.Predictor(str(saved_model), do_lower_case=False)
  with pytest.raises(ValueError, match="max_batch_size 0"):
    bert_tf.Predictor(str(saved_model), max_batch_size=0)


def test_what_is_neither_is_refused(tmp_path):
  with pytest.raises(ValueError, match="holds no model that can be read"):
    bert_tf.Predictor(str(tmp_path))
  (tmp_path / "1").mkdir()
  (tmp_path / "1" / "saved_model.pb").write_bytes(b"nonsense")
  with pytest.raises(ValueError, match="is no SavedModel that can be read"):
    bert_tf.Predictor(str(tmp_path))


def test_a_saved_model_of_something_else_is_refused(tmp_path):
  module = tf.Module()
  module.double = tf.function(
    lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([None], name="x")]
  )
  tf.saved_model.save(module, tmp_path, signatures={"twice": module.double})
  with pytest.raises(ValueError, match="its signatures, twice, none is called"):
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
  config = configs.ExportConfig(export_dir=path, init_checkpoint=str(run))
  with monkeypatch.context() as patch:  # Earlier versions did not look.
    patch.setattr(checkpoints, "check_finite", lambda path, tensors: None)
    export.run(config)
  for open_model in (bert_tf.Predictor, ids_models.IdsModel):
    with pytest.raises(ValueError, match=f"{path} .* not finite, in {name}"):
      open_model(path)


def test_attention_is_that_of_the_extractor(of_checkpoint, run_folder):
  extractor = feature_extraction.FeatureExtractor(
    inference_config.ExtractionConfig(
      init_checkpoint=str(run_folder / "model.ckpt-1"),
      layers=(0, 1),
      max_seq_length=128,
      attention_probs=True,
    )
  )
  for texts in (("the of and",), ("the of", "and a in")):
    given = texts[0] if len(texts) == 1 else texts
    [expected] = extractor.extract([given])
    found = of_checkpoint.attention(*texts)
    assert found.tokens == expected.tokens
    np.testing.assert_allclose(
      found.probabilities, expected.attention_probs, atol=1e-5
    )


def test_attention_must_have_been_exported(of_saved_model):
  with pytest.raises(ValueError, match="exported without attention"):
    of_saved_model.attention("the")


@pytest.mark.slow
def test_masks_are_filled_and_seen():
  found = bert_tf.Predictor(str(GOLDEN / "tiny" / "bert_model.ckpt"))
  assert found.predict(["no mask"]) == [{"masks": []}]
  assert "[MASK]" in found.attention("the [MASK] of").tokens
  with pytest.raises(ValueError, match="word pieces of the model"):
    found.predict(["the " * 500])


def bytes_of_variables():
  """Returns the bytes of all variables that are alive."""
  gc.collect()
  alive = [x for x in gc.get_objects() if isinstance(x, tf.Variable)]
  return sum(v.shape.num_elements() * v.dtype.size for v in alive)


def test_a_checkpoint_is_held_once(run_folder):
  before = bytes_of_variables()
  predictor = bert_tf.Predictor(str(run_folder / "model.ckpt-1"))
  predictor.predict(TEXTS)
  shapes = checkpoints.CheckpointReader(str(run_folder)).shapes
  names = checkpoint_names.parameters(shapes)
  weights = 4 * sum(int(np.prod(shapes[name])) for name in names)
  # The model's weights and the seed of its dropout.
  assert weights <= bytes_of_variables() - before < 1.1 * weights


def test_importing_the_package_imports_no_tensorflow():
  code = (
    "import sys, bert_tf\n"
    "print('tensorflow' in sys.modules)\n"
    "bert_tf.Predictors"
  )
  result = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
  )
  assert result.stdout.strip() == "False"
  assert "has no attribute 'Predictors'" in result.stderr
