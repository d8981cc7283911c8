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
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bert_tf import tokenization
from bert_tf.corpora import corpus
from bert_tf.data import config as data_config
from bert_tf.data import instances, masking, packing, records
from bert_tf.model_folder import letter_case


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


@dataclasses.dataclass(frozen=True)
class ShardCounts:
  """Counts of a shard, for the summary."""

  num_documents: int  # Documents with at least one token.
  num_instances: int
  num_records: int  # Fewer than the instances if these are packed.
  num_tokens: int  # Tokens in them, special tokens included, padding excluded.
  num_masked: int
  num_random_next: int  # Instances whose second segment is random.
  num_sentences: int  # Lines with at least one token.
  num_long_sentences: int  # Sentences that alone exceed an instance.
  num_pieces: int  # Word pieces of the text, once for each pass.
  num_cut: int  # How many of them are in no instance of their pass.


def load_tokenizer(
  config: data_config.PretrainingDataConfig,
) -> tokenization.FullTokenizer:
  """Returns the tokenizer of `config`.

  Raises:
    ValueError: if the vocabulary is faulty or lacks a special token.
  """
  tokenizer = letter_case.tokenizer_of(config.vocab_file, config)
  masking.check_special_tokens(tokenizer.vocab, config.vocab_file)
  return tokenizer


class InstanceBuilder:
  """Makes the instances of the documents of one shard; `rng` draws.

  Attributes:
    config: How to make instances.
    num_cut: Word pieces that were cut off where they stand in the text. Those
      cut off a random second segment do not count.
  """

  def __init__(
    self,
    config: data_config.PretrainingDataConfig,
    tokenizer: tokenization.FullTokenizer,
    rng: random.Random,
  ) -> None:
    self.config = config
    self.num_cut = 0
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
  ) -> Iterator[instances.TrainingInstance]:
    """Yields the instances of one pass over `documents[index]`."""
    if self.config.no_nsp:
      segments = self._single_segments(documents[index])
    else:
      segments = self._pairs(documents, index)
    for first, second, is_random_next in segments:
      yield self._instance(first, second, is_random_next)

  def _target_length(self) -> int:
    """Draws how many tokens the instances of a document should have."""
    if self._rng.random() < self.config.short_seq_prob:
      return self._rng.randint(2, self.config.max_num_tokens)
    return self.config.max_num_tokens

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
        segments = self._truncated(first, second)
        self.num_cut += num_first - len(segments[0])
        yield *segments, True
        start = middle  # The sentences after a begin the next pair.
      else:
        segments = self._truncated(first, (document, middle, stop))
        self._count_cut(document, start, stop, segments)
        yield *segments, False
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
      segments = self._truncated((document, start, stop), nothing)
      self._count_cut(document, start, stop, segments)
      yield *segments, False
      start = stop

  def _count_cut(
    self,
    document: Document,
    start: int,
    stop: int,
    segments: tuple[list[int], list[int]],
  ) -> None:
    """Counts the word pieces of some sentences that their segments lack."""
    num_pieces = document.bounds[stop] - document.bounds[start]
    self.num_cut += num_pieces - sum(map(len, segments))

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
    for _ in range(num_a + num_b - self.config.max_num_tokens):
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
  ) -> instances.TrainingInstance:
    """Adds special tokens to the segments and masks them, if asked to."""
    input_ids, num_first = packing.add_special_tokens(
      first, second or None, self._cls, self._sep
    )
    if not self.config.mask:
      return instances.TrainingInstance(
        input_ids, num_first, [], [], is_random_next
      )
    candidates = [
      *range(1, num_first - 1),
      *range(num_first, len(input_ids) - 1),
    ]
    positions, labels = self._masker.mask(input_ids, candidates, self._rng)
    return instances.TrainingInstance(
      input_ids, num_first, positions, labels, is_random_next
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

  All its instances are in memory at once, to be shuffled: about 900 bytes each
  at 128 tokens, and four bytes a token of text. The output files take them in
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
    examples, counts = _build_examples(builder, documents, report)
    masking.shuffle(examples, rng.getrandbits)
    if not config.pack_sequences:
      for record in examples:
        writer.write(record)
      return counts
    lengths = [len(instance.input_ids) for instance in examples]
    rows = packing.assign_rows(lengths, config.max_seq_length)
    masking.shuffle(rows, rng.getrandbits)
    for row in rows:
      writer.write(
        instances.encode_row(
          [examples[i] for i in row],
          config.max_seq_length,
          config.num_predictions,
        )
      )
  return dataclasses.replace(counts, num_records=len(rows))


def _build_examples(
  builder: InstanceBuilder,
  documents: Sequence[Document],
  report: Callable[[int], None],
) -> tuple[list[Any], ShardCounts]:
  """Returns all instances: records, or TrainingInstances to be packed."""
  config = builder.config
  encode: Callable[[instances.TrainingInstance], Any] = functools.partial(
    instances.encode_instance,
    max_seq_length=config.max_seq_length,
    max_predictions_per_seq=config.num_predictions,
  )
  if config.pack_sequences:
    encode = instances.TrainingInstance.compact
  examples = []
  num_tokens = num_masked = num_random_next = 0
  for _ in range(config.dupe_factor):
    for index in range(len(documents)):
      for instance in builder.build(documents, index):
        examples.append(encode(instance))
        num_tokens += len(instance.input_ids)
        num_masked += len(instance.masked_lm_positions)
        num_random_next += instance.is_random_next
      report(1)
  counts = ShardCounts(
    num_documents=len(documents),
    num_instances=len(examples),
    num_records=len(examples),
    num_tokens=num_tokens,
    num_masked=num_masked,
    num_random_next=num_random_next,
    **_text_counts(builder, documents),
  )
  return examples, counts


def _text_counts(
  builder: InstanceBuilder, documents: Sequence[Document]
) -> dict[str, int]:
  """Returns the counts of the text, after all passes, by field."""
  max_num_tokens = builder.config.max_num_tokens
  return {
    "num_sentences": sum(d.num_sentences for d in documents),
    "num_long_sentences": sum(
      end - start > max_num_tokens
      for document in documents
      for start, end in itertools.pairwise(document.bounds)
    ),
    "num_pieces": sum(len(d.ids) for d in documents)
    * builder.config.dupe_factor,
    "num_cut": builder.num_cut,
  }
