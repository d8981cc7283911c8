"""Times steps of the pre-training task of TF Model Garden.

A process of `benchmark.py train` and `forward`.
"""

import importlib.metadata
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import step_timing
import tensorflow as tf
import tf_keras
from official.nlp import optimization
from official.nlp.configs import bert, encoders
from official.nlp.data import pretrain_dataloader
from official.nlp.tasks import masked_lm

# Model Garden's names of features that BERT names differently.
_NAMES = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}


def main() -> None:
  """Times the steps that the command-line argument describes."""
  version = importlib.metadata.version("tf-models-official")
  step_timing.run(
    f"Model Garden {version}, TensorFlow {tf.__version__}",
    _training_step,
    _forward_step,
    step_timing.multiply_in_tensorflow,
  )


def _task(settings: step_timing.Settings) -> masked_lm.MaskedLMTask:
  if settings.precision == "bfloat16":
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
  return masked_lm.MaskedLMTask(
    masked_lm.MaskedLMConfig(
      model=_model_config(settings),
      train_data=pretrain_dataloader.BertPretrainDataConfig(),
    )
  )


def _features(settings: step_timing.Settings) -> dict[str, tf.Tensor]:
  return {
    _NAMES.get(name, name): tf.constant(value)
    for name, value in settings.batch().items()
  }


def _model_config(settings: step_timing.Settings) -> bert.PretrainerConfig:
  """Returns an encoder with masked LM and next-sentence heads."""
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


def _training_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns the training step of the task, with BERT's optimizer."""
  task, features = _task(settings), _features(settings)
  model = task.build_model()
  optimizer = optimization.create_optimizer(1e-4, 10_000, 100)
  metrics = task.build_metrics(training=True)
  run = tf.function(
    lambda: task.train_step(features, model, optimizer, metrics),
    jit_compile=bool(settings.compiled),
  )
  return lambda: run()["loss"].numpy()


def _forward_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns the encoder's forward pass, without dropout."""
  encoder = _task(settings).build_model().encoder_network
  features = _features(settings)
  names = ("input_word_ids", "input_mask", "input_type_ids")
  inputs = {name: features[name] for name in names}
  run = tf.function(
    lambda: encoder(inputs, training=False)["sequence_output"],
    jit_compile=bool(settings.compiled),
  )
  return lambda: run()[0, 0].numpy()


if __name__ == "__main__":
  main()
