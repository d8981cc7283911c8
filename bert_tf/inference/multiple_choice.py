"""Fine-tunes a multiple-choice model and predicts with it from Python.

model = bert_tf.MultipleChoice(
  "uncased/bert_config.json", "uncased/vocab.txt", "out",
  init_checkpoint="uncased/bert_model.ckpt",
)
model.fit([("It rained.", ["They got wet.", "They sang."]), ...], [0, ...])
model.predict(("It rained.", ["They got wet.", "They sang."])).choice
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.formats import tables
from bert_tf.inference import task_model
from bert_tf.tasks.swag import config as config_lib
from bert_tf.tasks.swag import examples
from bert_tf.tasks.swag import task as swag


@dataclasses.dataclass(frozen=True)
class Choice:
  """The predicted choice.

  Attributes:
    choice: index of the most probable choice.
    probabilities: probability of each choice.
  """

  choice: int
  probabilities: Sequence[float]


class MultipleChoice(task_model.FineTunedModel):
  """A BERT that chooses among texts.

  A row is a context and a list of choices; all rows of `fit` have the same
  number of choices. Its label is the index of the right choice; the setting
  label_type allows other labels, such as letters. `predict` returns a Choice.
  For the arguments see TaskModel.
  """

  task = config_lib.SwagConfig.task
  inputs = ("context", "choices")
  num_required = 2
  config_class = config_lib.SwagConfig
  task_class = swag.SwagTask
  without_files = {
    "data_dir": "",
    "task_name": "jsonl",
    "choice_columns": ("choices",),
  }

  def _answer(self, answer: dict[str, Any]) -> Choice:
    return Choice(**answer)

  def _examples(
    self,
    task: swag.SwagTask,
    split: str,
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[Any],
  ) -> list[examples.ChoiceExample]:
    data = []
    for index, (row, label) in enumerate(zip(rows, labels)):
      choices, count = tuple(row["choices"]), len(rows[0]["choices"])
      if not 2 <= len(choices) == count:
        raise ValueError(
          f"row {index} has {len(choices)} choices, row 0 has {count}."
        )
      try:
        right = examples.label_id(label, choices, task.layout.label_type)
      except tables.BadRowError as error:
        raise ValueError(f"row {index}: {error}.") from None
      data.append(
        examples.ChoiceExample(str(index), row["context"], "", choices, right)
      )
    return data
