"""Times steps of bert_tf. A process of `benchmark.py train` and `forward`."""

import tempfile

import numpy as np
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model.layers import layer_norm, mixed_precision
from bert_tf.tasks.pretraining import pretraining
from bert_tf.training import compilation, estimator
from bert_tf.training import config as training_config
from research.benchmarks.peers import step_timing


def main() -> None:
  """Times the steps that the command-line argument describes."""
  step_timing.run(
    f"TensorFlow {tf.__version__}",
    _training_step,
    _forward_step,
    step_timing.multiply_in_tensorflow,
    lambda: tf.config.experimental.get_memory_info("GPU:0")["peak"],
    _profile,
  )


def _profile(folder: str, run: step_timing.Step) -> None:
  with tf.profiler.experimental.Profile(folder):
    run()


def _set_device(settings: step_timing.Settings) -> None:
  """Hides the GPUs from TensorFlow, or checks that it has one, without TF32."""
  if settings.device == "cpu":
    tf.config.set_visible_devices([], "GPU")
  elif not tf.config.list_physical_devices("GPU"):
    raise ValueError("TensorFlow finds no GPU; bert-tf doctor tells why.")
  mixed_precision.set_tf32(settings.precision)


def build_training(
  settings: step_timing.Settings,
) -> tuple[estimator.Estimator, dict[str, tf.Tensor]]:
  """Returns pre-training as run_pretraining.py builds it, and its batch."""
  config = modeling.BertConfig(**settings.sizes, type_vocab_size=2)
  with tempfile.TemporaryDirectory() as folder:
    runner = estimator.Estimator(
      pretraining.PretrainingObjective(),
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
  features = {
    name: tf.constant(value) for name, value in settings.batch().items()
  }
  return runner, features


def _training_step(settings: step_timing.Settings) -> step_timing.Step:
  _set_device(settings)
  runner, features = build_training(settings)
  mode = {
    False: compilation.Mode.PLAIN,
    "clustered": compilation.Mode.CLUSTERED,
    True: compilation.Mode.WHOLE,
  }[settings.compiled]
  step = runner.train_step.build(
    {name: tf.TensorSpec(t.shape, t.dtype) for name, t in features.items()},
    mode,
  )
  return lambda: np.array(step(features)["loss"][0])


def _forward_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns the encoder's forward pass, without dropout."""
  _set_device(settings)
  config = modeling.BertConfig(**settings.sizes, type_vocab_size=2)
  with mixed_precision.policy_scope(settings.precision):
    model = modeling.BertModel(config)
  names = ("input_ids", "input_mask", "segment_ids")
  batch = settings.batch()
  features = {name: tf.constant(batch[name]) for name in names}

  def output() -> tf.Tensor:
    if settings.compiled:
      return model(features).sequence_output
    with layer_norm.fused():  # As in evaluation and prediction.
      return model(features).sequence_output

  run = tf.function(output, jit_compile=settings.compiled, autograph=False)
  return lambda: np.array(run()[0, 0])


if __name__ == "__main__":
  main()
