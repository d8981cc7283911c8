"""Runs the steps from text to a served model; resumes an interrupted run."""

import dataclasses
import itertools
import json
import math
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf import (
  checkpoints,
  heads,
  model_folder,
  modeling,
  tokenization,
)
from bert_tf.corpora import corpus_build, sources, text_config
from bert_tf.data import pretraining_records, pretraining_shards
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.files import atomic, packages, paths, shard_files, text_lines
from bert_tf.formats import tokenizer_files
from bert_tf.inference import sentence_scorer
from bert_tf.model_folder import letter_case, run_info
from bert_tf.pipeline import card, text_steps
from bert_tf.pipeline import config as pipeline_config
from bert_tf.tasks import pretraining, pretraining_config
from bert_tf.training import budget, curves
from bert_tf.training import config as training_config

# All evaluations are of the same text, so that a curve joins them.
_NUM_EVALUATIONS = 10
_EVAL_BATCH_SIZE = 64
_MAX_EVAL_STEPS = 50

# Held-out sentences whose pseudo-perplexity is in the model card.
_SCORED_SENTENCES = 100

_SECONDS_BETWEEN_CHECKPOINTS = 300

# With fewer steps, a model learns nothing.
_MIN_STEPS = 20

# Settings that may change when a run resumes.
_MAY_CHANGE = (
  *("output_dir", "train_hours", "train_minutes", "num_workers"),
  *("compute", "initial_model"),
)


def run(config: pipeline_config.PipelineConfig) -> None:
  """Makes data, trains, evaluates, plots, exports and writes the model card.

  Finished steps are skipped, and an interrupted one is resumed. Raises
  ValueError if the text cannot be read, the settings contradict each other or
  those of the run in output_dir, or the time is too short.
  """
  with packages.needs_extra("drawing the curves", extra="plots"):
    import matplotlib  # noqa: F401
  packages.import_tensorflow_text("the vocabulary of word pieces")
  config = read_model(config)
  inputs = sources.find_files(
    config.text, config.reading, text_config.TEXT, config.pydoc_packages
  )
  for source in inputs:
    if not paths.is_file(source.path):
      raise ValueError(
        f"text {source.path} is not a file, so it cannot be read twice."
      )
  corpus_build.check_reading(config.reading, inputs)
  settings = _settings(config, inputs)
  settings_file = config.file("settings.json")
  if paths.exists(settings_file):
    remedy = "choose another `output_dir`"
    shard_files.check_same_settings(settings, settings_file, remedy)
  logging.info("Timing a few steps of training.")
  num_steps, size = _estimate_steps(config), config.model_size
  logging.info(
    f"{config.size_name}, {size.num_hidden_layers} layers of "
    f"{size.hidden_size}: about {num_steps:,} steps of {size.train_batch_size} "
    f"sequences will fit into {config.train_seconds / 60:g} min."
  )
  paths.make_folder(config.file(""))
  shard_files.write_settings(settings, settings_file)
  train_files = _make_data(config, inputs)
  results = _train(config, num_steps, train_files)
  if results is None:
    return  # After a signal, the same command goes on with the training.
  curves.plot(
    config.output_dir, os.path.join(config.output_dir, card.CURVES_FILE)
  )
  _export(config)
  scorer = sentence_scorer.SentenceScorer(config.output_dir)
  lines = text_lines.read_lines(config.file("held_out.txt"))
  fitting = filter(scorer.fits, map(scorer.tokenize, lines))
  scores = scorer.score([*itertools.islice(fitting, _SCORED_SENTENCES)])
  perplexity = sentence_scorer.pseudo_perplexity(scores)
  logging.info("Pseudo-perplexity of held-out sentences: %.2f.", perplexity)
  card.write(config, inputs, {**results, "pseudo_perplexity": perplexity})
  logging.info("The model and its card are in %s.", config.output_dir)


def read_model(
  config: pipeline_config.PipelineConfig,
) -> pipeline_config.PipelineConfig:
  """Returns the config with `initial_model`, if `model` is set.

  Raises ValueError if the model is unidirectional or contradicts a setting.
  """
  if not config.model:
    return config
  files = model_folder.read(config.model)
  if os.path.realpath(config.output_dir) == os.path.realpath(files.folder):
    raise ValueError(
      f"`output_dir` {config.output_dir} is the folder of the model itself."
    )
  files.bert_config.check_lengths(config.max_seq_length, files.config_file)
  files.bert_config.check_bidirectional(files.config_file)
  user = letter_case.Case(config.do_lower_case)
  saved = files.run.settings if files.run else None
  case = letter_case.resolve(user, saved, files.needed_vocab())
  names = files.reader.shapes.keys() - files.reader.untrained
  if any(name not in names for name in heads.MASKED_LM.shapes):
    logging.warning(
      "%s has no masked-LM head, so this head starts from random values.",
      config.model,
    )
  bert_config = files.bert_config.to_dict()
  size = pipeline_config.Size(
    num_hidden_layers=bert_config["num_hidden_layers"],
    hidden_size=bert_config["hidden_size"],
    train_batch_size=32,
    # A fifth of the rate that made models of width 768; see Size for others.
    learning_rate=2e-5 * 768 / bert_config["hidden_size"],
    vocab_size=len(files.load_vocab()),
    dropout=bert_config["hidden_dropout_prob"],
    no_nsp=any(n not in names for n in heads.NEXT_SENTENCE.shapes),
  )
  initial_model = pipeline_config.InitialModel(
    weights=files.weights,
    bert_config=bert_config,
    vocab_file=files.needed_vocab(),
    size=size,
    case=case,
  )
  return dataclasses.replace(config, initial_model=initial_model)


