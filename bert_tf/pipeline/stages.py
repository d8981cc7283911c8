"""Runs the steps from text to a served model; resumes an interrupted run."""

import dataclasses
import math
import os

import tensorflow as tf
from absl import logging

from bert_tf import modeling, settings, tokenization
from bert_tf.checkpoint.checkpoints import hash_weights
from bert_tf.checkpoint.model_folder import ModelFolder
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
from bert_tf.pipeline.config import (
  MANY_CHARACTERS,
  MARKS_ARE_LETTERS,
  SIZES,
  PipelineConfig,
  Size,
)
from bert_tf.tasks.pretraining import pretraining
from bert_tf.tasks.pretraining.pretraining_config import PretrainingConfig
from bert_tf.text import corpus_build, text_config, vocabulary
from bert_tf.text.letter_case import Case
from bert_tf.training import budget, curves
from bert_tf.training.config import PretrainingTrainConfig
from bert_tf.training.estimator import Estimator


@dataclasses.dataclass(frozen=True)
class Model:
  """The model and its training, with all defaults resolved."""

  name: str  # The name of the size, or layers x width of a model to continue.
  size: Size
  bert_config: modeling.BertConfig  # A new vocabulary may be smaller.
  case: Case
  source: ModelFolder | None = None  # The model to continue.


def choose_model(config: PipelineConfig) -> Model:
  """Returns the model to train.

  Raises ValueError if the model to continue is unidirectional or contradicts a
  setting.
  """
  source, case = None, Case(config.do_lower_case)
  if config.model:
    source = ModelFolder.open(config.model, do_lower_case=config.do_lower_case)
    case, size = source.case, _size_to_continue(config, source)
    name = f"{size.num_hidden_layers} x {size.hidden_size}"
  else:
    name = config.size or "tiny"
    size = SIZES[name]
    if config.is_in(MANY_CHARACTERS):
      vocab_size = max(size.vocab_size, 16_000)
      size = dataclasses.replace(size, vocab_size=vocab_size)
  given = {
    name: getattr(config, name)
    for name in ("vocab_size", "train_batch_size", "learning_rate")
    if getattr(config, name) is not None
  }
  size = dataclasses.replace(size, **given)
  if case.do_lower_case is None:
    is_lower = not config.is_in(MARKS_ARE_LETTERS)
    case = dataclasses.replace(case, do_lower_case=is_lower)
  bert_config = modeling.BertConfig(**size.bert_config)
  if source:
    bert_config = source.config
  return Model(name, size, bert_config, case, source)


