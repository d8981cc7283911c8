import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model import heads

CONFIG = modeling.BertConfig(
  vocab_size=30,
  hidden_size=8,
  num_hidden_layers=1,
  num_attention_heads=2,
  intermediate_size=16,
  type_vocab_size=2,
)
MODEL = modeling.BertModel(CONFIG)


def test_lists_arrays_and_tensors_are_the_same_input():
  lists = {"input_ids": [[1, 2], [3, 0]], "input_mask": ((1, 1), (1, 0))}
  arrays = {name: np.array(value) for name, value in lists.items()}
  tensors = {n: keras.ops.convert_to_tensor(v) for n, v in arrays.items()}
  expected = np.asarray(MODEL(tensors).sequence_output)
  cls = np.zeros((2, 1), np.int64)
  for more in ({}, {"label_ids": [0, 1]}, {"cls_positions": cls}):
    for features in (lists, arrays):
      output = MODEL({**features, **more}).sequence_output
      np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize(
  ("features", "words"),
  [
    (
      {"input_ids": [[1, 2]], "attention_mask": [[1, 1]]},
      "input_mask.*attention_mask",
    ),
    ({"input_ids": [[1, 2]], "position_ids": [[0, 1]]}, "no position_ids"),
    ({"input_word_ids": [[1, 2]]}, "input_ids"),
    ({"input_mask": [[1, 1]]}, "input_ids"),
    ([[1, 2]], "input_ids"),
    ({"input_ids": [1, 2]}, r"\[B, F\]"),
    ({"input_ids": [[[1, 2]]]}, r"\[1, 1, 2\]"),
    ({"input_ids": [[1, 2], [3]]}, "non-rectangular"),
    ({"input_ids": np.ones((1, 2))}, "float64"),
    ({"input_ids": [["a", "b"]]}, "string"),
    ({"input_ids": keras.Input((None,))}, "float32"),
    ({"input_ids": [[1, 2]], "segment_ids": [[1]]}, "segment_ids"),
    ({"input_ids": [[1, 2]], "input_mask": [[1, 1], [1, 1]]}, "input_mask"),
  ],
)
def test_inputs_that_do_not_fit_are_named(features, words):
  with pytest.raises(ValueError, match=words):
    MODEL(features)


@pytest.mark.parametrize(
  ("name", "values", "most"),
  [
    ("input_ids", [[2, -1]], 29),
    ("input_ids", [[2, 30]], 29),
    ("input_mask", [[1, -100]], 1),
    ("segment_ids", [[0, 2]], r"1 \(type_vocab_size 2\)"),
    ("cls_positions", [[0, 2]], 1),
    ("positions", [[-1]], 1),
  ],
)
def test_a_value_out_of_range_is_refused(name, values, most):
  features = {"input_ids": [[1, 2]]}
  arguments = {"positions": np.array(values)} if name == "positions" else {}
  fault = f"{name} has the value {np.array(values)[0, -1]}, .* 0 to {most}"
  with pytest.raises(ValueError, match=fault):
    MODEL(features if arguments else {**features, name: values}, **arguments)
  if not arguments:  # Keras compiles these calls.
    arrays = {**features, name: values}
    arrays = {key: np.array(value) for key, value in arrays.items()}
    for method in (MODEL.predict, MODEL.evaluate, MODEL.fit):
      with pytest.raises(ValueError, match=fault):
        method(arrays)
  if name == "input_ids":  # TensorFlow checks a compiled call on a CPU.
    with pytest.raises(tf.errors.InvalidArgumentError):
      tf.function(MODEL)({name: tf.constant(values)})


def test_fit_under_a_strategy_takes_incomplete_batches(start_python, tmp_path):
  code = """
import keras, numpy as np, tensorflow as tf
[cpu] = tf.config.list_physical_devices("CPU")
devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, devices)
from bert_tf import modeling
from bert_tf.model import heads
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
  model = heads.ClassifierModel(modeling.BertConfig(30, 8, 1, 2, 16), 2)
  model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True))
x, y = {"input_ids": np.full((9, 6), 7, "int32")}, np.arange(9) % 2
history = model.fit(x, y, batch_size=4, verbose=0).history
assert np.isfinite(history["loss"]).all()
"""
  # A fork of a process that has imported TensorFlow would hang.
  subprocess.run([sys.executable, "-c", code], check=True)


def test_choices_have_a_dimension_more():
  model = heads.MultipleChoiceModel(CONFIG)
  names = ("input_ids", "input_mask", "segment_ids")
  assert model({name: [[[1, 1], [1, 0]]] for name in names}).shape == (1, 2)
  with pytest.raises(ValueError, match=r"\[B, C, F\]"):
    model({name: [[1, 1]] for name in names})
