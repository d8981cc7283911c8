"""A served model whose answers are known."""

import threading

import tensorflow as tf

from bert_tf.inference import loaded_model

PREDICT = "/v1/models/model:predict"


def spec(dtype, *shape):
  return tf.TensorSpec(shape, dtype)


class FakeModel:
  """Functions whose answers are known: the lengths of texts, sums of numbers.

  Attributes:
    calls: the texts of each call of "serving_default", in order.
    begun: event that such a call sets.
    gate: event that such a call waits for. Set at first.
  """

  def __init__(self):
    self.version = 7
    self.info = self.bert_config = self.vocab_file = None
    self.calls = []
    self.begun = threading.Event()
    self.gate = threading.Event()
    self.gate.set()
    function = loaded_model.Function
    self.functions = {
      "serving_default": function(
        {"text": spec(tf.string, None)},
        self._lengths,
        lambda: {"length": spec(tf.int32, None), "echo": spec(tf.string, None)},
      ),
      "sums": function(
        {"numbers": spec(tf.int32, None, None)},
        lambda numbers: {"sum": tf.reduce_sum(numbers, axis=1)},
        lambda: {"sum": spec(tf.int32, None)},
      ),
      "pair": function(
        {"text": spec(tf.string, None), "weight": spec(tf.float32, None)},
        lambda text, weight: {"weight": 2 * weight, "raw_bytes": text},
        lambda: {
          "weight": spec(tf.float32, None),
          "raw_bytes": spec(tf.string, None),
        },
      ),
    }

  def _lengths(self, text):
    texts = [value.decode() for value in text.numpy()]
    if texts != [loaded_model.SAMPLE_TEXT]:  # Not a warm-up call.
      self.begun.set()
      self.gate.wait(timeout=600)
      self.calls.append(texts)
    is_bad = tf.reduce_any(tf.equal(text, "bad"))
    tf.debugging.assert_equal(is_bad, False, "a text is bad")
    return {"length": tf.strings.length(text), "echo": text}


class VectorModel(FakeModel):
  """A model whose vector of a text is its number of bytes and of words."""

  def __init__(self):
    super().__init__()
    self.batches = []
    self.functions["text"] = loaded_model.Function(
      {"text": spec(tf.string, None)},
      self._vectors,
      lambda: {
        "embedding": spec(tf.float32, None, 2),
        "num_tokens": spec(tf.int32, None),
      },
    )

  def _vectors(self, text):
    texts = [value.decode() for value in text.numpy()]
    if texts != [loaded_model.SAMPLE_TEXT]:  # Not a warm-up call.
      self.batches.append(texts)
    words = [len(text.split()) for text in texts]
    vectors = [[len(text), num] for text, num in zip(texts, words)]
    return {
      "embedding": tf.constant(vectors, tf.float32),
      "num_tokens": tf.constant(words) + 2,
    }
