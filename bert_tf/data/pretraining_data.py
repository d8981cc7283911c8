"""Makes pre-training instances of text: sentence pairs, masks, records.

`build_shard` is a pure function of (shard, config, seed); `pretraining_shards`
calls it for each shard. The calls on `random.Random`, in order, are those of
the original release, so one shard with the original's seed gives the original's
instances.
"""

import array
import bisect
import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Sequence

from bert_tf import tokenization
from bert_tf.data import config as data_config
from bert_tf.data import corpus, masking, packing, records


@dataclasses.dataclass(frozen=True)
class Document:
  """A document as ids, four bytes a token and a sentence."""

  ids: array.array  # int32 [tokens]. The word pieces of all sentences.
  # int32 [sentences + 1]. Sentence i is ids[bounds[i]:bounds[i + 1]]; none is
  # empty.
  bounds: array.array

  @property
  def num_sentences(self) -> int:
    """Returns the number of sentences, at least 1."""
    return len(self.bounds) - 1

  def reach(self, first: int, num_tokens: int) -> int:
    """Returns the end, exclusive, of the sentences that hold `num_tokens`.

    It is at least `first + 1`. The last ones may hold fewer tokens.
    """
    goal = self.bounds[first] + num_tokens
    return min(
      bisect.bisect_left(self.bounds, goal, first + 1), self.num_sentences
    )


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingInstance:
  """One instance before padding, masked unless the config leaves that out."""

  input_ids: list[int]  # [CLS] a [SEP] b [SEP], or [CLS] a [SEP].
  # How many of them are of segment 0; the rest are of segment 1.
  num_first: int
  masked_lm_positions: list[int]  # Positions to predict, ascending.
  masked_lm_ids: list[int]  # The ids before masking.
  is_random_next: bool  # Whether b is random text, not what followed a.


@dataclasses.dataclass(frozen=True)
class ShardCounts:
  """Counts of a shard, for the summary."""

  num_documents: int  # Documents with at least one token.
  num_instances: int  # Records written.
  num_tokens: int  # Tokens in them, special tokens included, padding excluded.
  num_masked: int
  num_random_next: int  # Instances whose second segment is random.


def load_tokenizer(
  config: data_config.PretrainingDataConfig,
) -> tokenization.FullTokenizer:
  """Returns the tokenizer of `config`.

  Raises:
    ValueError: if the vocabulary is faulty or lacks a special token.
  """
  tokenizer = tokenization.FullTokenizer(
    config.vocab_file, config.do_lower_case, config.strip_accents
  )
  masking.check_special_tokens(tokenizer.vocab, config.vocab_file)
  return tokenizer


