"""The steps from text to records, with settings that the pipeline chooses."""

import dataclasses
from collections.abc import Sequence

from absl import logging

from bert_tf import tokenization
from bert_tf.corpora import sources, text_config
from bert_tf.data import config as data_config
from bert_tf.data import masking, vocabulary
from bert_tf.files import atomic, compression, paths, text_lines
from bert_tf.pipeline import config as pipeline_config

# Bytes of text per shard. A process that builds a shard needs about 23 times as
# much memory.
_SHARD_BYTES = 32e6

# Decompressed bytes to read for an estimate, and the assumed bytes of text per
# byte of Parquet, which is compressed.
_SAMPLE_BYTES, _PARQUET_EXPANSION = 2_000_000, 2.0

# Training sees a small text many times, so it is made into five different sets
# of instances.
_SMALL_TEXT_CHARS = 50e6
_DUPE_FACTOR = 5

# More pieces per word suggest text without spaces. German and Arabic have < 2.
_MAX_PIECES_PER_WORD = 5


def num_shards(text_bytes: float) -> int:
  """The number of shards for a text of this size, at least 1."""
  return max(1, round(text_bytes / _SHARD_BYTES))


def text_bytes(source: sources.InputFile) -> float:
  """Estimates how many bytes of text a file has, from its beginning."""
  num_bytes: float = paths.num_bytes(source.path)
  if source.path.endswith(compression.SUFFIXES):
    with paths.open_bytes(source.path) as stored:
      with compression.decompressed(source.path, stored) as reader:
        content = reader.read(_SAMPLE_BYTES)
      num_bytes *= len(content) / max(1, stored.tell())
  if source.input_format == text_config.PARQUET:
    num_bytes *= _PARQUET_EXPANSION
  return num_bytes


def learn_vocabulary(
  config: pipeline_config.PipelineConfig,
  text_files: Sequence[str],
  vocab_file: str,
) -> None:
  """Learns a vocabulary from files of one sentence a line and writes it."""
  lines = text_lines.read_lines(*text_files)
  counts, _ = vocabulary.count_words(lines, _basic_tokenizer(config))
  tokens = vocabulary.learn(
    counts,
    config.model_size.vocab_size,
    alphabet_size=6000 if config.has_many_characters else 1000,
    may_be_smaller=True,
  )
  atomic.write_lines(vocab_file, tokens)


def measure_coverage(
  config: pipeline_config.PipelineConfig,
) -> vocabulary.Coverage:
  """Measures how well the vocabulary covers the held-out text."""
  vocab = tokenization.load_vocab(config.file("vocab.txt"))
  lines = text_lines.read_lines(config.file("held_out.txt"))
  counts, _ = vocabulary.count_words(lines, _basic_tokenizer(config))
  return vocabulary.coverage(vocab, counts)


def _basic_tokenizer(
  config: pipeline_config.PipelineConfig,
) -> tokenization.BasicTokenizer:
  return tokenization.BasicTokenizer(config.is_lower_case, config.strip_accents)


def log_coverage(coverage: vocabulary.Coverage) -> None:
  """Logs the coverage; warns if words have many pieces."""
  logging.info(
    "Held-out words have %.2f pieces on average; %.2f%% are unknown.",
    coverage.pieces_per_word,
    100 * coverage.unknown_fraction,
  )
  if coverage.pieces_per_word > _MAX_PIECES_PER_WORD:
    logging.warning(
      "Words have %.1f pieces on average, so the text seems to have no spaces. "
      "Put them between words, here and in later inputs of the model.",
      coverage.pieces_per_word,
    )


def train_record_config(
  config: pipeline_config.PipelineConfig, vocab_file: str, num_chars: float
) -> data_config.PretrainingDataConfig:
  """The settings of training records, which are masked in training.

  `num_chars` is the length of the text.
  """
  return data_config.PretrainingDataConfig(
    vocab_file=vocab_file,
    do_lower_case=config.is_lower_case,
    strip_accents=config.strip_accents,
    max_seq_length=config.max_seq_length,
    random_seed=config.seed,
    dupe_factor=_DUPE_FACTOR if num_chars < _SMALL_TEXT_CHARS else 1,
    no_nsp=config.model_size.no_nsp,
    mask=False,
    pack_sequences=True,
  )


def held_out_record_config(
  config: pipeline_config.PipelineConfig,
  records: data_config.PretrainingDataConfig,
) -> data_config.PretrainingDataConfig:
  """The settings of held-out records.

  They are masked in advance with the original's probability, whatever
  masked_lm_prob is in training.
  """
  return dataclasses.replace(
    records,
    dupe_factor=1,
    pack_sequences=False,
    mask=True,
    masking_config=masking.MaskingConfig(
      max_predictions_per_seq=config.max_predictions_per_seq
    ),
  )
