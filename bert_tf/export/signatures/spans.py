"""Functions of question answering; tasks/squad/decoding.py in the graph."""

from typing import NamedTuple

import tensorflow as tf

from bert_tf import heads
from bert_tf.export import saved_models
from bert_tf.export.signatures import context_windows
from bert_tf.export.text_ops import bert_tokenizer, word_splitter
from bert_tf.modeling import Tensor
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import decoding

# Spans whose texts are compared to find n_best_size different ones.
_MAX_SPANS = 1000


class Spans(NamedTuple):
  """Possible answers, the best first; every field is [spans]."""

  first: Tensor  # int32. Index of the first piece, -1 for the null answer.
  last: Tensor  # int32. Index of the last piece, -1 for the null answer.
  start_logits: Tensor  # float64.
  end_logits: Tensor  # float64.

  def gather(self, order: Tensor) -> "Spans":
    """Returns the spans at these indices."""
    return Spans(*(tf.gather(field, order) for field in self))

  def scores(self) -> Tensor:
    """Returns float64 [spans]."""
    return self.start_logits + self.end_logits


def signatures(
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  window_config: squad_config.WindowConfig,
  predictions: squad_config.DecodingConfig,
) -> saved_models.Signatures:
  """Returns what the SavedModel of question answering computes.

  `ids` returns `start_logits` and `end_logits`, float32 [B, F]. `text`, if
  there is a tokenizer, takes `question` and `context`, string [B], and returns
  what Answerer does.
  """
  ids = saved_models.ids_function(lambda inputs: model(inputs)._asdict())
  if tokenizer is None:
    return saved_models.by_name(ids)
  answerer = Answerer(model, tokenizer, window_config, predictions)

  @saved_models.function(saved_models.texts_spec("question", "context"))
  def text(question: Tensor, context: Tensor) -> dict[str, Tensor]:
    return tf.map_fn(
      lambda texts: answerer.answer(*texts),
      (question, context),
      fn_output_signature=answerer.output_spec(),
    )

  return saved_models.by_name(ids, text)


