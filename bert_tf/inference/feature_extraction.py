"""Extracts contextual features of texts: a vector per token or per text.

Shapes are those of modeling.py, with K the number of requested layers.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import atomic, paths, shard_files, text_lines
from bert_tf.inference import ids_functions
from bert_tf.inference.config import ExtractionConfig
from bert_tf.inference.rows import (
  BLOCK_SIZE,
  answer_rows,
  map_rows,
  texts_by_name,
  to_rows,
)
from bert_tf.modeling import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.encoder.task import EncoderTask, pool_vectors
from bert_tf.text.unknown_pieces import PieceCounts
from bert_tf.training import progress

_NAMES = ("text", "text_b")

T = TypeVar("T")

# A text or a pair of texts.
Text = str | tuple[str, str]


@dataclasses.dataclass(frozen=True)
class TextFeatures:
  """Features of one text or pair."""

  tokens: tuple[str, ...]  # F word pieces, including [CLS] and [SEP].
  vectors: np.ndarray  # float32 [K, F, D]; [K, D] if pooled.


class FeatureExtractor:
  """Turns texts into vectors, with a model that is loaded once.

  `encode` gives a vector for each text, to search and compare texts with, and
  `extract` one for each word piece, from any layers.

  Args:
    config: the model, as `--model` names it, an ExtractionConfig, or an open
      ModelFolder without further settings.
    **settings: of ExtractionConfig by name, such as pooling. The layer of a
      model without config is the last.

  Raises:
    ValueError: if the model's files and the settings do not match.
    TypeError: for an unknown setting.

  Examples:
    >>> extractor = bert_tf.FeatureExtractor("quickstart")
    >>> texts = ["The hotel was built.", "The star is famous.", "in Oregon"]
    >>> vectors = extractor.encode(texts, normalize=True)
    >>> vectors.shape
    (3, 128)
    >>> cosines = vectors @ vectors.T
    >>> nearest = cosines[0, 1:].argmax() + 1  # The text most like the first.

    The vectors of word pieces, here of a text and of a pair:

    >>> texts = ["The hotel was built.", ("a first text", "and a second")]
    >>> features, pair = extractor.extract(texts)
    >>> features.tokens
    ('[CLS]', 'the', 'hotel', 'was', 'built', '.', '[SEP]')
    >>> features.vectors.shape  # Layers, word pieces, hidden_size.
    (1, 7, 128)
  """

  def __init__(
    self, config: ExtractionConfig | ModelFolder | str, **settings: Any
  ) -> None:
    opened, saved_length = None, {}
    if not isinstance(config, ExtractionConfig):
      saved_length = {"max_seq_length": settings.get("max_seq_length")}
      if isinstance(config, ModelFolder):
        opened, config = config, str(config.weights)
      path = os.fspath(config)
      config = ExtractionConfig(init_checkpoint=path, layers=(-1,))
    self.config = config = dataclasses.replace(config, **settings)
    given = {
      "do_lower_case": config.do_lower_case,
      "max_seq_length": config.max_seq_length,
      "pooling": None if config.pooling == "none" else config.pooling,
      **saved_length,
    }
    files = opened or config.open(task="encoder", **given)
    files.needed_vocab()
    self.bert_config = files.config
    num_layers = self.bert_config.num_hidden_layers
    for index in config.layers:
      if not -num_layers <= index < num_layers:
        raise ValueError(
          f"there is no layer {index}: {files.config_file} has {num_layers} "
          "layers."
        )
    tokenizer = files.make_tokenizer(files.case)
    self._task = EncoderTask(tokenizer=tokenizer, settings=files.settings)
    self._counts = PieceCounts(tokenizer, "the texts")
    self._function: ids_functions.IdsFunction
    if files.is_runtime_file:
      self._function = ids_functions.load_runtime_file(
        str(files.weights), files.config
      )
      if {index % num_layers for index in config.layers} != {num_layers - 1}:
        raise ValueError(
          f"{files.weights} gives only the last layer; set `layers` to -1."
        )
      return
    model = files.load_model(None)
    model.embeddings.use_one_hot_embeddings = config.use_one_hot_embeddings

    def compute(features: dict[str, Tensor]) -> dict[str, Tensor]:
      output = model(features)
      layers = [output.all_encoder_layers[i] for i in config.layers]
      return {
        "sequence_output": output.sequence_output,
        "layers": tf.stack(layers, axis=1),
      }

    self._function = ids_functions.KerasFunction(compute, files.config)

  def encode(self, texts: Any, normalize: bool | None = None) -> np.ndarray:
    """Computes one vector for each text, as the server's /v1/embeddings does.

    The vectors of the last layer are pooled as the setting `pooling` says, else
    as the files of sentence-transformers say, else by their mean. These files
    also give the maximum length, unless you set max_seq_length.

    Args:
      texts: N texts, as a list, an iterator, a NumPy array or a pandas Series.
      normalize: whether vectors have length 1, so that their dot products are
        cosines. None for what sentence-transformers' files say, else False.

    Returns:
      float32 [N, D]; [D] if `texts` is a single text.

    Raises:
      ValueError: if an item is not a text, or sentence-transformers' files list
        a step that bert_tf lacks.
    """
    rows, is_single = to_rows(texts)
    task = self._task
    named = map_rows(lambda row: texts_by_name(row, task.fields), rows)

    def pool(inputs: base.Inputs, outputs: list[np.ndarray]) -> np.ndarray:
      [sequence], [vectors] = inputs.sequences, outputs
      pieces = vectors[: len(sequence.input_ids)]
      # A copy, because [CLS] alone would keep its batch in memory.
      return task.vector(pieces, normalize).copy()

    found = self._answer(task.preprocess([*named]), "sequence_output", pool)
    vectors = np.zeros((len(rows), self.bert_config.hidden_size), np.float32)
    for i, vector in enumerate(found):
      vectors[i] = vector
    return vectors[0] if is_single else vectors

  def extract(self, texts: Iterable[Text]) -> Iterator[TextFeatures]:
    """Yields the features of each text, in order.

    Reads at most one batch ahead. An item is a text or a pair of texts; ""
    gives [CLS] and [SEP].

    Raises:
      ValueError: if an item is neither a text nor a pair.
    """
    tokenizer = self._task.tokenizer

    def preprocess(text: Text) -> base.Inputs:
      row = texts_by_name(text, _NAMES)
      # "" as second text is none.
      ids = [tokenizer.tokenize_to_ids(row.get(n, "")) for n in _NAMES]
      return base.Inputs([self._task.pack(*ids)])

    def describe(
      inputs: base.Inputs, outputs: list[np.ndarray]
    ) -> TextFeatures:
      [sequence], [vectors] = inputs.sequences, outputs  # [K, F, D]
      ids = sequence.input_ids
      tokens = tokenizer.convert_ids_to_tokens(ids)
      pooled = pool_vectors(vectors[:, : len(ids)], self.config.pooling)
      # Copies, so that features of a text do not keep its batch in memory.
      return TextFeatures(tuple(tokens), pooled.copy())

    inputs = map_rows(preprocess, texts)
    yield from self._answer(inputs, "layers", describe, self.config.batch_size)

  def predict(self, inputs: Any) -> Any:
    """Returns the TextFeatures of a row, or a list of them for several rows.

    A row is a text, a pair as a tuple, or a dict of `text` and `text_b`.
    Several rows come in any form that `Predictor.predict` takes.
    """
    rows, is_single = to_rows(inputs)
    results = list(self.extract(rows))
    return results[0] if is_single else results

  def _answer(
    self,
    rows: Iterable[base.Inputs],
    name: str,
    answer: Callable[[base.Inputs, list[np.ndarray]], T],
    block_size: int = BLOCK_SIZE,
  ) -> Iterator[T]:
    """Yields the answers of rows to sequence_output, [F, D], or layers."""

    def compute(sequences: list[base.ModelInput]) -> np.ndarray:
      for sequence in sequences:
        self._counts.add_ids(sequence.input_ids)
      outputs = self._function(base.batch(sequences))
      if name not in outputs:  # A file of ONNX or LiteRT: K times the last.
        layers = [outputs["sequence_output"]] * len(self.config.layers)
        return np.stack(layers, axis=1)
      return outputs[name]

    return answer_rows(
      rows, compute, answer, lambda length: self.config.batch_size, block_size
    )


def parse_line(line: str) -> Text:
  """Returns the text of a line, or the pair of a line `a ||| b`.

  Strips the line and splits it at the last ` ||| `.
  """
  line = line.strip()
  text_a, separator, text_b = line.rpartition(" ||| ")
  return (text_a, text_b) if separator else line


def extract_file(
  config: ExtractionConfig,
  input_file: str,
  output_file: str,
  output_format: str = "jsonl",
) -> int:
  """Writes the features of each line of a file, completely or not at all.

  A line is a text, or a pair as in `parse_line`. Batches are read, computed and
  written in turn, so a jsonl file of any length needs the memory of one batch.
  An npz file is held in memory before it is written. Formats:

  - "jsonl": an object a line. `linex_index` (the original's spelling) counts
    from 0. `features` has the `token` and `layers` of each token; a layer has
    `index` and `values`. If pooled, `layers` replaces `features`. Numbers are
    rounded to 6 decimal places.
  - "npz": for line i `tokens_i` [F] and `features_i`, float32 [K, F, D]. If
    pooled, one array `features`, float32 [lines, K, D]. Also `layers`, int64
    [K].

  Returns:
    The number of lines.

  Raises:
    ValueError: if the input is empty or not UTF-8, or as FeatureExtractor.
    OSError: if input_file cannot be read, or output_file not be written.
  """
  shard_files.check_output([output_file], [input_file])
  # Also finds text that is not UTF-8 before hours are spent on the rest.
  lines: Iterable[str] = text_lines.read_lines(input_file)
  if is_pipe := not paths.is_file(input_file):
    lines = list(lines)  # A pipe can be read only once.
  num_lines = sum(1 for _ in lines)
  if not num_lines:
    raise ValueError(f"input_file {input_file} is empty.")
  with atomic.file(output_file) as unfinished:
    extractor = FeatureExtractor(config)
    if not is_pipe:
      lines = text_lines.read_lines(input_file)
    features = extractor.extract(map(parse_line, lines))
    features = progress.track(features, "extracting", "line", num_lines)
    if output_format == "npz":
      arrays: dict[str, Any] = {"layers": np.array(config.layers, np.int64)}
      if config.pooling != "none":
        arrays["features"] = np.stack([text.vectors for text in features])
      else:
        for index, text in enumerate(features):
          arrays[f"tokens_{index}"] = np.array(text.tokens)
          arrays[f"features_{index}"] = text.vectors
      with open(unfinished, "wb") as file:  # savez would add .npz to a name.
        np.savez(file, **arrays)
      return num_lines

    def by_layer(vectors: Iterable[list]) -> list[dict[str, Any]]:
      pairs = zip(config.layers, vectors)
      return [{"index": index, "values": values} for index, values in pairs]

    with open(unfinished, "w", encoding="utf-8") as writer:
      for number, text in enumerate(features):
        # A rounded float32 would print with more digits.
        vectors = np.round(text.vectors.astype(np.float64), 6).tolist()
        content: dict[str, Any] = {"linex_index": number}
        if config.pooling != "none":
          content["layers"] = by_layer(vectors)
        else:
          content["features"] = [
            {"token": token, "layers": by_layer(values)}
            for token, values in zip(text.tokens, zip(*vectors))
          ]
        writer.write(json.dumps(content) + "\n")
  return num_lines
