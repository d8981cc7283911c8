"""What Keras' users do with a model: each works, and says so by its values."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint.model_folder import ModelFolder
from tests.support import docs_files, runs

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
TEXTS = ["the of", "and the of in", "of", "in the"]
PAIRS = [("the", "of in"), ("and", "the"), ("of of of", "a"), ("in", "in")]
LABELS = [0, 1, 0, 1]  # A list, as users give it.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A model without a head, with a vocabulary."""
  folder = tmp_path_factory.mktemp("models") / "tiny"
  docs_files.write_model(folder, hidden_size=16)
  return folder


@pytest.fixture
def model(folder):
  keras.utils.set_random_seed(1)
  return bert_tf.ClassifierModel.from_pretrained(folder, num_labels=2)


def compiled(model, **settings):
  model.compile(keras.optimizers.AdamW(1e-2), LOSS, **settings)
  return model


def predicted(model, x=TEXTS):
  return model.predict(x, verbose=0)


def close(actual, expected):
  np.testing.assert_allclose(actual, expected, atol=1e-5)


def fit_more(model, **arguments):
  """Trains for two epochs; returns the history."""
  history = model.fit(TEXTS, LABELS, epochs=2, verbose=0, **arguments)
  assert np.isfinite(history.history["loss"]).all()
  return history.history


def as_saved(model, tmp_path):
  """Returns the model that a `.keras` file gives back."""
  model.save(tmp_path / "model.keras")
  return keras.models.load_model(tmp_path / "model.keras")


# Each takes a compiled model and a folder, and checks what it does.


def class_weight(model, tmp_path):
  before = predicted(model)
  fit_more(model, class_weight={0: 1.0, 1: 0.0})
  moved = predicted(model) - before
  assert (moved[:, 0] > moved[:, 1]).all()


def jit_compile(model, tmp_path):
  fit_more(compiled(model, jit_compile=True))


def callbacks(model, tmp_path):
  best = tmp_path / "best.keras"
  history = fit_more(
    model,
    validation_data=(TEXTS, LABELS),
    callbacks=[
      keras.callbacks.ModelCheckpoint(
        best, monitor="val_loss", save_best_only=True
      ),
      keras.callbacks.EarlyStopping("val_loss", patience=0),
      keras.callbacks.TensorBoard(tmp_path / "logs"),
    ],
  )
  assert os.listdir(tmp_path / "logs")
  loss = keras.models.load_model(best).evaluate(TEXTS, LABELS, verbose=0)
  assert loss == pytest.approx(min(history["val_loss"]), abs=1e-5)


def backup(model, tmp_path):
  class Killed(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
      if epoch == 1:
        raise KeyboardInterrupt

  restore = keras.callbacks.BackupAndRestore(tmp_path / "backup")
  with pytest.raises(KeyboardInterrupt):
    fit_more(model, callbacks=[restore, Killed()])
  assert len(fit_more(model, callbacks=[restore])["loss"]) == 1


def gradient_tape(model, tmp_path):
  inputs, bias = model.prepare_inputs(TEXTS), model.task_layer.output_bias
  before = bias.numpy()
  with tf.GradientTape() as tape:
    loss = LOSS(np.array(LABELS), model(inputs, training=True))
  gradients = tape.gradient(loss, model.trainable_variables)
  model.optimizer.apply(gradients, model.trainable_variables)
  assert np.abs(bias.numpy() - before).max() > 1e-3


def frozen_layers(model, tmp_path):
  model.bert.trainable = False
  before = model.bert.get_weights()
  fit_more(compiled(model))
  for value, other in zip(model.bert.get_weights(), before, strict=True):
    np.testing.assert_array_equal(value, other)


def lora(model, tmp_path):
  model.bert.enable_lora(4)
  before = model.bert.embeddings.word_embeddings.numpy()
  fit_more(compiled(model))
  after = model.bert.embeddings.word_embeddings.numpy()
  np.testing.assert_array_equal(after, before)
  num_projections = 4 * model.config.num_hidden_layers
  assert len(model.trainable_variables) == 2 * num_projections + 2
  model.save_pretrained(tmp_path / "folder")
  merged = bert_tf.ClassifierModel.from_pretrained(tmp_path / "folder")
  assert not any("lora" in variable.path for variable in merged.weights)
  close(predicted(merged), predicted(model))
  model.compile()  # The optimizer's variables are of LoRA's.
  close(predicted(as_saved(model, tmp_path)), predicted(model))


def functional(model, tmp_path):
  names = ("input_ids", "input_mask", "segment_ids")
  inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in names}
  outer = keras.Model(inputs, keras.layers.Softmax()(model(inputs)))
  ids = model.prepare_inputs(TEXTS)
  expected = tf.nn.softmax(predicted(model))
  close(predicted(outer, ids), expected)
  close(predicted(as_saved(outer, tmp_path), ids), expected)


def int8(model, tmp_path):
  before = predicted(model)
  model.quantize("int8")
  after = predicted(model)
  assert 0 < np.abs(after - before).max() < 0.05
  assert "int8" in {v.dtype for v in model.weights}
  close(predicted(as_saved(model, tmp_path)), after)
  with pytest.raises(ValueError, match="quantized"):
    model.save_pretrained(tmp_path / "folder")


def exported(model, tmp_path):
  fit_more(model)
  model.export(tmp_path / "saved_model", verbose=False)
  loaded = tf.saved_model.load(tmp_path / "saved_model")
  ids = model.prepare_inputs(TEXTS)
  inputs = {name: tf.constant(value) for name, value in ids.items()}
  close(loaded.serve(inputs), predicted(model))


