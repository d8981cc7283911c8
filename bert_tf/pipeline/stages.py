"""Runs the steps from text to a served model; resumes an interrupted run."""

import dataclasses
import json
import math
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf import modeling, tokenization
from bert_tf.checkpoint.weights import hash_weights
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_shards
from bert_tf.data.pretraining.masking import MaskingConfig
from bert_tf.data.pretraining.pretraining_records import RecordFormat
from bert_tf.export import export
from bert_tf.export.config import ExportConfig
from bert_tf.files import (
  atomic,
  json_files,
  packages,
  paths,
  shard_files,
  text_lines,
  tokenizer_files,
)
from bert_tf.pipeline import card
from bert_tf.pipeline.config import PipelineConfig
from bert_tf.pipeline.model import Model, choose_model
from bert_tf.tasks.pretraining import pretraining
from bert_tf.tasks.pretraining.pretraining_config import PretrainingConfig
from bert_tf.text import corpus_build, sources, text_config, vocabulary
from bert_tf.training import budget, curves
from bert_tf.training.config import PretrainingTrainConfig, TrainConfig

# Bytes of text per shard. A process that builds a shard needs about 23 times as
# much memory.
_SHARD_BYTES = 32e6

# Training sees a small text many times, so it is made into five different sets
# of instances.
_SMALL_TEXT_CHARS = 50e6
_DUPE_FACTOR = 5

# More pieces per word suggest text without spaces. German and Arabic have < 2.
_MAX_PIECES_PER_WORD = 5

# All evaluations are of the same text, so that a curve joins them.
_NUM_EVALUATIONS = 10
_EVAL_BATCH_SIZE = 64
_MAX_EVAL_STEPS = 50

_SECONDS_BETWEEN_CHECKPOINTS = 300

# With fewer steps, a model learns nothing.
_MIN_STEPS = 20

# Settings that may change when a run resumes.
_MAY_CHANGE = (
  *("output_dir", "train_hours", "train_minutes"),
  *("num_workers", "compute"),
)


def run(config: PipelineConfig) -> None:
  """Makes data, trains, evaluates, plots, exports and writes the model card.

  A finished corpus, vocabulary, records and training are kept, and an
  interrupted one is resumed. Raises ValueError if the text cannot be read, the
  settings contradict each other or those of the run in output_dir, or the time
  is too short.
  """
  with packages.needs_extra("drawing the curves", extra="plots"):
    import matplotlib  # noqa: F401
  packages.import_tensorflow_text("the vocabulary of word pieces")
  model = choose_model(config)
  inputs = sources.find_files(
    config.text, config.reading, text_config.TEXT, config.pydoc_packages
  )
  for source in inputs:
    if not paths.is_file(source.path):
      raise ValueError(
        f"text {source.path} is not a file, so it cannot be read twice."
      )
  corpus_build.check_reading(inputs)
  settings = _settings(config, model, inputs)
  settings_file = config.file("settings.json")
  if paths.exists(settings_file):
    remedy = "choose another `output_dir`"
    shard_files.check_same_settings(settings, settings_file, remedy)
  logging.info("Timing a few steps of training.")
  num_steps, size = _estimate_steps(config, model), model.size
  logging.info(
    f"{model.name}, {size.num_hidden_layers} layers of {size.hidden_size}: "
    f"about {num_steps:,} steps of {size.train_batch_size} sequences will fit "
    f"into {config.train_seconds / 60:g} min."
  )
  paths.make_folder(config.file(""))
  json_files.write(settings_file, settings)
  train_files = _make_data(config, model, inputs)
  coverage = _measure_coverage(config, model)
  results = _train(config, model, num_steps, train_files)
  if results is None:
    return  # After a signal, the same command goes on with the training.
  curves.plot(
    config.output_dir, os.path.join(config.output_dir, card.CURVES_FILE)
  )
  export.run(
    ExportConfig(
      init_checkpoint=config.output_dir,
      export_dir=os.path.join(config.output_dir, card.EXPORT_DIR),
    ),
    replaces=True,
  )
  card.write(config, model, inputs, coverage, results)
  logging.info("The model and its card are in %s.", config.output_dir)