class InstanceBuilder:
  """Makes the instances of the documents of one shard; `rng` draws."""

  def __init__(
    self,
    config: data_config.PretrainingDataConfig,
    tokenizer: tokenization.FullTokenizer,
    rng: random.Random,
  ) -> None:
    self._config = config
    self._tokenizer = tokenizer
    self._rng = rng
    self._masker = masking.Masker(config.masking_config, tokenizer.vocab)
    self._cls = tokenizer.vocab[tokenization.CLS]
    self._sep = tokenizer.vocab[tokenization.SEP]

  def read(self, sentences: Sequence[str]) -> Document:
    """Tokenizes a document; drops sentences without a token."""
    ids = array.array("i")
    bounds = array.array("i", [0])
    for sentence in sentences:
      pieces = self._tokenizer.tokenize_to_ids(sentence)
      if pieces:
        ids.extend(pieces)
        bounds.append(len(ids))
    return Document(ids, bounds)

  def build(
    self, documents: Sequence[Document], index: int
  ) -> Iterator[TrainingInstance]:
    """Yields the instances of one pass over `documents[index]`."""
    if self._config.no_nsp:
      segments = self._single_segments(documents[index])
    else:
      segments = self._pairs(documents, index)
    for first, second, is_random_next in segments:
      yield self._instance(first, second, is_random_next)

  def _target_length(self) -> int:
    """Draws how many tokens the instances of a document should have."""
    if self._rng.random() < self._config.short_seq_prob:
      return self._rng.randint(2, self._config.max_num_tokens)
    return self._config.max_num_tokens

  def _pairs(
    self, documents: Sequence[Document], index: int
  ) -> Iterator[tuple[list[int], list[int], bool]]:
    """Yields (segment a, segment b, whether b is random)."""
    rng = self._rng
    document = documents[index]
    target = self._target_length()
    start = 0
    while start < document.num_sentences:
      stop = document.reach(start, target)
      middle = start + 1
      if stop - start > 1:
        middle = start + rng.randint(1, stop - start - 1)
      first = (document, start, middle)
      if stop - start == 1 or rng.random() < 0.5:
        num_first = document.bounds[middle] - document.bounds[start]
        second = self._random_segment(documents, index, target - num_first)
        yield *self._truncated(first, second), True
        start = middle  # The sentences after a begin the next pair.
      else:
        yield *self._truncated(first, (document, middle, stop)), False
        start = stop

  def _random_segment(
    self, documents: Sequence[Document], index: int, num_tokens: int
  ) -> tuple[Document, int, int]:
    """Draws sentences of another document, after ten tries of any document."""
    rng = self._rng
    for _ in range(10):
      other = rng.randrange(len(documents))
      if other != index:
        break
    document = documents[other]
    start = rng.randrange(document.num_sentences)
    return document, start, document.reach(start, num_tokens)

  def _single_segments(
    self, document: Document
  ) -> Iterator[tuple[list[int], list[int], bool]]:
    """Yields (segment, [], False), of consecutive sentences."""
    target = self._target_length()
    start = 0
    while start < document.num_sentences:
      stop = document.reach(start, target)
      nothing = (document, stop, stop)
      yield *self._truncated((document, start, stop), nothing), False
      start = stop

  def _truncated(
    self, first: tuple[Document, int, int], second: tuple[Document, int, int]
  ) -> tuple[list[int], list[int]]:
    """Returns the ids of two (document, start, stop), cut to max_num_tokens.

    Tokens are dropped one at a time from the longer one, or from the second
    if they are equally long, at the front or the back by a coin.
    """
    flip = self._rng.random
    a_start, a_stop = first[0].bounds[first[1]], first[0].bounds[first[2]]
    b_start, b_stop = second[0].bounds[second[1]], second[0].bounds[second[2]]
    num_a, num_b = a_stop - a_start, b_stop - b_start
    for _ in range(num_a + num_b - self._config.max_num_tokens):
      from_front = flip() < 0.5
      if num_a > num_b:
        num_a -= 1
        a_start += from_front
      else:
        num_b -= 1
        b_start += from_front
    return (
      first[0].ids[a_start : a_start + num_a].tolist(),
      second[0].ids[b_start : b_start + num_b].tolist(),
    )

  def _instance(
    self, first: list[int], second: list[int], is_random_next: bool
  ) -> TrainingInstance:
    """Adds special tokens to the segments and masks them, if asked to."""
    input_ids, num_first = packing.add_special_tokens(
      first, second or None, self._cls, self._sep
    )
    if not self._config.mask:
      return TrainingInstance(input_ids, num_first, [], [], is_random_next)
    candidates = [
      *range(1, num_first - 1),
      *range(num_first, len(input_ids) - 1),
    ]
    positions, labels = self._masker.mask(input_ids, candidates, self._rng)
    return TrainingInstance(
      input_ids, num_first, positions, labels, is_random_next
    )