class Answerer:
  """Answers one question."""

  def __init__(
    self,
    model: saved_models.NamedModel,
    tokenizer: bert_tokenizer.BertTokenizer,
    window_config: squad_config.WindowConfig,
    predictions: squad_config.DecodingConfig,
  ) -> None:
    self._model = model
    self._windower = context_windows.Windower(tokenizer, window_config)
    self._max_seq_length = window_config.max_seq_length
    self._predictions = predictions
    # The null answer may come on top.
    self._num_answers = predictions.n_best_size + 1

  def output_spec(self) -> dict[str, tf.TensorSpec]:
    """Returns shapes and dtypes of what `answer` returns."""
    n = self._num_answers
    one = {"start": tf.int32, "end": tf.int32, "probability": tf.float32}
    each = {"text": tf.string, **one}
    each |= {"start_logit": tf.float32, "end_logit": tf.float32}
    spec = {
      "answer": tf.TensorSpec([], tf.string),
      **{name: tf.TensorSpec([], dtype) for name, dtype in one.items()},
      **{f"nbest_{k}": tf.TensorSpec([n], dtype) for k, dtype in each.items()},
    }
    if self._predictions.version_2_with_negative:
      spec["null_odds"] = tf.TensorSpec([], tf.float32)
    return spec

  def answer(self, question: Tensor, context: Tensor) -> dict[str, Tensor]:
    """Returns the answer to a question, string [], from a context, string [].

    Returns:
      `answer`, string [], cut from the context; its `start` and `end` there,
      int32 [], in characters; its `probability`. The same and the logits for
      the n best, named `nbest_...`, [n_best_size + 1], the best first, padded
      with "" and 0. For a model of 2.0 `null_odds`, float32 []: the score of no
      answer less that of the best. No answer is "" from 0 to 0.
    """
    pieces = self._windower.pieces(context)
    cut = self._windower.cut(question, pieces)
    output = self._model(cut.inputs)
    null, null_score = _null(output)
    spans = self._ranked(cut, output, null)
    kept = self._different(context, *_places(context, pieces, spans))
    spans = self._completed(spans.gather(kept), null)
    return self._chosen(context, pieces, spans, null_score)

  def _ranked(
    self, cut: context_windows.Windows, output: heads.SpanOutput, null: Spans
  ) -> Spans:
    """Returns the possible spans, and for 2.0 the null answer, the best first.

    Equal scores stay in the order of window, rank of start, rank of end; the
    null answer comes after its equals.
    """
    config = self._predictions
    size = min(config.n_best_size, self._max_seq_length)
    # Positions outside of the context take ranks, as in the original.
    start_logits, starts = tf.math.top_k(output.start_logits, size)
    end_logits, ends = tf.math.top_k(output.end_logits, size)  # [W, n]
    is_start = tf.gather(cut.is_max_context, starts, batch_dims=1)
    is_end = tf.gather(cut.is_piece, ends, batch_dims=1)
    lengths = ends[:, None, :] - starts[:, :, None] + 1  # [W, n, n]
    is_span = is_start[:, :, None] & is_end[:, None, :]
    is_span &= (lengths > 0) & (lengths <= config.max_answer_length)
    found = tf.where(is_span)  # [spans, 3]: window, ranks of start and end
    start, end = found[:, :2], found[:, ::2]
    firsts = tf.gather(cut.pieces, starts, batch_dims=1)
    lasts = tf.gather(cut.pieces, ends, batch_dims=1)
    spans = Spans(
      tf.gather_nd(firsts, start),
      tf.gather_nd(lasts, end),
      # The original's sums are of Python's floats.
      tf.cast(tf.gather_nd(start_logits, start), tf.float64),
      tf.cast(tf.gather_nd(end_logits, end), tf.float64),
    )
    if config.version_2_with_negative:
      num_windows = tf.shape(starts)[0]
      spans = _joined(spans, null, num_windows > 0)
    order = tf.argsort(spans.scores(), direction="DESCENDING", stable=True)
    return spans.gather(order[:_MAX_SPANS])

  def _different(self, context: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Returns the indices of the n best different texts, int32 [nbest]."""
    # Many spans of a long word may stand for the whole of it.
    places = starts * tf.constant(1 << 32, tf.int64) + ends
    firsts = _first_of_equals(places)
    texts = _texts(context, tf.gather(starts, firsts), tf.gather(ends, firsts))
    # Result files have one blank between words.
    keys = tf.strings.regex_replace(texts, context_windows.WHITE_SPACE, " ")
    different = tf.gather(firsts, _first_of_equals(keys))
    return different[: self._predictions.n_best_size]

  def _completed(self, spans: Spans, null: Spans) -> Spans:
    """Returns the n best, and the null answer where it must be among them."""
    if self._predictions.version_2_with_negative:
      return _joined(spans, null, ~tf.reduce_any(spans.first < 0))
    nothing = null._replace(
      start_logits=tf.zeros_like(null.start_logits),
      end_logits=tf.zeros_like(null.end_logits),
    )
    return _joined(spans, nothing, tf.equal(tf.size(spans.first), 0))

  def _chosen(
    self,
    context: Tensor,
    pieces: context_windows.Pieces,
    spans: Spans,
    null_score: Tensor,
  ) -> dict[str, Tensor]:
    """Returns the outputs of `answer` for the n best."""
    config = self._predictions
    starts, ends = _places(context, pieces, spans)
    texts = _texts(context, starts, ends)
    is_null = spans.first < 0
    nbest = {
      "text": texts,
      "start": context_windows.characters(context, starts),
      "end": context_windows.characters(context, ends),
      "probability": tf.cast(tf.nn.softmax(spans.scores()), tf.float32),
      "start_logit": tf.cast(spans.start_logits, tf.float32),
      "end_logit": tf.cast(spans.end_logits, tf.float32),
    }
    best, odds = tf.constant(0), {}
    if config.version_2_with_negative:
      best = _first_true(~is_null)
      scores = tf.concat(
        [spans.scores(), [null_score - decoding.NO_SPAN_ODDS]], axis=0
      )
      null_odds = null_score - scores[best]
      odds = {"null_odds": tf.cast(null_odds, tf.float32)}
      takes_null = tf.equal(best, tf.size(texts)) | (
        null_odds > config.null_score_diff_threshold
      )
      best = tf.where(takes_null, _first_true(is_null), best)
    names = {"answer": "text"}
    names |= {name: name for name in ("start", "end", "probability")}
    after = [[0, self._num_answers - tf.size(texts)]]
    return {
      **{name: nbest[source][best] for name, source in names.items()},
      **{f"nbest_{name}": _padded(x, after) for name, x in nbest.items()},
      **odds,
    }


def _padded(values: Tensor, paddings: list) -> Tensor:
  """Returns values padded with "" or 0."""
  filler = "" if values.dtype == tf.string else 0
  return tf.pad(values, paddings, constant_values=filler)


def _null(output: heads.SpanOutput) -> tuple[Spans, Tensor]:
  """Returns the null answer of all windows, [1], and its score, float64 []."""
  starts, ends = (tf.cast(logits[:, 0], tf.float64) for logits in output)
  scores = starts + ends
  has_windows = tf.size(scores) > 0
  score = tf.where(
    has_windows,
    tf.reduce_min(scores),
    tf.constant(decoding.NO_SPAN_ODDS, tf.float64),
  )
  window = _first_true(tf.equal(scores, score))
  starts, ends = (
    tf.pad(logits, [[0, 1]])[window][None] for logits in (starts, ends)
  )
  nothing = tf.constant([-1])
  return Spans(nothing, nothing, starts, ends), score


def _first_true(condition: Tensor) -> Tensor:
  """Returns the index of the first true value of bool [n], n if none is."""
  count = tf.size(condition)
  places = tf.where(condition, tf.range(count), count)
  return tf.reduce_min(tf.concat([places, [count]], axis=0))


def _joined(spans: Spans, null: Spans, condition: Tensor) -> Spans:
  """Returns the spans and, if a condition holds, the null answer."""
  count = tf.cast(condition, tf.int32)
  return Spans(
    *(tf.concat([x, added[:count]], axis=0) for x, added in zip(spans, null))
  )


def _places(
  context: Tensor, pieces: context_windows.Pieces, spans: Spans
) -> tuple[Tensor, Tensor]:
  """Returns the starts and ends of spans in the context, in bytes.

  Where pieces and text do not match character by character, those of whole
  words, as the original then cannot find the pieces in the words.
  """
  is_null = spans.first < 0
  first, last = tf.maximum(spans.first, 0), tf.maximum(spans.last, 0)
  # A context may have no pieces, and the null answer has none.
  pieces = context_windows.Pieces(*(_padded(x, [[0, 1]]) for x in pieces))
  matches = tf.constant(True)
  for up_to, before in (
    (pieces.surplus, pieces.surplus_before),
    (pieces.unknown, pieces.unknown_before),
  ):
    matches &= tf.equal(tf.gather(up_to, last), tf.gather(before, first))
  starts, ends = _first_occurrences(context, pieces, first, last, matches)
  starts = tf.where(matches, starts, tf.gather(pieces.word_starts, first))
  ends = tf.where(matches, ends, tf.gather(pieces.word_ends, last))
  zero = tf.constant(0, tf.int64)
  return tf.where(is_null, zero, starts), tf.where(is_null, zero, ends)


def _first_occurrences(
  context: Tensor,
  pieces: context_windows.Pieces,
  first: Tensor,
  last: Tensor,
  matches: Tensor,
) -> tuple[Tensor, Tensor]:
  """Returns where the texts of spans first occur in their words, in bytes.

  The original searches for the text of a span in its words, so for the last
  piece of "Ging" it finds the first "g". Only a part of one word can occur
  earlier than it stands. `first` and `last` are int32 [spans], of pieces;
  `matches` says, bool [spans], whether words have the characters of their
  pieces.
  """
  starts, ends = tf.gather(pieces.starts, first), tf.gather(pieces.ends, last)
  words = tf.gather(pieces.word_starts, first)
  is_part = matches & tf.equal(words, tf.gather(pieces.word_starts, last))
  offsets = tf.where(is_part, tf.gather(pieces.offsets, first), 0)
  lengths = tf.gather(pieces.offsets + pieces.num_chars, last) - offsets
  # Most spans begin with their word, and no place is earlier.
  searched = tf.where(offsets > 0)[:, 0]
  # One span at a time: together they would take spans times characters.
  earliest = tf.map_fn(
    lambda span: _earliest(pieces.chars, *span),
    tuple(
      tf.gather(x, searched)
      for x in (tf.gather(pieces.first_chars, first), offsets, lengths)
    ),
    fn_output_signature=tf.int32,
  )
  is_earlier = earliest < tf.gather(offsets, searched)
  moved = tf.boolean_mask(searched, is_earlier)
  earliest = tf.boolean_mask(earliest, is_earlier)
  sizes = tf.gather(lengths, moved)
  # int64 [characters + 1]. The bytes before each character of the context.
  bytes_before = tf.concat(
    [
      tf.strings.unicode_decode_with_offsets(context, "UTF-8")[1],
      [_num_bytes(context)],
    ],
    axis=0,
  )
  new_starts = tf.cast(
    tf.searchsorted(bytes_before, tf.gather(words, moved)), tf.int32
  )
  new_starts += earliest
  moved = moved[:, None]
  return (
    tf.tensor_scatter_nd_update(
      starts, moved, tf.gather(bytes_before, new_starts)
    ),
    tf.tensor_scatter_nd_update(
      ends, moved, tf.gather(bytes_before, new_starts + sizes)
    ),
  )


def _earliest(
  chars: Tensor, first: Tensor, offset: Tensor, length: Tensor
) -> Tensor:
  """Returns where some characters of a word first occur in it, int32 [].

  Args:
    chars: int32 [characters]. Code points of the word and others.
    first: int32 []. Where the characters to find begin in `chars`.
    offset: int32 []. Where they begin in the word.
    length: int32 []. Their number.
  """
  word = first - offset
  wanted = chars[first : first + length]
  places = tf.where(tf.equal(chars[word:first], wanted[0]))[:, 0]
  places = tf.cast(places, tf.int32)
  windows_ = tf.gather(chars, word + places[:, None] + tf.range(length))
  is_there = tf.reduce_all(tf.equal(windows_, wanted), axis=1)
  return tf.reduce_min(
    tf.concat([tf.boolean_mask(places, is_there), [offset]], axis=0)
  )


def _first_of_equals(values: Tensor) -> Tensor:
  """Returns the index of the first of each different value, int32 [n]."""
  distinct, numbers = tf.unique(values)
  return tf.math.unsorted_segment_min(
    tf.range(tf.size(values)), numbers, tf.size(distinct)
  )


def _num_bytes(text: Tensor) -> Tensor:
  """Returns int64: the size of a text."""
  return tf.cast(tf.strings.length(text), tf.int64)


def _texts(context: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
  """Returns the context from each start to each end, string [spans]."""
  rows = tf.zeros_like(starts)
  return word_splitter.cut(context[None], rows, starts, ends)
