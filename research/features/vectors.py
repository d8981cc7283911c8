"""Word vectors of a frozen BERT (Devlin et al. 2019, 5.3).

The vectors are computed once and stored; a BiLSTM is trained on them. Shapes: B
sentences, W words of the longest sentence, L layers, D hidden size.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf import checkpoints, modeling
from bert_tf.data import input_pipeline, record_cache, records
from bert_tf.kernels import onednn_layer_norm
from bert_tf.modeling import Tensor
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.training import progress
from research.features import config

# Batches are padded to a multiple of this number of words, so that XLA compiles
# few programs.
_WIDTH_MULTIPLE = 16

# Number of windows in a batch for the computation of vectors.
BATCH_SIZE = 32

# Dtype of stored vectors. It has half the size of float32, and the outputs of a
# frozen BERT do not need more precision.
_STORED = np.float16


def num_layers(feature_layers: str, bert_config: modeling.BertConfig) -> int:
  """Returns L, the number of layers that are used."""
  outputs = range(1 + bert_config.num_hidden_layers)
  return len(outputs[config.FEATURE_LAYERS[feature_layers]])


def check_layers(feature_layers: str, bert_config: modeling.BertConfig) -> None:
  """Raises ValueError if the model has too few layers."""
  needed = -(config.FEATURE_LAYERS[feature_layers].start or 0)
  if bert_config.num_hidden_layers < needed:
    raise ValueError(
      f"feature_layers {feature_layers} needs {needed} layers, the model has "
      f"{bert_config.num_hidden_layers}; choose another."
    )


class VectorModel(keras.Model):
  """A BertModel that returns some of its layers, float16 [B, F, L, D]."""

  def __init__(
    self, bert_config: modeling.BertConfig, feature_layers: str
  ) -> None:
    super().__init__(name="vectors")
    self.bert = modeling.BertModel(bert_config)
    self.feature_layers = config.FEATURE_LAYERS[feature_layers]
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
  checkpoints.init_from_checkpoint(model, init_checkpoint)
  compute = tf.function(model, reduce_retracing=True, autograph=False)
  for batch in progress.track(batches, "computing features", "batch"):
    with onednn_layer_norm.fused():
      computed = compute(batch)
    yield from computed.numpy()[batch["label_mask"].numpy() == 1]


def write_records(
  path: str,
  sentences: Sequence[Sentence],
  labels: Sequence[str],
  vectors: Iterable[np.ndarray],
  settings: Mapping[str, Any],
) -> input_pipeline.RecordFiles:
  """Writes a record for each sentence, unless the records exist already.

  Args:
    path: the file to write.
    sentences: the sentences.
    labels: the labels in the order of their ids.
    vectors: float16 [L, D] for every word in order. Not read if the records
      exist already.
    settings: everything, except for the sentences, that affects the vectors.
  """
  ids = {label: i for i, label in enumerate(labels)}

  def write_all(writer: records.RecordWriter) -> None:
    words = iter(vectors)
    for sentence in sentences:
      num_words = len(sentence.words)
      tags = sentence.tags or [labels[0]] * num_words
      writer.write(
        _encode(
          [ids[tag] for tag in tags], list(itertools.islice(words, num_words))
        )
      )

  rows = [(s.words, s.tags, s.document) for s in sentences]
  settings = {
    **settings,
    "sentences": record_cache.content_hash(rows),
    "labels": list(labels),
  }
  return record_cache.write(path, settings, write_all)


def _encode(label_ids: Sequence[int], vectors: Sequence[np.ndarray]) -> bytes:
  """Returns the record of a sentence: label and vector of each word."""
  # input_mask determines the length when records are grouped by length.
  ints = {"input_mask": [1] * len(label_ids), "label_ids": label_ids}
  stored = tf.train.Features()
  stored.feature["vectors"].bytes_list.value.append(
    b"".join(vector.tobytes() for vector in vectors)
  )
  encoded = records.encode_features(ints, {}) + stored.SerializeToString()
  return records.encode_example(encoded)


def batches(num_layers: int, hidden_size: int) -> batches_lib.Batches:
  """Returns a builder of batches of word vectors.

  The features are `vectors`, float16 [B, W, L, D], and `label_ids` and
  `label_mask`, int32 [B, W], 0 for padding.
  """
  ragged = tf.io.RaggedFeature(tf.int64)
  spec = {
    "vectors": tf.io.FixedLenFeature([], tf.string),
    "input_mask": ragged,
    "label_ids": ragged,
  }

  @tf.autograph.experimental.do_not_convert
  def decoded(batch: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Returns a batch of sentences that are padded to W words."""
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

  # The records have no word-piece ids, so the vocabulary size does not matter.
  return batches_lib.Batches(spec, 0, lambda batches, _: batches.map(decoded))


def _padded(rows: tf.RaggedTensor, width: tf.Tensor) -> tf.Tensor:
  """Returns [B, W], the rows padded with 0."""
  padded = rows.to_tensor(shape=tf.stack([-1, width]))
  return tf.reshape(padded, [-1, width])
