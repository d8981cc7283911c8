"""Answers and speed of a server with many concurrent clients.

serve.py runs in its own process; the clients are threads of this process.
"""

import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.export import saved_models
from bert_tf.inference import outputs as output_lib
from bert_tf.inference import predictor as predictor_lib
from bert_tf.server import rest_json
from research.benchmarks import data
from research.benchmarks.config import BenchmarkConfig

# Maximum batch sizes of the server; the first is the baseline.
MAX_BATCH_SIZES = (1, 16)

_PATH = "/v1/models/model:predict"
# Tolerance of probabilities, since larger batches sum in another order.
_TOLERANCE = 1e-4
_TIMEOUT_S = 300


class Response(NamedTuple):
  """A response to a request."""

  status: int  # HTTP status; 0 without a response.
  answer: Any  # The JSON value, or the error if status is 0.
  seconds: float  # From the request to the last byte.


def measure(config: BenchmarkConfig) -> None:
  """Prints errors, wrong answers, requests/s, latencies and CPU time."""
  model = config.needed("model")
  settings = {
    name: getattr(config, name)
    for name in ("vocab_file", "bert_config_file", "do_lower_case")
    if getattr(config, name) != getattr(BenchmarkConfig, name)
  }
  predictor = predictor_lib.Predictor(model, **settings)
  flags = [f"--{name}={value}" for name, value in settings.items()]
  num_clients = config.num_clients
  rows = _make_rows(predictor, _draw_texts(config))
  expected = [_predict(predictor, row) for row in rows]
  bodies = [json.dumps({"instances": [row]}).encode() for row in rows]
  title = f"{num_clients} x {len(rows) / num_clients:g}"
  print(
    f"{title:16}{'errors':>8}{'wrong':>7}{'requests/s':>12}{'p50 ms':>8}"
    f"{'p95 ms':>8}{'max ms':>8}{'CPU ms':>8}"
  )
  for size in MAX_BATCH_SIZES:
    flag = f"--max_batch_size={size}"
    with _serve(model, [*flags, flag]) as (url, process_id):
      # The first requests are slower.
      _send_all(url, bodies[:num_clients], num_clients)
      start, cpu_start = time.perf_counter(), _cpu_seconds(process_id)
      responses = _send_all(url, bodies, num_clients)
      seconds = time.perf_counter() - start
      cpu_seconds = _cpu_seconds(process_id) - cpu_start
    _print_row(f"batches to {size}", responses, expected, seconds, cpu_seconds)


def _draw_texts(config: BenchmarkConfig) -> list[str]:
  """Returns a random line of the text for each request."""
  lines = map(str.strip, data.read_lines(config))
  sentences = [line for line in lines if 40 <= len(line) <= 300]
  if not sentences:
    raise ValueError(
      f"{config.input_file} has no line of 40 to 300 characters."
    )
  count = config.num_clients * config.num_requests
  return random.Random(0).choices(sentences, k=count)


def _print_row(
  name: str,
  responses: Sequence[Response],
  expected: Sequence[Any],
  seconds: float,
  cpu_seconds: float,
) -> None:
  """Prints a row of the table, and the most common errors."""
  errors = [str(each.answer) for each in responses if each.status != 200]
  num_wrong = sum(
    response.status == 200 and not _is_same(response.answer, answer)
    for response, answer in zip(responses, expected)
  )
  count = len(responses)
  times = np.array([1e3 * each.seconds for each in responses])
  p50, p95 = np.percentile(times, [50, 95])
  print(
    f"{name:16}{len(errors):8}{num_wrong:7}{count / seconds:12.1f}{p50:8.0f}"
    f"{p95:8.0f}{times.max():8.0f}{1e3 * cpu_seconds / count:8.1f}",
    flush=True,
  )
  for error, num_errors in collections.Counter(errors).most_common(3):
    print(f"  {num_errors} x {error}")


