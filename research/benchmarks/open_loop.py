"""Open-loop benchmark of servers: requests arrive at random times.

Clients that wait for their answer slow down with the server and so hide its
queue. Here requests arrive whether or not earlier ones are answered. The
intervals between arrivals are exponential (a Poisson process). The latency of a
request begins at its intended arrival.
"""

import asyncio
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import aiohttp
import numpy as np

from research.benchmarks import serving_setup, steps
from research.benchmarks.config import BenchmarkConfig

# Rates of arrivals, as shares of the server's capacity.
LOADS = (0.5, 0.8, 1.2, 2.0)

_NUM_TEXTS = 500
# Numbers of sentences in a text, equally likely: half of the texts have one.
_NUM_SENTENCES = (1,) * 10 + (2,) * 5 + (4,) * 3 + (8, 16)
_GARBAGE_PROB = 0.01
_GARBAGE = (
  b"",
  b'{"instances": [',
  b'{"instances": ["\xff"]}',
  b'{"instances": "no list"}',
  b'{"instances": [{"text": 5}]}',
  b'{"instances": [[[["a"]]]]}',
  b"[" * 9000,
  b"\x00" * 1000,
)
# Seconds after which a request counts as timed out.
_TIMEOUT_S = 30
# Maximum seconds of the capacity measurement, and of the warm-up before it.
_CAPACITY_S, _WARM_UP_S = 20.0, 3.0
# Samples of memory and descriptors during a load.
_NUM_SAMPLES = 100
_HEADERS = {"Content-Type": "application/json"}

# Outcomes of a request.
RIGHT = "right"  # The expected answer, within rounding.
SHED = "shed"  # Status 503 with Retry-After.
REFUSED = "refused"  # Garbage, refused with status 4xx and JSON.
WRONG = "wrong"  # Another answer, or garbage that is not refused.
FAILED = "failed"  # Another status, or the connection broke.
TIMED_OUT = "timeout"  # No answer within _TIMEOUT_S.
OUTCOMES = (RIGHT, SHED, REFUSED, WRONG, FAILED, TIMED_OUT)


class _Result(NamedTuple):
  """The result of a request."""

  outcome: str
  late_s: float  # From the intended arrival until the client sends it.
  seconds: float  # From the intended arrival to the last byte.


@dataclasses.dataclass(frozen=True)
class Row:
  """A row of the table: a server under a load."""

  server: str
  capacity: float  # Right answers per second to clients that wait for them.
  load: float  # Share of bert_tf's capacity.
  seconds: float  # Time in which requests arrived.
  rate: float  # Intended requests per second.
  goodput: float  # Right answers per second, counted until the last answer.
  counts: dict[str, int]  # Number of requests by outcome.
  latency_ms: dict[str, float]  # Percentiles of the right answers.
  late_ms: float  # 99th percentile of the client's own delay.
  resident_mb: list[float]  # Memory of the server over time.
  descriptors: list[int]  # Open files of the server over time.


def measure(config: BenchmarkConfig) -> None:
  """Prints a row for each server and load; appends them to `results_file`.

  Raises:
    ValueError: if a request to bert_tf failed, timed out or had a wrong answer,
      or if a server gave no right answer.
  """
  # As many open connections as the system allows.
  _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
  requests = serving_setup.make_requests(config, _NUM_TEXTS, _NUM_SENTENCES)
  seconds = config.duration / len(LOADS)
  reference = 0.0
  rows: list[Row] = []
  _print_title(config)
  for name, scope in _servers(config):
    with scope as (url, process_id):
      load = _Load(url, process_id, requests)
      capacity = asyncio.run(load.measure_capacity(config))
      print(f"{name}: capacity {capacity:.1f} requests/s", flush=True)
      reference = reference or capacity
      for share in LOADS:
        sent = asyncio.run(load.send(share * reference, seconds))
        row = Row(name, capacity, share, seconds, share * reference, *sent)
        rows.append(row)
        _print_row(row)
        if config.results_file:
          path = pathlib.Path(config.results_file)
          path.parent.mkdir(parents=True, exist_ok=True)
          with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(row)) + "\n")
  ours = [row for row in rows if row.server == "bert_tf"]
  for outcome in (WRONG, FAILED, TIMED_OUT):
    if count := sum(row.counts[outcome] for row in ours):
      raise ValueError(f"{count} requests to bert_tf ended as {outcome}.")


def _servers(
  config: BenchmarkConfig,
) -> Iterator[tuple[str, contextlib.AbstractContextManager]]:
  """Yields the name of each server, and a scope in which the server runs.

  The scope gives the predict URL and the process id.
  """
  model = config.needed("model")
  words = ["-m", "bert_tf", "serve", "--port=0", f"--model={model}"]
  yield "bert_tf", serving_setup.serve([sys.executable, *words])
  modules = "fastapi", "uvicorn", "tensorflow", "tensorflow_text"
  python = steps.find_python(modules, config)
  if not python:
    steps.name_missing({"FastAPI": f"pip install {' '.join(modules)}"})
  elif not pathlib.Path(model, "saved_model.pb").exists():
    print(f"FastAPI is left out, because {model} is not a SavedModel.")
  else:
    script = os.path.join(steps.PEERS, "fastapi_serving.py")
    yield "FastAPI", serving_setup.serve([python, script, model])


