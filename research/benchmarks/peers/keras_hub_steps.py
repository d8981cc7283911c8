"""Times steps of KerasHub on TensorFlow: masked LM alone, under XLA.

A process of `benchmark.py train` and `forward`.
"""

from collections.abc import Callable

import keras
import keras_hub
import step_timing
import tensorflow as tf


def main() -> None:
  """Times the steps of one setting."""
  settings = step_timing.read_settings()
  if settings.precision == "bfloat16":
    keras.config.set_dtype_policy("mixed_bfloat16")
  backbone = keras_hub.models.BertBackbone(
    vocabulary_size=settings.vocab_size,
    num_layers=settings.num_hidden_layers,
    num_heads=settings.num_attention_heads,
    hidden_dim=settings.hidden_size,
    intermediate_dim=settings.intermediate_size,
  )
  make = _forward_step if settings.task == "forward" else _training_step
  size = step_timing.PRODUCT_SIZES[settings.device]
  matrix = tf.random.normal([size, size])
  matrix = tf.cast(matrix, settings.precision)
  step_timing.report(
    settings,
    f"KerasHub {keras_hub.__version__}, TensorFlow {tf.__version__}",
    make(backbone, settings),
    lambda: tf.matmul(matrix, matrix)[0, 0].numpy(),
  )


def _inputs(batch: step_timing.Batch) -> dict[str, tf.Tensor]:
  """Returns what the backbone takes."""
  return {
    "token_ids": tf.constant(batch["input_ids"]),
    "padding_mask": tf.constant(batch["input_mask"]),
    "segment_ids": tf.constant(batch["segment_ids"]),
  }


def _training_step(
  backbone: keras.Model, settings: step_timing.Settings
) -> Callable[[], object]:
  """Returns a training step of the masked LM."""
  positions = keras.Input([settings.num_predictions], dtype="int32")
  logits = keras_hub.layers.MaskedLMHead(
    token_embedding=backbone.token_embedding,
    intermediate_activation=lambda x: keras.activations.gelu(x, True),
  )(backbone.output["sequence_output"], mask_positions=positions)
  inputs = {**backbone.input, "positions": positions}
  model = keras.Model(inputs, logits)
  model.compile(
    optimizer=keras.optimizers.AdamW(1e-4, 0.01, global_clipnorm=1.0),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile=settings.compiled,
  )
  batch = step_timing.batch_of(settings)
  features = {
    **_inputs(batch),
    "positions": tf.constant(batch["masked_lm_positions"]),
  }
  labels = tf.constant(batch["masked_lm_ids"])
  weights = tf.constant(batch["masked_lm_weights"])
  return lambda: model.train_on_batch(features, labels, weights)


def _forward_step(
  backbone: keras.Model, settings: step_timing.Settings
) -> Callable[[], object]:
  """Returns the encoder's forward pass, without dropout."""
  features = _inputs(step_timing.batch_of(settings))
  run = tf.function(
    lambda: backbone(features, training=False)["sequence_output"],
    jit_compile=settings.compiled,
  )
  return lambda: run()[0, 0].numpy()


if __name__ == "__main__":
  main()
