"""Turns text into pre-training instances: sentence pairs, masked and encoded.

An instance is `[CLS] a [SEP] b [SEP]`. Its two segments are runs of sentences
that fill max_seq_length together (Devlin et al. 2019, section 3.1).

`build_shard` is a pure function of (config, shard, seed). It makes the same
calls on `random.Random` in the same order as the 2018 release. One shard with
the release's seed therefore gives the release's instances.
"""

import array
import bisect
import collections
import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bert_tf import tokenization
from bert_tf.data import input_pipeline, packing, records
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import masking, pretraining_records
from bert_tf.files import paths, tokenizer_files
from bert_tf.text import corpus


@dataclasses.dataclass(frozen=True)
class Document:
  """A tokenized document. Takes four bytes for each token and sentence."""

  ids: "array.array[int]"  # int32 [tokens]. The word pieces of all sentences.
  # int32 [sentences + 1]. Sentence i is ids[bounds[i]:bounds[i + 1]], at least
  # one token.
  bounds: "array.array[int]"

  @property
  def num_sentences(self) -> int:
    """The number of sentences."""
    return len(self.bounds) - 1

  def reach(self, first: int, num_tokens: int) -> int:
    """Returns the exclusive end of a run of `num_tokens` or more tokens.

    The run starts at sentence `first`. It is shorter only if the document ends.
    """
    goal = self.bounds[first] + num_tokens
    end = bisect.bisect_left(self.bounds, goal, first + 1)
    return min(end, self.num_sentences)

  def get_ids(self, start: int, stop: int) -> list[int]:
    """Returns the word pieces of some sentences."""
    return self.ids[self.bounds[start] : self.bounds[stop]].tolist()


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingInstance:
  """One instance before padding, masked unless the config turns that off."""

  # Arrays of int32, since a shard holds all of its instances in memory.
  input_ids: "array.array[int]"  # [CLS] a [SEP] b [SEP], or [CLS] a [SEP].
  num_first: int  # Number of leading ids in segment 0; the rest is segment 1.
  masked_lm_positions: "array.array[int]"  # Positions to predict, ascending.
  masked_lm_ids: "array.array[int]"  # The ids before masking.
  is_random_next: bool  # Whether b is random text and does not follow a.


@dataclasses.dataclass(frozen=True)
class ShardTask:
  """One shard to build."""

  shard: corpus.Shard
  seed: int
  output_files: tuple[str, ...]  # Files that receive its records in turn.

  @property
  def is_finished(self) -> bool:
    """Whether its files exist."""
    return all(map(paths.exists, self.output_files))


@dataclasses.dataclass(frozen=True)
class ShardCounts:
  """Counts of a shard, for the summary."""

  num_documents: int = 0  # Documents with at least one token.
  num_instances: int = 0
  num_records: int = 0  # Fewer than the instances if these are packed.
  num_tokens: int = 0  # Tokens of all records, without padding.
  num_masked: int = 0
  num_random_next: int = 0  # Instances whose second segment is random.
  num_pieces: int = 0  # Word pieces of all documents.
  num_cut: int = 0  # Word pieces that did not fit into their instances.


def load_tokenizer(
  config: PretrainingDataConfig,
) -> tokenization.FullTokenizer:
  """Loads the tokenizer and checks that it has the special tokens."""
  tokenizer_files.warn_of_differing(config.vocab_file)
  tokenizer = tokenization.FullTokenizer(
    config.vocab_file, config.do_lower_case, config.strip_accents
  )
  masking.check_special_tokens(tokenizer.vocab, config.vocab_file)
  return tokenizer


class InstanceBuilder:
  """Makes the instances of one shard's documents."""

  def __init__(
    self,
    config: PretrainingDataConfig,
    tokenizer: tokenization.FullTokenizer,
    rng: random.Random,
  ) -> None:
    self.config = config
    self._tokenizer = tokenizer
    self._rng = rng
    self._masker = masking.Masker(config.masking_config, tokenizer.vocab)
    self._cls = tokenizer.vocab[tokenization.CLS]
    self._sep = tokenizer.vocab[tokenization.SEP]
    self.num_cut = 0  # Word pieces that were dropped from instances.

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
    for first, second, is_random_next in self._make_pairs(documents, index):
      input_ids, num_first = packing.add_special_tokens(
        first, second or None, self._cls, self._sep
      )
      masked: tuple[list[int], list[int]] = [], []
      if self.config.mask:
        segment_b = range(num_first, len(input_ids) - 1)
        candidates = [*range(1, num_first - 1), *segment_b]
        masked = self._masker.mask(input_ids, candidates, self._rng)
      ids, positions, labels = (
        array.array("i", x) for x in (input_ids, *masked)
      )
      yield TrainingInstance(ids, num_first, positions, labels, is_random_next)

  def _make_pairs(
    self, documents: Sequence[Document], index: int
  ) -> Iterator[tuple[list[int], list[int], bool]]:
    """Yields (segment a, segment b, whether b is random).

    Half of the second segments continue the text, unless a single sentence
    fills the target or is the document's last. With no_nsp, they are empty.
    """
    rng = self._rng
    document = documents[index]
    # Sometimes aims at fewer tokens, because fine-tuning inputs are often short
    # (2018 release, create_pretraining_data.py).
    target = self.config.max_num_tokens
    if rng.random() < self.config.short_seq_prob:
      target = rng.randint(2, target)
    start = 0
    while start < document.num_sentences:
      stop = document.reach(start, target)
      if self.config.no_nsp:
        yield *self._truncate(document.get_ids(start, stop), []), False
        start = stop
        continue
      # Segment a ends after a random sentence, so that its length varies.
      middle = start + 1
      if stop - start > 1:
        middle = start + rng.randint(1, stop - start - 1)
      first = document.get_ids(start, middle)
      if stop - start == 1 or rng.random() < 0.5:
        # After ten tries, the same document is accepted, as in 2018.
        for _ in range(10):
          other = rng.randrange(len(documents))
          if other != index:
            break
        drawn = documents[other]
        begin = rng.randrange(drawn.num_sentences)
        end = drawn.reach(begin, target - len(first))
        yield *self._truncate(first, drawn.get_ids(begin, end)), True
        start = middle  # The sentences after a are not used yet.
      else:
        second = document.get_ids(middle, stop)
        yield *self._truncate(first, second), False
        start = stop

  def _truncate(
    self, first: list[int], second: list[int]
  ) -> tuple[list[int], list[int]]:
    """Cuts two segments to max_num_tokens together.

    As truncate_seq_pair of 2018, drops tokens from the longer segment, or else
    the second, from its front or back.
    """
    flip = self._rng.random
    num_first, num_second = len(first), len(second)
    num_excess = max(0, num_first + num_second - self.config.max_num_tokens)
    self.num_cut += num_excess
    first_start = second_start = 0
    for _ in range(num_excess):
      from_front = flip() < 0.5
      if num_first > num_second:
        num_first -= 1
        first_start += from_front
      else:
        num_second -= 1
        second_start += from_front
    return (
      first[first_start : first_start + num_first],
      second[second_start : second_start + num_second],
    )


