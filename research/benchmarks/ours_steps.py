"""Times steps of this project: a process of `benchmark.py train`."""

import tempfile
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from bert_tf import modeling
from bert_tf.kernels import onednn_layer_norm
from bert_tf.layers import mixed_precision
from bert_tf.tasks import pretraining
from bert_tf.training import compilation
from bert_tf.training import config as training_config
from research.benchmarks.peers import step_timing


def main() -> None:
  """Times the steps of one setting."""
  settings = step_timing.read_settings()
  config = modeling.BertConfig(**settings.sizes, type_vocab_size=2)
  make = _training_step if settings.task == "train" else _forward_step
  size = step_timing.PRODUCT_SIZES[settings.device]
  matrix = tf.random.normal([size, size])
  matrix = tf.cast(matrix, settings.precision)
  step_timing.report(
    settings,
    f"TensorFlow {tf.__version__}",
    make(config, settings),
    lambda: tf.matmul(matrix, matrix)[0, 0].numpy(),
  )


def _training_step(
  config: modeling.BertConfig, settings: step_timing.Settings
) -> Callable[[], object]:
  """Returns a pre-training step, as run_pretraining.py takes it."""
  with tempfile.TemporaryDirectory() as folder:
    runner = pretraining.build_estimator(
      config,
      training_config.TrainConfig(
        output_dir=folder,
        train_batch_size=settings.batch_size,
        learning_rate=1e-4,
        num_train_steps=10_000,
        num_warmup_steps=100,
        precision=settings.precision,
        use_xla=False,
      ),
    )
  batch = step_timing.batch_of(settings)
  features = {name: tf.constant(value) for name, value in batch.items()}
  mode = compilation.WHOLE if settings.compiled else compilation.PLAIN
  step = runner.train_step.with_mode(mode).build(
    {name: tf.TensorSpec(t.shape, t.dtype) for name, t in features.items()}
  )
  return lambda: np.array(step(features)["loss"][0])


def _forward_step(
  config: modeling.BertConfig, settings: step_timing.Settings
) -> Callable[[], object]:
  """Returns the encoder's forward pass, without dropout."""
  with mixed_precision.policy_scope(settings.precision):
    model = modeling.BertModel(config)
  names = ("input_ids", "input_mask", "segment_ids")
  batch = step_timing.batch_of(settings)
  features = {name: tf.constant(batch[name]) for name in names}

  def output() -> tf.Tensor:
    if settings.compiled:
      return model(features).sequence_output
    with onednn_layer_norm.fused():  # As evaluation and prediction compute.
      return model(features).sequence_output

  run = tf.function(output, jit_compile=settings.compiled, autograph=False)
  return lambda: np.array(run()[0, 0])


if __name__ == "__main__":
  main()