def encode_instance(
  instance: TrainingInstance, max_seq_length: int, max_predictions_per_seq: int
) -> bytes:
  """Encodes an instance as a `tf.train.Example`, padded with zeros.

  The features are input_ids, input_mask, segment_ids: int64 [max_seq_length];
  masked_lm_positions, masked_lm_ids: int64 [max_predictions_per_seq];
  masked_lm_weights: float32 [max_predictions_per_seq]; next_sentence_labels:
  int64 [1], 1 for a random second segment. Those that begin with masked_lm are
  missing if max_predictions_per_seq is 0.
  """
  num_tokens = len(instance.input_ids)
  num_masked = len(instance.masked_lm_positions)
  padding = [0] * (max_seq_length - num_tokens)
  features = {"input_ids": instance.input_ids + padding}
  if max_predictions_per_seq:
    unused = [0] * (max_predictions_per_seq - num_masked)
    features["masked_lm_ids"] = instance.masked_lm_ids + unused
    features["masked_lm_positions"] = instance.masked_lm_positions + unused
  return records.encode_example(
    records.encode_features(features, {})
    + _encode_segments(num_tokens, instance.num_first, max_seq_length)
    + _encode_labels(
      num_masked, instance.is_random_next, max_predictions_per_seq
    )
  )


@functools.lru_cache(maxsize=1 << 13)
def _encode_segments(num_tokens: int, num_first: int, length: int) -> bytes:
  """Encodes input_mask and segment_ids, which are equal in many instances."""
  return records.encode_features(
    packing.mask_and_segments(num_tokens, num_first, length), {}
  )


@functools.lru_cache(maxsize=1 << 10)
def _encode_labels(num_masked: int, is_random_next: bool, length: int) -> bytes:
  """Encodes next_sentence_labels, and masked_lm_weights if it has a length."""
  weights = [1.0] * num_masked + [0.0] * (length - num_masked)
  return records.encode_features(
    {"next_sentence_labels": [int(is_random_next)]},
    {"masked_lm_weights": weights} if length else {},
  )


def build_shard(
  shard: corpus.Shard,
  config: data_config.PretrainingDataConfig,
  tokenizer: tokenization.FullTokenizer,
  seed: int,
  output_files: Sequence[str],
  report: Callable[[int], None],
) -> ShardCounts:
  """Builds and writes one shard.

  All its records are in memory at once, to be shuffled: about 900 bytes each at
  128 tokens, and four bytes a token of text. The output files take them in
  turn. `report` is called with numbers of documents, for reading and for each
  pass.

  Raises:
    ValueError: if the text is not UTF-8, or has no token at all.
  """
  rng = random.Random(seed)
  builder = InstanceBuilder(config, tokenizer, rng)
  with records.open_records(output_files) as writer:
    documents = []
    for sentences in corpus.shard_documents(shard):
      document = builder.read(sentences)
      if document.num_sentences:
        documents.append(document)
      report(1)
    if not documents:
      raise ValueError(
        f"{shard.spans[0].path}: no document with a token in shard "
        f"{shard.index} ({shard.num_bytes} bytes); is it text?"
      )
    masking.shuffle(documents, rng.getrandbits)
    examples, counts = _build_examples(builder, documents, config, report)
    masking.shuffle(examples, rng.getrandbits)
    for record in examples:
      writer.write(record)
  return counts


def _build_examples(
  builder: InstanceBuilder,
  documents: Sequence[Document],
  config: data_config.PretrainingDataConfig,
  report: Callable[[int], None],
) -> tuple[list[bytes], ShardCounts]:
  """Returns the encoded instances of all passes over the documents."""
  max_predictions_per_seq = 0
  if config.mask:
    max_predictions_per_seq = config.masking_config.max_predictions_per_seq
  examples: list[bytes] = []
  num_tokens = num_masked = num_random_next = 0
  for _ in range(config.dupe_factor):
    for index in range(len(documents)):
      for instance in builder.build(documents, index):
        examples.append(
          encode_instance(
            instance, config.max_seq_length, max_predictions_per_seq
          )
        )
        num_tokens += len(instance.input_ids)
        num_masked += len(instance.masked_lm_positions)
        num_random_next += instance.is_random_next
      report(1)
  counts = ShardCounts(
    len(documents), len(examples), num_tokens, num_masked, num_random_next
  )
  return examples, counts
