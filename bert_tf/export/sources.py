"""A checkpoint and the files beside it, which say how texts become its input.

Whatever uses a trained model opens it here: exports, the Predictor and what
stands on it, the server.
"""

import dataclasses

from bert_tf import (
  checkpoints,
  letter_case,
  model_folder,
  modeling,
  settings,
  tokenization,
)
from bert_tf.export import config as configs
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.formats import run_info, tokenizer_files

# Settings that choose among a model's answers: the run's are only defaults.
_CHOOSE_ANSWERS = (
  "n_best_size",
  "max_answer_length",
  "null_score_diff_threshold",
)


@dataclasses.dataclass(frozen=True)
class Source:
  """A model that is opened."""

  files: model_folder.ModelFolder
  reader: checkpoints.CheckpointReader  # Of its weights.
  bert_config: modeling.BertConfig

  @property
  def run(self) -> run_info.RunInfo | None:
    """What is known of the run that the model comes from."""
    return self.files.run


def open_source(
  init_checkpoint: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
  needs_vocab: bool = True,
) -> Source:
  """Opens a model; arguments and errors as `model_folder.find`.

  Args:
    init_checkpoint: folder of the model or prefix of its checkpoint.
    bert_config_file: None for the one beside the checkpoint.
    vocab_file: None for the one beside the checkpoint.
    needs_vocab: whether it is an error if there is no vocabulary.
  """
  files = model_folder.find(init_checkpoint, bert_config_file, vocab_file)
  vocab_file = files.needed_vocab() if needs_vocab else None
  return Source(
    dataclasses.replace(files, vocab_file=vocab_file),
    checkpoints.CheckpointReader(files.weights),
    modeling.BertConfig.from_json_file(files.config_file),
  )


def tokenizer_of(
  source: Source, do_lower_case: bool | None, strip_accents: bool | None
) -> bert_tokenizer.BertTokenizer:
  """Returns the tokenizer of a source that has a vocabulary.

  Args:
    source: of the vocabulary.
    do_lower_case: None for what run.json says, else what the vocabulary shows.
    strip_accents: None for what run.json says, else as do_lower_case.

  Raises:
    ValueError: for a setting that contradicts run.json or the vocabulary, or
      a vocabulary of more tokens than the model has.
  """
  files = source.files
  assert files.vocab_file is not None
  tokenizer_files.warn_of_differing(files.vocab_file)
  vocab = tokenization.load_vocab(files.vocab_file)
  source.bert_config.check_vocab(
    len(vocab), files.vocab_file, files.config_file
  )
  case = letter_case.settle(
    letter_case.Case(do_lower_case, strip_accents),
    letter_case.of(source.run),
    files.run_file,
    files.vocab_file,
  )
  do_lower_case = case.do_lower_case is not False
  tokenization.validate_case_matches_checkpoint(
    do_lower_case, source.reader.path
  )
  return bert_tokenizer.BertTokenizer(vocab, do_lower_case, case.strip_accents)


def settled(
  source: Source, config: configs.ModelConfig, task: str
) -> configs.ModelConfig:
  """Returns a config whose settings left at None are those of the run.

  Settings of other tasks than the model's do not count.

  Raises:
    ValueError: for a setting that contradicts run.json.
  """
  is_same = source.run is not None and source.run.task == task
  saved = source.run.saved() if source.run and is_same else {}
  for name in _CHOOSE_ANSWERS:
    if getattr(config, name) is not None:
      saved.pop(name, None)
  return settings.settle(config, saved, source.files.run_file)
