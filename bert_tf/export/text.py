"""Texts as inputs: the tokenizer as TensorFlow operations.

TensorFlow Serving and `tf.data` need it, since they run no Python. Everything
else uses `tokenization.FullTokenizer`. Their ids are the same, except for a few
characters that are in only one of Python's and TensorFlow's Unicode versions.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.checkpoint import run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import saved_models
from bert_tf.files import packages
from bert_tf.inference import ids_functions
from bert_tf.model import heads
from bert_tf.modeling import Tensor

# The kinds of characters in `tokenization`, as regular expressions of RE2.
_SPACE = r"[\t\n\r\p{Z}]"
_DROPPED = r"[\p{Cc}\p{Cf}\x{FFFD}]"
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"


class BertTokenizer(tf.Module):
  """Converts texts to word pieces and inputs of the model, for `tf.data`.

  The methods can be called inside a `tf.function`. They run on the CPU, where
  strings are. The vocabulary is a constant of the graph, so a SavedModel needs
  no other file.

  Args:
    vocab: the id of each token, such as `FullTokenizer.vocab`.
    do_lower_case: whether to lower-case texts, as the vocabulary needs it.
    strip_accents: whether to strip accents; None for the same as do_lower_case.

  Raises:
    ValueError: if [UNK] is missing, or a token is longer than 256 bytes or
      contains U+0000.
    ImportError: if tensorflow-text is missing.

  Examples:
    >>> from bert_tf import tokenization
    >>> vocab = tokenization.load_vocab("vocab.txt")
    >>> tokenizer = bert_tf.BertTokenizer(vocab)
    >>> ids = tokenizer.tokenize(["hotels!", "!"])
    >>> features = tokenizer.pack([ids], max_seq_length=6)
    >>> print(features["input_mask"].numpy())
    [[1 1 1 1 1 0]
     [1 1 1 0 0 0]]
    >>> tokenizer = bert_tf.BertTokenizer.from_pretrained("quickstart")
    >>> print(tokenizer(["hotels!", "!"])["segment_ids"].numpy())
    [[0 0 0 0 0]
     [0 0 0 0 0]]
  """

  max_length = 512  # Of BERT's released models.

  def __init__(
    self,
    vocab: Mapping[str, int],
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
  ) -> None:
    super().__init__()
    self.vocab = dict(vocab)
    self.do_lower_case = do_lower_case
    self.strip_accents = (
      do_lower_case if strip_accents is None else strip_accents
    )
    text_ops = packages.import_tensorflow_text("a model that takes texts")
    # A character has at most four bytes.
    max_word_bytes = 4 * tokenization.MAX_INPUT_CHARS_PER_WORD
    no_pretokenization, support_detokenization = True, False
    try:
      model = text_ops.build_fast_wordpiece_model(
        list(vocab),
        max_word_bytes,
        "##",
        tokenization.UNK,
        no_pretokenization,
        support_detokenization,
      )
    except RuntimeError as error:
      raise ValueError(
        f"The vocabulary cannot be compiled: {' '.join(str(error).split())} "
        "Replace that token by an [unused] one."
      ) from None
    with tf.device("CPU"):
      self._wordpiece = text_ops.FastWordpieceTokenizer(
        model_buffer=tf.constant(np.frombuffer(model, np.uint8)),
        token_out_type=tf.int32,
      )
    # Not a decorator: a decorated method does not keep its owner alive, so it
    # would fail on a temporary object, as in BertTokenizer(vocab).tokenize.
    self._tokenize_texts = tf.function(
      self._tokenize, [tf.TensorSpec([None], tf.string)], autograph=False
    )

  @classmethod
  def from_pretrained(cls, folder: str | os.PathLike[str]) -> "BertTokenizer":
    """Returns the tokenizer of a model folder; see BertModel.from_pretrained.

    Its `max_length` is the number of positions of the model.
    """
    files = ModelFolder.open(os.fspath(folder))
    lower = files.case.do_lower_case is not False
    tokenizer = cls(files.vocab, lower, files.case.strip_accents)
    tokenizer.max_length = files.config.max_position_embeddings
    return tokenizer

  def __call__(
    self,
    texts: Any,
    text_pair: Any = None,
    padding: bool | str = True,
    max_length: int | None = None,
    truncation: bool = True,
  ) -> dict[str, tf.Tensor]:
    """Returns the inputs of a model, int32 [B, F], by name.

    Args:
      texts: a text, or B texts as a list, an array or a tensor, or B pairs as
        a list.
      text_pair: the second texts, in the same form.
      padding: True or "longest" to pad to the longest row, "max_length" to pad
        to max_length.
      max_length: the longest row, with [CLS] and [SEP]; None for `max_length`
        of the tokenizer.
      truncation: whether to cut longer rows, a pair at the end of its longer
        text.

    Raises:
      ValueError: for another padding, or with truncation=False for longer rows.
    """
    if padding not in (True, "longest", "max_length"):
      raise ValueError(
        f"padding is {padding!r}; use True, 'longest' or 'max_length'. "
        "`tokenize` returns rows without padding."
      )
    if isinstance(texts, str | bytes):
      texts, text_pair = [texts], [text_pair] if text_pair else None
    if isinstance(texts, list) and isinstance(texts[0], list | tuple):
      texts, text_pair = map(list, zip(*texts))
    columns = [texts] if text_pair is None else [texts, text_pair]
    segments = [self.tokenize(tf.convert_to_tensor(x)) for x in columns]
    length = max_length or self.max_length
    if not truncation:
      sizes = sum(segment.row_lengths() for segment in segments)
      longest = tf.reduce_max(sizes) + 1 + len(segments)
      if tf.executing_eagerly() and longest > length:
        raise ValueError(
          f"a row has {longest} word pieces, more than max_length {length}; "
          "raise it or set truncation=True."
        )
      tf.debugging.assert_less_equal(longest, tf.cast(length, tf.int64))
    return self.pack(segments, length, padding == "max_length")

  def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the word-piece ids of texts, string [B]: int32 [B, (pieces)].

    A punctuation mark or an ideograph is a word. Bytes that are not UTF-8 are
    dropped.
    """
    if isinstance(texts, keras.KerasTensor):
      raise ValueError(
        "BertTokenizer takes texts, not a keras.Input; tokenize in "
        "tf.data.Dataset.map and give the model keras.Input of the ids."
      )
    return self._tokenize_texts(texts)

  def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
    import tensorflow_text

    replace = tf.strings.regex_replace
    with tf.device("CPU"):
      texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", "ignore")
      texts = replace(texts, _SPACE, " ")
      texts = replace(texts, _DROPPED, "")
      texts = replace(texts, f"([{tokenization.CJK}])", r" \1 ")
      if self.do_lower_case:
        # `lower` follows the locale of the process, and Turkish has dotless i.
        texts = replace(replace(texts, "I", "i"), "\u0130", "i\u0307")
        texts = tf.strings.lower(texts, encoding="utf-8")
      if self.strip_accents:
        # First those that are there: NFD sorts runs of marks by insertion,
        # which takes 14 s for 200,000.
        texts = replace(texts, r"\p{Mn}", "")
        texts = tensorflow_text.normalize_utf8(texts, "NFD")
        texts = replace(texts, r"\p{Mn}", "")
      words = tensorflow_text.regex_split(
        texts, f" +|{_PUNCTUATION}", _PUNCTUATION
      )
      lengths = tf.strings.length(words.values, "UTF8_CHAR")
      is_too_long = lengths > tokenization.MAX_INPUT_CHARS_PER_WORD
      # [UNK] is in the vocabulary, so it stays a single piece.
      short = tf.where(is_too_long, tokenization.UNK, words.values)
      return self._wordpiece.tokenize(words.with_values(short)).merge_dims(1, 2)

  def pack(
    self,
    segments: Sequence[tf.RaggedTensor],
    max_seq_length: int | tf.Tensor,
    pad_to_max: bool = True,
  ) -> dict[str, tf.Tensor]:
    """Returns the inputs of the model, as `packing.assemble`, padded.

    Args:
      segments: one or two int32 [B, (pieces)]: a text or a pair. An empty
        second text is ignored.
      max_seq_length: F, with room for [CLS] and [SEP]. Longer inputs are
        truncated; a pair from the end of its longer text.
      pad_to_max: whether to pad to F rather than to the longest of the batch.

    Returns:
      input_ids, input_mask and segment_ids: int32 [B, F], padded with 0.
    """
    cls_id, sep_id = tokenization.convert_by_vocab(
      self.vocab, [tokenization.CLS, tokenization.SEP]
    )
    with tf.device("CPU"):
      first, second = (*segments, segments[0][:, :0])[:2]
      one = tf.ones_like(first.row_lengths())
      # Without second text there is no second [SEP].
      num_seps = tf.minimum(second.row_lengths(), 1)
      # As packing.truncate_pair.
      room = tf.cast(max_seq_length, tf.int64) - 2 - num_seps
      num_first = tf.maximum(room - second.row_lengths(), (room + 1) // 2)
      first = _cut(first, num_first)
      second = _cut(second, room - first.row_lengths())
      sep = _repeat(sep_id, one)
      first = tf.concat([_repeat(cls_id, one), first, sep], axis=1)
      second = tf.concat([second, _repeat(sep_id, num_seps)], axis=1)
      ids = tf.concat([first, second], axis=1)
      segment_ids = tf.concat([0 * first, 0 * second + 1], axis=1)
      shape = tf.stack([-1, max_seq_length if pad_to_max else -1])
      rows = zip(ids_functions.ID_NAMES, (ids, 0 * ids + 1, segment_ids))
      return {name: values.to_tensor(shape=shape) for name, values in rows}


def classifier_signatures(
  model: saved_models.NamedModel,
  tokenizer: BertTokenizer,
  info: run_info.RunInfo,
) -> saved_models.Signatures:
  """Returns `text` and `text_pair`; one of them is the default.

  They take `text`, and `text_pair` also `text_b`, string [B], truncated to
  max_seq_length word pieces. For numbers they return `prediction`, float32
  [B], otherwise `probabilities`, float32 [B, C], and:
    labels: string [B, C]. All labels, equal in each row.
    label: string [B]. The most probable label.
    applies: bool [B, C]. Only for multilabel, instead of `label`.
  """
  settings, spec = info.settings, info.labels
  assert spec

  def classify(texts: dict[str, Tensor]) -> dict[str, Tensor]:
    segments = [tokenizer.tokenize(text) for text in texts.values()]
    length = settings.max_seq_length
    logits = model(tokenizer.pack(segments, length, pad_to_max=False))
    outputs = ids_functions.name_outputs(logits, info)
    del outputs["logits"]
    if spec.problem_type in run_info.NUMBERS:
      return outputs
    names = tf.constant(spec.labels, tf.string)
    outputs["labels"] = tf.tile(names[None], [tf.shape(logits)[0], 1])
    if spec.problem_type == "multilabel":
      return {**outputs, "applies": logits > 0}
    return {**outputs, "label": tf.gather(names, tf.argmax(logits, axis=-1))}

  single, pair = (
    saved_models.named_function(classify, names, tf.string, rank=1)
    for names in (["text"], ["text", "text_b"])
  )
  default = pair if settings.is_pair else single
  return {"text": single, "text_pair": pair, ids_functions.DEFAULT: default}


def encoder_signatures(
  model: saved_models.NamedModel,
  tokenizer: BertTokenizer,
  info: run_info.RunInfo,
) -> saved_models.Signatures:
  """Returns `text`, which computes a vector for each text.

  It takes `text`, string [B], truncated to max_seq_length word pieces, and
  returns:
    embedding: float32 [B, D]. The pooled last layer; of length 1 if the model
      normalizes.
    num_tokens: int32 [B]. Word pieces, including [CLS] and [SEP].
  """
  length, pooling = info.settings.max_seq_length, info.settings.pooling

  def encode(texts: dict[str, Tensor]) -> dict[str, Tensor]:
    packed = tokenizer.pack([tokenizer.tokenize(texts["text"])], length, False)
    mask = packed["input_mask"]  # [B, F]
    hidden = model(packed).sequence_output  # [B, F, D]
    pooled = heads.pool_vectors(hidden, mask, pooling)
    if info.settings.normalize:
      pooled = tf.math.l2_normalize(pooled, axis=-1)
    return {"embedding": pooled, "num_tokens": tf.reduce_sum(mask, axis=1)}

  text = saved_models.named_function(encode, ["text"], tf.string, rank=1)
  return {ids_functions.TEXT: text}


def _cut(rows: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
  """Cuts rows that are longer than `lengths`, int64 [B]."""
  starts = rows.row_starts()
  ends = starts + tf.minimum(rows.row_lengths(), lengths)
  return tf.gather(rows.values, tf.ragged.range(starts, ends))


def _repeat(token_id: int, counts: tf.Tensor) -> tf.RaggedTensor:
  """Returns rows of `counts`, int64 [B], equal ids."""
  values = tf.fill([tf.reduce_sum(counts)], token_id)
  return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)
