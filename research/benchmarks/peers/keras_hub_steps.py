"""Times masked LM steps of KerasHub with XLA, without next-sentence loss.

A process of `benchmark.py train` and `forward`.
"""

import keras
import keras_hub
import step_timing
import tensorflow as tf


def main() -> None:
  """Times the steps that the command-line argument describes."""
  step_timing.run(
    f"KerasHub {keras_hub.__version__}, TensorFlow {tf.__version__}",
    _training_step,
    _forward_step,
    step_timing.multiply_in_tensorflow,
  )


def _backbone(settings: step_timing.Settings) -> keras.Model:
  if settings.precision == "bfloat16":
    keras.config.set_dtype_policy("mixed_bfloat16")
  return keras_hub.models.BertBackbone(
    vocabulary_size=settings.vocab_size,
    num_layers=settings.num_hidden_layers,
    num_heads=settings.num_attention_heads,
    hidden_dim=settings.hidden_size,
    intermediate_dim=settings.intermediate_size,
  )


def _inputs(batch: step_timing.Batch) -> dict[str, tf.Tensor]:
  """Returns the encoder's inputs, int32 [B, F], by the names of KerasHub."""
  return {
    "token_ids": tf.constant(batch["input_ids"]),
    "padding_mask": tf.constant(batch["input_mask"]),
    "segment_ids": tf.constant(batch["segment_ids"]),
  }


def _training_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns a training step of the masked LM."""
  backbone = _backbone(settings)
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
  batch = settings.batch()
  features = {
    **_inputs(batch),
    "positions": tf.constant(batch["masked_lm_positions"]),
  }
  labels = tf.constant(batch["masked_lm_ids"])
  weights = tf.constant(batch["masked_lm_weights"])
  return lambda: model.train_on_batch(features, labels, weights)


def _forward_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns the encoder's forward pass, without dropout."""
  backbone = _backbone(settings)
  features = _inputs(settings.batch())
  run = tf.function(
    lambda: backbone(features, training=False)["sequence_output"],
    jit_compile=settings.compiled,
  )
  return lambda: run()[0, 0].numpy()


if __name__ == "__main__":
  main()
