"""A directory with tiny models, and runs of tasks on files in it."""

import json
import pathlib
import shutil
from typing import NamedTuple

import keras

from bert_tf import modeling
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import masking, pretraining_shards
from bert_tf.model import heads
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.pretraining import pretraining, pretraining_config
from bert_tf.tasks.squad import config as squad_config
from bert_tf.training import config as training_config
from tests.support import tiny_models

CONFIG = tiny_models.CONFIG
VOCAB_FILE = str(tiny_models.TINY / "vocab.txt")
TEXTS = "text,label\na,0\nb,1\nc,0\nd,1\n"


def write_models(folder: pathlib.Path) -> pathlib.Path:
  """Writes the models that worlds share; returns their folder."""
  keras.utils.set_random_seed(1)
  tiny_models.write_classifier(folder / "classifier")
  model = heads.PretrainingModel(CONFIG)
  for step in (1, 2):
    tiny_models.write_run(folder / "pretraining", model, step=step)
  tiny_models.write_run(folder / "encoder", modeling.BertModel(CONFIG))
  return folder


class World(NamedTuple):
  """A working directory, and the tiny models that tests share.

  A run reads files of this directory, starts from a random model unless
  `init_checkpoint` is given, and writes to the directory "out".
  """

  folder: pathlib.Path
  models: pathlib.Path

  def path(self, name: str) -> str:
    return str(self.folder / name)

  def write(self, name: str, content: str | bytes) -> str:
    """Writes a file in the folder; returns its path."""
    path = self.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
      content if isinstance(content, bytes) else content.encode()
    )
    return str(path)

  def model(self, name: str) -> str:
    """The folder of a shared model, which must not be changed."""
    return str(self.models / name)

  def copy(self, name: str, *without: str) -> str:
    """Copies a shared model without some of its files."""
    target, ignored = self.folder / name, shutil.ignore_patterns(*without)
    shutil.copytree(self.models / name, target, ignore=ignored)
    return str(target)

  def config_file(self, **changes):
    values = {**vars(CONFIG), **changes}
    del values["unknown"]
    return self.write("config.json", json.dumps(values))

  def configure(self, config_class, train=None, **values):
    """The config of a run of the tiny encoder, in the folder "out"."""
    train = {"output_dir": self.path("out"), "use_xla": False, **(train or {})}
    values.setdefault(
      "bert_config_file", self.model("encoder") + "/bert_config.json"
    )
    train_class = training_config.FineTuningTrainConfig
    if config_class is pretraining_config.PretrainingConfig:
      train_class = training_config.PretrainingTrainConfig
      train = {"num_train_steps": 2, "num_warmup_steps": 0, **train}
    else:
      values.setdefault("vocab_file", VOCAB_FILE)
    return config_class(
      **values, train=train_class(train_batch_size=4, **train)
    )

  def classify(self, files=None, train=None, **values):
    """Runs classification on CSV files; by default, it trains."""
    files = {"train.csv": TEXTS, "dev.csv": TEXTS} | (files or {})
    for name, content in files.items():
      self.write(name, content)
    values = {
      "data_dir": str(self.folder),
      "task_name": "csv",
      "max_seq_length": 16,
      "do_train": True,
      **values,
    }
    config_class = classification_config.ClassificationConfig
    return fine_tuning.run(self.configure(config_class, train, **values))

  def evaluate(self, train=None, **values):
    self.classify(None, train, do_train=False, do_eval=True, **values)

  def tag(self, train="a B-X\nb O\n", dev="a B-X\n", **values):
    """Runs NER on files of words and tags."""
    self.write("train.txt", train)
    self.write("dev.txt", dev)
    values = {"do_train": True, "do_eval": True, "max_seq_length": 16, **values}
    folder = str(self.folder)
    fine_tuning.run(
      self.configure(ner_config.NerConfig, data_dir=folder, **values)
    )

  def squad_file(self, *starts, name="data.json"):
    """Writes questions whose answers start at characters of "a boat"."""
    answers = [{"text": "boat", "answer_start": start} for start in starts]
    question = {"id": "q", "question": "What?", "answers": answers}
    paragraph = {"context": "a boat", "qas": [question]}
    data = [{"title": "t", "paragraphs": [paragraph]}]
    return self.write(name, json.dumps({"version": "1", "data": data}))

  def answer(self, train=None, **values):
    """Runs SQuAD; by default, it trains."""
    sizes = {"max_seq_length": 100, "doc_stride": 16}
    values = {"do_train": True, **sizes, **values}
    fine_tuning.run(self.configure(squad_config.SquadConfig, train, **values))

  def text(self, documents=8):
    lines = (f"the sea is old .\na boat is {i} .\n\n" for i in range(documents))
    return self.write("text.txt", "".join(lines))

  def records(
    self, name="data", documents=8, num_shards=1, resume=False, **values
  ):
    """Writes pre-training records of a small text; returns their path."""
    values = {
      "vocab_file": VOCAB_FILE,
      "max_seq_length": 16,
      "dupe_factor": 1,
      "masking_config": masking.MaskingConfig(max_predictions_per_seq=2),
      **values,
    }
    config = PretrainingDataConfig(**values)
    path, target = self.text(documents), self.path(name)
    pretraining_shards.create(config, [path], target, num_shards, resume=resume)
    return target

  def unmasked(self):
    return self.records("unmasked", mask=False)

  def pretrain(self, input_file=None, train=None, **values):
    """Pre-trains on records, by default those of `records`."""
    values = {
      "input_file": input_file or self.records(),
      "max_seq_length": 16,
      "max_predictions_per_seq": 2,
      "do_train": True,
      **values,
    }
    config_class = pretraining_config.PretrainingConfig
    pretraining.run(self.configure(config_class, train, **values))
