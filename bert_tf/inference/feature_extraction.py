"""Contextual features of texts: vectors of their tokens, or of the texts.

  extractor = feature_extraction.FeatureExtractor(
    config.ExtractionConfig(
      "bert_config.json", "vocab.txt", "bert_model.ckpt",
      layers=(-1,), pooling="mean",
    )
  )
  for features in extractor.extract(["a text", ("one of", "a pair")]):
    features.vectors  # [1, D]

Shapes: as in modeling.py, and K the layers that are asked for.
"""

import dataclasses
import itertools
import json
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf
import tqdm

from bert_tf import checkpoints, modeling, tokenization
from bert_tf.data import corpus, packing
from bert_tf.files import atomic
from bert_tf.inference import config as inference_config

# Between the two texts of a pair, in a line.
_SEPARATOR = " ||| "

# Digits behind the point in JSON, as in the original.
_DECIMALS = 6

# A text, or the two of a pair.
Text = str | tuple[str, str]


@dataclasses.dataclass(frozen=True)
class TextFeatures:
  """What was computed of one text.

  Attributes:
    tokens: its F word pieces, with [CLS] and [SEP].
    vectors: float32 [K, F, D]; with a pooling [K, D].
    attention_probs: float32 [K, N, F, T], from F to T, both all tokens; None
      where they were not asked for.
  """

  tokens: tuple[str, ...]
  vectors: np.ndarray
  attention_probs: np.ndarray | None


