"""Predicts masked words, and pre-trains, from Python.

filler = bert_tf.MaskFiller(
  "uncased/bert_config.json", "uncased/vocab.txt",
  init_checkpoint="uncased/bert_model.ckpt",
)
filler.predict("The capital of France is [MASK].")[0][0].token
"""

import dataclasses
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_tf import model_folder, tokenization
from bert_tf.data import config as data_config
from bert_tf.data import pretraining_shards
from bert_tf.files import atomic
from bert_tf.inference import inputs as inputs_lib
from bert_tf.inference import task_model
from bert_tf.model_folder import letter_case, run_folder, run_info
from bert_tf.tasks import base, pretraining, pretraining_config
from bert_tf.training import config as training_config

# A text of one sentence a line, or a list of sentences.
Document = str | Sequence[str]


@dataclasses.dataclass(frozen=True)
class Prediction:
  """A word piece predicted for a mask."""

  token: str
  probability: float  # Softmax over the whole vocabulary.


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Config:
  """Settings for creating records and for pre-training on them."""

  data: data_config.PretrainingDataConfig
  run: pretraining_config.PretrainingConfig


class MaskFiller(task_model.TaskModel):
  """A BERT that predicts masked words and can be pre-trained on documents.

  A row is a text with one or more "[MASK]". `predict` returns for each mask the
  `top_k` (default 5) Predictions, the best first. `predict_proba` returns their
  probabilities, [masks, top_k]. For the arguments see TaskModel.
  """

  task = "pretraining"

  def fit(
    self,
    inputs: Iterable[Document],
    validation_data: Iterable[Document] | None = None,
    **changes: Any,
  ) -> base.Results:
    """Pre-trains on documents; checkpoints and results go to output_dir.

    Args:
      inputs: two or more documents, each a text of one sentence a line or a
        list of sentences. Random next sentences come from other documents.
      validation_data: documents to evaluate on, as in FineTunedModel.fit.
      **changes: settings of create_pretraining_data.py and run_pretraining.py
        by name, such as max_seq_length, dupe_factor, num_train_steps,
        num_warmup_steps, train_batch_size, learning_rate.

    Returns:
      The results on validation_data of the checkpoint that predicts; {} without
      validation_data.

    Raises:
      ValueError: if documents and settings do not match, or output_dir has a
        run.
      TypeError: for an unknown setting.
    """
    self._prepare_fit(changes, validation_data is not None)
    return self._best(self._run(inputs, validation_data))

  def evaluate(self, inputs: Iterable[Document]) -> base.Results:
    """Returns the trained checkpoint's results on documents, as in `fit`."""
    self._trained()
    return self._run(None, inputs)

  def score(self, inputs: Iterable[Document]) -> float:
    """Returns the masked-LM accuracy on documents."""
    return float(self.evaluate(inputs)["masked_lm_accuracy"])

  def _row(self, index: int, row: Any) -> dict[str, Any]:
    texts = super()._row(index, row)
    check_has_mask(f"text of row {index}", texts["text"])
    return texts

  def _answer(self, answer: dict[str, Any]) -> list[list[Prediction]]:
    return [[Prediction(**p) for p in mask] for mask in answer["masks"]]

  def _probabilities(
    self, answer: Sequence[Sequence[Prediction]]
  ) -> list[list[float]]:
    return [[p.probability for p in mask] for mask in answer]

  def _defaults(self) -> _Config:
    return _Config(
      data=data_config.PretrainingDataConfig(vocab_file=""),
      run=pretraining_config.PretrainingConfig(
        bert_config_file="",
        input_file="",
        train=training_config.PretrainingTrainConfig(output_dir=""),
      ),
    )

  def _check_settings(self) -> None:
    config = self._settings({"do_train": True}).run
    pretraining.check(config)

  def _settings(self, changes: Mapping[str, Any]) -> Any:
    """Returns the settings for a run in output_dir.

    If the user gave no max_seq_length, the one in run.json applies.
    """
    info = run_info.read_run(self._output_dir) if self._output_dir else None
    is_given = "max_seq_length" in self._settings_given
    if info and info.max_seq_length and not is_given:
      changes = {"max_seq_length": info.max_seq_length, **changes}
    return super()._settings(changes)

  def _run(
    self,
    train: Iterable[Document] | None,
    dev: Iterable[Document] | None,
  ) -> base.Results:
    """Trains on `train` and evaluates on `dev`, if given."""
    run = run_folder.RunFolder(self._output_dir or "", "pretraining")
    with run.open_records_dir(train is not None) as records_dir:
      config = self._settings(
        {
          "input_file": os.path.join(records_dir, "train.tf_record"),
          "eval_input_file": os.path.join(records_dir, "eval.tf_record"),
          "do_train": train is not None,
          "do_eval": dev is not None,
        }
      )
      folder = _open_folder(config.run)
      pretraining.check(config.run)
      case = self._case(config.run, folder)
      data = dataclasses.replace(
        config.data,
        do_lower_case=case.do_lower_case is not False,
        strip_accents=case.strip_accents,
      )
      if train is not None:
        _write_records(train, data, config.run.input_file)
      if dev is not None:
        _write_records(dev, data, config.run.eval_input_file)
      return pretraining.run(config.run) or {}

  def _case(
    self,
    config: pretraining_config.PretrainingConfig,
    folder: run_folder.RunFolder,
  ) -> letter_case.Case:
    """Returns the letter case of the run.

    The user's settings must match the run.json of the run or, for a new run, of
    the initial checkpoint. If neither gives it, the vocabulary decides.
    """
    names = [field.name for field in dataclasses.fields(letter_case.Case)]
    case = {n: v for n, v in self._settings_given.items() if n in names}
    info, run_file = folder.info, folder.run_file
    start = config.train.init_checkpoint
    if info is None and start:
      model = model_folder.ModelFolder(start)
      info, run_file = model.run, model.run_file
    return letter_case.resolve(
      letter_case.Case(**case),
      letter_case.get_case(info),
      run_file,
      config.vocab_file,
    )


def check_has_mask(name: str, text: str) -> None:
  """Raises ValueError, with the name of the text, if it has no [MASK]."""
  if tokenization.MASK not in text:
    raise ValueError(
      f"{name} has no {tokenization.MASK}: {text!r:.60}; write it in place of "
      "the word to predict."
    )


def _open_folder(
  config: pretraining_config.PretrainingConfig,
) -> run_folder.RunFolder:
  return run_folder.RunFolder(config.train.output_dir, "pretraining")


def _write_records(
  documents: Iterable[Document],
  config: data_config.PretrainingDataConfig,
  path: str,
) -> None:
  """Writes pre-training records of documents; ValueError for a single text."""
  rows, is_single = inputs_lib.to_rows(documents)
  if is_single:
    raise ValueError("give a list of documents.")
  lines = []
  for index, document in enumerate(rows):
    if isinstance(document, Mapping):  # A row of a DataFrame.
      document = inputs_lib.only_text(index, document)
    name = f"document {index}"
    inputs_lib.check_texts(name, document, int(not isinstance(document, str)))
    if not isinstance(document, str):
      document = "\n".join(document)
    lines += [line for line in document.splitlines() if line.strip()] + [""]
  with tempfile.TemporaryDirectory() as folder:
    text_file = os.path.join(folder, "documents.txt")
    atomic.write_lines(text_file, lines)
    pretraining_shards.create(config, [text_file], path)
