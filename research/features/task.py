"""NER with a BiLSTM on the word vectors of a frozen BERT.

The vectors are computed once and stored as records. Shapes: B sentences, W
words of the longest sentence, L layers, D hidden size.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.data import input_pipeline, records
from bert_tf.model import heads
from bert_tf.model.layers import dropout, layer_norm
from bert_tf.modeling import Tensor
from bert_tf.tasks import base, fine_tuning, splits
from bert_tf.tasks import run as run_lib
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.rows import Results, Row
from bert_tf.training import progress
from research import bilstm
from research.features import config as config_lib

# Batches are padded to a multiple of this number of words, so that XLA compiles
# few programs.
_WIDTH_MULTIPLE = 16

# Number of windows in a batch for the computation of vectors.
BATCH_SIZE = 32

# Dtype of stored vectors. It has half the size of float32, and the outputs of a
# frozen BERT do not need more precision.
_STORED = np.float16

# "A randomly initialized two-layer 768-dimensional BiLSTM before the
# classification layer" (Devlin et al. 2019, 5.3). We assume that 768 is the sum
# of both directions.
_NUM_LAYERS = 2
_UNITS = 384

# Dropout probability of the classification layer's input, as in fine-tuning.
_DROPOUT = 0.1


def num_layers(feature_layers: str, bert_config: modeling.BertConfig) -> int:
  """Returns L, the number of layers that are used."""
  outputs = range(1 + bert_config.num_hidden_layers)
  return len(outputs[config_lib.FEATURE_LAYERS[feature_layers]])


def check_layers(feature_layers: str, bert_config: modeling.BertConfig) -> None:
  """Raises ValueError if the model has too few layers."""
  needed = config_lib.num_needed_layers(feature_layers)
  if bert_config.num_hidden_layers < needed:
    raise ValueError(
      f"feature_layers {feature_layers} needs {needed} layers, but the model "
      f"has {bert_config.num_hidden_layers}; choose others."
    )


class VectorModel(keras.Model):
  """A BertModel that returns some of its layers, float16 [B, F, L, D]."""

  def __init__(
    self, bert_config: modeling.BertConfig, feature_layers: str
  ) -> None:
    super().__init__(name="vectors")
    self.bert = modeling.BertModel(bert_config)
    self.feature_layers = config_lib.FEATURE_LAYERS[feature_layers]
    self.built = True

  def call(self, batch: Mapping[str, Tensor], training: bool = False) -> Tensor:
    """Returns the layers for BertModel's features, always without dropout."""
    output = self.bert(batch, training=False)
    layers = (output.embedding_output, *output.all_encoder_layers)
    stacked = ops.stack(layers[self.feature_layers], axis=2)  # [B, F, L, D]
    return ops.cast(stacked, _STORED.__name__)


def word_vectors(
  bert_config: modeling.BertConfig,
  init_checkpoint: str,
  feature_layers: str,
  batches: tf.data.Dataset,
) -> Iterator[np.ndarray]:
  """Yields one float16 array [L, D] for every labelled word, in order.

  Args:
    bert_config: the sizes of BERT.
    init_checkpoint: the checkpoint of BERT.
    feature_layers: a name in config.FEATURE_LAYERS.
    batches: batches of the windows' records.
  """
  model = VectorModel(bert_config, feature_layers)
  checkpoints.load_variables(
    checkpoints.CheckpointReader(init_checkpoint), model, "bert/"
  )
  compute = tf.function(model, reduce_retracing=True, autograph=False)
  for batch in progress.track(batches, "computing features", "batch"):
    with layer_norm.fused():
      computed = compute(batch)
    yield from computed.numpy()[batch["label_mask"].numpy() == 1]


def write_records(
  path: str,
  rows: Sequence[Row],
  labels: Sequence[str],
  vectors: Iterable[np.ndarray],
) -> input_pipeline.RecordFiles:
  """Writes a record for each sentence: label and vector of each word.

  Args:
    path: the file to write.
    rows: the sentences, with `words` and perhaps `label`.
    labels: the labels in the order of their ids.
    vectors: float16 [L, D] for every word in order.
  """
  ids, words = {label: i for i, label in enumerate(labels)}, iter(vectors)
  with records.open_writer([path]) as writer:
    for row in rows:
      num_words = len(row["words"])
      tags = row.get("label") or [labels[0]] * num_words
      # input_mask determines the length when records are grouped by length.
      ints = {
        "input_mask": [1] * num_words,
        "label_ids": [ids[tag] for tag in tags],
      }
      example = tf.train.Example.FromString(records.encode_example(ints, {}))
      example.features.feature["vectors"].bytes_list.value.append(
        b"".join(v.tobytes() for v in itertools.islice(words, num_words))
      )
      writer.write(example.SerializeToString(deterministic=True))
  return input_pipeline.RecordFiles((path,), len(rows))


def spec() -> input_pipeline.Spec:
  """Returns the features of a record of `write_records`."""
  ragged = tf.io.RaggedFeature(tf.int64)
  vectors = tf.io.FixedLenFeature([], tf.string)
  return {"vectors": vectors, "input_mask": ragged, "label_ids": ragged}