def _size_to_continue(config: PipelineConfig, source: ModelFolder) -> Size:
  """Returns the sizes of a model, and the training that continues it."""
  if os.path.realpath(config.output_dir) == os.path.realpath(source.folder):
    raise ValueError(
      f"`output_dir` {config.output_dir} is the folder of the model itself."
    )
  source.config.check_lengths(config.max_seq_length, source.config_file)
  source.config.check_bidirectional(source.config_file)
  assert source.reader
  names = source.shapes.keys() - source.reader.untrained
  if not names >= heads.MASKED_LM.shapes.keys():
    logging.warning(
      "%s has no masked-LM head, so this head starts from random values.",
      config.model,
    )
  width = source.config.hidden_size
  return Size(
    num_hidden_layers=source.config.num_hidden_layers,
    hidden_size=width,
    train_batch_size=32,
    # A fifth of the rate that made models of width 768; see Size for others.
    learning_rate=2e-5 * 768 / width,
    vocab_size=len(source.vocab),
    dropout=source.config.hidden_dropout_prob,
    no_nsp=not names >= heads.NEXT_SENTENCE.shapes.keys(),
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
  corpus_build.check_reading(inputs)
  # What may change when a run resumes is left out. The text and the model may
  # move, but not change.
  resumable = {"output_dir", "train_hours", "train_minutes", "num_workers"}
  resumable |= settings.values(config.compute).keys()
  values = {
    name: value
    for name, value in settings.values(config).items()
    if name not in resumable
  }
  values |= {
    "text": [[os.path.basename(s.path), paths.sha256(s.path)] for s in inputs],
    "do_lower_case": model.case.do_lower_case,
    "size": model.name,
  }
  if model.source:
    name = os.path.basename(os.path.abspath(str(config.model)))
    values["model"] = f"{name} {hash_weights(str(model.source.weights))[:16]}"
  settings_file = config.file("settings.json")
  if paths.exists(settings_file):
    remedy = "choose another `output_dir`"
    shard_files.check_same_settings(values, settings_file, remedy)
  num_steps, size = _estimate_steps(config, model), model.size
  logging.info(
    f"{model.name}, {size.num_hidden_layers} layers of {size.hidden_size}: "
    f"about {num_steps:,} steps of {size.train_batch_size} sequences will fit "
    f"into {config.train_seconds / 60:g} min."
  )
  if num_steps < 1000 and not model.source:
    logging.warning(
      "A new model learns little in fewer than 1,000 steps. Raise "
      "`train_minutes`, or lower `size` or `max_seq_length`."
    )
  paths.make_folder(config.file(""))
  json_files.write(settings_file, values)
  corpus = text_config.Output(
    output_file=config.file("train.txt"),
    eval_output_file=config.file("held_out.txt"),
    eval_fraction=config.eval_fraction,
    random_seed=config.seed,
  )
  # settings.json has shown that the text and its settings are the same.
  report = shard_files.read_settings(corpus.report_file)
  if report and paths.exists(corpus.output_file):
    counts = report["counts"]
  else:
    counts = corpus_build.build_corpus(
      config.reading, inputs, corpus, config.num_workers
    )
  coverage = _write_vocabulary(config, model)
  training, held_out = record_configs(config, model, counts["characters"])
  shards = num_shards(corpus.output_file)
  records = pretraining_shards.create(
    training,
    [corpus.output_file],
    config.file("train.tfrecord"),
    shards,
    config.num_workers,
    resume=True,
  )
  pretraining_shards.create(
    held_out,
    [config.file("held_out.txt")],
    config.file("held_out.tfrecord"),
    resume=True,
  )
  train_files = ",".join(records.output_files)
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


def _estimate_steps(config: PipelineConfig, model: Model) -> int:
  """Estimates how many steps fit into the training time, on rows of ones.

  Raises ValueError if the time is too short to learn anything.
  """
  batch_size, length = model.size.train_batch_size, config.max_seq_length
  runner = Estimator(
    pretraining.PretrainingObjective(),
    model.bert_config,
    training_config(config, model, num_steps=1, train_files="").train,
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
  if num_steps < 20:  # A model learns nothing.
    raise ValueError(
      f"{config.train_seconds:g} s is too short, since only {num_steps} steps "
      "fit into it; raise `train_hours` or `train_minutes`."
    )
  return num_steps


def _write_vocabulary(
  config: PipelineConfig, model: Model
) -> vocabulary.Coverage:
  """Writes the vocabulary and bert_config.json; measures held-out words."""
  vocab_file, sizes = config.file("vocab.txt"), model.bert_config
  tokenizer = tokenization.BasicTokenizer(**vars(model.case))
  if not paths.exists(vocab_file):
    if model.source:
      content = tokenizer_files.read_vocab(str(model.source.vocab_file))
      atomic.write_bytes(vocab_file, content)
    else:
      learn_vocabulary(
        config.file("train.txt"),
        vocab_file,
        model.size.vocab_size,
        tokenizer,
        6000 if config.is_in(MANY_CHARACTERS) else 1000,
      )
  vocab = tokenization.load_vocab(vocab_file)
  if not model.source:
    sizes = dataclasses.replace(sizes, vocab_size=len(vocab))
  json_files.write(config.file("bert_config.json"), sizes.to_dict())
  lines = text_lines.read_lines(config.file("held_out.txt"))
  counts, _ = vocabulary.count_words(lines, tokenizer)
  coverage = vocabulary.measure_coverage(vocab, counts)
  logging.info(
    f"Held-out words have {coverage.pieces_per_word:.2f} pieces on average; "
    f"{coverage.unknown_fraction:.2%} are unknown."
  )
  if coverage.pieces_per_word > 5:  # German and Arabic have fewer than 2.
    logging.warning(
      "Words have %.1f pieces on average, so the text seems to have no spaces. "
      "Put them between words, here and in later inputs of the model.",
      coverage.pieces_per_word,
    )
  return coverage


def num_shards(text_file: str) -> int:
  """Returns the number of shards of records for a text file, at least 1."""
  # 32 MB of text. A process needs about 23 times as much memory for a shard.
  return max(1, round(paths.num_bytes(text_file) / 32e6))


def learn_vocabulary(
  text_file: str,
  vocab_file: str,
  vocab_size: int,
  tokenizer: tokenization.BasicTokenizer,
  alphabet_size: int = 1000,
) -> None:
  """Learns a vocabulary from a file of one sentence a line and writes it."""
  lines = text_lines.read_lines(text_file)
  counts, _ = vocabulary.count_words(lines, tokenizer)
  tokens = vocabulary.learn_tokens(
    counts, vocab_size, alphabet_size=alphabet_size, may_be_smaller=True
  )
  atomic.write_lines(vocab_file, tokens)


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
    # Training sees a small text many times.
    dupe_factor=5 if num_chars < 50e6 else 1,
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


def training_config(
  config: PipelineConfig, model: Model, num_steps: int, train_files: str
) -> PretrainingConfig:
  """Returns the settings of training, which takes about `num_steps`."""
  size, length = model.size, config.max_seq_length
  # Twelve evaluations, of the same text, so that a curve joins them. The first
  # one comes early, to show whether the run is worth its time.
  interval, eval_batch_size = max(1, num_steps // 12), 64
  # They take a fifth of the time of training at most. Without a backward pass,
  # a sequence costs a third of what training it does.
  num_sequences = 3 * interval * size.train_batch_size // 5
  return PretrainingConfig(
    bert_config_file=config.file("bert_config.json"),
    vocab_file=config.file("vocab.txt"),
    input_file=train_files,
    eval_input_file=config.file("held_out.tfrecord"),
    max_seq_length=length,
    max_predictions_per_seq=size.max_predictions_per_seq(length),
    do_train=True,
    do_eval=True,
    eval_batch_size=eval_batch_size,
    max_eval_steps=min(max(1, num_sequences // eval_batch_size), 50),
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
      # Every five minutes.
      save_checkpoints_steps=math.ceil(num_steps * 300 / config.train_seconds),
      keep_checkpoint_max=2,
      eval_every_steps=interval,
      seed=config.seed,
      **vars(config.compute),
    ),
  )
