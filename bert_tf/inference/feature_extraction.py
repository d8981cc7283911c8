"""Contextual features of texts: vectors of their tokens, or of the texts.

  extractor = feature_extraction.FeatureExtractor(
    config.ExtractionConfig(
      init_checkpoint="uncased/bert_model.ckpt", layers=(-1,), pooling="mean"
    )
  )
  for features in extractor.extract(["a text", ("one of", "a pair")]):
    features.vectors  # [1, D]

Shapes: as in modeling.py, and K the number of requested layers.
"""

import dataclasses
import itertools
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import numpy as np

from bert_tf import model_folder, modeling
from bert_tf.export import saved_models
from bert_tf.export.signatures import features
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.files import atomic, paths, text_lines
from bert_tf.inference import config as configs
from bert_tf.inference import inputs as inputs_lib
from bert_tf.inference import loaded_model
from bert_tf.kernels import backend
from bert_tf.training import progress

# Between the two texts of a pair, in a line.
_SEPARATOR = " ||| "

# Digits behind the point in JSON, as in the original.
_DECIMALS = 6

_NAMES = ("text", "text_b")

# A text, or the two of a pair.
Text = str | tuple[str, str]


@dataclasses.dataclass(frozen=True)
class TextFeatures:
  """Features of one text or pair."""

  tokens: tuple[str, ...]  # Its F word pieces, with [CLS] and [SEP].
  vectors: np.ndarray  # float32 [K, F, D]; with a pooling [K, D].
  # float32 [K, N, F, T], the weight of token T for token F; None unless
  # requested.
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

  def __init__(self, config: configs.ExtractionConfig) -> None:
    backend.check_tensorflow()
    self.config = config
    files = model_folder.find(
      config.init_checkpoint, config.bert_config_file, config.vocab_file
    )
    files.needed_vocab()
    self.bert_config = files.bert_config
    _check(config, files)
    tokenizer = bert_tokenizer.load(files, config.do_lower_case, None)
    model = modeling.BertModel(
      self.bert_config.without_random_values(), config.use_one_hot_embeddings
    )
    model_folder.load(files, model, required="")
    named = saved_models.NamedModel(
      model, self.bert_config.max_position_embeddings
    )
    signature = features.signature(
      model,
      named,
      tokenizer,
      config.max_seq_length,
      config.layers,
      config.pooling,
      config.attention_probs,
    )
    self._owner = named, tokenizer
    self._compute = loaded_model.function_of(signature)

  def extract(self, texts: Iterable[Text]) -> Iterator[TextFeatures]:
    """Yields the features of each text, in their order.

    Reads no further ahead than a batch.

    Args:
      texts: each a text or a pair of texts; "" gives [CLS] and [SEP].

    Raises:
      ValueError: for what is neither a text nor a pair.
    """
    remaining = enumerate(texts)
    while batch := list(itertools.islice(remaining, self.config.batch_size)):
      yield from self._extract_batch(batch)

  def predict(self, inputs: Any) -> Any:
    """Returns the TextFeatures of a text or a pair, or a list of several's.

    Args:
      inputs: a text, a pair as tuple or by the names text and text_b, or
        several: a list, an iterator, a NumPy array, a pandas Series, a
        DataFrame.

    Raises:
      ValueError: for what is neither a text nor a pair.
    """
    rows, is_one = inputs_lib.rows_of(inputs)
    found = list(self.extract(rows))
    return found[0] if is_one else found

  def _extract_batch(
    self, texts: Sequence[tuple[int, Any]]
  ) -> Iterator[TextFeatures]:
    pairs = [_as_pair(index, text) for index, text in texts]
    columns = {
      name: np.array([pair[name] for pair in pairs], dtype=object)
      for name in _NAMES
    }
    computed = self._compute(columns)
    for row, length in enumerate(computed["num_tokens"]):
      # Copies, so that one text does not keep its whole batch in memory.
      vectors = computed["vectors"][row]
      if self.config.pooling == "none":
        vectors = vectors[:, :length]
      probs = None
      if self.config.attention_probs:
        probs = computed["attention_probs"][row, :, :, :length, :length].copy()
      tokens = [token.decode() for token in computed["tokens"][row, :length]]
      yield TextFeatures(tuple(tokens), vectors.copy(), probs)