def _settings(
  config: PipelineConfig, model: Model, inputs: Sequence[sources.InputFile]
) -> dict[str, Any]:
  settings = json.loads(json.dumps(dataclasses.asdict(config)))
  settings["text"] = [
    [os.path.basename(s.path), paths.sha256(s.path)] for s in inputs
  ]
  settings["do_lower_case"] = model.is_lower_case
  settings["size"] = model.name
  if model.weights:
    # The folder may move, but not change.
    weights = hash_weights(model.weights)
    settings["model"] = f"{card.model_name(config)} {weights[:16]}"
  return {name: v for name, v in settings.items() if name not in _MAY_CHANGE}


def _estimate_steps(config: PipelineConfig, model: Model) -> int:
  """Estimates how many steps fit into the training time, on rows of ones.

  Raises ValueError if the time is too short to learn anything.
  """
  batch_size = model.size.train_batch_size
  runner = pretraining.build_estimator(
    modeling.BertConfig.from_dict(dict(model.bert_config)),
    TrainConfig(
      output_dir=config.output_dir,
      train_batch_size=batch_size,
      train_minutes=config.train_seconds / 60,
      **vars(config.compute),
    ),
  )
  spec = RecordFormat(
    config.max_seq_length,
    model.size.max_predictions_per_seq(config.max_seq_length),
  ).spec()
  batch = {
    name: tf.ones(
      [batch_size, *feature.shape],
      tf.float32 if feature.dtype.is_floating else tf.int32,
    )
    for name, feature in spec.items()
  }
  batches = tf.data.Dataset.from_tensors(batch).repeat()
  runner.build_step(batches.element_spec)
  num_steps = budget.count_steps(
    config.train_seconds, runner.train_step, iter(batches)
  )
  if num_steps < _MIN_STEPS:
    raise ValueError(
      f"{config.train_seconds:g} s is too short, since only {num_steps} steps "
      "fit into it; raise `train_hours` or `train_minutes`."
    )
  return num_steps


def _make_data(
  config: PipelineConfig, model: Model, inputs: Sequence[sources.InputFile]
) -> str:
  """Writes corpus, vocabulary, records and config.

  Returns the paths of the training records, separated by commas.
  """
  train_text = config.file("train.txt")
  logging.info("Splitting the text into sentences.")
  output = text_config.Output(
    output_file=train_text,
    eval_output_file=config.file("held_out.txt"),
    eval_fraction=config.eval_fraction,
    random_seed=config.seed,
  )
  # settings.json has shown that the text and its settings are the same.
  report = shard_files.read_settings(output.report_file)
  if report and paths.exists(train_text):
    counts = report["counts"]
  else:
    counts = corpus_build.build_corpus(
      config.reading, inputs, output, config.num_workers
    )
  vocab_file = config.file("vocab.txt")
  if not paths.exists(vocab_file):
    if model.vocab_file:
      content = tokenizer_files.read_vocab(model.vocab_file)
      atomic.write_bytes(vocab_file, content)
    else:
      logging.info("Learning the vocabulary.")
      learn_vocabulary(
        train_text,
        vocab_file,
        model.size.vocab_size,
        _basic_tokenizer(model),
        config.has_many_characters,
      )
  logging.info("Writing the records.")
  training, held_out = _record_configs(config, model, counts["characters"])
  shards = num_shards(train_text)
  train_records = pretraining_shards.create(
    training,
    [train_text],
    config.file("train.tfrecord"),
    shards,
    min(config.num_workers, shards),
    resume=True,
  )
  pretraining_shards.create(
    held_out,
    [config.file("held_out.txt")],
    config.file("held_out.tfrecord"),
    resume=True,
  )
  sizes = dict(model.bert_config)
  if not model.vocab_file:
    sizes["vocab_size"] = len(tokenization.load_vocab(vocab_file))
  atomic.write_lines(
    config.file("bert_config.json"), [json.dumps(sizes, indent=2)]
  )
  return ",".join(train_records.output_files)


def num_shards(text_file: str) -> int:
  """Returns the number of shards of records for a text file, at least 1."""
  return max(1, round(paths.num_bytes(text_file) / _SHARD_BYTES))


