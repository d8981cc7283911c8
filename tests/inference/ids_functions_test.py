"""Tests for functions on ids: the first calls are eager, the others traced."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.inference import ids_functions
from tests.support import tiny_models

FEW = ids_functions.NUM_EAGER_CALLS


def make(
  call=lambda features: {"sum": tf.reduce_sum(features["input_ids"], 1)},
):
  """Returns a function, and a list of whether each run of Python was eager."""
  runs = []

  def record(features):
    runs.append(tf.executing_eagerly())
    return call(features)

  return ids_functions.KerasFunction(record, tiny_models.CONFIG), runs


def ids(*rows):
  array = np.array(rows, np.int32)
  mask, segments = np.ones_like(array), np.zeros_like(array)
  return dict(zip(ids_functions.ID_NAMES, (array, mask, segments)))


def test_a_few_calls_are_eager_then_the_function_is_traced_once():
  function, runs = make()
  for number in range(FEW + 3):
    assert function(ids([number, 1]))["sum"] == number + 1
  assert runs == [True] * FEW + [False]


@pytest.mark.parametrize("trace", [lambda f: f.prepare(), lambda f: f.outputs])
def test_a_traced_function_stays_traced(trace):
  function, runs = make()
  function(ids([1]))
  trace(function)
  for _ in range(FEW):
    assert function(ids([2]))["sum"] == 2
  assert runs == [True, False]


def test_threads_share_the_eager_calls():
  function, runs = make()
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    sums = pool.map(lambda i: function(ids([i, 1]))["sum"][0], range(100))
  assert [*sums] == [i + 1 for i in range(100)]
  assert sorted(runs) == [False] + [True] * FEW


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"input_ids": 500}, "input_ids has the value 500, .* 0 to 499"),
    ({"input_ids": -1}, "input_ids has the value -1, .* 0 to 499"),
    ({"input_mask": 2}, "input_mask has the value 2, .* 0 to 1"),
    ({"segment_ids": 2}, "segment_ids has the value 2, .* 0 to 1"),
    ({}, "129 word pieces, .* at most 128"),
  ],
)
def test_eager_and_traced_functions_refuse_what_is_out_of_range(
  changes, message
):
  arrays = ids([1] * 4 if changes else [1] * 129)
  for name, value in changes.items():
    arrays[name][0, 2] = value
  for num_calls in (0, FEW + 1):
    function, _ = make()
    for _ in range(num_calls):
      function(ids([1]))
    with pytest.raises(ValueError, match=message):
      function(arrays)
