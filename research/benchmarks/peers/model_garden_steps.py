"""Times steps of TF Model Garden's own pre-training task.

A process of `benchmark.py train` and `forward`.
"""

import importlib.metadata
import os
from collections.abc import Callable

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import step_timing
import tensorflow as tf
import tf_keras
from official.nlp import optimization
from official.nlp.configs import bert, encoders
from official.nlp.data import pretrain_dataloader
from official.nlp.tasks import masked_lm

# Its own name for each of the features that are called otherwise.
_NAMES = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}


def main() -> None:
  """Times the steps of one setting."""
  settings = step_timing.read_settings()
  if settings.precision == "bfloat16":
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
  task = masked_lm.MaskedLMTask(
    masked_lm.MaskedLMConfig(
      model=_model_config(settings),
      train_data=pretrain_dataloader.BertPretrainDataConfig(),
    )
  )
  batch = step_timing.batch_of(settings)
  features = {
    _NAMES.get(name, name): tf.constant(value) for name, value in batch.items()
  }
  make = _forward_step if settings.task == "forward" else _training_step
  size = step_timing.PRODUCT_SIZES[settings.device]
  matrix = tf.random.normal([size, size])
  matrix = tf.cast(matrix, settings.precision)
  version = importlib.metadata.version("tf-models-official")
  step_timing.report(
    settings,
    f"Model Garden {version}, TensorFlow {tf.__version__}",
    make(task, features, settings.compiled),
    lambda: tf.matmul(matrix, matrix)[0, 0].numpy(),
  )


def _model_config(settings: step_timing.Settings) -> bert.PretrainerConfig:
  """Returns the model with the heads of masked LM and next sentence."""
  encoder = encoders.BertEncoderConfig(
    vocab_size=settings.vocab_size,
    hidden_size=settings.hidden_size,
    num_layers=settings.num_hidden_layers,
    num_attention_heads=settings.num_attention_heads,
    intermediate_size=settings.intermediate_size,
  )
  next_sentence = bert.ClsHeadConfig(
    inner_dim=settings.hidden_size,
    num_classes=2,
    dropout_rate=0.1,
    name="next_sentence",
  )
  return bert.PretrainerConfig(
    encoder=encoders.EncoderConfig(type="bert", bert=encoder),
    cls_heads=[next_sentence],
    mlm_activation="gelu",
  )


def _training_step(
  task: masked_lm.MaskedLMTask, features: dict[str, tf.Tensor], compiled: bool
) -> Callable[[], object]:
  """Returns the task's training step with the optimizer for BERT."""
  model = task.build_model()
  optimizer = optimization.create_optimizer(1e-4, 10_000, 100)
  metrics = task.build_metrics(training=True)
  run = tf.function(
    lambda: task.train_step(features, model, optimizer, metrics),
    jit_compile=compiled,
  )
  return lambda: run()["loss"].numpy()


def _forward_step(
  task: masked_lm.MaskedLMTask, features: dict[str, tf.Tensor], compiled: bool
) -> Callable[[], object]:
  """Returns the encoder's forward pass, without dropout."""
  encoder = task.build_model().encoder_network
  names = ("input_word_ids", "input_mask", "input_type_ids")
  inputs = {name: features[name] for name in names}
  run = tf.function(
    lambda: encoder(inputs, training=False)["sequence_output"],
    jit_compile=compiled,
  )
  return lambda: run()[0, 0].numpy()


if __name__ == "__main__":
  main()
