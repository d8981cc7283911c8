"""A BiLSTM between BERT and the head: trained, opened again, exported."""

import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoints, heads, model_folder, modeling
from bert_tf.convert import convert, pretrained
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.export.runtimes import config as runtimes_config
from bert_tf.export.runtimes import conversion
from bert_tf.inference import classifier, predictor
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config
from tests.support import checkout, runs

VOCAB_FILE = str(checkout.ROOT / "tests" / "golden" / "tiny" / "vocab.txt")
CONFIG = modeling.BertConfig(**runs.CONFIG, bilstm=True)
SETTINGS = {"max_seq_length": 16, "use_xla": False, "train_batch_size": 16}


def batch(width):
  """Two inputs of 9 and 5 pieces, padded."""
  rng = np.random.default_rng(1)
  ids = rng.integers(5, 500, (2, 9))
  mask = (np.arange(width) < np.array([[9], [5]])).astype(np.int32)
  padded = np.full((2, width), 7, np.int32)
  padded[:, :9] = ids
  return {
    "input_ids": tf.constant(padded),
    "input_mask": tf.constant(mask),
    "segment_ids": tf.zeros_like(padded),
  }


MODELS = {
  "classification": lambda: heads.ClassifierModel(CONFIG, 3),
  "words": lambda: heads.TokenModel(CONFIG, 3),
  "span": lambda: heads.SpanModel(CONFIG),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_head_reads_the_bilstm_and_ignores_padding(kind):
  keras.utils.set_random_seed(1)
  model = MODELS[kind]()
  names = {v.path for v in model.weights if v.path.startswith("bilstm/")}
  assert len(names) == 6

  is_real = batch(9)["input_mask"][..., None]

  def outputs(width):
    with tf.GradientTape() as tape:
      logits = model(batch(width))
      logits = tf.stack(logits, -1) if kind == "span" else logits
      if kind != "classification":
        logits = logits[:, :9] * tf.cast(is_real, tf.float32)
      loss = tf.reduce_sum(tf.square(tf.cast(logits, tf.float32)))
    return logits, tape.gradient(loss, model.trainable_variables)

  def cast(tensor):
    return np.asarray(tensor, np.float32)

  (short, gradients), (long, _) = outputs(9), outputs(14)
  np.testing.assert_allclose(cast(short), cast(long), atol=1e-5)
  for variable, gradient in zip(model.trainable_variables, gradients):
    is_read = not variable.path.startswith("bert/pooler/")
    assert (gradient is not None) == is_read, variable.path
    if variable.path in names:
      assert np.abs(gradient).max() > 0, variable.path


def examples():
  """Texts and labels; the label depends on whether "the" comes before "of"."""
  rng = random.Random(1)
  texts = []
  for _ in range(64):
    words = rng.sample(
      ["the", "of", *rng.sample("and in to was he".split(), 3)], 5
    )
    texts.append(" ".join(words))
  return texts, [str(t.index("the") < t.index("of")) for t in texts]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """Folders of a pre-trained model and of a run from it; the run's results."""
  folder = tmp_path_factory.mktemp("bilstm")
  start = folder / "start"
  start.mkdir()
  keras.utils.set_random_seed(1)
  values = {**runs.CONFIG, "attention_direction": "left_to_right"}
  model = modeling.BertModel(modeling.BertConfig(**values))
  checkpoints.write(
    str(start / "bert_model.ckpt"), {v.path: v.numpy() for v in model.weights}
  )
  (start / "bert_config.json").write_text(json.dumps(values))
  (start / "vocab.txt").write_bytes(open(VOCAB_FILE, "rb").read())
  texts, labels = examples()
  model = classifier.Classifier(
    output_dir=str(folder / "run"),
    init_checkpoint=str(start),
    bilstm=True,
    **SETTINGS,
  )
  results = model.fit(
    texts,
    labels,
    validation_data=(texts, labels),
    num_train_epochs=30,
    learning_rate=1e-2,
  )
  return start, folder / "run", results


@pytest.mark.slow
def test_a_bilstm_learns_the_order_of_words(trained):
  _, run, results = trained
  assert results["eval_accuracy"] > 0.9
  saved = json.loads((run / "bert_config.json").read_text())
  assert saved["bilstm"] and saved["attention_direction"] == "left_to_right"


def test_the_folder_of_a_run_predicts_exports_and_evaluates(trained, tmp_path):
  _, run, results = trained
  texts, labels = examples()
  target = str(tmp_path / "saved")
  export.run(
    export_config.ExportConfig(init_checkpoint=str(run), export_dir=target)
  )
  probabilities = []
  for path in (str(run), target):
    model = predictor.Predictor(export_config.ModelConfig(init_checkpoint=path))
    answers = model.predict([{"text": t} for t in texts])
    probabilities.append([list(a["probabilities"].values()) for a in answers])
  np.testing.assert_allclose(*probabilities, atol=1e-5)
  hits = [a["label"] == label for a, label in zip(answers, labels)]
  assert np.mean(hits) == pytest.approx(results["eval_accuracy"])
  again = classifier.Classifier(output_dir=str(run), **SETTINGS)
  evaluated = again.evaluate(texts, labels)
  assert evaluated["eval_loss"] == pytest.approx(results["eval_loss"], abs=1e-5)


def test_onnx_has_the_same_outputs(trained, tmp_path):
  pytest.importorskip("tf2onnx")
  pytest.importorskip("onnxruntime")
  _, run, _ = trained
  saved, target = tmp_path / "saved", tmp_path / "model.onnx"
  export.run(
    export_config.ExportConfig(
      init_checkpoint=str(run), export_dir=str(saved), with_text=False
    )
  )
  # On random inputs with padding.
  differences = conversion.convert(
    runtimes_config.ConversionConfig(
      saved_model=str(saved), output_file=str(target)
    )
  )
  assert differences and max(differences.values()) < 1e-5 and target.exists()


@pytest.mark.slow
def test_a_bilstm_is_converted_only_to_the_originals_format(trained, tmp_path):
  _, run, _ = trained
  source = pretrained.ModelSource(str(run))
  path = str(tmp_path / "converted" / "bert_model.ckpt")
  convert.convert(source, "original", path, "original")
  converted = model_folder.find(str(tmp_path / "converted"))
  converted_reader, run_reader = (
    checkpoints.CheckpointReader(p) for p in (converted.weights, str(run))
  )
  name = "bilstm/forward_lstm/lstm_cell/kernel"
  np.testing.assert_array_equal(
    converted_reader.get(name), run_reader.get(name)
  )
  with pytest.raises(ValueError, match="and bilstm True, which the format hf"):
    convert.convert(source, "original", str(tmp_path / "hf"), "hf")


@pytest.fixture(scope="module")
def short(tmp_path_factory):
  """The config, folder and model of a run of a few steps."""
  folder = tmp_path_factory.mktemp("short")
  config = folder / "base.json"
  config.write_text(json.dumps(runs.CONFIG))
  model = classifier.Classifier(
    str(config), VOCAB_FILE, str(folder / "run"), bilstm=True, **SETTINGS
  )
  model.fit(*examples(), num_train_epochs=2, learning_rate=1e-2)
  return str(config), folder / "run", model


def test_a_run_predicts_with_its_bilstm_if_the_given_config_has_none(short):
  config, run, model = short
  text = examples()[0][0]
  expected = predictor.Predictor(str(run)).predict(text)["probabilities"]
  again = classifier.Classifier(config, VOCAB_FILE, str(run), **SETTINGS)
  for reader in (model, again):
    assert reader.predict(text).probabilities == pytest.approx(expected)


def test_a_config_of_another_size_is_refused(short, tmp_path):
  _, run, _ = short
  other = tmp_path / "other.json"
  other.write_text(json.dumps({**runs.CONFIG, "num_attention_heads": 4}))
  model = classifier.Classifier(str(other), VOCAB_FILE, str(run), **SETTINGS)
  with pytest.raises(ValueError, match="num_attention_heads is 2 .* 4 here"):
    model.predict("the of")


def test_a_head_is_not_opened_without_its_bilstm(short, tmp_path):
  config, run, _ = short
  prefix = checkpoints.find_latest(str(run))
  with pytest.raises(ValueError, match="model.ckpt-8 .*BiLSTM"):
    classifier.Classifier(config, VOCAB_FILE, init_checkpoint=prefix)
  lines = [json.dumps({"text": t, "label": y}) for t, y in zip(*examples())]
  (tmp_path / "dev.jsonl").write_text("\n".join(lines))
  with pytest.raises(ValueError, match="model.ckpt-8 .*BiLSTM"):
    classification.run(
      classification_config.ClassificationConfig(
        bert_config_file=config,
        vocab_file=VOCAB_FILE,
        do_eval=True,
        data_dir=str(tmp_path),
        task_name="jsonl",
        train=training_config.FineTuningTrainConfig(
          output_dir=str(tmp_path / "out"), init_checkpoint=prefix
        ),
      )
    )
  # The encoder is read without the BiLSTM.
  bert = modeling.BertModel.from_pretrained(str(run))
  assert bert.config.bilstm


def resolve_bert_config(trained, output_dir=None, **changes):
  """The model's config of a command with the original's flags."""
  start, run, _ = trained
  config = classification_config.ClassificationConfig(
    bert_config_file=str(start / "bert_config.json"),
    vocab_file=VOCAB_FILE,
    do_predict=True,
    data_dir="",
    task_name="jsonl",
    max_seq_length=16,
    train=training_config.FineTuningTrainConfig(
      output_dir=str(output_dir or run)
    ),
    **changes,
  )
  return fine_tuning.load(config).bert_config


@pytest.mark.slow
def test_a_run_knows_its_bilstm_and_a_contradiction_is_refused(
  trained, tmp_path
):
  assert resolve_bert_config(trained).bilstm
  with pytest.raises(ValueError, match="bilstm False contradicts .*run/bert_c"):
    resolve_bert_config(trained, bilstm=False)
  assert not resolve_bert_config(trained, tmp_path).bilstm
  assert resolve_bert_config(trained, tmp_path, bilstm=True).bilstm
