"""Functions of question answering.

Decodes logits as tasks/squad/decoding.py does, but as TensorFlow ops.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf import heads
from bert_tf.export import saved_models
from bert_tf.export.signatures import context_windows
from bert_tf.export.text_ops import bert_tokenizer, word_splitter
from bert_tf.modeling import Tensor
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import decoding

# Maximum number of spans among which n_best_size different texts are sought.
_MAX_SPANS = 1000


class Spans(NamedTuple):
  """Possible answers, the best first; all fields are [spans]."""

  first: Tensor  # int32. Index of the first piece, -1 for the null answer.
  last: Tensor  # int32. Index of the last piece, -1 for the null answer.
  start_logits: Tensor  # float64.
  end_logits: Tensor  # float64.

  def gather(self, order: Tensor) -> "Spans":
    """Returns the spans at these indices."""
    return Spans(*(tf.gather(field, order) for field in self))

  def scores(self) -> Tensor:
    """Returns the sums of start and end logits, float64 [spans]."""
    return self.start_logits + self.end_logits


def signatures(
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  window_config: squad_config.WindowConfig,
  predictions: squad_config.DecodingConfig,
) -> saved_models.Signatures:
  """Returns the functions of a question-answering model.

  `ids` returns `start_logits` and `end_logits`, float32 [B, F]. With a
  tokenizer, `text` takes `question` and `context`, string [B], and returns the
  outputs of Answerer for each.
  """
  ids = saved_models.ids_function(lambda inputs: model(inputs)._asdict())
  if tokenizer is None:
    return saved_models.name_functions(ids)
  answerer = Answerer(model, tokenizer, window_config, predictions)

  @saved_models.function(saved_models.texts_spec("question", "context"))
  def text(question: Tensor, context: Tensor) -> dict[str, Tensor]:
    return tf.map_fn(
      lambda texts: answerer.answer(*texts),
      (question, context),
      fn_output_signature=answerer.output_spec(),
    )

  return saved_models.name_functions(ids, text)


class Answerer:
  """Answers a question from its context."""

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
    # The null answer may be added.
    self._num_answers = predictions.n_best_size + 1

  def output_spec(self) -> dict[str, tf.TensorSpec]:
    """Returns shapes and dtypes of the outputs of `answer`."""
    n = self._num_answers
    best = {"start": tf.int32, "end": tf.int32, "probability": tf.float32}
    nbest = {"text": tf.string, **best}
    nbest |= {"start_logit": tf.float32, "end_logit": tf.float32}
    spec = {
      "answer": tf.TensorSpec([], tf.string),
      **{name: tf.TensorSpec([], dtype) for name, dtype in best.items()},
      **{f"nbest_{k}": tf.TensorSpec([n], dtype) for k, dtype in nbest.items()},
    }
    if self._predictions.version_2_with_negative:
      spec["null_odds"] = tf.TensorSpec([], tf.float32)
    return spec

  def answer(self, question: Tensor, context: Tensor) -> dict[str, Tensor]:
    """Returns the answer to a question, string [], from a context, string [].

    Returns:
      answer: string []. A part of the context; "" for no answer.
      start, end: int32 []. Its position in characters; 0 for no answer.
      probability: float32 [].
      nbest_text, nbest_start, nbest_end, nbest_probability, nbest_start_logit,
        nbest_end_logit: [n_best_size + 1]. The best answers in order, padded
        with "" and 0.
      null_odds: float32 [], only for SQuAD 2.0. Score of no answer minus the
        score of the best answer.
    """
    pieces = self._windower.pieces(context)
    cut = self._windower.cut(question, pieces)
    output = self._model(cut.inputs)
    null, null_score = _null_answer(output)
    spans = self._rank(cut, output, null)
    nbest = self._different(context, *_byte_offsets(context, pieces, spans))
    spans = self._with_null(spans.gather(nbest), null)
    return self._outputs(context, pieces, spans, null_score)

  def _rank(
    self, cut: context_windows.Windows, output: heads.SpanOutput, null: Spans
  ) -> Spans:
    """Returns the possible spans, the best first; in 2.0 with the null answer.

    Equal scores are ordered by window, rank of start and rank of end. The null
    answer comes last among equals.
    """
    config = self._predictions
    size = min(config.n_best_size, self._max_seq_length)
    # Positions outside the context also count, as in the original.
    start_logits, starts = tf.math.top_k(output.start_logits, size)
    end_logits, ends = tf.math.top_k(output.end_logits, size)  # [W, n]
    is_start = tf.gather(cut.is_max_context, starts, batch_dims=1)
    is_end = tf.gather(cut.is_piece, ends, batch_dims=1)
    lengths = ends[:, None, :] - starts[:, :, None] + 1  # [W, n, n]
    is_span = is_start[:, :, None] & is_end[:, None, :]
    is_span &= (lengths > 0) & (lengths <= config.max_answer_length)
    indices = tf.where(is_span)  # [spans, 3]: window, ranks of start and end
    start, end = indices[:, :2], indices[:, ::2]
    firsts = tf.gather(cut.pieces, starts, batch_dims=1)
    lasts = tf.gather(cut.pieces, ends, batch_dims=1)
    spans = Spans(
      tf.gather_nd(firsts, start),
      tf.gather_nd(lasts, end),
      # float64, since the original adds Python floats.
      tf.cast(tf.gather_nd(start_logits, start), tf.float64),
      tf.cast(tf.gather_nd(end_logits, end), tf.float64),
    )
    if config.version_2_with_negative:
      num_windows = tf.shape(starts)[0]
      spans = _append_null(spans, null, num_windows > 0)
    order = tf.argsort(spans.scores(), direction="DESCENDING", stable=True)
    return spans.gather(order[:_MAX_SPANS])

  def _different(self, context: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Returns the indices of the n best spans with different texts."""
    # Many spans of a long word may have the text of the whole word.
    places = starts * tf.constant(1 << 32, tf.int64) + ends
    firsts = _first_of_equals(places)
    texts = _cut_texts(
      context, tf.gather(starts, firsts), tf.gather(ends, firsts)
    )
    # Result files have single spaces between words.
    keys = tf.strings.regex_replace(texts, context_windows.WHITE_SPACE, " ")
    different = tf.gather(firsts, _first_of_equals(keys))
    return different[: self._predictions.n_best_size]

  def _with_null(self, spans: Spans, null: Spans) -> Spans:
    """SQuAD 2.0 requires the null answer, 1.1 only if there are no spans."""
    if self._predictions.version_2_with_negative:
      return _append_null(spans, null, ~tf.reduce_any(spans.first < 0))
    nothing = null._replace(
      start_logits=tf.zeros_like(null.start_logits),
      end_logits=tf.zeros_like(null.end_logits),
    )
    return _append_null(spans, nothing, tf.equal(tf.size(spans.first), 0))

  def _outputs(
    self,
    context: Tensor,
    pieces: context_windows.Pieces,
    spans: Spans,
    null_score: Tensor,
  ) -> dict[str, Tensor]:
    config = self._predictions
    starts, ends = _byte_offsets(context, pieces, spans)
    texts = _cut_texts(context, starts, ends)
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
      **{f"nbest_{name}": _pad(x, after) for name, x in nbest.items()},
      **odds,
    }