class FeatureExtractor:
  """A model, loaded once, that turns texts into vectors.

  Attributes:
    config: what is computed.
    bert_config: the sizes of the model.

  Args:
    config: what to compute, and with which model.

  Raises:
    ValueError: if config, vocabulary, checkpoint, max_seq_length and layers
      do not fit.
  """

  def __init__(self, config: inference_config.ExtractionConfig) -> None:
    self.config = config
    self.bert_config = modeling.BertConfig.from_json_file(
      config.bert_config_file
    )
    self._tokenizer = tokenization.FullTokenizer(
      config.vocab_file, config.do_lower_case
    )
    self._check()
    self._cls_id, self._sep_id = self._tokenizer.convert_tokens_to_ids(
      ["[CLS]", "[SEP]"]
    )
    self._model = modeling.BertModel(
      self.bert_config, config.use_one_hot_embeddings
    )
    checkpoints.init_from_checkpoint(self._model, config.init_checkpoint)
    columns = ("input_ids", "input_mask", "segment_ids")
    # Any size and width of batch: one trace.
    self._compute = tf.function(
      self._computed,
      input_signature=[
        {name: tf.TensorSpec([None, None], tf.int32) for name in columns}
      ],
    )

  def extract(self, texts: Iterable[Text]) -> Iterator[TextFeatures]:
    """Yields the features of each text, in their order.

    Reads no further ahead than a batch.

    Args:
      texts: each a text or a pair of texts; "" gives [CLS] and [SEP].

    Raises:
      ValueError: for what is neither a text nor a pair.
    """
    remaining = iter(texts)
    while batch := list(itertools.islice(remaining, self.config.batch_size)):
      yield from self._extract_batch(batch)

  def _check(self) -> None:
    """Raises ValueError where config, vocabulary and flags do not fit."""
    config, bert_config = self.config, self.bert_config
    tokenization.validate_case_matches_checkpoint(
      config.do_lower_case, config.init_checkpoint
    )
    bert_config.check_lengths(config.max_seq_length, config.bert_config_file)
    bert_config.check_vocab(
      len(self._tokenizer.vocab), config.vocab_file, config.bert_config_file
    )
    num_layers = bert_config.num_hidden_layers
    for index in config.layers:
      if not -num_layers <= index < num_layers:
        raise ValueError(
          f"layer {index} is not there: {config.bert_config_file} has "
          f"{num_layers}, 0 to {num_layers - 1} from the first and -1 to "
          f"-{num_layers} from the last."
        )

  def _extract_batch(self, texts: Sequence[Text]) -> Iterator[TextFeatures]:
    packed = [self._pack(text) for text in texts]
    columns = {
      name: np.array([row[name] for row in packed], np.int32)
      for name in packed[0]
    }
    lengths = columns["input_mask"].sum(axis=1)
    # Cut to the longest: what goes is padding in every text.
    batch = {name: rows[:, : max(lengths)] for name, rows in columns.items()}
    computed = {
      name: tensor.numpy() for name, tensor in self._compute(batch).items()
    }
    for row, length in enumerate(lengths):
      # Copies, so that one text does not keep its whole batch in memory.
      vectors = computed["vectors"][row]
      if self.config.pooling == "none":
        vectors = vectors[:, :length]
      probs = None
      if self.config.attention_probs:
        probs = computed["attention_probs"][row, :, :, :length, :length].copy()
      ids = batch["input_ids"][row, :length].tolist()
      tokens = self._tokenizer.convert_ids_to_tokens(ids)
      yield TextFeatures(tuple(tokens), vectors.copy(), probs)

  def _pack(self, text: Text) -> dict[str, list[int]]:
    """Returns the model's input of a text, padded to max_seq_length."""
    parts = (text,) if isinstance(text, str) else tuple(text)
    if len(parts) not in (1, 2) or not all(
      isinstance(part, str) for part in parts
    ):
      raise ValueError(f"neither a text nor a pair of texts: {text!r}.")
    ids = [self._tokenizer.tokenize_to_ids(part) for part in parts]
    # A second text without a token makes no pair, as in the original.
    ids_b = ids[1] if len(ids) == 2 and ids[1] else None
    return packing.pack(
      ids[0], ids_b, self._cls_id, self._sep_id, self.config.max_seq_length
    )

  def _computed(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns what is asked for of a batch, padding included."""
    output = self._model(
      batch, return_attention_probs=self.config.attention_probs
    )
    layers = self.config.layers
    vectors = tf.stack(
      [output.all_encoder_layers[index] for index in layers], axis=1
    )  # [B, K, F, D]
    results = {
      "vectors": _pooled(vectors, batch["input_mask"], self.config.pooling)
    }
    if self.config.attention_probs:
      results["attention_probs"] = tf.stack(
        [output.attention_probs[index] for index in layers], axis=1
      )  # [B, K, N, F, T]
    return results


def _pooled(
  vectors: tf.Tensor, input_mask: tf.Tensor, pooling: str
) -> tf.Tensor:
  """Returns [B, K, D], or with "none" the [B, K, F, D] that came."""
  if pooling == "cls":
    return vectors[:, :, 0]
  is_real = tf.cast(input_mask, vectors.dtype)[:, None, :, None]  # [B, 1, F, 1]
  if pooling == "mean":
    total = tf.reduce_sum(vectors * is_real, axis=2)
    return total / tf.reduce_sum(is_real, axis=2)
  if pooling == "max":
    lowest = vectors.dtype.min
    return tf.reduce_max(tf.where(is_real > 0, vectors, lowest), axis=2)
  return vectors


def parse_line(line: str) -> Text:
  """Returns the text of a line, or the pair of a line `a ||| b`.

  White space around the line goes; the last ` ||| ` is what separates.
  """
  line = line.strip()
  text_a, separator, text_b = line.rpartition(_SEPARATOR)
  return (text_a, text_b) if separator else line


def extract_file(
  config: inference_config.ExtractionConfig,
  input_file: str,
  output_file: str,
  output_format: str = "jsonl",
) -> int:
  """Writes the features of each line of a file, whole or not at all.

  Batches are read, computed and written one after another, so memory does
  not grow with the file. What is written:

  - "jsonl": an object a line, `linex_index` (the original's spelling) from 0
    and `features`, for each token its `token` and `layers`, each of `index`
    and `values`. With attention, `attention_probs`, for each layer its
    `index` and `heads`, [N][F][T]. With a pooling, `layers` takes the place
    of `features`. Numbers are rounded to 6 places.
  - "npz": for line i `tokens_i`, [F], `features_i`, float32 [K, F, D], and
    with attention `attention_probs_i`, float32 [K, N, F, T]. With a pooling
    one array `features`, float32 [lines, K, D]. `layers`, int64 [K].

  Args:
    config: what to compute, and with which model.
    input_file: a text a line, or a pair as `parse_line` reads it; .gz too.
    output_file: what to write.
    output_format: one of inference_config.OUTPUT_FORMATS.

  Returns:
    The number of lines.

  Raises:
    ValueError: if the input is missing, empty or not UTF-8, config,
      vocabulary, checkpoint and settings do not fit, or the input changes
      while it is read.
    OSError: if output_file cannot be written.
  """
  if output_format not in inference_config.OUTPUT_FORMATS:
    raise ValueError(
      f"output_format {output_format!r} is not known; use "
      f"{', '.join(inference_config.OUTPUT_FORMATS)}."
    )
  num_lines = _count_lines(input_file)
  if os.path.realpath(input_file) == os.path.realpath(output_file):
    raise ValueError(f"{output_file} is the input; name another output_file.")
  with atomic.file(output_file) as unfinished:
    extractor = FeatureExtractor(config)
    bar = tqdm.tqdm(
      extractor.extract(_texts(input_file, num_lines)),
      total=num_lines,
      desc="extracting",
      unit="line",
      dynamic_ncols=True,
      disable=not sys.stderr.isatty(),
    )
    if output_format == "jsonl":
      _write_jsonl(unfinished, bar, config)
    else:
      shape = (num_lines, len(config.layers), extractor.bert_config.hidden_size)
      _write_npz(unfinished, bar, config, shape)
  return num_lines


def _count_lines(path: str) -> int:
  """Returns how many lines a file has, all of which are UTF-8."""
  if not os.path.isfile(path):
    # A pipe cannot be read a second time.
    raise ValueError(f"input_file: there is no file {path}.")
  num_lines = sum(1 for _ in corpus.read_lines(path))
  if not num_lines:
    raise ValueError(f"input_file: {path} is empty.")
  return num_lines


def _texts(path: str, num_lines: int) -> Iterator[Text]:
  """Yields the text of every line; raises ValueError if there are others."""
  found = 0
  for line in corpus.read_lines(path):
    found += 1
    yield parse_line(line)
  if found != num_lines:
    raise ValueError(
      f"{path} had {num_lines} lines and now has {found}: it has changed "
      "while it was read. Start again."
    )


def _write_jsonl(
  path: str,
  extracted: Iterable[TextFeatures],
  config: inference_config.ExtractionConfig,
) -> None:
  with open(path, "w", encoding="utf-8") as writer:
    for index, text in enumerate(extracted):
      content = _json_object(text, config)
      writer.write(json.dumps({"linex_index": index, **content}) + "\n")


def _json_object(
  text: TextFeatures, config: inference_config.ExtractionConfig
) -> dict[str, Any]:
  """Returns the object of a line, but for its index."""
  vectors = _rounded(text.vectors)
  if config.pooling != "none":
    return {"layers": _by_layer(config.layers, "values", vectors)}
  content = {
    "features": [
      {"token": token, "layers": _by_layer(config.layers, "values", values)}
      # [K][F] to [F][K].
      for token, values in zip(text.tokens, zip(*vectors))
    ]
  }
  if text.attention_probs is not None:
    probs = _rounded(text.attention_probs)
    content["attention_probs"] = _by_layer(config.layers, "heads", probs)
  return content


def _by_layer(
  layers: Sequence[int], name: str, values: Iterable[list]
) -> list[dict[str, Any]]:
  return [{"index": index, name: v} for index, v in zip(layers, values)]


def _rounded(array: np.ndarray) -> list:
  """Returns the numbers as nested lists; rounded as float64, to stay so."""
  return np.round(array.astype(np.float64), _DECIMALS).tolist()


def _write_npz(
  path: str,
  extracted: Iterable[TextFeatures],
  config: inference_config.ExtractionConfig,
  pooled_shape: tuple[int, int, int],
) -> None:
  """Writes an npz an array at a time; np.savez needs all of them at once."""
  with zipfile.ZipFile(path, "w") as archive:
    _write_array(archive, "layers", np.array(config.layers, np.int64))
    if config.pooling != "none":
      _write_pooled(archive, extracted, pooled_shape)
      return
    for index, text in enumerate(extracted):
      _write_array(archive, f"tokens_{index}", np.array(text.tokens))
      _write_array(archive, f"features_{index}", text.vectors)
      if text.attention_probs is not None:
        name = f"attention_probs_{index}"
        _write_array(archive, name, text.attention_probs)


def _write_array(
  archive: zipfile.ZipFile, name: str, array: np.ndarray
) -> None:
  with _member(archive, name) as writer:
    np.lib.format.write_array(writer, array, allow_pickle=False)


def _write_pooled(
  archive: zipfile.ZipFile,
  extracted: Iterable[TextFeatures],
  shape: tuple[int, int, int],
) -> None:
  """Writes one array of all lines, a line at a time."""
  header = {"descr": "<f4", "fortran_order": False, "shape": shape}
  with _member(archive, "features") as writer:
    np.lib.format.write_array_header_1_0(writer, header)
    for text in extracted:
      writer.write(text.vectors.astype("<f4").tobytes())


def _member(archive: zipfile.ZipFile, name: str) -> BinaryIO:
  # A ZipInfo of its own has no clock in it: equal inputs, equal files.
  entry = zipfile.ZipInfo(f"{name}.npy")
  return archive.open(entry, "w", force_zip64=True)