def _check(
  config: configs.ExtractionConfig, files: model_folder.ModelFolder
) -> None:
  """Raises ValueError where length and layers do not fit the model."""
  bert_config, config_file = files.bert_config, files.config_file
  bert_config.check_lengths(config.max_seq_length, config_file)
  num_layers = bert_config.num_hidden_layers
  for index in config.layers:
    if not -num_layers <= index < num_layers:
      raise ValueError(
        f"layer {index} is not there: {config_file} has {num_layers}, 0 to "
        f"{num_layers - 1} from the first and -1 to -{num_layers} from the "
        "last."
      )


def _as_pair(index: int, text: Any) -> dict[str, str]:
  """Returns a pair of texts by name, the second "" if there is one text."""
  texts = inputs_lib.by_name(index, text, _NAMES)
  if "text" not in texts or len(texts.keys() | set(_NAMES)) > len(_NAMES):
    raise ValueError(f"row {index} is no text and text_b: {text!r:.60}")
  for name, value in texts.items():
    inputs_lib.check_texts(f"{name} of row {index}", value)
  return {"text_b": "", **texts}


def parse_line(line: str) -> Text:
  """Returns the text of a line, or the pair of a line `a ||| b`.

  White space around the line goes; the last ` ||| ` is what separates.
  """
  line = line.strip()
  text_a, separator, text_b = line.rpartition(_SEPARATOR)
  return (text_a, text_b) if separator else line


def extract_file(
  config: configs.ExtractionConfig,
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
    output_format: one of configs.OUTPUT_FORMATS.

  Returns:
    The number of lines.

  Raises:
    ValueError: if the input is missing, empty or not UTF-8, config,
      vocabulary, checkpoint and settings do not fit, or the input changes
      while it is read.
    OSError: if output_file cannot be written.
  """
  if output_format not in configs.OUTPUT_FORMATS:
    raise ValueError(
      f"output_format {output_format!r} is not known; use "
      f"{', '.join(configs.OUTPUT_FORMATS)}."
    )
  num_lines = _count_lines(input_file)
  if os.path.realpath(input_file) == os.path.realpath(output_file):
    raise ValueError(f"{output_file} is the input; name another output_file.")
  with atomic.file(output_file) as unfinished:
    extractor = FeatureExtractor(config)
    found = extractor.extract(_texts(input_file, num_lines))
    found = progress.track(found, "extracting", "line", num_lines)
    if output_format == "jsonl":
      _write_jsonl(unfinished, found, config)
    else:
      shape = (num_lines, len(config.layers), extractor.bert_config.hidden_size)
      _write_npz(unfinished, found, config, shape)
  return num_lines


def _count_lines(path: str) -> int:
  """Returns how many lines a file has, all of which are UTF-8."""
  # Not a pipe, which cannot be read a second time.
  if not paths.is_file(path):
    raise ValueError(f"input_file: there is no file {path}.")
  num_lines = sum(1 for _ in text_lines.read_lines(path))
  if not num_lines:
    raise ValueError(f"input_file: {path} is empty.")
  return num_lines


def _texts(path: str, num_lines: int) -> Iterator[Text]:
  """Yields the text of every line; raises ValueError if there are others."""
  found = 0
  for line in text_lines.read_lines(path):
    found += 1
    yield parse_line(line)
  if found != num_lines:
    raise ValueError(
      f"{path} had {num_lines} lines and now has {found}: it has changed "
      "while it was read. Start again."
    )


def _write_jsonl(
  path: str, extracted: Iterable[TextFeatures], config: configs.ExtractionConfig
) -> None:
  with open(path, "w", encoding="utf-8") as writer:
    for index, text in enumerate(extracted):
      content = _json_object(text, config)
      writer.write(json.dumps({"linex_index": index, **content}) + "\n")


def _json_object(
  text: TextFeatures, config: configs.ExtractionConfig
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
  config: configs.ExtractionConfig,
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


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
  # A ZipInfo of its own has no clock in it: equal inputs, equal files.
  entry = zipfile.ZipInfo(f"{name}.npy")
  return archive.open(entry, "w", force_zip64=True)
