"""Fine-tunes a named-entity recognizer and predicts with it from Python.

model = bert_tf.EntityRecognizer(
  "cased/bert_config.json", "cased/vocab.txt", "out",
  init_checkpoint="cased/bert_model.ckpt",
)
model.fit([["Ada", "left"], ...], [["B-PER", "O"], ...])
[word.label for word in model.predict("Ada left")]
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.inference import inputs, task_model
from bert_tf.tasks import base
from bert_tf.tasks.ner import config as config_lib
from bert_tf.tasks.ner import examples, metrics
from bert_tf.tasks.ner import task as ner


@dataclasses.dataclass(frozen=True)
class Word:
  """A word of a text and its label.

  Attributes:
    word: the word as written in the text.
    label: O, B-TYPE or I-TYPE.
    probability: probability of the label.
    start: index of the first character in the text.
    end: index after the last character.
  """

  word: str
  label: str
  probability: float
  start: int
  end: int


class EntityRecognizer(task_model.FineTunedModel):
  """A BERT named-entity recognizer, which labels the words of texts.

  A row is a text, split at white space, or a list of words. Its label is a list
  of tags, or tags separated by white space: O, B-TYPE and I-TYPE.

  `predict` returns a list of Words for each text. Evaluation needs the extra
  `ner`. For the arguments see TaskModel.
  """

  task = config_lib.NerConfig.task
  config_class = config_lib.NerConfig
  task_class = ner.NerTask
  score_name = "f1"

  def _row(self, index: int, row: Any) -> dict[str, Any]:
    words = row.get("text") if isinstance(row, Mapping) else row
    if isinstance(words, list | tuple):
      inputs.check_texts(f"row {index}", words, 1)
      # A tuple of one item may be a text: all classes accept a tuple of inputs.
      for word in words if len(words) > 1 else ():
        if len(word.split()) != 1:  # Each part would get its own label.
          raise ValueError(
            f"row {index} has a word that is empty or has white space: "
            f"{word!r:.60}"
          )
      row = " ".join(words)
    return super()._row(index, row)

  def _answer(self, answer: dict[str, Any]) -> list[Word]:
    return [Word(**word) for word in answer["words"]]

  def _make_task(
    self, setup: base.Setup[config_lib.NerConfig], *others: Any
  ) -> Any:
    if setup.config.do_eval:
      metrics.import_seqeval()  # Fails now rather than after training.
    return super()._make_task(setup, *others)

  def _examples(
    self,
    task: ner.NerTask,
    split: str,
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[Any],
  ) -> list[examples.Sentence]:
    sentences = []
    for index, (row, label) in enumerate(zip(rows, labels)):
      words = row["text"].split()
      tags = label.split() if isinstance(label, str) else label
      if not isinstance(tags, list | tuple) or len(tags) != len(words):
        raise ValueError(
          f"row {index} has {len(words)} words, its tags are {label!r:.60}"
        )
      for tag in tags:
        if not isinstance(tag, str) or not examples.is_tag(tag):
          raise ValueError(f"{tag!r} of row {index} is not a tag.")
      tags, spec = examples.to_iob2(tags), task.label_spec
      for tag in tags:
        if spec and tag not in spec.labels:
          raise ValueError(f"row {index}: {spec.unknown_label(tag)}.")
      sentences.append(examples.Sentence(tuple(words), tags, line=index + 1))
    return sentences
