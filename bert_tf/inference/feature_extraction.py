"""Extracts contextual features of texts: a vector per token or per text.

Shapes are those of modeling.py, with K the number of requested layers.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import atomic, paths, shard_files, text_lines
from bert_tf.inference import ids_functions
from bert_tf.inference.config import ExtractionConfig
from bert_tf.inference.rows import RowModel, open_model, read_rows, to_rows
from bert_tf.modeling import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.config import EncoderSettings
from bert_tf.tasks.encoder.task import EncoderTask, pool_vectors
from bert_tf.tasks.rows import Row
from bert_tf.training import progress

# A text or a pair of texts.
Text = str | tuple[str, str]


@dataclasses.dataclass(frozen=True)
class TextFeatures:
  """Features of one text or pair."""

  tokens: tuple[str, ...]  # F word pieces, including [CLS] and [SEP].
  vectors: np.ndarray  # float32 [K, F, D]; [K, D] if pooled.


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FeatureTask(base.Task[EncoderSettings]):
  """Answers a text or a pair with its TextFeatures."""

  layers: Sequence[int]
  pooling: str

  name = "encoder"
  fields = ("text", "text_b")
  outputs = ()  # All that there are.

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the sequence of each text or pair."""
    for row in rows:
      # "" as second text is none.
      ids = [self.tokenize(row.get(name, "")) for name in self.fields]
      yield base.Inputs([self.pack(*ids)])

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Any:
    """Returns the TextFeatures."""
    [sequence], [output] = inputs.sequences, outputs
    ids = sequence.input_ids
    tokens = self.tokenizer.convert_ids_to_tokens(ids)
    if (vectors := output.get("layers")) is None:
      # A file of ONNX or LiteRT gives the last layer only.
      vectors = np.stack([output["sequence_output"]] * len(self.layers))
    pooled = pool_vectors(vectors[:, : len(ids)], self.pooling)
    # Copies, so that features of a text do not keep its batch in memory.
    return TextFeatures(tuple(tokens), pooled.copy())


class FeatureExtractor(RowModel):
  """Turns texts into vectors, with a model that is loaded once.

  `encode` gives a vector for each text, to search and compare texts with, and
  `extract` one for each word piece, from any layers. `predict` returns the
  TextFeatures of a text or a pair, or a list of them.

  Args:
    model: the model, as `--model` names it, or an open ModelFolder.
    layers: the layers of `extract`, from 0 or from -1, the last.
    pooling: "none" for a vector of each word piece, or "cls", "mean" or "max"
      for one of each text. `encode` pools as the model's files say if it is
      "none".
    batch_size: the number of texts in a batch.
    use_one_hot_embeddings: whether to look up words by a matmul, for TPUs.
    **settings: of an encoder by name, such as max_seq_length or do_lower_case,
      or vocab_file and bert_config_file; see `ModelFolder.open`.

  Raises:
    ValueError: if the model's files and the settings do not match, or a setting
      is unknown.

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
    self,
    model: str | os.PathLike[str] | ModelFolder,
    *,
    layers: Sequence[int] = (-1,),
    pooling: str = "none",
    batch_size: int = 32,
    use_one_hot_embeddings: bool = False,
    **settings: Any,
  ) -> None:
    if pooling != "none":
      settings["pooling"] = pooling
    files = open_model(model, task="encoder", **settings)
    self.bert_config = files.config
    num_layers = files.config.num_hidden_layers
    for index in layers:
      if not -num_layers <= index < num_layers:
        raise ValueError(
          f"there is no layer {index}: {files.config_file} has {num_layers} "
          "layers."
        )
    tokenizer = files.tokenizer
    task = _FeatureTask(
      tokenizer=tokenizer,
      settings=files.settings,
      layers=layers,
      pooling=pooling,
    )
    self._vectors = EncoderTask(tokenizer=tokenizer, settings=files.settings)
    function: ids_functions.IdsFunction
    if files.is_runtime_file:
      path = str(files.weights)
      function = ids_functions.load_runtime_file(path, files.config)
      if {index % num_layers for index in layers} != {num_layers - 1}:
        raise ValueError(
          f"{path} gives only the last layer; set `layers` to -1."
        )
    else:
      bert = files.load_model(None)
      bert.embeddings.use_one_hot_embeddings = use_one_hot_embeddings

      def compute(features: dict[str, Tensor]) -> dict[str, Tensor]:
        output = bert(features)
        shown = [output.all_encoder_layers[index] for index in layers]
        return {
          "sequence_output": output.sequence_output,
          "layers": tf.stack(shown, axis=1),
        }

      function = ids_functions.KerasFunction(compute, files.config)
    super().__init__({ids_functions.TEXT: task}, function, batch_size)

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
    task = self._vectors

    def pool(
      inputs: base.Inputs, outputs: Sequence[base.Outputs]
    ) -> np.ndarray:
      [sequence], [output] = inputs.sequences, outputs
      pieces = output["sequence_output"][: len(sequence.input_ids)]
      # A copy, because [CLS] alone would keep its batch in memory.
      return task.vector(pieces, normalize).copy()

    rows, is_single = to_rows(texts)
    vectors = np.zeros((len(rows), self.bert_config.hidden_size), np.float32)
    answers = self._answer(task, [*read_rows(task, rows)], pool)
    for i, vector in enumerate(answers):
      vectors[i] = vector
    return vectors[0] if is_single else vectors

  def extract(self, texts: Iterable[Text]) -> Iterator[TextFeatures]:
    """Yields the features of each text, in order.

    Reads at most one batch ahead. An item is a text or a pair of texts; ""
    gives [CLS] and [SEP].

    Raises:
      ValueError: if an item is neither a text nor a pair.
    """
    rows = read_rows(self.task(), texts)
    yield from self._answer(self.task(), rows, block_size=self.max_batch_size)


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
    options = dict(vars(config))
    extractor = FeatureExtractor(options.pop("init_checkpoint"), **options)
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