def _pad(values: Tensor, paddings: list) -> Tensor:
  filler = "" if values.dtype == tf.string else 0
  return tf.pad(values, paddings, constant_values=filler)


def _null_answer(output: heads.SpanOutput) -> tuple[Spans, Tensor]:
  """Returns the null answer of the lowest score, [1], and the score."""
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
  """Returns the index of the first true value of bool [n], or n."""
  count = tf.size(condition)
  places = tf.where(condition, tf.range(count), count)
  return tf.reduce_min(tf.concat([places, [count]], axis=0))


def _append_null(spans: Spans, null: Spans, condition: Tensor) -> Spans:
  count = tf.cast(condition, tf.int32)
  return Spans(
    *(tf.concat([x, added[:count]], axis=0) for x, added in zip(spans, null))
  )


def _byte_offsets(
  context: Tensor, pieces: context_windows.Pieces, spans: Spans
) -> tuple[Tensor, Tensor]:
  """Returns the starts and ends of spans in the context, in bytes.

  If pieces and text do not match character by character, the span is extended
  to whole words, as in the original.
  """
  is_null = spans.first < 0
  first, last = tf.maximum(spans.first, 0), tf.maximum(spans.last, 0)
  # Padding, because a context may have no pieces.
  pieces = context_windows.Pieces(*(_pad(x, [[0, 1]]) for x in pieces))
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
  """Returns the first occurrences of spans in their words, in bytes.

  The original searches for the text of a span in its words: for the last piece
  of "Ging" it returns the first "g". Only a part of a single word can occur
  earlier. `matches`, bool [spans], says whether words match their pieces
  character by character.
  """
  starts, ends = tf.gather(pieces.starts, first), tf.gather(pieces.ends, last)
  words = tf.gather(pieces.word_starts, first)
  is_part = matches & tf.equal(words, tf.gather(pieces.word_starts, last))
  offsets = tf.where(is_part, tf.gather(pieces.offsets, first), 0)
  lengths = tf.gather(pieces.offsets + pieces.num_chars, last) - offsets
  # Most spans start with their word and cannot occur earlier.
  searched = tf.where(offsets > 0)[:, 0]
  # One span at a time, to save memory.
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
  # int64 [characters + 1]. Bytes before each character of the context.
  bytes_before = tf.concat(
    [
      tf.strings.unicode_decode_with_offsets(context, "UTF-8")[1],
      [tf.cast(tf.strings.length(context), tf.int64)],
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
  """Returns the index in a word at which some of its characters first occur.

  Args:
    chars: int32 [characters]. Code points of all pieces.
    first: int32 []. Start of the characters to search for, in `chars`.
    offset: int32 []. Start of the characters in their word.
    length: int32 []. Number of characters.
  """
  word = first - offset
  wanted = chars[first : first + length]
  places = tf.where(tf.equal(chars[word:first], wanted[0]))[:, 0]
  places = tf.cast(places, tf.int32)
  texts = tf.gather(chars, word + places[:, None] + tf.range(length))
  is_equal = tf.reduce_all(tf.equal(texts, wanted), axis=1)
  return tf.reduce_min(
    tf.concat([tf.boolean_mask(places, is_equal), [offset]], axis=0)
  )


def _first_of_equals(values: Tensor) -> Tensor:
  """Returns the index of the first occurrence of each value, int32 [n]."""
  distinct, numbers = tf.unique(values)
  return tf.math.unsorted_segment_min(
    tf.range(tf.size(values)), numbers, tf.size(distinct)
  )


def _cut_texts(context: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
  rows = tf.zeros_like(starts)
  return word_splitter.cut(context[None], rows, starts, ends)
