"""Servers and requests of the serving benchmarks.

A server runs in its own process. The expected answers are computed in this
process, one text at a time.
"""

import contextlib
import json
import random
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.inference import predictor as predictor_lib
from research.benchmarks import data, steps
from research.benchmarks.config import BenchmarkConfig

_PATH = "/v1/models/model:predict"
# Tolerance of probabilities, since larger batches sum in another order.
_TOLERANCE = 1e-4
_TIMEOUT_S = 300
# Maximum seconds until a server is ready, and until it ends after SIGTERM.
_MAX_START_S, _MAX_STOP_S = 300, 120


def make_requests(
  config: BenchmarkConfig, count: int, num_sentences: Sequence[int]
) -> list[tuple[bytes, Any]]:
  """Makes requests of one row each from random sentences of the text.

  Args:
    config: the model and the text.
    count: number of requests.
    num_sentences: possible numbers of sentences in a text, equally likely.

  Returns:
    The body of each request, and the JSON value of its answer.

  Raises:
    ValueError: if no line of the text is usable, or if the model takes choices.
  """
  predictor = predictor_lib.Predictor(config.needed("model"))
  lines = map(str.strip, data.read_lines(config))
  sentences = [line for line in lines if 40 <= len(line) <= 300]
  if not sentences:
    raise ValueError(
      f"{config.input_file} has no line of 40 to 300 characters."
    )
  rng = random.Random(0)
  texts = [
    " ".join(rng.choices(sentences, k=rng.choice(num_sentences)))
    for _ in range(count)
  ]
  answerer = predictor.answerer()
  names = answerer.fields
  if not getattr(answerer.info.settings, "is_pair", False):
    names = names[: answerer.num_required]
  if "choices" in names:
    raise ValueError("serving measures models of texts, not multiple choice.")
  requests = []
  for i in range(count):
    row = {name: texts[(i + k) % count] for k, name in enumerate(names)}
    # Servers of older commits answer rows alike, but not columns.
    body = json.dumps({"instances": [row]}).encode()
    requests.append((body, {"predictions": [predictor.predict(row)]}))
  return requests


@contextlib.contextmanager
def serve(command: Sequence[str]) -> Iterator[tuple[str, int]]:
  """Runs a server in this scope; yields its predict URL and process id.

  The server prints its address, http://HOST:PORT, in its first line.

  Raises:
    ValueError: if the server prints no address, is not ready in time, or ends
      with an error.
  """
  process = subprocess.Popen(
    command,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    env=steps.environment("bert_tf" in command),
  )
  stderr = process.stderr
  assert stderr
  with process:
    # A thread reads stderr, since a full pipe would block the server.
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(stderr))
    reader.start()
    try:
      address = _wait_until_ready(process)
      if address:
        yield address + _PATH, process.pid
      else:
        process.kill()
    finally:
      process.terminate()
      try:
        process.wait(timeout=_MAX_STOP_S)
      except subprocess.TimeoutExpired:
        process.kill()
      reader.join()
  reason = "".join(errors[-1:]).strip()
  if not address:
    reason = reason or "it printed no address"
    raise ValueError(f"the server did not start: {reason}")
  if process.returncode:
    raise ValueError(
      f"the server ended with status {process.returncode}: {reason}"
    )


def _wait_until_ready(process: subprocess.Popen[str]) -> str | None:
  """Returns the address of a server once /readyz does not answer 503.

  Other servers have no /readyz. Returns None if the server prints another line,
  or if it ends; kills it after _MAX_START_S.
  """
  assert process.stdout
  # A silent server would block the reader.
  timer = threading.Timer(_MAX_START_S, process.kill)
  timer.start()
  try:
    address = re.search(r"http://[^/\s]+", process.stdout.readline())
    while address and process.poll() is None:
      url = f"{address[0]}/readyz"
      try:
        urllib.request.urlopen(url, timeout=_TIMEOUT_S).close()
        return address[0]
      except urllib.error.HTTPError as error:
        if error.code != 503:
          return address[0]
      except OSError:
        pass
      time.sleep(0.1)
    return None
  finally:
    timer.cancel()


def is_same(answer: Any, expected: Any) -> bool:
  """Returns whether an answer equals the expected one up to rounding."""
  if isinstance(expected, float):
    return isinstance(answer, float) and abs(answer - expected) < _TOLERANCE
  if isinstance(expected, dict):
    return (
      isinstance(answer, dict)
      and answer.keys() == expected.keys()
      and all(is_same(answer[key], value) for key, value in expected.items())
    )
  if isinstance(expected, list):
    return (
      isinstance(answer, list)
      and len(answer) == len(expected)
      and all(map(is_same, answer, expected))
    )
  return answer == expected