@contextlib.contextmanager
def _serve(model: str, flags: Sequence[str]) -> Iterator[tuple[str, int]]:
  """Runs a server; yields its address and process id."""
  command = [sys.executable, "-m", "bert_tf", "serve"]
  process = subprocess.Popen(
    [*command, f"--model={model}", "--port=0", *flags],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  stdout, stderr = process.stdout, process.stderr
  assert stdout and stderr
  with process:
    # A thread reads stderr, since a full pipe would block the server.
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(stderr))
    reader.start()
    try:
      address = re.search(r"http://[^/]+", stdout.readline())
      if not address:
        process.wait(timeout=_TIMEOUT_S)
        reader.join()
        raise ValueError("".join(errors[-1:]).strip())
      yield address[0], process.pid
    finally:
      process.terminate()
      process.wait(timeout=_TIMEOUT_S)
      reader.join()
  if process.returncode:
    raise ValueError(f"serve.py ended with status {process.returncode}.")


def _cpu_seconds(process_id: int) -> float:
  """Returns the CPU seconds of a process; NaN on systems other than Linux."""
  try:
    with open(f"/proc/{process_id}/stat") as file:
      fields = file.read().rpartition(")")[2].split()
  except OSError:
    return float("nan")
  # User and system time are the 14th and 15th of all fields.
  return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _make_rows(
  model: predictor_lib.Predictor, texts: Sequence[str]
) -> list[dict[str, str]]:
  """Returns the inputs of each request, one text per input of the model."""
  inputs = model.functions[saved_models.DEFAULT].inputs
  if any(s.dtype != tf.string or s.shape.rank != 1 for s in inputs.values()):
    raise ValueError(
      f"the model takes {', '.join(inputs)}; use one with text inputs."
    )
  return [
    {name: texts[(i + k) % len(texts)] for k, name in enumerate(inputs)}
    for i in range(len(texts))
  ]


def _predict(model: predictor_lib.Predictor, row: Mapping[str, str]) -> Any:
  """Returns the expected answer, computed in this process."""
  inputs = {name: np.array([text.encode()]) for name, text in row.items()}
  request = rest_json.PredictRequest(saved_models.DEFAULT, inputs, True)
  outputs = model.functions[saved_models.DEFAULT](inputs)
  return rest_json.predict_response(request, output_lib.trim(outputs))


def _send_all(
  url: str, bodies: Sequence[bytes], num_clients: int
) -> list[Response]:
  """Sends requests from concurrent clients; returns the responses in order."""
  barrier = threading.Barrier(num_clients)
  address = urllib.parse.urlsplit(url)

  def run_client(number: int) -> list[Response]:
    with contextlib.closing(
      http.client.HTTPConnection(
        str(address.hostname), address.port, timeout=_TIMEOUT_S
      )
    ) as connection:
      barrier.wait()
      return [_send(connection, b) for b in bodies[number::num_clients]]

  responses = [Response(0, None, 0.0)] * len(bodies)
  with concurrent.futures.ThreadPoolExecutor(num_clients) as pool:
    for number, own in enumerate(pool.map(run_client, range(num_clients))):
      responses[number::num_clients] = own
  return responses


def _send(connection: http.client.HTTPConnection, body: bytes) -> Response:
  """Sends a request; returns the response, or status 0 and the error."""
  start = time.perf_counter()
  try:
    headers = {"Content-Type": "application/json"}
    connection.request("POST", _PATH, body, headers)
    response = connection.getresponse()
    result = response.status, json.loads(response.read())
  except (OSError, http.client.HTTPException, ValueError) as error:
    connection.close()  # The next request opens it again.
    result = 0, repr(error)
  return Response(*result, time.perf_counter() - start)


def _is_same(answer: Any, expected: Any) -> bool:
  """Returns whether two answers are equal up to rounding."""
  if isinstance(expected, float):
    return isinstance(answer, float) and abs(answer - expected) < _TOLERANCE
  if isinstance(expected, dict):
    return answer.keys() == expected.keys() and all(
      _is_same(answer[key], value) for key, value in expected.items()
    )
  if isinstance(expected, list):
    return len(answer) == len(expected) and all(map(_is_same, answer, expected))
  return answer == expected
