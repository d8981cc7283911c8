"""Advice of the server about its models and requests."""

import asyncio

import numpy as np
import tensorflow as tf

import bert_tf
from bert_tf.export.signatures import attention as signature
from bert_tf.inference import loaded_model
from bert_tf.server import (
  attention_json,
  limits,
  rest_json,
  served,
)
from bert_tf.server import config as server_config
from tests.advice import model_cases
from tests.advice.following import Case
from tests.support import fake_model

CONFIG = server_config.ServerConfig(
  max_rows=2, max_text_length=3, max_windows=6, max_answer_values=9
)
JSON = {"Content-Type": "application/json"}


def predict(**value):
  model = fake_model.FakeModel()
  model.functions["masks"] = loaded_model.Function(
    {
      "input_ids": fake_model.spec(tf.int32, None, None),
      "masked_lm_positions": fake_model.spec(tf.int32, None, None),
    },
    lambda **inputs: inputs,
    dict,
  )
  rest_json.predict_request(value, model.functions, CONFIG)


def masks(num_positions):
  row = {"input_ids": [1, 2], "masked_lm_positions": [0] * num_positions}
  predict(signature_name="masks", instances=[row])


def attention(world, name):
  """Asks for the attention of an exported model."""
  model = bert_tf.Predictor(model_cases.exported(world, name))
  attention_json.parse({"text": "a"}, model.functions, CONFIG)


def layer(number):
  """Asks for the attention of one layer in a model with two."""
  function = loaded_model.Function(
    {"text": fake_model.spec(tf.string, None)},
    lambda text: {},
    lambda: {"attention": fake_model.spec(tf.float32, None, 2, 2, None, None)},
  )
  functions = {signature.SINGLE: function}
  attention_json.parse({"text": "a", "layer": number}, functions, CONFIG)


def choose(num_rows):
  model = served.ServedModel("model", fake_model.FakeModel())
  inputs = {"choices": np.array([["a"] * 3] * num_rows, object)}
  limits.num_windows(model, inputs, np.ones(num_rows, int), CONFIG)


def send(**headers):
  """Reads the body of a request with these headers."""
  import multidict
  from aiohttp import test_utils

  from bert_tf.server import bodies

  names = {name.replace("_", "-"): value for name, value in headers.items()}
  request = test_utils.make_mocked_request(
    "POST", "/", headers=multidict.CIMultiDict({**JSON, **names})
  )
  request._read_bytes = b"{}"
  asyncio.run(bodies.Bodies(CONFIG, None).parse(request, dict))


CASES = (
  Case(
    "server.rest_json predict_request",
    ("instances", "inputs"),
    lambda w: predict(instances=["a"], inputs=["a"]),
    lambda w: (predict(instances=["a"]), predict(inputs=["a"])),
  ),
  Case(
    "server.rest_json _check_num_rows",
    ("rows",),
    lambda w: predict(instances=[]),
    lambda w: predict(instances=["a"]),
  ),
  Case(
    "server.rest_json _check_num_rows",
    ("3", "2"),
    lambda w: predict(instances=["a", "b", "c"]),
    lambda w: (predict(instances=["a", "b"]), predict(instances=["c"])),
  ),
  Case(
    "server.rest_json _array",
    ("text", "4", "3"),
    lambda w: predict(instances=["abcd"]),
    lambda w: predict(instances=["abc"]),
  ),
  Case(
    "server.rest_json _check_num_positions",
    ("3 masked_lm_positions", "2 input_ids"),
    lambda w: masks(3),
    lambda w: masks(2),
  ),
  Case(
    "server.attention_json _check_index",
    ("layer", "2", "1"),
    lambda w: layer(2),
    lambda w: (layer(0), layer(1)),
  ),
  Case(
    "server.attention_json parse",
    ("--attention", "checkpoint"),
    lambda w: attention(w, "texts"),
    lambda w: attention(w, "attention"),
  ),
  Case(
    "server.limits num_windows",
    ("9", "6"),
    lambda w: choose(3),
    lambda w: (choose(2), choose(1)),
  ),
  Case(
    "server.limits check_answer",
    ("10", "9"),
    lambda w: limits.check_answer(10, CONFIG),
    lambda w: limits.check_answer(5, CONFIG),
  ),
  Case(
    "server.bodies _read",
    ("text/plain", "application/json"),
    lambda w: send(Content_Type="text/plain"),
    lambda w: send(),
  ),
  Case(
    "server.bodies _read",
    ("gzip", "Content-Encoding"),
    lambda w: send(Content_Encoding="gzip"),
    lambda w: send(),
  ),
  Case(
    "server.served create_models",
    ("model",),
    lambda w: served.create_models({}),
    lambda w: served.create_models({"model": fake_model.FakeModel()}),
  ),
)
