"""Fine-tunes BERT to tag words, each with any number of labels.

python tag_words.py tag-words --data_dir=tags --model=bert --output_dir=tagger
"""

import dataclasses
import json

import numpy as np

from bert_tf import settings, task_registry
from bert_tf.checkpoint import run_info
from bert_tf.files import text_lines
from bert_tf.model import heads, losses
from bert_tf.tasks import base, config


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagConfig(config.FineTuningConfig):
  """The settings. Each one is a flag, like those of FineTuningConfig."""

  task = "tag_words"
  data_dir: str = settings.setting(help="Folder of the three files.")
  train_file: str = settings.setting("train.jsonl", "File to train on.")
  dev_file: str = settings.setting("dev.jsonl", "File to evaluate on.")
  test_file: str = settings.setting("test.jsonl", "File to predict.")


class TagModel(heads.TokenModel):
  """BERT with C logits at each position, one for each label."""

  task = TagConfig.task


class TagTask(base.Task):
  """Turns texts into inputs and targets, and logits into labels of words."""

  name = TagConfig.task
  metrics = ("micro_f1", "eval_loss", "loss")
  position_features = ("label_ids", "label_mask")
  loss_mask = "label_mask"

  def read(self, split):
    """Returns the rows of a file, a JSON object in each line."""
    path = self.files[split].path
    rows = [json.loads(line) for line in text_lines.read_lines(path)]
    for number, row in enumerate(rows, 1):
      words = row["text"].split()
      if len(row.get("label", words)) != len(words):
        raise ValueError(f"{path}:{number}: give each word a list of labels.")
    return rows

  def preprocess(self, rows):
    """Yields the input of each text, and the positions where words begin."""
    tokenizer = self.tokenizer
    for row in rows:
      words, ids, starts = row["text"].split(), [], []
      for word in words:
        starts.append(len(ids) + 1)  # [CLS] is at position 0.
        ids += tokenizer.tokenize_to_ids(word) or [tokenizer.vocab["[UNK]"]]
      state = words, [i for i in starts if i < self.max_seq_length - 1]
      yield base.Inputs([self.pack(ids)], state, is_cut=self.is_cut(ids))

  def targets(self, row, inputs):
    """Yields the labels, 0 or 1, and a mask of the positions that have them."""
    names, (_, starts) = self.labels.labels, inputs.state
    label_ids = np.zeros((self.max_seq_length, len(names)), int)
    label_mask = np.zeros(self.max_seq_length, int)
    label_mask[starts] = 1
    for start, labels in zip(starts, row.get("label", ())):
      label_ids[start] = [name in labels for name in names]
    yield {"label_ids": label_ids, "label_mask": label_mask}

  def compute_losses(self, outputs, features):
    """Returns the binary cross entropy at each position, and no accuracy."""
    label_ids, kind = features["label_ids"], run_info.MULTILABEL
    return losses.per_example_loss(outputs, label_ids, kind), None  # [B, F]

  def postprocess(self, inputs, outputs):
    """Returns the labels of each word that are more probable than not."""
    words, starts = inputs.state
    names = np.array(self.labels.labels)
    found = [names[row > 0].tolist() for row in outputs[0]["logits"][starts]]
    found += [[]] * (len(words) - len(found))  # The text was cut before them.
    return {"words": words, "labels": found}

  def score(self, rows, answers):
    """Returns the F1 of the labels of all words."""
    num_common = num_all = 0
    for row, answer in zip(rows, answers):
      for gold, found in zip(row["label"], answer["labels"]):
        num_common += len({*gold} & {*found})
        num_all += len(gold) + len(found)
    return {"micro_f1": 2 * num_common / max(1, num_all)}


TASK = task_registry.TaskSpec(
  name=TagConfig.task,
  model=TagModel,
  task=TagTask,
  label_defaults=(TagConfig.task, run_info.MULTILABEL),
  command="tag-words",
  config=TagConfig,
  help=__doc__,
)
task_registry.register(TASK)

if __name__ == "__main__":
  from bert_tf.cli import main

  main.run()
