"""Corpus, vocabulary and records that all runs share.

Each file is created when it is first needed.
"""

import dataclasses
import itertools
import json
import os
from typing import Any

from absl import logging

from bert_tf import tokenization
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import masking, pretraining_shards
from bert_tf.files import atomic, json_files, paths
from bert_tf.pipeline import stages
from bert_tf.text import corpus, corpus_build, text_config
from research import rows
from research.ablations import config as config_lib
from research.ablations import runs

# All runs use the same documents, instances and held-out masks.
_SEED = 12345


class Text:
  """Corpus, vocabulary and records of a text.

  Args:
    config: the text, its format and the scale.
    folder: folder of the created files.
  """

  def __init__(self, config: config_lib.AblationsConfig, folder: str) -> None:
    scale = config.chosen_scale
    self._num_workers = config.num_workers
    self._folder = folder
    self.vocab_file = os.path.join(folder, "vocab.txt")
    self._output = text_config.Output(
      output_file=os.path.join(folder, "train.txt"),
      eval_output_file=os.path.join(folder, "held_out.txt"),
      eval_fraction=scale.eval_fraction,
      random_seed=_SEED,
    )
    inputs = corpus_build.find_files(
      str(config.text), config.reading, text_config.TEXT
    )
    if not paths.exists(self._output.report_file):
      corpus_build.build_corpus(
        config.reading, inputs, self._output, self._num_workers
      )
    if not paths.exists(self.vocab_file):
      stages.learn_vocabulary(
        self._output.output_file,
        self.vocab_file,
        scale.base.vocab_size,
        tokenization.BasicTokenizer(),
      )
    names = [self._output.output_file, str(self._output.eval_output_file)]
    self.hashes = {
      os.path.basename(path): rows.file_hash(path)
      for path in [*names, self.vocab_file]
    }

  @property
  def vocab_size(self) -> int:
    """The number of vocabulary entries."""
    return len(tokenization.load_vocab(self.vocab_file))

  def records(self, pretraining: runs.Pretraining) -> tuple[str, float]:
    """Returns the training records of a pre-training.

    Returns:
      The value of run_pretraining's input_file, and the mean number of word
      pieces in a record, without padding.
    """
    settings = dataclasses.replace(
      self._settings(pretraining, is_masked=pretraining.is_static),
      dupe_factor=pretraining.dupe_factor,
      pack_sequences=pretraining.is_packed,
    )
    text_file = self._sample_documents(pretraining.text_share)
    files, counts = self._create(text_file, settings)
    return files, counts["tokens"] / max(1, counts["records"])

  def held_out(self, pretraining: runs.Pretraining) -> str:
    """Returns the files of the records that a pre-training is evaluated on.

    All masked LMs are evaluated at the same masked positions, with the usual
    80/10/10 split, so that their losses are comparable.
    """
    usual = dataclasses.replace(
      pretraining, mask_prob=0.8, random_prob=0.1, do_whole_word_mask=False
    )
    settings = self._settings(usual, is_masked=pretraining.objective == "mlm")
    files, _ = self._create(str(self._output.eval_output_file), settings)
    return files

  def _settings(
    self, pretraining: runs.Pretraining, is_masked: bool
  ) -> PretrainingDataConfig:
    """Returns the settings of record creation."""
    # Unmasked records do not depend on the masking.
    masking_config = masking.MaskingConfig()
    if is_masked:
      masking_config = masking.MaskingConfig(
        max_predictions_per_seq=pretraining.max_predictions_per_seq,
        do_whole_word_mask=pretraining.do_whole_word_mask,
        mask_prob=pretraining.mask_prob,
        random_prob=pretraining.random_prob,
        keep_prob=pretraining.keep_prob,
      )
    return PretrainingDataConfig(
      vocab_file=self.vocab_file,
      max_seq_length=pretraining.max_seq_length,
      random_seed=_SEED,
      dupe_factor=1,
      no_nsp=pretraining.no_nsp,
      mask=is_masked,
      masking_config=masking_config,
    )

  def _create(
    self, text_file: str, settings: PretrainingDataConfig
  ) -> tuple[str, dict[str, int]]:
    """Returns record files and their counts; creates missing ones."""
    values = json.loads(json.dumps(dataclasses.asdict(settings)))
    del values["vocab_file"]
    name = os.path.basename(text_file).removesuffix(".txt")
    stem = os.path.join(self._folder, f"{name}-{rows.digest(values)}")
    count_file = f"{stem}.counts.json"
    if paths.exists(count_file):
      counts = json_files.read_object(count_file)
      return counts["files"].replace("FOLDER", self._folder), counts
    logging.info("Creating %s.tfrecord.", stem)
    num_shards = stages.num_shards(text_file)
    summary = pretraining_shards.create(
      settings,
      [text_file],
      f"{stem}.tfrecord",
      num_shards,
      min(self._num_workers, num_shards),
    )
    files = ",".join(summary.output_files)
    new_counts: dict[str, Any] = {
      "files": files.replace(self._folder, "FOLDER"),
      "records": summary.counts.num_records,
      "tokens": summary.counts.num_tokens,
    }
    atomic.write_lines(count_file, [json.dumps(new_counts)])
    return files, new_counts

  def _sample_documents(self, fraction: float) -> str:
    """Returns a file with that fraction of the documents, at least two."""
    all_documents = self._output.output_file
    if fraction >= 1:
      return all_documents
    path = os.path.join(self._folder, f"train_{fraction:g}.txt")
    if not paths.exists(path):
      # `_SEED` would select the documents that are already held out.
      selected = (
        document
        for document in corpus.read_documents([all_documents])
        if corpus.is_held_out(document, fraction, _SEED + 1)
      )
      first = list(itertools.islice(selected, 2))
      if len(first) < 2:
        first = list(
          itertools.islice(corpus.read_documents([all_documents]), 2)
        )
      corpus.write_documents(path, itertools.chain(first, selected))
    return path
