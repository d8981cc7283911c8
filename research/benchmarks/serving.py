"""Answers and speed of a server with many concurrent clients.

`bert-tf serve` runs in its own process; the clients are threads of this
process, each of which waits for its answer. With `duration`, requests arrive
at random times instead; see open_loop.py.
"""

import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import threading
import time
import urllib.parse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from research.benchmarks import open_loop, serving_setup
from research.benchmarks.config import BenchmarkConfig

# Maximum batch sizes of the server; the first is the baseline.
MAX_BATCH_SIZES = (1, 16)

_TIMEOUT_S = 300


class Response(NamedTuple):
  """A response to a request."""

  status: int  # HTTP status; 0 without a response.
  answer: Any  # The JSON value, or the error if status is 0.
  seconds: float  # From the request to the last byte.


def measure(config: BenchmarkConfig) -> None:
  """Prints errors, wrong answers, requests/s, latencies and CPU time."""
  if config.duration:
    open_loop.measure(config)
    return
  num_clients = config.num_clients
  requests = serving_setup.make_requests(
    config, num_clients * config.num_requests
  )
  bodies = requests.bodies
  title = f"{num_clients} x {config.num_requests}"
  print(
    f"{title:16}{'errors':>8}{'wrong':>7}{'requests/s':>12}{'p50 ms':>8}"
    f"{'p95 ms':>8}{'max ms':>8}{'CPU ms':>8}"
  )
  for size in MAX_BATCH_SIZES:
    command = serving_setup.serve_command(config, f"--max_batch_size={size}")
    with serving_setup.serve(command) as (url, process_id):
      # The first requests are slower.
      _send_all(url, bodies[:num_clients], num_clients)
      start, cpu_start = time.perf_counter(), _cpu_seconds(process_id)
      responses = _send_all(url, bodies, num_clients)
      seconds = time.perf_counter() - start
      cpu_seconds = _cpu_seconds(process_id) - cpu_start
    name = f"batches to {size}"
    _print_row(name, responses, requests.answers, seconds, cpu_seconds)


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
    response.status == 200
    and not serving_setup.is_same(response.answer, answer)
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


def _cpu_seconds(process_id: int) -> float:
  """Returns the CPU seconds of a process; NaN on systems other than Linux."""
  try:
    with open(f"/proc/{process_id}/stat") as file:
      fields = file.read().rpartition(")")[2].split()
  except OSError:
    return float("nan")
  # User and system time are the 14th and 15th of all fields.
  return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


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
    connection.request("POST", serving_setup.PATH, body, headers)
    response = connection.getresponse()
    result = response.status, json.loads(response.read())
  except (OSError, http.client.HTTPException, ValueError) as error:
    connection.close()  # The next request opens it again.
    result = 0, repr(error)
  return Response(*result, time.perf_counter() - start)