class _Load:
  """Sends requests to a server.

  Args:
    url: where to send them.
    process_id: the server's process.
    requests: the body of each request and its answer.
  """

  def __init__(
    self, url: str, process_id: int, requests: list[tuple[bytes, Any]]
  ) -> None:
    self._url = url
    self._process_id = process_id
    self._requests = requests
    self._rng = random.Random(0)

  async def measure_capacity(self, config: BenchmarkConfig) -> float:
    """Returns right answers per second to clients that wait for each answer."""
    seconds = min(_CAPACITY_S, config.duration / 4)

    async def ask(session: aiohttp.ClientSession, end: float) -> int:
      num_right = 0
      while time.monotonic() < end:
        result = await self._send(session, time.monotonic(), has_garbage=False)
        num_right += result.outcome == RIGHT
        if result.outcome == SHED:
          await asyncio.sleep(0.1)
      return num_right

    async with _open_session() as session:
      for length in (min(_WARM_UP_S, seconds), seconds):
        start = time.monotonic()
        clients = (
          ask(session, start + length) for _ in range(config.num_clients)
        )
        num_right = sum(await asyncio.gather(*clients))
        capacity = num_right / (time.monotonic() - start)
    if not capacity:
      raise ValueError(f"{self._url} gave no right answer.")
    return capacity

  async def send(self, rate: float, seconds: float) -> tuple[Any, ...]:
    """Sends requests at a rate for some time and waits for all results.

    Returns:
      The fields of Row from `goodput` on.
    """
    tasks = []
    sampling = asyncio.create_task(self._sample(seconds / _NUM_SAMPLES))
    async with _open_session() as session:
      arrival = start = time.monotonic()
      while True:
        arrival += self._rng.expovariate(rate)
        if arrival > start + seconds:
          break
        await asyncio.sleep(max(0.0, arrival - time.monotonic()))
        tasks.append(asyncio.create_task(self._send(session, arrival)))
      results = await asyncio.gather(*tasks)
      elapsed = time.monotonic() - start
    sampling.cancel()
    samples = await sampling
    counts = collections.Counter(result.outcome for result in results)
    right_ms = [1e3 * r.seconds for r in results if r.outcome == RIGHT] or [0.0]
    return (
      counts[RIGHT] / max(seconds, elapsed),
      {outcome: counts[outcome] for outcome in OUTCOMES},
      {
        f"p{percent:g}": float(np.percentile(right_ms, percent))
        for percent in (50, 99, 99.9)
      },
      1e3 * float(np.percentile([r.late_s for r in results] or [0.0], 99)),
      [memory for memory, _ in samples],
      [number for _, number in samples],
    )

  async def _send(
    self,
    session: aiohttp.ClientSession,
    arrival: float,
    has_garbage: bool = True,
  ) -> _Result:
    """Sends a random request whose intended arrival is `arrival`."""
    if has_garbage and self._rng.random() < _GARBAGE_PROB:
      body, expected = self._rng.choice(_GARBAGE), None
    else:
      body, expected = self._rng.choice(self._requests)
    late_s = time.monotonic() - arrival
    try:
      async with session.post(self._url, data=body, headers=_HEADERS) as reply:
        outcome = _judge(reply, await reply.read(), expected)
    except asyncio.TimeoutError:
      outcome = TIMED_OUT
    except (OSError, aiohttp.ClientError):
      outcome = FAILED
    return _Result(outcome, late_s, time.monotonic() - arrival)

  async def _sample(self, interval: float) -> list[tuple[float, int]]:
    """Samples the server's memory in MB and open files, until cancelled."""
    samples: list[tuple[float, int]] = []
    folder = pathlib.Path(f"/proc/{self._process_id}")
    with contextlib.suppress(asyncio.CancelledError):
      while folder.exists():
        pages = int((folder / "statm").read_text().split()[1])
        num_open = len(os.listdir(folder / "fd"))
        samples.append((pages * resource.getpagesize() / 1e6, num_open))
        await asyncio.sleep(interval)
    return samples


def _open_session() -> aiohttp.ClientSession:
  """Returns a client session without a limit on connections."""
  return aiohttp.ClientSession(
    connector=aiohttp.TCPConnector(limit=0),
    timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
  )


def _judge(reply: aiohttp.ClientResponse, body: bytes, expected: Any) -> str:
  """Returns the outcome of a request; `expected` is None for garbage."""
  if reply.status == 503:
    return SHED if "Retry-After" in reply.headers else FAILED
  try:
    answer = json.loads(body)
  except ValueError:
    return WRONG if reply.status == 200 else FAILED
  if expected is None:
    return REFUSED if 400 <= reply.status < 500 else WRONG
  if reply.status != 200:
    return FAILED
  return RIGHT if serving_setup.is_same(answer, expected) else WRONG


def _print_title(config: BenchmarkConfig) -> None:
  print(f"open loop, {config.duration:g} s, {config.model}")
  print(
    f"{'':14}{'sent/s':>8}{'right/s':>9}{'shed':>7}{'refused':>9}{'wrong':>7}"
    f"{'failed':>8}{'timeout':>9}{'p50 ms':>8}{'p99 ms':>8}{'p99.9 ms':>10}"
    f"{'late ms':>9}{'MB':>13}{'files':>9}"
  )


def _print_row(row: Row) -> None:
  """Prints a row: memory at the first and last sample, maximum open files."""
  counts, num_sent = row.counts, sum(row.counts.values())
  memory = "-"
  if row.resident_mb:
    memory = f"{row.resident_mb[0]:,.0f}-{row.resident_mb[-1]:,.0f}"
  times, num_files = row.latency_ms, max(row.descriptors, default=0)
  print(
    f"{row.server} {row.load:.0%}".ljust(14)
    + f"{num_sent / row.seconds:8.1f}{row.goodput:9.1f}"
    f"{counts[SHED]:7}{counts[REFUSED]:9}{counts[WRONG]:7}{counts[FAILED]:8}"
    f"{counts[TIMED_OUT]:9}{times['p50']:8.0f}{times['p99']:8.0f}"
    f"{times['p99.9']:10.0f}{row.late_ms:9.0f}{memory:>13}{num_files:9}",
    flush=True,
  )
