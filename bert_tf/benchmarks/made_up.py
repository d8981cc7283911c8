"""A small model and made-up batches for the benchmarks of training."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import modeling
from bert_tf.benchmarks.config import BenchmarkConfig
from bert_tf.benchmarks.peers import step_timing
from bert_tf.training import estimator

# BERT-Tiny.
TINY = modeling.BertConfig(
  vocab_size=30522,
  hidden_size=128,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=512,
  type_vocab_size=2,
)

Batch = Mapping[str, np.ndarray]


def bert_config(config: BenchmarkConfig) -> modeling.BertConfig:
  """Returns the sizes of the model to measure."""
  if config.bert_config_file:
    return modeling.BertConfig.from_json_file(config.bert_config_file)
  return TINY


def batch(
  config: modeling.BertConfig,
  batch_size: int,
  length: int,
  num_predictions: int,
  seed: int,
) -> Batch:
  """Returns a pre-training batch; how many words are masked differs by row."""
  rng = np.random.default_rng(seed)
  num_masked = rng.integers(1, num_predictions + 1, (batch_size, 1))
  is_masked = np.arange(num_predictions) < num_masked
  return {
    **step_timing.made_up_batch(
      config.vocab_size, batch_size, length, num_predictions, seed
    ),
    "masked_lm_weights": is_masked.astype(np.float32),
  }


def step_seconds(
  runner: estimator.Estimator, batches: Sequence[Batch]
) -> list[float]:
  """Returns how long each batch's training step takes; the first compiles."""
  step = runner.train_step.build(
    {
      name: tf.TensorSpec(value.shape, value.dtype)
      for name, value in batches[0].items()
    }
  )
  seconds = []
  for batch in batches:
    features = {name: tf.constant(value) for name, value in batch.items()}
    start = time.perf_counter()
    np.array(step(features)["loss"][0])  # Waits for the step.
    seconds.append(time.perf_counter() - start)
  return seconds