def summary(model, tmp_path):
  lines = []
  model.summary(print_fn=lines.append)
  assert "head (LinearHead)" in "".join(lines)


USES = (
  *(class_weight, jit_compile, callbacks, backup, gradient_tape),
  *(frozen_layers, lora, functional, int8, exported, summary),
)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_what_keras_offers_works_on_a_model(use, model, tmp_path):
  use(compiled(model), tmp_path)


def test_a_strategy_mirrors_the_model(folder):
  with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    model = bert_tf.ClassifierModel.from_pretrained(folder, num_labels=2)
    compiled(model)
  fit_more(model, batch_size=3)


def test_every_form_of_texts_has_the_same_inputs(model):
  inputs = model.prepare_inputs(TEXTS)
  assert inputs["input_ids"].shape == (4, 6)
  tokenizer = bert_tf.BertTokenizer(model.preprocessor.tokenizer.vocab)
  data = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4)
  for same in (
    model.prepare_inputs(np.array(TEXTS)),
    model.prepare_inputs(tf.constant(TEXTS)),
    model.prepare_inputs({"text": TEXTS}),
    next(iter(model.prepare_inputs(data))),
    tokenizer(TEXTS),
  ):
    for name, value in inputs.items():
      np.testing.assert_array_equal(same[name], value)
  firsts, seconds = map(list, zip(*PAIRS))
  inputs = model.prepare_inputs(PAIRS)
  assert inputs["segment_ids"].max() == 1
  data = tf.data.Dataset.from_tensor_slices(((firsts, seconds), LABELS))
  for same in (
    model.prepare_inputs((firsts, seconds)),
    model.prepare_inputs({"text": firsts, "text_b": seconds}),
    next(iter(model.prepare_inputs(data.batch(4))))[0],
    tokenizer(PAIRS),
    tokenizer(firsts, seconds),
  ):
    for name, value in inputs.items():
      np.testing.assert_array_equal(same[name], value)


def test_a_keras_file_keeps_what_texts_need(model, tmp_path):
  model.preprocessor.max_seq_length = 5
  compiled(model)
  fit_more(model, validation_data=(TEXTS, LABELS))
  data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(2)
  expected = model.evaluate(data, verbose=0)
  loaded = as_saved(model, tmp_path)
  close(loaded.evaluate(TEXTS, LABELS, verbose=0), expected)
  assert loaded.preprocessor.settings == model.preprocessor.settings
  loaded.save_pretrained(tmp_path / "folder", labels=["bad", "good"])
  files = ModelFolder.open(str(tmp_path / "folder"))
  assert files.settings.max_seq_length == 5
  assert files.vocab == model.preprocessor.tokenizer.vocab
  close(
    [
      list(a["probabilities"].values())
      for a in bert_tf.load(str(tmp_path / "folder")).predict(TEXTS)
    ],
    tf.nn.softmax(predicted(model)),
  )


def test_choices_are_texts_too(folder):
  model = bert_tf.MultipleChoiceModel.from_pretrained(folder)
  choices = [["of", "in the"], ["and", "a"]]
  scores = predicted(model, (["the", "of of"], choices))
  assert scores.shape == (2, 2)
  apart = [("the", "of"), ("the", "in the"), ("of of", "and"), ("of of", "a")]
  ids = model.prepare_inputs(apart)
  ids = {name: value.reshape(2, 2, -1) for name, value in ids.items()}
  close(predicted(model, ids), scores)


def test_texts_that_a_model_cannot_take_are_refused(model, tmp_path):
  compiled(model)
  with pytest.raises(ValueError, match="batched"):
    model.predict(tf.data.Dataset.from_tensor_slices(TEXTS))
  with pytest.raises(ValueError, match="4 texts have 3"):
    model.predict((TEXTS, TEXTS[:3]))
  model.save_pretrained(tmp_path / "folder", long_text="windows")
  windows = bert_tf.ClassifierModel.from_pretrained(tmp_path / "folder")
  with pytest.raises(ValueError, match="windows.*bert_tf.Classifier"):
    windows.predict(TEXTS)
  with pytest.raises(ValueError, match="labels are numbers, not 'good'"):
    model.fit(TEXTS, ["good"] * len(TEXTS))
  model.preprocessor.max_seq_length = 9999
  with pytest.raises(ValueError, match="9999 exceeds max_position_embeddings"):
    model.predict(TEXTS)
  model.preprocessor = None
  with pytest.raises(ValueError, match="preprocessor"):
    model.predict(TEXTS)


def test_a_new_head_is_no_reason_for_a_warning(folder, recwarn):
  with runs.logged() as log:
    model = bert_tf.ClassifierModel.from_pretrained(folder, num_labels=2)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(2)
    compiled(model).fit(data, verbose=0)
  assert "random" not in log()
  assert not [w for w in recwarn if "shuffle" in str(w.message)]


def test_the_tokenizer_pads_and_truncates_as_asked(folder):
  tokenizer = bert_tf.BertTokenizer.from_pretrained(folder)
  assert tokenizer("the")["input_ids"].shape == (1, 3)
  padded = tokenizer(TEXTS, padding="max_length", max_length=9)
  assert padded["input_mask"].shape == (4, 9)
  assert tokenizer(TEXTS, max_length=4)["input_ids"].shape == (4, 4)
  with pytest.raises(ValueError, match="6 word pieces, more than max_length 4"):
    tokenizer(TEXTS, max_length=4, truncation=False)
  with pytest.raises(ValueError, match="padding"):
    tokenizer(TEXTS, padding=False)
