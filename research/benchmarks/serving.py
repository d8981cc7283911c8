"""The answers and the speed of a server with many clients at once.

serve.py runs in a process of its own; the clients are threads of this one.
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

# Batches of the server, the first for comparison.
MAX_BATCH_SIZES = (1, 16)

_PATH = "/v1/models/model:predict"
# Of probabilities: sums are in another order in a larger batch.
_TOLERANCE = 1e-4
_TIMEOUT_S = 300


class Response(NamedTuple):
  """A response.

  Attributes:
    status: of HTTP; 0 if there was none.
    answer: the object, or the error.
    seconds: from the request to the last byte.
  """

  status: int
  answer: Any
  seconds: float


def measure(config: BenchmarkConfig) -> None:
  """Prints errors, wrong answers, requests/s, latencies and CPU time."""
  model = config.needed("model")
  names = ("vocab_file", "bert_config_file", "do_lower_case")
  default = BenchmarkConfig()
  given = {
    name: getattr(config, name)
    for name in names
    if getattr(config, name) != getattr(default, name)
  }
  predictor = predictor_lib.Predictor(model, **given)
  settings = [f"--{name}={value}" for name, value in given.items()]
  texts, num_clients = _texts(config), config.num_clients
  rows = _rows(predictor, texts)
  expected = [_answer(predictor, row) for row in rows]
  bodies = [json.dumps({"instances": [row]}).encode() for row in rows]
  title = f"{num_clients} x {len(texts) / num_clients:g}"
  print(
    f"{title:16}{'errors':>8}{'wrong':>7}{'requests/s':>12}{'p50 ms':>8}"
    f"{'p95 ms':>8}{'max ms':>8}{'CPU ms':>8}"
  )
  for size in MAX_BATCH_SIZES:
    flag = f"--max_batch_size={size}"
    with _serving(model, [*settings, flag]) as (url, process_id):
      _asked(url, bodies[:num_clients], num_clients)  # The first are slower.
      start, cpu_start = time.perf_counter(), _cpu_seconds(process_id)
      found = _asked(url, bodies, num_clients)
      seconds = time.perf_counter() - start
      cpu_seconds = _cpu_seconds(process_id) - cpu_start
    _print_row(f"batches to {size}", found, expected, seconds, cpu_seconds)


def _texts(config: BenchmarkConfig) -> list[str]:
  """Returns a sentence for each request."""
  lines = map(str.strip, data.read_lines(config))
  sentences = [line for line in lines if 40 <= len(line) <= 300]
  if not sentences:
    raise ValueError(
      f"{config.input_file} has no line of 40 to 300 characters to ask for."
    )
  count = config.num_clients * config.num_requests
  return random.Random(0).choices(sentences, k=count)


def _print_row(
  name: str,
  found: Sequence[Response],
  expected: Sequence[Any],
  seconds: float,
  cpu_seconds: float,
) -> None:
  """Prints a line of the table, and the errors that there were."""
  errors = [str(each.answer) for each in found if each.status != 200]
  wrong = sum(
    each.status == 200 and not _is_same(each.answer, right)
    for each, right in zip(found, expected)
  )
  times = np.array([1e3 * each.seconds for each in found])
  p50, p95 = np.percentile(times, [50, 95])
  print(
    f"{name:16}{len(errors):8}{wrong:7}{len(found) / seconds:12.1f}{p50:8.0f}"
    f"{p95:8.0f}{times.max():8.0f}{1e3 * cpu_seconds / len(found):8.1f}",
    flush=True,
  )
  for error, count in collections.Counter(errors).most_common(3):
    print(f"  {count} x {error}")


@contextlib.contextmanager
def _serving(model: str, settings: Sequence[str]) -> Iterator[tuple[str, int]]:
  """Yields address and process id of a server, stopped afterwards."""
  command = [sys.executable, "-m", "bert_tf", "serve"]
  process = subprocess.Popen(
    [*command, f"--model={model}", "--port=0", *settings],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  stdout, stderr = process.stdout, process.stderr
  assert stdout and stderr
  with process:
    # Read as it comes: a full pipe would stop the server.
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
  """Returns the CPU seconds of a process; nan on other systems than Linux."""
  try:
    with open(f"/proc/{process_id}/stat") as reader:
      fields = reader.read().rpartition(")")[2].split()
  except OSError:
    return float("nan")
  # Of the user's and the system's time, the 14th and 15th of all fields.
  return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _rows(
  model: predictor_lib.Predictor, texts: Sequence[str]
) -> list[dict[str, str]]:
  """Returns the inputs of each request: as many texts as the model takes."""
  inputs = model.functions[saved_models.DEFAULT].inputs
  if any(s.dtype != tf.string or s.shape.rank != 1 for s in inputs.values()):
    raise ValueError(
      f"the model takes {', '.join(inputs)}; this measures models that take a "
      "text, or a few."
    )
  return [
    {name: texts[(i + k) % len(texts)] for k, name in enumerate(inputs)}
    for i in range(len(texts))
  ]


def _answer(model: predictor_lib.Predictor, row: Mapping[str, str]) -> Any:
  """Returns the expected answer, computed here, one request at a time."""
  inputs = {name: np.array([text.encode()]) for name, text in row.items()}
  request = rest_json.PredictRequest(saved_models.DEFAULT, inputs, True)
  outputs = model.functions[saved_models.DEFAULT](inputs)
  return rest_json.predict_response(request, output_lib.trimmed(outputs))


def _asked(
  url: str, bodies: Sequence[bytes], num_clients: int
) -> list[Response]:
  """Returns the responses to requests that clients make at the same time."""
  barrier = threading.Barrier(num_clients)

  def client(number: int) -> list[Response]:
    address = urllib.parse.urlsplit(url)
    with contextlib.closing(
      http.client.HTTPConnection(
        str(address.hostname), address.port, timeout=_TIMEOUT_S
      )
    ) as connection:
      barrier.wait()
      return [_request(connection, b) for b in bodies[number::num_clients]]

  with concurrent.futures.ThreadPoolExecutor(num_clients) as pool:
    by_client = list(pool.map(client, range(num_clients)))
  found = [Response(0, None, 0.0)] * len(bodies)
  for number, responses in enumerate(by_client):
    found[number::num_clients] = responses
  return found


def _request(connection: http.client.HTTPConnection, body: bytes) -> Response:
  """Returns one response; a failure to get one is its answer."""
  start = time.perf_counter()
  try:
    headers = {"Content-Type": "application/json"}
    connection.request("POST", _PATH, body, headers)
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
  except (OSError, http.client.HTTPException, ValueError) as error:
    connection.close()  # Opened again by the next request.
    found = 0, repr(error)
  return Response(*found, time.perf_counter() - start)


def _is_same(found: Any, expected: Any) -> bool:
  """Returns whether two answers are the same, but for rounding."""
  if isinstance(expected, float):
    return isinstance(found, float) and abs(found - expected) < _TOLERANCE
  if isinstance(expected, dict):
    return found.keys() == expected.keys() and all(
      _is_same(found[key], value) for key, value in expected.items()
    )
  if isinstance(expected, list):
    return len(found) == len(expected) and all(map(_is_same, found, expected))
  return found == expected