def _basic_tokenizer(model: Model) -> tokenization.BasicTokenizer:
  return tokenization.BasicTokenizer(model.is_lower_case, model.strip_accents)


def learn_vocabulary(
  text_file: str,
  vocab_file: str,
  vocab_size: int,
  tokenizer: tokenization.BasicTokenizer,
  has_many_characters: bool = False,
) -> None:
  """Learns a vocabulary from a file of one sentence a line and writes it."""
  lines = text_lines.read_lines(text_file)
  counts, _ = vocabulary.count_words(lines, tokenizer)
  tokens = vocabulary.learn_tokens(
    counts,
    vocab_size,
    alphabet_size=6000 if has_many_characters else 1000,
    may_be_smaller=True,
  )
  atomic.write_lines(vocab_file, tokens)


def _measure_coverage(
  config: PipelineConfig, model: Model
) -> vocabulary.Coverage:
  """Measures how well the vocabulary covers the held-out text, and logs it."""
  vocab = tokenization.load_vocab(config.file("vocab.txt"))
  lines = text_lines.read_lines(config.file("held_out.txt"))
  counts, _ = vocabulary.count_words(lines, _basic_tokenizer(model))
  coverage = vocabulary.measure_coverage(vocab, counts)
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
  return coverage


def _record_configs(
  config: PipelineConfig, model: Model, num_chars: int
) -> tuple[PretrainingDataConfig, PretrainingDataConfig]:
  """Returns the settings of the training records and of the held-out ones.

  Training records are masked in training, held-out ones in advance with the
  original's probability, whatever masked_lm_prob is in training. `num_chars` is
  the length of the text.
  """
  length = config.max_seq_length
  training = PretrainingDataConfig(
    vocab_file=config.file("vocab.txt"),
    do_lower_case=model.is_lower_case,
    strip_accents=model.strip_accents,
    max_seq_length=length,
    random_seed=config.seed,
    dupe_factor=_DUPE_FACTOR if num_chars < _SMALL_TEXT_CHARS else 1,
    no_nsp=model.size.no_nsp,
    mask=False,
    pack_sequences=True,
  )
  held_out = dataclasses.replace(
    training,
    dupe_factor=1,
    mask=True,
    pack_sequences=False,
    masking_config=MaskingConfig(
      max_predictions_per_seq=model.size.max_predictions_per_seq(length)
    ),
  )
  return training, held_out


def _train(
  config: PipelineConfig, model: Model, num_steps: int, train_files: str
) -> dict[str, float | int] | None:
  """Trains and evaluates; returns the results, or None after a signal."""
  size, length = model.size, config.max_seq_length
  # Without a backward pass, a sequence costs a third of what training it does.
  cost = _MAX_EVAL_STEPS * _EVAL_BATCH_SIZE / (3 * size.train_batch_size)
  return pretraining.run(
    PretrainingConfig(
      bert_config_file=config.file("bert_config.json"),
      vocab_file=config.file("vocab.txt"),
      input_file=train_files,
      eval_input_file=config.file("held_out.tfrecord"),
      max_seq_length=length,
      max_predictions_per_seq=size.max_predictions_per_seq(length),
      do_train=True,
      do_eval=True,
      eval_batch_size=_EVAL_BATCH_SIZE,
      max_eval_steps=_MAX_EVAL_STEPS,
      masked_lm_prob=size.masked_lm_prob,
      no_nsp=size.no_nsp,
      initial_values=size.initial_values,
      train=PretrainingTrainConfig(
        init_checkpoint=model.weights,
        output_dir=config.output_dir,
        train_batch_size=size.train_batch_size,
        learning_rate=size.learning_rate,
        train_hours=config.train_hours,
        train_minutes=config.train_minutes,
        save_checkpoints_steps=math.ceil(
          num_steps * _SECONDS_BETWEEN_CHECKPOINTS / config.train_seconds
        ),
        keep_checkpoint_max=2,
        # A tenth of the steps, or more if evaluations took over a fifth of it.
        eval_every_steps=max(
          num_steps // _NUM_EVALUATIONS, math.ceil(5 * cost)
        ),
        seed=config.seed,
        **vars(config.compute),
      ),
    )
  )
