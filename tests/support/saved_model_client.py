"""Runs SavedModels with only TensorFlow and its text operations.

python saved_model_client.py REQUESTS RESULTS

Each request is an object with `model` (a folder), `signature`, and `inputs` by
name. Its result has the outputs by name. A request with `encoder` instead calls
the object that this folder exports.
"""

import json
import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401


def answer(model, request):
  function = model.signatures[request["signature"]]
  inputs = {
    name: tf.constant(request["inputs"][name], spec.dtype)
    for name, spec in function.structured_input_signature[1].items()
  }
  return {name: listed(x) for name, x in function(**inputs).items()}


def listed(tensor):
  return decoded(tensor.numpy().tolist())


def decoded(value):
  if isinstance(value, list):
    return [decoded(x) for x in value]
  return value.decode() if isinstance(value, bytes) else value


def call_encoder(folder, inputs):
  """Returns outputs and properties that TF Hub expects of an encoder."""
  encoder = tf.saved_model.load(folder)
  inputs = {n: tf.constant(x, tf.int32) for n, x in inputs.items()}
  output = encoder(inputs)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(encoder(inputs, training=True)["pooled_output"] ** 2)
  gradients = tape.gradient(loss, encoder.trainable_variables)
  trained = [
    listed(encoder(inputs, training=training)["default"])
    for training in (True, True, False, False)
  ]
  return {
    "outputs": {n: listed(output[n]) for n in sorted(output) if n[0] != "e"},
    "encoder_outputs": [listed(x) for x in output["encoder_outputs"]],
    "variables": [v.name for v in encoder.trainable_variables],
    "without_gradient": sum(g is None for g in gradients),
    "default_of_calls": trained,
    "vocab_file": encoder.vocab_file.asset_path.numpy().decode(),
    "do_lower_case": bool(encoder.do_lower_case),
  }


def main(requests_file, results_file):
  with open(requests_file, encoding="utf-8") as reader:
    requests = json.load(reader)
  models = {}
  results = {}
  for key, request in requests.items():
    if "encoder" in request:
      results[key] = call_encoder(request["encoder"], request["inputs"])
    else:
      folder = request["model"]
      if folder not in models:
        models[folder] = tf.saved_model.load(folder)
      try:
        results[key] = answer(models[folder], request)
      except tf.errors.InvalidArgumentError as error:
        results[key] = {"error": str(error)}
  results["modules"] = [m for m in ("bert_tf", "keras") if m in sys.modules]
  with open(results_file, "w", encoding="utf-8") as writer:
    json.dump(results, writer)


if __name__ == "__main__":
  main(*sys.argv[1:])
