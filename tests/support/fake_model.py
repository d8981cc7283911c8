"""Served models whose answers are known, computed without TensorFlow."""

import threading

import numpy as np
import tensorflow as tf

from bert_tf.inference import ids_functions, predictor
from bert_tf.tasks import base
from tests.support import run_infos, tiny_models

PREDICT = "/v1/models/model:predict"

# Bytes of a text that fill a row of a batch, so that `max_batch_size` rows do.
WIDTH = 512


def model_input(text):
  """Returns the input of a text, whose ids are its bytes."""
  return base.model_input([*text.encode()] or [0], 1)


def text_of(output):
  return bytes(output["ids"].tolist()).decode()


class Echo:
  """Answers a text with its length in bytes and itself, without a model."""

  fields, num_required, outputs = ("text",), 1, ("ids",)
  width, max_seq_length = WIDTH, WIDTH

  def preprocess(self, rows):
    for row in rows:
      yield base.Inputs([model_input(row["text"])])

  def postprocess(self, inputs, outputs):
    [output] = outputs
    return {"length": len(output["ids"]), "echo": text_of(output)}


class Constant(Echo):
  """Gives each row the same answer."""

  def __init__(self, answer, *fields):
    self.fields, self.num_required = fields, len(fields)
    self._answer = answer

  def preprocess(self, rows):
    return super().preprocess({"text": str(row)} for row in rows)

  def postprocess(self, inputs, outputs):
    return self._answer


class Windows(Echo):
  """Cuts a text at spaces into windows."""

  def preprocess(self, rows):
    for row in rows:
      yield base.Inputs([model_input(part) for part in row["text"].split()])

  def postprocess(self, inputs, outputs):
    return {"windows": [text_of(output) for output in outputs]}


class Vectors(Echo):
  """The vector of a text is its number of bytes and of words."""

  width = None

  def postprocess(self, inputs, outputs):
    [output] = outputs
    text = text_of(output)
    words = len(text.split())
    return {
      "embedding": [float(len(text.encode())), float(words)],
      "num_tokens": words + 2,
    }


class FakeModel:
  """Has the interface of Predictor; by default it answers as Echo does.

  Args:
    named: tasks by name, in place of "text".

  Attributes:
    calls: the texts of each batch, in order.
    begun: event that a batch sets.
    gate: event that a batch waits for. Set at first.
  """

  version, num_parameters = 7, 0
  info = run_infos.make(task="classification")
  bert_config, vocab_file = tiny_models.CONFIG, None
  task = predictor.Predictor.task
  preprocess = predictor.Predictor.preprocess
  _counts = None

  def __init__(self, **named):
    self.tasks = named or {ids_functions.TEXT: Echo()}
    self.calls = []
    self.begun = threading.Event()
    self.gate = threading.Event()
    self.gate.set()
    specs = {
      name: tf.TensorSpec([None, None], tf.int32)
      for name in ("input_ids", "input_mask", "segment_ids")
    }
    outputs = {"sum": tf.TensorSpec([None], tf.int32)}
    config = tiny_models.CONFIG
    function = ids_functions.IdsFunction(config, specs, outputs, dict)
    self.functions = {"ids": function}
    self.ids_reader = ids_functions.IdsRows(self.functions["ids"])

  def compute(self, inputs, reader):
    if reader is self.ids_reader:
      return [{"sum": np.array(sum(each.input_ids))} for each in inputs]
    outputs = [{"ids": np.array(each.input_ids)} for each in inputs]
    texts = [text_of(output) for output in outputs]
    if not all(map(str.isprintable, texts)):  # A warm-up call.
      return outputs
    self.begun.set()
    self.gate.wait(timeout=600)
    self.calls.append(texts)
    if "bad" in texts:
      raise ValueError("a text is bad")
    if "nan" in texts:
      return [{"ids": np.array([np.nan])}]
    return outputs


class VectorModel(FakeModel):
  """A model of vectors."""

  info = run_infos.make(task="encoder")
  bert_config = tiny_models.CONFIG.__class__(
    **{**vars(tiny_models.CONFIG), "hidden_size": 2}
  )

  def __init__(self):
    super().__init__(text=Vectors())
