"""Runs the steps from text to a served model; resumes an interrupted run."""

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf import modeling, tokenization
from bert_tf.checkpoint.model_folder import ModelFolder
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
from bert_tf.model import heads
from bert_tf.pipeline.config import DEFAULT_SIZE, SIZES, PipelineConfig, Size
from bert_tf.tasks.pretraining import pretraining
from bert_tf.tasks.pretraining.pretraining_config import PretrainingConfig
from bert_tf.text import corpus_build, text_config, vocabulary
from bert_tf.text.letter_case import Case
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

# All evaluations are of the same text, so that a curve joins them. The first
# one comes early, to show whether the run is worth its time.
_NUM_EVALUATIONS = 12
_EVAL_BATCH_SIZE = 64
_MAX_EVAL_STEPS = 50
_MAX_EVAL_TIME = 0.2  # As a fraction of the time of training.

_SECONDS_BETWEEN_CHECKPOINTS = 300

_MIN_STEPS = 20  # With fewer steps, a model learns nothing.
_FEW_STEPS = 1000  # With fewer, a new model learns little.

# Settings that may change when a run resumes.
_MAY_CHANGE = (
  *("output_dir", "train_hours", "train_minutes"),
  *("num_workers", "compute"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
  """The model and its training, with all defaults resolved."""

  name: str  # The name of the size, or layers x width of a model to continue.
  size: Size
  # Content of bert_config.json. A new vocabulary may turn out to be smaller.
  bert_config: Mapping[str, Any]
  case: Case
  source: ModelFolder | None = None  # The model to continue.

  @property
  def tokenizer(self) -> tokenization.BasicTokenizer:
    """The tokenizer that splits text into words."""
    return tokenization.BasicTokenizer(**vars(self.case))


def choose_model(config: PipelineConfig) -> Model:
  """Returns the model to train.

  Raises ValueError if the model to continue is unidirectional or contradicts a
  setting.
  """
  if config.model:
    return _read_model(config, config.model)
  name = config.size or DEFAULT_SIZE
  size = SIZES[name]
  if config.has_many_characters:
    vocab_size = max(size.vocab_size, 16_000)
    size = dataclasses.replace(size, vocab_size=vocab_size)
  size = config.override(size)
  return Model(
    name=name,
    size=size,
    bert_config=size.bert_config(size.vocab_size, config.max_seq_length),
    case=_choose_case(config, Case(config.do_lower_case)),
  )


def _choose_case(config: PipelineConfig, known: Case) -> Case:
  if known.do_lower_case is not None:
    return known
  return dataclasses.replace(
    known, do_lower_case=not config.has_marks_as_letters
  )


def _read_model(config: PipelineConfig, path: str) -> Model:
  files = ModelFolder.open(path, do_lower_case=config.do_lower_case)
  if os.path.realpath(config.output_dir) == os.path.realpath(files.folder):
    raise ValueError(
      f"`output_dir` {config.output_dir} is the folder of the model itself."
    )
  files.config.check_lengths(config.max_seq_length, files.config_file)
  files.config.check_bidirectional(files.config_file)
  assert files.reader
  names = files.shapes.keys() - files.reader.untrained
  if any(name not in names for name in heads.MASKED_LM.shapes):
    logging.warning(
      "%s has no masked-LM head, so this head starts from random values.", path
    )
  size = Size(
    num_hidden_layers=files.config.num_hidden_layers,
    hidden_size=files.config.hidden_size,
    train_batch_size=32,
    # A fifth of the rate that made models of width 768; see Size for others.
    learning_rate=2e-5 * 768 / files.config.hidden_size,
    vocab_size=len(files.vocab),
    dropout=files.config.hidden_dropout_prob,
    no_nsp=any(n not in names for n in heads.NEXT_SENTENCE.shapes),
  )
  return Model(
    name=f"{size.num_hidden_layers} x {size.hidden_size}",
    size=config.override(size),
    bert_config=files.config.to_dict(),
    case=_choose_case(config, files.case),
    source=files,
  )


def run(config: PipelineConfig) -> None:
  """Makes data, trains, evaluates, plots and exports.

  A finished corpus, vocabulary, records and training are kept, and an
  interrupted one is resumed. Raises ValueError if the text cannot be read, the
  settings contradict each other or those of the run in output_dir, or the time
  is too short.
  """
  with packages.needs_extra("drawing the curves", extra="plots"):
    import matplotlib  # noqa: F401
  packages.import_tensorflow_text("the vocabulary of word pieces")
  model = choose_model(config)
  inputs = corpus_build.find_files(
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
  num_steps, size = _estimate_steps(config, model), model.size
  logging.info(
    f"{model.name}, {size.num_hidden_layers} layers of {size.hidden_size}: "
    f"about {num_steps:,} steps of {size.train_batch_size} sequences will fit "
    f"into {config.train_seconds / 60:g} min."
  )
  if num_steps < _FEW_STEPS and not model.source:
    logging.warning(
      f"A new model learns little in fewer than {_FEW_STEPS:,} steps. Raise "
      "`train_minutes`, or lower `size` or `max_seq_length`."
    )
  paths.make_folder(config.file(""))
  json_files.write(settings_file, settings)
  counts = _write_corpus(config, inputs)
  _write_vocabulary(config, model)
  coverage = _measure_coverage(config, model)
  train_files = _write_records(config, model, counts["characters"])
  results = pretraining.run(
    training_config(config, model, num_steps, train_files)
  )
  if results is None:
    return  # After a signal, the same command goes on with the training.
  curves.plot(config.output_dir, os.path.join(config.output_dir, "curves.png"))
  export.run(
    ExportConfig(
      init_checkpoint=config.output_dir,
      export_dir=os.path.join(config.output_dir, "saved_model", "1"),
    ),
    replaces=True,
  )
  if (loss := results["masked_lm_loss"]) >= coverage.entropy:
    logging.warning(
      f"The model is useless: its masked_lm_loss {loss:.3g} is not below "
      f"{coverage.entropy:.3g}, that of a guess by the frequencies of word "
      "pieces alone. Train longer."
    )
  logging.info("The model is in %s.", config.output_dir)


def _settings(
  config: PipelineConfig, model: Model, inputs: Sequence[corpus_build.InputFile]
) -> dict[str, Any]:
  settings = json.loads(json.dumps(dataclasses.asdict(config)))
  settings["text"] = [
    [os.path.basename(s.path), paths.sha256(s.path)] for s in inputs
  ]
  settings["do_lower_case"] = model.case.do_lower_case
  settings["size"] = model.name
  if model.source:
    # The folder may move, but not change.
    name = os.path.basename(os.path.abspath(str(config.model)))
    weights = hash_weights(str(model.source.weights))
    settings["model"] = f"{name} {weights[:16]}"
  return {name: v for name, v in settings.items() if name not in _MAY_CHANGE}


def _estimate_steps(config: PipelineConfig, model: Model) -> int:
  """Estimates how many steps fit into the training time, on rows of ones.

  Raises ValueError if the time is too short to learn anything.
  """
  batch_size, length = model.size.train_batch_size, config.max_seq_length
  runner = pretraining.build_estimator(
    modeling.BertConfig.from_dict(dict(model.bert_config)),
    TrainConfig(
      output_dir=config.output_dir,
      train_batch_size=batch_size,
      train_minutes=config.train_seconds / 60,
      **vars(config.compute),
    ),
  )
  num_predictions = model.size.max_predictions_per_seq(length)
  batch = {
    name: tf.ones(
      [batch_size, *feature.shape],
      tf.float32 if feature.dtype.is_floating else tf.int32,
    )
    for name, feature in RecordFormat(length, num_predictions).spec().items()
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


def _write_corpus(
  config: PipelineConfig, inputs: Sequence[corpus_build.InputFile]
) -> Mapping[str, int]:
  """Writes the sentences to train on and the held-out ones; counts them."""
  output = text_config.Output(
    output_file=config.file("train.txt"),
    eval_output_file=config.file("held_out.txt"),
    eval_fraction=config.eval_fraction,
    random_seed=config.seed,
  )
  # settings.json has shown that the text and its settings are the same.
  report = shard_files.read_settings(output.report_file)
  if report and paths.exists(output.output_file):
    counts: dict[str, int] = report["counts"]
    return counts
  return corpus_build.build_corpus(
    config.reading, inputs, output, config.num_workers
  )


def _write_vocabulary(config: PipelineConfig, model: Model) -> None:
  """Writes the vocabulary and bert_config.json."""
  vocab_file, sizes = config.file("vocab.txt"), dict(model.bert_config)
  if not paths.exists(vocab_file):
    if model.source:
      vocab = tokenizer_files.read_vocab(str(model.source.vocab_file))
      atomic.write_bytes(vocab_file, vocab)
    else:
      learn_vocabulary(
        config.file("train.txt"),
        vocab_file,
        model.size.vocab_size,
        model.tokenizer,
        config.has_many_characters,
      )
  if not model.source:
    sizes["vocab_size"] = len(tokenization.load_vocab(vocab_file))
  atomic.write_lines(
    config.file("bert_config.json"), [json.dumps(sizes, indent=2)]
  )


def num_shards(text_file: str) -> int:
  """Returns the number of shards of records for a text file, at least 1."""
  return max(1, round(paths.num_bytes(text_file) / _SHARD_BYTES))


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
  counts, _ = vocabulary.count_words(lines, model.tokenizer)
  coverage = vocabulary.measure_coverage(vocab, counts)
  logging.info(
    f"Held-out words have {coverage.pieces_per_word:.2f} pieces on average; "
    f"{coverage.unknown_fraction:.2%} are unknown."
  )
  if coverage.pieces_per_word > _MAX_PIECES_PER_WORD:
    logging.warning(
      "Words have %.1f pieces on average, so the text seems to have no spaces. "
      "Put them between words, here and in later inputs of the model.",
      coverage.pieces_per_word,
    )
  return coverage


def record_configs(
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
    **vars(model.case),
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


def _write_records(config: PipelineConfig, model: Model, num_chars: int) -> str:
  """Writes the records; returns those to train on, separated by commas."""
  training, held_out = record_configs(config, model, num_chars)
  train_text, held_out_text = (
    config.file("train.txt"),
    config.file("held_out.txt"),
  )
  shards = num_shards(train_text)
  train_records = pretraining_shards.create(
    training,
    [train_text],
    config.file("train.tfrecord"),
    shards,
    min(config.num_workers, shards),
    resume=True,
  )
  held_out_file = config.file("held_out.tfrecord")
  pretraining_shards.create(
    held_out, [held_out_text], held_out_file, resume=True
  )
  return ",".join(train_records.output_files)


def training_config(
  config: PipelineConfig, model: Model, num_steps: int, train_files: str
) -> PretrainingConfig:
  """Returns the settings of training, which takes about `num_steps`."""
  size, length = model.size, config.max_seq_length
  interval = max(1, num_steps // _NUM_EVALUATIONS)
  # Without a backward pass, a sequence costs a third of what training it does.
  sequences = 3 * _MAX_EVAL_TIME * interval * size.train_batch_size
  return PretrainingConfig(
    bert_config_file=config.file("bert_config.json"),
    vocab_file=config.file("vocab.txt"),
    input_file=train_files,
    eval_input_file=config.file("held_out.tfrecord"),
    max_seq_length=length,
    max_predictions_per_seq=size.max_predictions_per_seq(length),
    do_train=True,
    do_eval=True,
    eval_batch_size=_EVAL_BATCH_SIZE,
    max_eval_steps=min(
      max(1, int(sequences / _EVAL_BATCH_SIZE)), _MAX_EVAL_STEPS
    ),
    masked_lm_prob=size.masked_lm_prob,
    no_nsp=size.no_nsp,
    initial_values=size.initial_values,
    train=PretrainingTrainConfig(
      init_checkpoint=model.source.weights if model.source else None,
      output_dir=config.output_dir,
      train_batch_size=size.train_batch_size,
      learning_rate=size.learning_rate,
      train_hours=config.train_hours,
      train_minutes=config.train_minutes,
      save_checkpoints_steps=math.ceil(
        num_steps * _SECONDS_BETWEEN_CHECKPOINTS / config.train_seconds
      ),
      keep_checkpoint_max=2,
      eval_every_steps=interval,
      seed=config.seed,
      **vars(config.compute),
    ),
  )
