"""Serves a SavedModel with FastAPI, one request at a time in TensorFlow.

A server of `benchmark.py serving` without batches, limits or a queue, except
for FastAPI's 40 threads.

python fastapi_serving.py SAVED_MODEL
"""

import socket
import sys
from typing import Any

import fastapi
import pydantic
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers its operations.
import uvicorn


class Request(pydantic.BaseModel):
  """A request with rows of texts, by the name of the input."""

  instances: list[dict[str, str]]


def make_app(saved_model: str) -> fastapi.FastAPI:
  """Returns the application with TensorFlow Serving's path."""
  model = tf.saved_model.load(saved_model)
  function = model.signatures["text"]
  names = list(function.structured_input_signature[1])
  # TensorFlow hangs if the first calls of this function are concurrent.
  function(**{name: tf.constant(["warm"]) for name in names})
  app = fastapi.FastAPI()

  @app.post("/v1/models/model:predict")
  def predict(request: Request) -> dict[str, Any]:
    columns = {
      n: tf.constant([row[n] for row in request.instances]) for n in names
    }
    outputs = {
      name: _to_json(output.numpy().tolist())
      for name, output in function(**columns).items()
    }
    rows = zip(outputs["label"], outputs["labels"], outputs["probabilities"])
    return {
      "predictions": [
        {"label": label, "probabilities": dict(zip(labels, probabilities))}
        for label, labels, probabilities in rows
      ]
    }

  return app


def _to_json(value: Any) -> Any:
  """Decodes the texts in nested lists."""
  if isinstance(value, list):
    return [_to_json(item) for item in value]
  return value.decode() if isinstance(value, bytes) else value


def main(saved_model: str) -> None:
  """Serves at a free port of this machine and prints the address."""
  app = make_app(saved_model)
  listener = socket.create_server(("127.0.0.1", 0))
  print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
  # The queue may hold minutes of work for clients that have gone.
  config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=5)
  uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
  main(*sys.argv[1:])
