"""Fine-tunes BERT to tag words, each with any number of labels.

python tag_words.py tag-words --data_dir=tags --model=bert --output_dir=tagger
"""

import dataclasses
import json

import numpy as np

from bert_tf import heads, losses, settings
from bert_tf.data import input_pipeline
from bert_tf.files import text_lines
from bert_tf.model_folder import run_info
from bert_tf.tasks import base, config, fine_tuning, prediction, registry
from bert_tf.training import objective


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


def tag_loss(logits, features):
  """Returns the binary cross entropy of the labels as (sum, weight)."""
  label_ids, kind = features["label_ids"], run_info.MULTILABEL
  values = losses.per_example_loss(logits, label_ids, kind)  # [B, F]
  return {"token_loss": losses.token_sums(values, features)}


class TagAnswerer(prediction.Answerer):
  """Makes the model's input of a text, and labels of its logits."""

  def prepare(self, row):
    """Keeps the words, and the position of each one's first word piece."""
    words, ids, starts = row["text"].split(), [], []
    for word in words:
      starts.append(len(ids) + 1)  # [CLS] is at position 0.
      ids += self.tokenize(word) or [self.tokenizer.vocab["[UNK]"]]
    state = words, [i for i in starts if i < self.max_seq_length - 1]
    return prediction.Prepared([self.pack(ids)], state, self.is_cut(ids))

  def answer(self, prepared, outputs):
    """Returns the labels of each word that are more probable than not."""
    words, starts = prepared.state
    names = np.array(self.info.labels.labels)
    found = [names[row > 0].tolist() for row in outputs[0]["logits"][starts]]
    found += [[]] * (len(words) - len(found))  # The text was cut before them.
    return {"words": words, "labels": found}


class TagTask(base.Task):
  """Reads examples, encodes their labels, and scores predictions."""

  model = TagModel
  label_features = ("label_ids", "label_mask")
  result_names = ("micro_f1", "eval_loss", "loss")

  def read(self, split, path):
    """Returns the examples of a file, a JSON object in each line."""
    examples = [json.loads(line) for line in text_lines.read_lines(path)]
    for number, e in enumerate(examples, 1):
      if len(" ".join(e["words"]).split()) != len(e.get("labels", e["words"])):
        raise ValueError(f"{path}:{number}: give each word a list of labels.")
    return examples

  def inputs_and_answer(self, example):
    return {"text": " ".join(example["words"])}, example.get("labels")

  def label_values(self, example, prepared):
    """Returns the labels, C numbers for each position, and the positions."""
    names, (_, starts) = self.label_spec.labels, prepared.state
    label_ids = np.zeros((self.max_seq_length, len(names)), int)
    label_mask = np.zeros(self.max_seq_length, int)
    label_mask[starts] = 1
    for start, labels in zip(starts, example.get("labels", ())):
      label_ids[start] = [name in labels for name in names]
    return {"label_ids": label_ids.ravel(), "label_mask": label_mask}

  def spec(self, split):
    size, num_labels = self.max_seq_length, self.label_spec.num_outputs
    return input_pipeline.inputs_spec(size) | {
      "label_ids": input_pipeline.int_feature(size, num_labels),
      "label_mask": input_pipeline.int_feature(size),
    }

  def objective(self):
    return objective.Objective(tag_loss, losses.token_weights, tag_loss)

  def scores(self, data, rows):
    """Returns the F1 of the labels of all words."""
    num_common = num_all = 0
    for example, answer in zip(data, self.answers(data, rows)):
      for gold, found in zip(example["labels"], answer["labels"]):
        num_common += len({*gold} & {*found})
        num_all += len(gold) + len(found)
    return {"micro_f1": 2 * num_common / max(1, num_all)}


TASK = registry.TaskSpec(
  name=TagConfig.task,
  model=TagModel,
  answerer=TagAnswerer,
  label_defaults=(TagConfig.task, run_info.MULTILABEL),
  command="tag-words",
  config=TagConfig,
  run=lambda config: fine_tuning.run(config, TagTask),
  help=__doc__,
)
registry.register(TASK)

if __name__ == "__main__":
  from bert_tf.cli import main

  main.run()
