"""Functions of models that label words, such as named entities."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_tf.export import saved_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor

# Function for texts whose punctuation is not separated from words.
PLAIN_TEXT = "plain_text"

# Returns the words of texts, and their starts and ends in bytes.
Splitter = Callable[
  [Tensor], tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
]


def signatures(
  model: saved_models.NamedModel,
  labels: Sequence[str],
  tokenizer: bert_tokenizer.BertTokenizer | None,
  max_seq_length: int,
) -> saved_models.Signatures:
  """Returns the functions of a model that labels words.

  `ids` returns `logits` and `probabilities`, float32 [B, F, C]. With a
  tokenizer, `text` splits texts, string [B], at white space and returns:
    words, labels: string [B, W]; "" for padding.
    probabilities: float32 [B, W]. Probability of each label.
    starts, ends: int32 [B, W]. Positions of the words in characters.

  Texts longer than max_seq_length word pieces are read in windows. `plain_text`
  also separates punctuation and possessive 's from words, as
  `split_plain_text` does.
  """

  def score(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    logits = model(inputs)
    return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

  ids = saved_models.ids_function(score)
  if tokenizer is None:
    return saved_models.name_functions(ids)
  labeller = Labeller(model, labels, tokenizer, max_seq_length)

  def label(texts: Tensor, split: Splitter) -> dict[str, Tensor]:
    outputs = tf.map_fn(
      lambda text: labeller.label(text, split),
      texts,
      fn_output_signature=labeller.output_spec(),
    )
    return {name: value.to_tensor() for name, value in outputs.items()}

  @saved_models.function(saved_models.texts_spec("text"))
  def text(text: Tensor) -> dict[str, Tensor]:
    return label(text, tokenizer.split_at_white_space)

  @saved_models.function(saved_models.texts_spec("text"))
  def plain_text(text: Tensor) -> dict[str, Tensor]:
    return label(text, tokenizer.split_plain_text)

  return {**saved_models.name_functions(ids, text), PLAIN_TEXT: plain_text}


class Labeller:
  """Labels the words of a text, in the windows of tasks/ner/records.py."""

  def __init__(
    self,
    model: saved_models.NamedModel,
    labels: Sequence[str],
    tokenizer: bert_tokenizer.BertTokenizer,
    max_seq_length: int,
  ) -> None:
    self._model = model
    self._labels = tf.constant(labels, tf.string)
    self._tokenizer = tokenizer
    self._room = max_seq_length - 2
    self._cls, self._sep, self._unknown = (
      tokenizer.vocab[token] for token in ("[CLS]", "[SEP]", "[UNK]")
    )

  def output_spec(self) -> dict[str, tf.RaggedTensorSpec]:
    """Returns shapes and dtypes of the outputs of `label`."""
    dtypes = {
      "words": tf.string,
      "labels": tf.string,
      "probabilities": tf.float32,
      "starts": tf.int32,
      "ends": tf.int32,
    }
    return {
      name: tf.RaggedTensorSpec([None], dtype, ragged_rank=0)
      for name, dtype in dtypes.items()
    }

  def label(self, text: Tensor, split: Splitter) -> dict[str, Tensor]:
    """Returns the words of a text, string [], and their labels, all [W]."""
    words, *offsets = split(text[None])
    starts, ends = (
      tf.cast(bert_tokenizer.character_offsets(text[None], x)[0], tf.int32)
      for x in offsets
    )
    inputs, places = self._windows(self._word_pieces(words[0]))
    logits = tf.gather_nd(self._model(inputs), places)  # [W, C]
    return {
      "words": words[0],
      "labels": tf.gather(self._labels, tf.argmax(logits, axis=-1)),
      "probabilities": tf.reduce_max(tf.nn.softmax(logits), axis=-1),
      "starts": starts,
      "ends": ends,
    }

  def _word_pieces(self, words: Tensor) -> tf.RaggedTensor:
    """Returns the pieces of each word, int32 [W, (pieces)].

    A word without pieces becomes [UNK]. Pieces beyond a window are dropped.
    """
    pieces = self._tokenizer.tokenize(words)[:, : self._room]
    is_empty = tf.equal(pieces.row_lengths(), 0)
    unknown = tf.RaggedTensor.from_row_lengths(
      tf.fill([tf.math.count_nonzero(is_empty)], self._unknown),
      tf.cast(is_empty, tf.int64),
    )
    return tf.concat([pieces, unknown], axis=1)

  def _windows(
    self, pieces: tf.RaggedTensor
  ) -> tuple[dict[str, Tensor], Tensor]:
    """Returns the windows of a text, with context on both sides.

    Returns:
      The inputs of the model for K windows, int32 [K, F], and the window and
      position of the first piece of each word, int32 [W, 2].
    """
    ids = pieces.values
    splits = tf.cast(pieces.row_splits, tf.int32)
    word_starts, total = splits[:-1], splits[-1]
    window_of, first_words = self._spans(splits)
    starts = tf.gather(word_starts, first_words)  # [K]
    ends = tf.concat([starts[1:], [total]], axis=0)[: tf.size(starts)]
    spare = self._room - (ends - starts)
    after = total - ends
    # Splits the room evenly; space that one side does not need goes to the
    # other.
    left = tf.minimum(starts, tf.maximum(spare // 2, spare - after))
    firsts = starts - left
    ends += tf.minimum(after, spare - left)
    shown = tf.gather(ids, tf.ragged.range(firsts, ends))  # [K, (pieces)]
    packed = self._tokenizer.pack([shown], self._room + 2, pad_to_max=False)
    positions = word_starts - tf.gather(firsts, window_of) + 1
    return packed, tf.stack([window_of, positions], axis=1)

  def _spans(self, splits: Tensor) -> tuple[Tensor, Tensor]:
    """Returns each word's window, int32 [W], and each window's first word.

    Each word is labelled in one window. The words that a window labels take at
    most half of it (unless a single word is longer), and their context takes
    the rest. A text that fits into a single window has only that one.
    """
    half = self._room // 2
    first_words = tf.scan(
      lambda first, word: tf.where(
        splits[word + 1] - splits[first] > half, word, first
      ),
      tf.range(tf.size(splits) - 1),
      initializer=tf.constant(0),
    )
    fits = splits[-1] <= self._room
    first_words = tf.where(fits, 0, first_words)
    # Replaces the first word of a window by the index of the window.
    first_words, window_of = tf.unique(first_words)
    return window_of, first_words
