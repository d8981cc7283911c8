"""Latency of a batch in a SavedModel and in Hugging Face's model."""

import functools
import os
import random
import statistics
import tempfile
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.data import packing
from bert_tf.export import config as export_config
from bert_tf.export import export, saved_models
from bert_tf.model_folder import run_info
from research.benchmarks import timing
from research.benchmarks.config import BenchmarkConfig

# Timed calls for each batch size.
_NUM_CALLS = {1: 40, 32: 8}

# From B texts and their ids, int32 [B, F], to [CLS] outputs, float32 [B, D].
Call = Callable[[list[str], Mapping[str, np.ndarray]], np.ndarray]


def measure(config: BenchmarkConfig) -> None:
  """Prints the milliseconds of batches of 1 and 32 texts."""
  with tempfile.TemporaryDirectory() as folder:
    encoder, preprocessor = (
      _export(os.path.join(folder, task), task, config)
      for task in ("encoder", "preprocessing")
    )
    vocab = os.path.join(folder, "encoder", run_info.VOCAB_FILE)
    tokenizer = tokenization.FullTokenizer(vocab, config.do_lower_case)
    calls = _saved_model_calls(encoder, preprocessor)
    if config.hf_model_dir:
      calls["transformers, ids"] = _transformers_call(config.hf_model_dir)
    for batch_size, num_calls in _NUM_CALLS.items():
      texts = _draw_texts(tokenizer, batch_size, config.max_seq_length)
      ids = _tokenize(tokenizer, texts, config.max_seq_length)
      print(
        f"{f'{batch_size} x {config.max_seq_length}':20}"
        f"{'ms':>9}{'lowest':>9}{'texts/s':>9}{'differs':>10}"
      )
      _print_times(calls, texts, ids, num_calls)


def _export(export_dir: str, task: str, config: BenchmarkConfig) -> tf.Module:
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


def _saved_model_calls(
  encoder: tf.Module, preprocessor: tf.Module
) -> dict[str, Call]:
  """Returns calls of the SavedModels with ids and with texts."""
  encode_ids = encoder.signatures[saved_models.IDS]

  def call_ids(texts: list[str], ids: Mapping[str, np.ndarray]) -> np.ndarray:
    inputs = {name: tf.constant(rows) for name, rows in ids.items()}
    return encode_ids(**inputs)["sequence_output"].numpy()[:, 0]

  def call_texts(texts: list[str], ids: Mapping[str, np.ndarray]) -> np.ndarray:
    output = encoder(preprocessor(tf.constant(texts)))
    return output["sequence_output"].numpy()[:, 0]

  return {"SavedModel, ids": call_ids, "SavedModel, texts": call_texts}


def _transformers_call(model_dir: str) -> Call:
  """Returns a call of Hugging Face's model.

  Raises:
    ImportError: without torch and transformers.
  """
  try:
    import torch
    import transformers
  except ImportError as error:
    raise ImportError(
      "`hf_model_dir` needs `pip install torch transformers`."
    ) from error
  model = transformers.BertModel.from_pretrained(model_dir).eval()

  def call(texts: list[str], ids: Mapping[str, np.ndarray]) -> np.ndarray:
    with torch.inference_mode():
      output = model(
        input_ids=torch.tensor(ids["input_ids"], dtype=torch.long),
        attention_mask=torch.tensor(ids["input_mask"], dtype=torch.long),
        token_type_ids=torch.tensor(ids["segment_ids"], dtype=torch.long),
      )
      return output.last_hidden_state.numpy()[:, 0]

  return call


def _draw_texts(
  tokenizer: tokenization.FullTokenizer, batch_size: int, length: int
) -> list[str]:
  """Returns random texts of `length` word pieces, including [CLS] and [SEP]."""
  words = [w for w in tokenizer.vocab if w.isascii() and w.isalpha()]
  words = [w for w in words if tokenizer.tokenize(w) == [w]]
  rng = random.Random(0)
  return [" ".join(rng.choices(words, k=length - 2)) for _ in range(batch_size)]


def _tokenize(
  tokenizer: tokenization.FullTokenizer, texts: list[str], length: int
) -> dict[str, np.ndarray]:
  """Returns the model's features, int32 [B, F] by name."""
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  rows = [
    packing.build_input(
      tokenizer.tokenize_to_ids(text), None, cls_id, sep_id, length
    )
    for text in texts
  ]
  return {n: np.array([row[n] for row in rows], np.int32) for n in rows[0]}


def _print_times(
  calls: Mapping[str, Call],
  texts: list[str],
  ids: Mapping[str, np.ndarray],
  num_calls: int,
) -> None:
  """Prints times, and how far the outputs differ from those of the first."""
  seconds = timing.measure_in_turn(
    {name: functools.partial(f, texts, ids) for name, f in calls.items()},
    num_calls,
  )
  outputs = {name: call(texts, ids) for name, call in calls.items()}
  first = next(iter(outputs.values()))
  for name, times in seconds.items():
    median = statistics.median(times)
    difference = np.abs(outputs[name] - first).max()
    print(
      f"{name:20}{1e3 * median:9.1f}{1e3 * min(times):9.1f}"
      f"{len(texts) / median:9.1f}{difference:10.1e}",
      flush=True,
    )