def decode(
  batches: tf.data.Dataset, num_layers: int, hidden_size: int
) -> tf.data.Dataset:
  """Pads batches of sentences to W words.

  The features are `vectors`, float16 [B, W, L, D], and `label_ids` and
  `label_mask`, int32 [B, W], 0 for padding.
  """

  @tf.autograph.experimental.do_not_convert
  def decoded(batch: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    longest = tf.cast(batch["label_ids"].bounding_shape()[1], tf.int32)
    width = -(-longest // _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE
    num_bytes = width * num_layers * hidden_size * _STORED().nbytes
    # TensorFlow has no kernel that pads float16.
    bits = tf.io.decode_raw(batch["vectors"], tf.int16, fixed_length=num_bytes)
    vectors = tf.bitcast(bits, tf.as_dtype(_STORED))
    shape = [-1, width, num_layers, hidden_size]
    return {
      "vectors": tf.reshape(vectors, shape),
      "label_ids": _padded(batch["label_ids"], width),
      "label_mask": _padded(batch["input_mask"], width),
    }

  return batches.map(decoded)


def _padded(rows: tf.RaggedTensor, width: tf.Tensor) -> tf.Tensor:
  """Returns [B, W], the rows padded with 0."""
  padded = rows.to_tensor(shape=tf.stack([-1, width]))
  return tf.reshape(padded, [-1, width])


class BiLstmModel(keras.Model):
  """A two-layer BiLSTM and a linear layer on the vectors of words.

  Args:
    num_vectors: L, the number of vectors of a word.
    hidden_size: D, the size of a vector.
    num_labels: C, the number of labels.
    is_summed: whether to sum a word's vectors, weighted by the softmax of
      learned numbers. Otherwise they are concatenated.
  """

  def __init__(
    self,
    num_vectors: int,
    hidden_size: int,
    num_labels: int,
    is_summed: bool,
  ) -> None:
    super().__init__(name="bilstm")
    self.seed_generator = dropout.Seeds(0)
    self.layer_weights = None
    size = num_vectors * hidden_size
    if is_summed:
      size = hidden_size
      self.layer_weights = keras.Variable(
        keras.initializers.Zeros(),
        shape=(num_vectors,),
        dtype=self.variable_dtype,
        name="layer_weights",
      )
    bilstms = []
    for i in range(_NUM_LAYERS):
      layer = bilstm.make(size, _UNITS, f"bilstm_{i}", self.dtype_policy)
      bilstms.append(layer)
      size = 2 * _UNITS
    policy = self.dtype_policy
    self.head = heads.LinearHead(
      heads.WORD_LABELS, size, num_labels, dtype=policy
    )
    self.bilstms = bilstms
    self.built = True

  def call(self, batch: Mapping[str, Tensor], training: bool = False) -> Tensor:
    """Returns the logits, float [B, W, C], of B sentences of up to W words.

    The batch has `vectors`, float [B, W, L, D], and `label_mask`, int [B, W], 0
    for padding.
    """
    vectors = ops.cast(batch["vectors"], self.compute_dtype)
    if self.layer_weights is not None:
      weights = ops.softmax(self.layer_weights)
      hidden = ops.einsum("l,bwld->bwd", weights, vectors)
    else:
      batch_size, width = ops.shape(vectors)[:2]
      size = vectors.shape[2] * vectors.shape[3]
      hidden = ops.reshape(vectors, (batch_size, width, size))
    mask = ops.greater(batch["label_mask"], 0)
    for layer in self.bilstms:
      hidden = layer(hidden, mask=mask, training=training)
    hidden = dropout.dropout(hidden, _DROPOUT, self.seed_generator, training)
    return self.head(hidden)


class FeaturesTask(ner.NerTask):
  """Labels the words of sentences by vectors that BERT computes once."""

  noun = "training sentences"
  counts_windows = False

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the words of each sentence, whose record `encode` writes."""
    for inputs in super().preprocess(rows):
      sentence, _ = inputs.state
      positions = [*range(len(sentence["words"]))]
      no_pieces = base.model_input([], 0)
      yield base.Inputs([no_pieces], (sentence, [positions]))

  def build_model(self, config: modeling.BertConfig) -> BiLstmModel:
    """Returns the BiLSTM, of which BERT is no part, with random values."""
    assert self.labels
    layers = self.config.feature_layers
    return BiLstmModel(
      num_layers(layers, config),
      config.hidden_size,
      self.labels.num_outputs,
      is_summed=layers.startswith("weighted_sum"),
    )


def encode(
  task: base.Task,
  split: splits.Split,
  folder: str,
  bert_config: modeling.BertConfig,
) -> run_lib.Data:
  """Writes a record of the vectors of each sentence; see splits.encode."""
  config = task.config
  check_layers(config.feature_layers, bert_config)
  assert config.train.init_checkpoint and task.labels
  windows_task = ner.NerTask(**vars(task))
  windows = splits.encode(windows_task, split, folder, bert_config)
  vectors = word_vectors(
    bert_config,
    config.train.init_checkpoint,
    config.feature_layers,
    windows.evaluation(BATCH_SIZE),
  )
  path = os.path.join(folder, f"{config.feature_layers}.{split.name}.tf_record")
  files = write_records(path, split.rows, task.labels.labels, vectors)

  def decode_vectors(batches: tf.data.Dataset, *_: int) -> tf.data.Dataset:
    layers = num_layers(config.feature_layers, bert_config)
    return decode(batches, layers, bert_config.hidden_size)

  return run_lib.read_records(
    config, bert_config, files, spec(), decode_vectors, split.rows
  )


def run(config: config_lib.FeaturesConfig) -> Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run."""
  if not config.train.init_checkpoint:
    raise ValueError(
      "a trained BERT computes the features: set `init_checkpoint`."
    )
  train = dataclasses.replace(config.train, encoder_only=True)
  config = dataclasses.replace(config, train=train)
  return fine_tuning.run(config, FeaturesTask, encode)
