"""Programs of the peers, if their packages are installed."""

import importlib.util
import json
import subprocess
import sys

import pytest

from research.benchmarks import config, steps

SIZES = {
  "task": "train",
  "compiled": False,
  "precision": "float32",
  "device": "cpu",
  "batch_size": 2,
  "length": 8,
  "num_predictions": 2,
  "num_steps": 2,
  "vocab_size": 50,
  "hidden_size": 8,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 16,
}

# Stand-ins with the names of google-research/bert that the program uses.
MODELING = """
import json, os
import tensorflow as tf

class BertConfig:
  def __init__(self, vocab_size, **sizes):
    self.size = [vocab_size, sizes["hidden_size"]]

class BertModel:
  def __init__(self, config, is_training, input_ids, input_mask,
               token_type_ids):
    with tf.variable_scope("bert"):
      table = tf.get_variable("table", config.size)
      x = tf.layers.dense(tf.nn.embedding_lookup(table, input_ids), 8)
      self.x = 3.0 * tf.contrib.layers.layer_norm(
        inputs=x, begin_norm_axis=-1, begin_params_axis=-1, scope="norm")

  def get_sequence_output(self):
    names = sorted(v.op.name for v in tf.trainable_variables())
    x = tf.reshape(self.x, [-1, 8])
    moments = tf.reduce_mean(x), tf.reduce_mean(x * x)

    def note(mean, square):
      folder = os.path.dirname(__file__)
      with open(os.path.join(folder, "seen.json"), "w") as file:
        json.dump([float(mean), float(square), names], file)
      return mean

    with tf.control_dependencies([tf.py_func(note, moments, tf.float32)]):
      return tf.identity(self.x)
"""
RUN_PRETRAINING = """
import tensorflow as tf
import modeling
import optimization

def model_fn_builder(bert_config, init_checkpoint, learning_rate,
                     num_train_steps, num_warmup_steps, use_tpu,
                     use_one_hot_embeddings):
  def model_fn(features, labels, mode, params):
    assert mode == tf.estimator.ModeKeys.TRAIN
    model = modeling.BertModel(bert_config, True, features["input_ids"],
                               features["input_mask"], features["segment_ids"])
    loss = tf.reduce_mean(model.get_sequence_output())
    return tf.contrib.tpu.TPUEstimatorSpec(
      mode=mode, loss=loss, train_op=optimization.update(loss),
      scaffold_fn=None)
  return model_fn
"""
OPTIMIZATION = """
import tensorflow as tf

def update(loss):
  assert issubclass(tf.train.Optimizer, object)
  gradients = tf.gradients(loss, tf.trainable_variables())
  return tf.group(*[g for g in gradients if g is not None])
"""


@pytest.fixture
def original_dir(tmp_path):
  """Returns a folder with stand-ins for files of google-research/bert."""
  for name, text in (
    ("modeling", MODELING),
    ("run_pretraining", RUN_PRETRAINING),
    ("optimization", OPTIMIZATION),
  ):
    (tmp_path / f"{name}.py").write_text(text)
  return tmp_path


def run_program(name, **settings):
  """Returns the report of a peer's program on two steps."""
  program = next(p for p in steps.PROGRAMS if p.name == name)
  for module in program.modules:
    if importlib.util.find_spec(module) is None:
      pytest.skip(f"{module} is not installed: {program.install}")
  process = subprocess.run(
    [sys.executable, program.script, json.dumps({**SIZES, **settings})],
    env=steps.environment(is_ours=False),
    capture_output=True,
    text=True,
  )
  assert process.returncode == 0, process.stderr[-2000:]
  return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("task", ["train", "forward"])
def test_files_of_the_original_run_in_a_session(original_dir, task):
  report = run_program(
    "the original", original_dir=str(original_dir), task=task
  )
  assert len(report["ms"]) == SIZES["num_steps"]
  assert "the original" in report["version"]
  mean, square, names = json.loads((original_dir / "seen.json").read_text())
  # Mean 0 and variance 1, multiplied by 3.
  assert mean == pytest.approx(0, abs=1e-5)
  assert square == pytest.approx(9, rel=1e-2)
  assert {"bert/norm/beta", "bert/norm/gamma"} < set(names)


@pytest.mark.slow
def test_model_garden_takes_a_step():
  report = run_program("Model Garden", precision="bfloat16")
  assert len(report["ms"]) == SIZES["num_steps"]
  assert "Model Garden" in report["version"]


def test_the_original_runs_only_with_its_folder(original_dir):
  original = next(p for p in steps.PROGRAMS if p.needs_original_dir)
  assert steps.choose_python(original, config.BenchmarkConfig()) is None
  assert not original.can_run("train", "bfloat16", "cpu")
  sizes = steps.shared_sizes(
    config.BenchmarkConfig(original_dir=str(original_dir)), "train"
  )
  assert sizes["original_dir"] == str(original_dir)


def test_a_folder_without_the_originals_files_is_refused(tmp_path):
  with pytest.raises(ValueError, match="modeling.py"):
    steps.shared_sizes(
      config.BenchmarkConfig(original_dir=str(tmp_path)), "train"
    )
