"""The text that all runs share: corpus, vocabulary and records.

Each is made when it is first needed, and kept.
"""

import dataclasses
import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

from absl import logging

from bert_tf import tokenization
from bert_tf.corpora import corpus, corpus_build, sources, text_config
from bert_tf.data import config as data_config
from bert_tf.data import masking, pretraining_shards
from bert_tf.files import atomic, json_files, paths
from bert_tf.pipeline import config as pipeline_config
from bert_tf.pipeline import text_steps
from research.ablations import config as config_lib
from research.ablations import runs

# All runs are of the same documents, instances and held-out masks.
_SEED = 12345


@dataclasses.dataclass(frozen=True)
class Records:
  """TFRecords to train on."""

  files: str  # As run_pretraining takes them.
  pieces_per_record: float  # Word pieces in one, without padding.


class Text:
  """Corpus, vocabulary and records of one text.

  Args:
    config: names the text.
    folder: where they are kept.

  Raises:
    ValueError: if the text cannot be read.
  """

  def __init__(self, config: config_lib.AblationsConfig, folder: str) -> None:
    scale = config.chosen_scale
    self._scale = scale
    self._num_workers = config.num_workers
    self._folder = folder
    self._pipeline = pipeline_config.PipelineConfig(
      text=str(config.text),
      output_dir=folder,
      train_minutes=1.0,  # Is not used.
      reading=config.reading,
      vocab_size=scale.base.vocab_size,
      seed=_SEED,
    )
    self.vocab_file = os.path.join(folder, "vocab.txt")
    self._output = corpus_build.Output(
      output_file=os.path.join(folder, "train.txt"),
      eval_output_file=os.path.join(folder, "held_out.txt"),
      eval_fraction=scale.eval_fraction,
      random_seed=_SEED,
    )
    self._prepare(config)
    names = [*self._output.files, str(self._output.eval_output_file)]
    self.hashes = {
      os.path.basename(path): file_hash(path)
      for path in [*names, self.vocab_file]
    }

  def _prepare(self, config: config_lib.AblationsConfig) -> None:
    """Makes the corpus and the vocabulary."""
    inputs = sources.find(str(config.text), config.reading, text_config.TEXT)
    sources.check_packages(inputs)
    corpus_build.create(
      config.reading, inputs, self._output, self._num_workers, resume=True
    )
    if not paths.exists(self.vocab_file):
      text_steps.learn_vocabulary(
        self._pipeline, self._output.files, self.vocab_file
      )

  @property
  def vocab_size(self) -> int:
    """The entries of the vocabulary."""
    return len(tokenization.load_vocab(self.vocab_file))

  def records(self, pretraining: runs.Pretraining) -> Records:
    """Returns the records of a pre-training."""
    settings = dataclasses.replace(
      self._settings(pretraining, is_masked=pretraining.is_static),
      dupe_factor=pretraining.dupe_factor,
      pack_sequences=pretraining.is_packed,
    )
    files, counts = self._create(self._share(pretraining.text_share), settings)
    return Records(files, counts["tokens"] / max(1, counts["records"]))

  def held_out(self, pretraining: runs.Pretraining) -> str:
    """Returns the records that a pre-training is evaluated on.

    Those of masked LMs are masked when they are made, in the same places and
    by the usual split for all of them.
    """
    usual = dataclasses.replace(
      pretraining, mask_prob=0.8, random_prob=0.1, do_whole_word_mask=False
    )
    settings = self._settings(usual, is_masked=pretraining.objective == "mlm")
    files, _ = self._create(str(self._output.eval_output_file), settings)
    return files

  def _settings(
    self, pretraining: runs.Pretraining, is_masked: bool
  ) -> data_config.PretrainingDataConfig:
    """Returns how text becomes instances."""
    mask, random = pretraining.mask_prob, pretraining.random_prob
    masked = masking.MaskingConfig(
      max_predictions_per_seq=pretraining.max_predictions_per_seq,
      do_whole_word_mask=pretraining.do_whole_word_mask,
      mask_prob=mask,
      random_prob=random,
      keep_prob=round(1 - mask - random, 6),
    )
    return data_config.PretrainingDataConfig(
      vocab_file=self.vocab_file,
      max_seq_length=pretraining.max_seq_length,
      random_seed=_SEED,
      dupe_factor=1,
      no_nsp=pretraining.no_nsp,
      mask=is_masked,
      # What is not masked yet does not depend on how it will be.
      masking_config=masked if is_masked else masking.MaskingConfig(),
    )

  def _create(
    self, text_file: str, settings: data_config.PretrainingDataConfig
  ) -> tuple[str, dict[str, int]]:
    """Makes records unless they are there; returns files and counts."""
    values = json.loads(json.dumps(dataclasses.asdict(settings)))
    del values["vocab_file"]
    name = os.path.basename(text_file).removesuffix(".txt")
    stem = os.path.join(self._folder, f"{name}-{runs.digest(values)}")
    count_file = f"{stem}.counts.json"
    if paths.exists(count_file):
      kept = json_files.read_object(count_file)
      return kept["files"].replace("FOLDER", self._folder), kept
    logging.info("Making %s.tfrecord.", stem)
    num_shards = text_steps.num_shards(paths.num_bytes(text_file))
    made = pretraining_shards.create(
      settings,
      [text_file],
      f"{stem}.tfrecord",
      num_shards,
      min(self._num_workers, num_shards),
    )
    files = ",".join(made.output_files)
    counts: dict[str, Any] = {
      "files": files.replace(self._folder, "FOLDER"),
      "records": made.counts.num_records,
      "tokens": made.counts.num_tokens,
    }
    atomic.write_lines(count_file, [json.dumps(counts)])
    return files, counts

  def _share(self, share: float) -> str:
    """Returns a file with a share of the training documents."""
    whole = self._output.output_file
    if share >= 1:
      return whole
    path = os.path.join(self._folder, f"train_{share:g}.txt")
    if not paths.exists(path):
      corpus.write_documents(path, self._some(whole, share))
    return path

  def _some(self, path: str, share: float) -> Iterator[list[str]]:
    """Yields the documents of a share, at least two."""
    # Another seed than that of the documents that were held out.
    found = (
      document
      for document in corpus.documents([path])
      if corpus.is_held_out(document, share, _SEED + 1)
    )
    taken = list(itertools.islice(found, 2))
    if len(taken) < 2:
      taken = list(itertools.islice(corpus.documents([path]), 2))
    yield from taken
    yield from found


def file_hash(path: str) -> str:
  """Returns the beginning of a file's SHA-256."""
  return paths.sha256(path)[:16]
