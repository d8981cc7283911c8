"""Latency of a batch in a SavedModel and in Hugging Face's model."""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.data import packing
from bert_tf.export import config as export_config
from bert_tf.export import export, saved_models
from bert_tf.model_folder import run_info
from research.benchmarks.config import BenchmarkConfig

# The original's forward pass on TF 2.15 with oneDNN off and on, recorded by
# running it on two CPU cores: the project's notes on its behaviour, "How fast
# it is".
ORIGINAL_MS = {
  "L=2 H=128, 32 x 128": (55, 39),
  "L=12 H=768, 8 x 128": (1080, 890),
}

# Calls of each batch size; the first is not timed.
_NUM_CALLS = {1: 41, 32: 9}

# From a batch of texts and their ids to float [B, D].
Call = Callable[[list[str], Mapping[str, np.ndarray]], np.ndarray]


def measure(config: BenchmarkConfig) -> None:
  """Prints the milliseconds of a batch of 1 and 32 texts.

  The models take turns.
  """
  length = config.max_seq_length
  with tempfile.TemporaryDirectory() as folder:
    encoder, preprocessor = (
      _exported(os.path.join(folder, task), task, config)
      for task in ("encoder", export_config.PREPROCESSING)
    )
    vocab = os.path.join(folder, "encoder", run_info.VOCAB_FILE)
    tokenizer = tokenization.FullTokenizer(vocab, config.do_lower_case)
    calls = _calls(encoder, preprocessor)
    if config.hf_model_dir:
      calls["transformers, ids"] = _transformers_call(config.hf_model_dir)
    for batch_size, num_calls in _NUM_CALLS.items():
      texts = _texts(tokenizer, batch_size, length)
      ids = _ids(tokenizer, texts, length)
      _print_times(batch_size, length, calls, texts, ids, num_calls)
  for name, (plain, one_dnn) in ORIGINAL_MS.items():
    print(f"original, noted: {name}: {plain} ms, with oneDNN {one_dnn} ms")


def _exported(export_dir: str, task: str, config: BenchmarkConfig) -> tf.Module:
  """Exports and loads a SavedModel."""
  export.run(
    export_config.ExportConfig(
      export_dir=export_dir,
      init_checkpoint=config.needed("init_checkpoint"),
      task=task,
      vocab_file=config.vocab_file,
      do_lower_case=config.do_lower_case,
      max_seq_length=config.max_seq_length,
    )
  )
  return tf.saved_model.load(export_dir)


def _calls(encoder: tf.Module, preprocessor: tf.Module) -> dict[str, Call]:
  """Returns the timed calls of the SavedModels, by name."""
  from_ids = encoder.signatures[saved_models.IDS]

  def of_ids(texts: list[str], ids: Mapping[str, np.ndarray]) -> np.ndarray:
    inputs = {name: tf.constant(rows) for name, rows in ids.items()}
    return from_ids(**inputs)["sequence_output"].numpy()[:, 0]

  def of_texts(texts: list[str], ids: Mapping[str, np.ndarray]) -> np.ndarray:
    output = encoder(preprocessor(tf.constant(texts)))
    return output["sequence_output"].numpy()[:, 0]

  return {"SavedModel, ids": of_ids, "SavedModel, texts": of_texts}


def _transformers_call(model_dir: str) -> Call:
  """Returns the timed call of Hugging Face's model.

  Raises:
    ImportError: without torch and transformers.
  """
  try:
    from research.benchmarks.peers import transformers_call
  except ImportError as error:
    raise ImportError(
      "`hf_model_dir` needs `pip install torch transformers`."
    ) from error
  call = transformers_call.load(model_dir)
  return lambda _, ids: call(ids)


def _texts(
  tokenizer: tokenization.FullTokenizer, batch_size: int, length: int
) -> list[str]:
  """Returns made-up texts of `length` word pieces with [CLS] and [SEP]."""
  words = [w for w in tokenizer.vocab if w.isascii() and w.isalpha()]
  words = [w for w in words if tokenizer.tokenize(w) == [w]]
  rng = random.Random(0)
  return [" ".join(rng.choices(words, k=length - 2)) for _ in range(batch_size)]


def _ids(
  tokenizer: tokenization.FullTokenizer, texts: list[str], length: int
) -> dict[str, np.ndarray]:
  """Returns the model's input for the texts, int32 [B, F]."""
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  rows = [
    packing.pack(tokenizer.tokenize_to_ids(text), None, cls_id, sep_id, length)
    for text in texts
  ]
  return {n: np.array([row[n] for row in rows], np.int32) for n in rows[0]}


def _print_times(
  batch_size: int,
  length: int,
  calls: Mapping[str, Call],
  texts: list[str],
  ids: Mapping[str, np.ndarray],
  num_calls: int,
) -> None:
  """Prints a row for each model, of one batch size."""
  seconds: dict[str, list[float]] = {name: [] for name in calls}
  outputs = {}
  for _ in range(num_calls):
    for name, call in calls.items():
      start = time.perf_counter()
      outputs[name] = call(texts, ids)
      seconds[name].append(time.perf_counter() - start)
  first = next(iter(outputs.values()))
  title = f"{batch_size} x {length}"
  print(f"{title:20}{'ms':>9}{'lowest':>9}{'texts/s':>9}{'differs':>10}")
  for name, times in seconds.items():
    median = statistics.median(times[1:])
    difference = np.abs(outputs[name] - first).max()
    print(
      f"{name:20}{1e3 * median:9.1f}{1e3 * min(times[1:]):9.1f}"
      f"{batch_size / median:9.1f}{difference:10.1e}",
      flush=True,
    )
