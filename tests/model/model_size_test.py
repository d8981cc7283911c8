"""Sizes of models, checked against built and released models."""

import json
import re

import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model import heads, model_size
from tests.support import runs

BASE = modeling.BertConfig(vocab_size=30522, type_vocab_size=2)


def test_operations_are_those_that_tensorflow_counts():
  config = modeling.BertConfig.from_dict(runs.CONFIG)
  batch = 3, 16, 2
  model = heads.PretrainingModel(config)
  spec = {
    name: tf.TensorSpec(shape, tf.int32)
    for name, shape in {
      "input_ids": (3, 16),
      "input_mask": (3, 16),
      "segment_ids": (3, 16),
      "masked_lm_positions": (3, 2),
    }.items()
  }
  graph = tf.function(model).get_concrete_function(spec).graph
  options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
  profile = tf.compat.v1.profiler.profile(graph, options=options)
  ours = sum(t.value for t in model_size.terms("forward", config, batch))
  # The profiler also counts biases, norms and activations.
  assert ours < profile.total_float_ops < 1.5 * ours


@pytest.mark.parametrize(
  "table", ["encoder", "heads", "forward", "training", "inference"]
)
def test_each_value_is_that_of_the_formula_beside_it(table):
  config = modeling.BertConfig(
    vocab_size=101,
    hidden_size=6,
    num_hidden_layers=5,
    num_attention_heads=3,
    intermediate_size=11,
    max_position_embeddings=23,
    type_vocab_size=2,
  )
  tables = ["encoder", "heads"] if table == "training" else ["encoder"]
  letters = dict(V=101, H=6, L=5, A=3, I=11, P=23, T=2, B=7, S=13, M=4)
  letters["W"] = sum(
    t.value for name in tables for t in model_size.terms(name, config)
  )
  batch = 7, 13, 4
  for name, formula, value in model_size.terms(table, config, batch):
    # Python's form of a formula: 2 H^2 is 2 * H**2.
    code = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", formula).replace("^", "**")
    assert eval(code, {}, letters) == value, name


def test_the_report_has_every_term_and_sum(tmp_path, run_script):
  path = tmp_path / "bert_config.json"
  path.write_text(json.dumps(BASE.to_dict()))
  result = run_script("inspect", f"--config={path}", cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  for number in ("109,482,240", "110,106,428", "440,425,712", "1,321,277,136"):
    assert number in result.stdout
  assert "L 4 (H^2 + H)" in result.stdout