def _settings(
  config: pipeline_config.PipelineConfig, inputs: Sequence[sources.InputFile]
) -> dict[str, Any]:
  settings = json.loads(json.dumps(dataclasses.asdict(config)))
  settings["text"] = [
    [os.path.basename(s.path), paths.sha256(s.path)] for s in inputs
  ]
  settings["do_lower_case"] = config.is_lower_case
  settings["size"] = config.size_name
  if config.initial_model:
    # The folder may move, but not change.
    model = model_folder.hash_weights(config.initial_model.weights)
    settings["model"] = f"{card.model_name(config)} {model[:16]}"
  return {name: v for name, v in settings.items() if name not in _MAY_CHANGE}


def _estimate_steps(config: pipeline_config.PipelineConfig) -> int:
  """Estimates how many steps fit into the training time, on rows of ones.

  Raises ValueError if the time is too short to learn anything.
  """
  size = config.model_size
  bert_config = modeling.BertConfig.from_dict(
    config.bert_config(size.vocab_size)
  )
  runner = pretraining.build_estimator(
    bert_config,
    training_config.TrainConfig(
      output_dir=config.output_dir,
      train_batch_size=size.train_batch_size,
      train_minutes=config.train_seconds / 60,
      **vars(config.compute),
    ),
  )
  records = pretraining_records.RecordFormat(
    config.max_seq_length, config.max_predictions_per_seq
  )
  batch = {
    name: tf.ones(
      [size.train_batch_size, *feature.shape],
      tf.float32 if feature.dtype.is_floating else tf.int32,
    )
    for name, feature in records.spec().items()
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
  config: pipeline_config.PipelineConfig, inputs: Sequence[sources.InputFile]
) -> str:
  """Writes corpus, vocabulary, records and config.

  Returns the paths of the training records, separated by commas.
  """
  num_shards = text_steps.num_shards(sum(map(text_steps.text_bytes, inputs)))
  output = text_config.Output(
    output_file=config.file("train.txt"),
    num_shards=num_shards,
    eval_output_file=config.file("held_out.txt"),
    eval_fraction=config.eval_fraction,
    random_seed=config.seed,
  )
  logging.info("Splitting the text into sentences.")
  counts = corpus_build.create(
    config.reading, inputs, output, config.num_workers, resume=True
  )
  vocab_file = config.file("vocab.txt")
  if not paths.exists(vocab_file):
    if config.initial_model:
      content = tokenizer_files.read_vocab(config.initial_model.vocab_file)
      atomic.write_bytes(vocab_file, content)
    else:
      logging.info("Learning the vocabulary.")
      text_steps.learn_vocabulary(config, output.files, vocab_file)
    text_steps.log_coverage(text_steps.measure_coverage(config))
  records = text_steps.train_record_config(
    config, vocab_file, counts["characters"]
  )
  logging.info("Writing the records.")
  train_records = pretraining_shards.create(
    records,
    output.files,
    config.file("train.tfrecord"),
    num_shards,
    min(config.num_workers, num_shards),
    resume=True,
  )
  pretraining_shards.create(
    text_steps.held_out_record_config(config, records),
    [config.file("held_out.txt")],
    config.file("held_out.tfrecord"),
    resume=True,
  )
  sizes = config.bert_config(len(tokenization.load_vocab(vocab_file)))
  atomic.write_lines(
    config.file("bert_config.json"), [json.dumps(sizes, indent=2)]
  )
  return ",".join(train_records.output_files)


def _train(
  config: pipeline_config.PipelineConfig,
  num_steps: int,
  train_files: str,
) -> dict[str, float | int] | None:
  """Trains and evaluates; returns the results, or None after a signal."""
  size, model = config.model_size, config.initial_model
  # Without a backward pass, a sequence costs a third of what training it does.
  cost = _MAX_EVAL_STEPS * _EVAL_BATCH_SIZE / (3 * size.train_batch_size)
  return pretraining.run(
    pretraining_config.PretrainingConfig(
      bert_config_file=config.file("bert_config.json"),
      vocab_file=config.file("vocab.txt"),
      input_file=train_files,
      eval_input_file=config.file("held_out.tfrecord"),
      max_seq_length=config.max_seq_length,
      max_predictions_per_seq=config.max_predictions_per_seq,
      do_train=True,
      do_eval=True,
      eval_batch_size=_EVAL_BATCH_SIZE,
      max_eval_steps=_MAX_EVAL_STEPS,
      masked_lm_prob=size.masked_lm_prob,
      no_nsp=size.no_nsp,
      initial_values=size.initial_values,
      train=training_config.PretrainingTrainConfig(
        init_checkpoint=model.weights if model else None,
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


def _export(config: pipeline_config.PipelineConfig) -> None:
  folder = os.path.join(config.output_dir, card.EXPORT_DIR)
  reader = checkpoints.CheckpointReader(config.output_dir)
  if checkpoints.is_saved_model(folder):
    exported = run_info.read_run(folder)
    step = int(reader.get(checkpoints.GLOBAL_STEP))
    if exported and exported.training.global_step == step:
      return
  export.run(
    export_config.ExportConfig(
      init_checkpoint=config.output_dir, export_dir=folder
    ),
    replaces=True,
  )
