"""The model against what the original release computed."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling, optimization
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads, losses

GOLDEN = pathlib.Path(__file__).parent / "golden"
VARIANTS = ["tiny", "tiny_perturbed", "variant_relu", "variant_tanh"]

# TF 1.11, TF 2.15 and a float64 model differ by 3.5e-6.
TOLERANCE = 1e-5


def load(name):
  """Returns a model, its inputs and all that was recorded of it."""
  folder = GOLDEN / name
  config = modeling.BertConfig.from_json_file(str(folder / "bert_config.json"))
  if name == "tiny_classifier":
    model = heads.ClassifierModel(config, num_labels=3)
  else:
    model = heads.PretrainingModel(config)
  reader = checkpoints.CheckpointReader(str(folder / "bert_model.ckpt"))
  assert {v.path: tuple(v.shape) for v in model.weights} == reader.shapes
  assert not checkpoints.load_variables(reader, model)
  recorded = dict(np.load(folder / "forward.npz"))
  inputs = {
    key[3:]: tf.constant(value)
    for key, value in recorded.items()
    if key.startswith("in/")
  }
  return model, inputs, recorded


def close(actual, expected):
  np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def check_gradients(model, gradients, recorded):
  paths = [v.path for v in model.trainable_variables]
  names = {key[5:] for key in recorded if key.startswith("grad/")}
  assert names == {*paths}
  for path, gradient in zip(paths, gradients):
    close(tf.convert_to_tensor(gradient), recorded[f"grad/{path}"])


@pytest.mark.parametrize("name", VARIANTS)
def test_encoder_outputs_equal_the_original(name):
  model, inputs, recorded = load(name)
  output = model.bert(inputs)
  close(output.embedding_output, recorded["out/embedding_output"])
  for i, layer in enumerate(output.all_encoder_layers):
    close(layer, recorded[f"out/encoder_layer_{i}"])
  close(output.sequence_output, recorded["out/sequence_output"])
  close(output.pooled_output, recorded["out/pooled_output"])


@pytest.mark.parametrize("name", VARIANTS)
def test_losses_and_gradients_equal_the_original(name):
  model, inputs, recorded = load(name)
  with tf.GradientTape() as tape:
    outputs = model(inputs)
    sums = losses.pretraining_loss(outputs, inputs)
    total = sum(loss / weight for loss, weight in sums.values())
  gradients = tape.gradient(total, model.trainable_variables)
  means = {key: loss / weight for key, (loss, weight) in sums.items()}
  close(means["masked_lm_loss"], recorded["out/mlm_loss"])
  close(means["next_sentence_loss"], recorded["out/nsp_loss"])
  close(total, recorded["out/total_loss"])
  log_probs = tf.nn.log_softmax(outputs.masked_lm_logits)
  close(
    tf.reshape(log_probs, (-1, log_probs.shape[-1])),
    recorded["out/mlm_log_probs"],
  )
  close(
    tf.nn.log_softmax(outputs.next_sentence_logits),
    recorded["out/nsp_log_probs"],
  )
  check_gradients(model, gradients, recorded)


def test_a_classifiers_loss_and_gradients_equal_the_original():
  model, inputs, recorded = load("tiny_classifier")
  with tf.GradientTape() as tape:
    logits = model(inputs)
    each = losses.per_example_loss(
      logits, inputs["label_ids"], "classification"
    )
    loss = tf.reduce_mean(each)
  close(logits, recorded["out/logits"])
  close(each, recorded["out/per_example_loss"])
  probabilities = losses.probabilities(logits, "classification")
  close(probabilities, recorded["out/probabilities"])
  close(loss, recorded["out/loss"])
  gradients = tape.gradient(loss, model.trainable_variables)
  check_gradients(model, gradients, recorded)
  norm = float(optimization.global_norm(optimization.to_dense(gradients)))
  expected = recorded["grad_global_norm_as_clipped"]
  assert norm == pytest.approx(expected, rel=1e-5)
  # Rows of one word piece count separately; the dense norm would differ.
  assert norm != pytest.approx(recorded["grad_global_norm_dense"], rel=1e-3)


def test_one_hot_embeddings_change_nothing():
  model, inputs, recorded = load("tiny_perturbed")
  one_hot = heads.PretrainingModel(model.bert.config)
  one_hot.bert.embeddings.use_one_hot_embeddings = True
  one_hot.set_weights(model.get_weights())
  output = one_hot.bert(inputs)
  close(output.sequence_output, recorded["out/sequence_output"])


def test_dropout_is_drawn_anew_in_training_and_not_at_all_outside():
  config = modeling.BertConfig(50, 8, 1, 2, 16, max_position_embeddings=16)
  model = modeling.BertModel(config)
  ids = {"input_ids": tf.constant([[1, 2, 3, 4]])}
  first = model(ids, training=True).sequence_output.numpy()
  second = model(ids, training=True).sequence_output.numpy()
  assert np.abs(first - second).max() > 0.01
  np.testing.assert_array_equal(
    model(ids).sequence_output, model(ids).sequence_output
  )


def test_an_input_longer_than_the_positions_is_refused():
  config = modeling.BertConfig(50, 8, 1, 2, 16, max_position_embeddings=4)
  model = modeling.BertModel(config)
  with pytest.raises(ValueError, match="max_seq_length 5 .* 4"):
    model({"input_ids": tf.zeros((1, 5), tf.int32)})


def test_initial_matrices_are_truncated_normal_and_the_rest_zero_or_one():
  config = modeling.BertConfig(1000, 64, 2, 2, 256, initializer_range=0.1)
  model = heads.PretrainingModel(config)
  for variable in model.weights:
    value = variable.numpy()
    if variable.path.endswith(("bias", "beta")):
      assert not value.any(), variable.path
    elif variable.path.endswith("gamma"):
      assert (value == 1).all(), variable.path
    else:
      # Truncated at two deviations, which leaves 0.88 of the deviation.
      assert np.abs(value).max() <= 0.2 + 1e-6, variable.path
  words = model.bert.embeddings.word_embeddings.numpy()
  assert abs(words.std() - 0.088) < 0.001
  kernels = [v.numpy() for v in model.weights if v.path.endswith("kernel")]
  assert not np.array_equal(kernels[0], kernels[1])


def test_config_reads_the_keys_of_the_original_and_keeps_unknown_ones():
  values = {"vocab_size": 100, "hidden_size": 24, "pooler_type": "first"}
  config = modeling.BertConfig.from_dict(values)
  assert config.hidden_size == 24
  assert config.type_vocab_size == 16
  assert config.to_dict()["pooler_type"] == "first"
  again = modeling.BertConfig.from_dict(json.loads(config.to_json_string()))
  assert again == config


def test_the_epsilon_of_the_config_is_that_of_every_layer_norm(tmp_path):
  path = tmp_path / "bert_config.json"
  sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
  path.write_text(json.dumps({"vocab_size": 9, "layer_norm_eps": 0.5, **sizes}))
  config = modeling.BertConfig.from_json_file(str(path))
  assert json.loads(config.to_json_string())["layer_norm_eps"] == 0.5
  assert "layer_norm_eps" not in modeling.BertConfig(vocab_size=9).to_dict()
  model = modeling.BertModel(config)
  tables = model.embeddings
  x = tables.word_embeddings[3] + tables.token_type_embeddings[0]
  x = np.asarray(x + tables.position_embeddings[0])
  expected = (x - x.mean()) / np.sqrt(x.var() + 0.5)
  output = model({"input_ids": [[3]]}).embedding_output[0, 0]
  np.testing.assert_allclose(output, expected, atol=1e-6)
  layer = model.encoder.transformer_layers[0]
  for part in (layer.residual_output, layer.attention_output):
    assert part.layer_norm.epsilon == 0.5


def test_sizes_are_refused_when_a_model_is_built_and_not_before():
  config = modeling.BertConfig(vocab_size=99, hidden_size=37)
  with pytest.raises(ValueError, match="hidden_size 37 .*_attention_heads 12"):
    modeling.BertModel(config)
  config = modeling.BertConfig(vocab_size=5, hidden_act="swish")
  with pytest.raises(ValueError, match="hidden_act 'swish'"):
    modeling.BertModel(config)


@pytest.mark.parametrize(
  ("content", "words"),
  [
    ('{"vocab_size": 9, "num_attention_heads": 0}', "heads is .*should"),
    ('{"vocab_size": 9, "hidden_size": "a"}', "hidden_size is .*should"),
    ('{"vocab_size": 9, "num_hidden_layers": 99999}', "layers is .*should"),
    ('{"vocab_size": 9, "hidden_dropout_prob": 1.0}', "prob is .*should"),
    ('{"vocab_size": 9, "initializer_range": 1e30}', "range is .*should"),
    ('{"vocab_size": 9, "layer_norm_eps": -1}', "eps is .*should"),
    ('{"vocab_size": 9, "ln_type": "preln"}', "ln_type is 'preln'"),
    ('{"vocab_size": 9, "is_decoder": true}', "is_decoder is True"),
    (
      '{"vocab_size": 9, "hidden_size": 8, "embedding_size": 4}',
      "embedding_size is 4 and must be 8",
    ),
    ('{"hidden_size": 8}', "vocab_size"),
    ("{not json", "is not JSON"),
  ],
)
def test_a_faulty_config_is_refused_with_its_file_and_key(
  tmp_path, content, words
):
  path = tmp_path / "config.json"
  path.write_text(content)
  with pytest.raises(ValueError, match=f"config.json.*{words}"):
    modeling.BertConfig.from_json_file(str(path))


@pytest.mark.parametrize("folder", ["google_chinese_L12", "google_uncased_L24"])
def test_released_checkpoints_have_our_names_and_shapes(unpacked, folder):
  folder = unpacked("checkpoints") / "index_only" / folder
  lines = (folder / "bert_model.ckpt.variables.tsv").read_text().splitlines()
  released = {}
  for line in lines:
    name, shape, _ = line.split("\t")
    released[name] = tuple(json.loads(shape))
  config = modeling.BertConfig.from_json_file(str(folder / "bert_config.json"))
  with tf.Graph().as_default():  # Names and shapes only: no memory.
    model = heads.PretrainingModel(config)
  assert {v.path: tuple(v.shape) for v in model.weights} == released