# A worker builds several shards.
_load_tokenizer = functools.lru_cache(1)(load_tokenizer)


def build_shard(
  config: PretrainingDataConfig,
  task: ShardTask,
  report: Callable[[int], Any] = lambda num_done: None,
) -> ShardCounts:
  """Builds and writes one shard, whose instances are all in memory.

  They take about 1 kB each at 128 tokens. `report` is called with 1 for each
  document that was read, and for each document of a pass. Raises ValueError for
  a text without tokens.
  """
  rng, shard = random.Random(task.seed), task.shard
  builder = InstanceBuilder(config, _load_tokenizer(config), rng)
  with records.open_writer(task.output_files) as writer:
    documents = []
    for sentences in corpus.read_shard(shard):
      document = builder.read(sentences)
      if document.num_sentences:
        documents.append(document)
      report(1)
    if not documents:
      raise ValueError(
        f"{shard.spans[0].path}: shard {shard.index} has no document with a "
        "token."
      )
    masking.shuffle(documents, rng.getrandbits)
    instances: list[TrainingInstance] = []
    for _ in range(config.dupe_factor):
      for index in range(len(documents)):
        instances += builder.build(documents, index)
        report(1)
    # Instances of the same text should share neither a batch nor a packed row.
    masking.shuffle(instances, rng.getrandbits)
    lengths = [len(instance.input_ids) for instance in instances]
    rows = [[index] for index in range(len(instances))]
    if config.pack_sequences:
      rows = packing.assign_rows(lengths, config.max_seq_length)
      masking.shuffle(rows, rng.getrandbits)
    spec = pretraining_records.RecordFormat(
      config.max_seq_length, config.num_predictions, config.max_instances
    ).spec()
    for row in rows:
      writer.write(encode_row([instances[i] for i in row], spec))
  return ShardCounts(
    num_documents=len(documents),
    num_instances=len(instances),
    num_records=writer.num_written,
    num_tokens=sum(lengths),
    num_masked=sum(len(i.masked_lm_positions) for i in instances),
    num_random_next=sum(i.is_random_next for i in instances),
    num_pieces=sum(len(document.ids) for document in documents),
    num_cut=builder.num_cut,
  )


def encode_row(
  row: Sequence[TrainingInstance], spec: input_pipeline.Spec
) -> bytes:
  """Encodes one instance, or several packed ones, as a `tf.train.Example`.

  It has the features of `RecordFormat.spec`, padded with zeros:
  masked_lm_weights are 1 for a masked position, next_sentence_labels 1 if the
  second segment is random, and cls_positions tell where each instance begins.
  """
  values: dict[str, list[int]] = collections.defaultdict(list)
  for instance in row:
    start, num_ids = len(values["input_ids"]), len(instance.input_ids)
    num_second = num_ids - instance.num_first
    values["input_ids"] += instance.input_ids
    values["input_mask"] += [1] * num_ids
    values["segment_ids"] += [0] * instance.num_first + [1] * num_second
    values["next_sentence_labels"].append(int(instance.is_random_next))
    values["cls_positions"].append(start)
    values["masked_lm_positions"] += [
      start + position for position in instance.masked_lm_positions
    ]
    values["masked_lm_ids"] += instance.masked_lm_ids
    values["masked_lm_weights"] += [1] * len(instance.masked_lm_ids)
  ints: dict[str, list[int]] = {}
  floats: dict[str, list[int]] = {}
  for name, feature in spec.items():
    padding = [0] * (feature.shape[0] - len(values[name]))
    target = floats if feature.dtype.is_floating else ints
    target[name] = values[name] + padding
  return records.encode_example(ints, floats)
