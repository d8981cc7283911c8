"""Tests for the limits of a request and the slices in which it is computed."""

import concurrent.futures
import dataclasses
import threading
import time

import pytest
import tensorflow as tf

from bert_tf import heads
from bert_tf.inference import loaded_model
from bert_tf.server import (
  rest_json,
)
from tests.support import fake_model, serving_client, tiny_models
from tests.support.serving_client import ask

pytest.importorskip("aiohttp", reason="pip install 'bert_tf[serve]'")

PREDICT = fake_model.PREDICT
spec = fake_model.spec


def make_model(function, name="serving_default"):
  """Returns a model with an additional function."""
  model = fake_model.FakeModel()
  model.functions[name] = function
  return model


def wait_until_warm(url):
  """Waits until the functions are warm, because warming calls them."""
  while ask(url, "/readyz")[0] != 200:
    time.sleep(0.01)


def chooser():
  """Returns a multiple-choice function: the number of choices per row."""
  return loaded_model.Function(
    {"context": spec(tf.string, None), "choices": spec(tf.string, None, None)},
    lambda context, choices: {
      "choice": tf.repeat(tf.shape(choices)[1], tf.shape(context)[0])
    },
    lambda: {"choice": spec(tf.int32, None)},
  )


def test_choices_of_a_request_are_limited():
  model = make_model(chooser())
  with serving_client.running(model, max_windows=6) as running:
    row = {"context": "a", "choices": ["b"] * 3}
    body = {"instances": [row] * 2}
    assert ask(running.url, PREDICT, body) == (200, {"predictions": [3, 3]})
    assert ask(running.url, PREDICT, {"instances": [row] * 3})[0] == 413
    row["choices"] *= 3
    code, response = ask(running.url, PREDICT, {"instances": [row]})
    assert (code, "9 choices" in response["error"]) == (413, True)


def test_a_row_has_no_more_positions_than_ids():
  function = loaded_model.Function(
    {
      "input_ids": spec(tf.int32, None, None),
      "masked_lm_positions": spec(tf.int32, None, None),
    },
    lambda input_ids, masked_lm_positions: {"ids": input_ids},
    lambda: {"ids": spec(tf.int32, None, None)},
  )
  with serving_client.running(make_model(function)) as running:
    row = {"input_ids": [1, 2], "masked_lm_positions": [0, 0]}
    assert ask(running.url, PREDICT, {"instances": [row]})[0] == 200
    row["masked_lm_positions"] = [0, 0, 0]
    code, response = ask(running.url, PREDICT, {"instances": [row]})
    assert code == 400
    assert "3 masked_lm_positions" in response["error"]


class Wide:
  """A text function that returns the code points of each text, padded.

  Attributes:
    rows: number of rows of each call.
  """

  def __init__(self, width=None):
    self.rows = []
    self._width = width
    self.function = loaded_model.Function(
      {"text": spec(tf.string, None)},
      self._letters,
      lambda: {
        "codes": spec(tf.int32, None, None, width),
        "letters": spec(tf.string, None, None),
      },
    )

  def _letters(self, text):
    self.rows.append(int(tf.size(text)))
    codes = tf.strings.unicode_decode(text, "UTF-8").to_tensor()
    letters = tf.strings.unicode_split(text, "UTF-8").to_tensor()
    return {
      "codes": tf.repeat(codes[..., None], self._width or 1, axis=2),
      "letters": letters,
    }


def test_rows_beyond_a_batch_are_computed_in_slices_and_padded_alike():
  wide = Wide(width=1)
  texts = ["a", "b", "abc", "d", "ab"]
  with serving_client.running(
    make_model(wide.function), max_batch_size=2
  ) as run:
    wait_until_warm(run.url)
    wide.rows.clear()
    code, response = ask(run.url, PREDICT, {"instances": texts})
  assert (code, wide.rows) == (200, [2, 2, 1])
  for text, row in zip(texts, response["predictions"], strict=True):
    num_padding = 3 - len(text)
    assert row["letters"] == [*text, *[""] * num_padding]
    assert (
      row["codes"] == [[ord(letter)] for letter in text] + [[0]] * num_padding
    )


def test_rows_of_large_outputs_are_computed_alone():
  wide = Wide(width=1)
  # As the logits of all positions: 4 letters with 2 ** 24 numbers each.
  function = loaded_model.Function(
    wide.function.inputs,
    wide.function.compute,
    lambda: {"codes": spec(tf.int32, None, None, 1 << 24)},
  )
  with serving_client.running(make_model(function)) as running:
    wait_until_warm(running.url)
    wide.rows.clear()
    assert ask(running.url, PREDICT, {"instances": ["a"] * 3})[0] == 200
  assert wide.rows == [1, 1, 1]


@pytest.mark.parametrize("max_batch_size", [2, 8])
def test_an_answer_is_limited_before_all_of_it_is_computed(max_batch_size):
  wide = Wide(width=9)
  limits = {"max_answer_values": 40, "max_batch_size": max_batch_size}
  with serving_client.running(make_model(wide.function), **limits) as running:
    wait_until_warm(running.url)
    wide.rows.clear()
    # Each letter has 9 numbers and itself.
    assert ask(running.url, PREDICT, {"instances": ["ab"] * 2})[0] == 200
    code, response = ask(running.url, PREDICT, {"instances": ["ab"] * 8})
    assert (code, list(response)) == (413, ["error"])
  assert wide.rows == ([2, 2, 2] if max_batch_size == 2 else [2, 8])


def test_a_row_needs_its_masks_times_the_vocabulary():
  result = {"tokens": tf.constant([[[b"a"]]]), "probabilities": [[[1.0]]]}
  assert result.keys() == set(heads.PretrainingModel.outputs)
  rows = []

  def fill(text):
    count = int(tf.size(text))
    rows.append(count)
    return {name: tf.repeat(value, count, 0) for name, value in result.items()}

  function = loaded_model.Function(
    {"text": spec(tf.string, None)},
    fill,
    lambda: {
      "tokens": spec(tf.string, None, None, 1),
      "probabilities": spec(tf.float32, None, None, 1),
    },
  )
  model = make_model(function)
  model.bert_config = dataclasses.replace(
    tiny_models.CONFIG, vocab_size=1 << 25
  )
  model.num_parameters = 1
  with serving_client.running(model) as running:
    wait_until_warm(running.url)
    rows.clear()
    assert ask(running.url, PREDICT, {"instances": ["[MASK]"] * 4})[0] == 200
    body = {"instances": ["[MASK] [MASK]"] * 2}
    assert ask(running.url, PREDICT, body)[0] == 200
  assert rows == [2, 2, 1, 1]


def test_a_large_answer_does_not_block_others(monkeypatch):
  begun, answered = threading.Event(), threading.Event()
  respond = rest_json.predict_response

  def slow(*arguments):
    begun.set()
    assert answered.wait(timeout=60)
    return respond(*arguments)

  monkeypatch.setattr(rest_json, "predict_response", slow)
  model = make_model(Wide(width=20_000).function)
  with (
    serving_client.running(model) as running,
    concurrent.futures.ThreadPoolExecutor(1) as pool,
  ):
    results = pool.submit(ask, running.url, PREDICT, {"instances": ["a"]})
    assert begun.wait(timeout=600)
    assert ask(running.url, "/healthz")[0] == 200
    answered.set()
    code, result = results.result()
  assert code == 200
  assert result["predictions"][0]["codes"] == [[ord("a")] * 20_000]
