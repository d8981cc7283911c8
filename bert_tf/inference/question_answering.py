"""Fine-tunes a question answerer and predicts with it from Python.

answerer = bert_tf.QuestionAnswerer(
  "bert_config.json", "vocab.txt", init_checkpoint="out/model.ckpt-10000"
)
answerer.predict(("Who wrote it?", "It was written by Ada in 1843.")).text
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.inference import inputs, task_model
from bert_tf.tasks.squad import config as config_lib
from bert_tf.tasks.squad import decoding, examples
from bert_tf.tasks.squad import task as squad


class QuestionAnswerer(task_model.FineTunedModel):
  """A BERT that finds answers to questions in texts.

  A row is a question and its context, of any length. Its label is one of:
    the answer, as written in the context;
    a dict of `text` and `answer_start` (in characters), if the answer occurs
      several times in the context;
    a list of all accepted answers, for evaluation;
    None or "" for no answer, with version_2_with_negative=True.

  `predict` returns a decoding.Answer. Its `text` is "" for no answer,
  `nbest` has the best answers with probabilities, and `null_odds`, for SQuAD
  2.0, is above 0 if "no answer" is more probable than the best answer. For the
  arguments see TaskModel.
  """

  task = config_lib.SquadConfig.task
  inputs = ("question", "context")
  num_required = 2
  config_class = config_lib.SquadConfig
  task_class = squad.SquadTask
  allows_no_label = True
  score_name = "f1"

  def _answer(self, answer: dict[str, Any]) -> decoding.Answer:
    nbest = tuple(
      decoding.Candidate(**{**item, "text": item["text"] or ""})
      for item in answer["nbest"]
    )
    return decoding.Answer(
      text=answer["answer"] or "",
      nbest=nbest,
      null_odds=answer.get("null_odds"),
      span_text=next((c.text for c in nbest if c.text), ""),
    )

  def _examples(
    self,
    task: squad.SquadTask,
    split: str,
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[Any],
  ) -> list[examples.SquadExample]:
    has_negatives = task.decoding_config.version_2_with_negative
    paragraphs = [
      {"context": row["context"], "qas": [_question(index, row, label)]}
      for index, (row, label) in enumerate(zip(rows, labels))
    ]
    for index, paragraph in enumerate(paragraphs):
      is_impossible = paragraph["qas"][0]["is_impossible"]
      if split == "train" and is_impossible and not has_negatives:
        raise ValueError(
          f"row {index} has no answer; set `version_2_with_negative`."
        )
    return examples.parse(
      {"data": [{"paragraphs": paragraphs}]},
      f"the {split} rows",
      is_training=split == "train",
      version_2_with_negative=has_negatives,
    )


def _question(index: int, row: Mapping[str, Any], label: Any) -> dict[str, Any]:
  starts: list[Any] = []
  if isinstance(label, Mapping):
    fields = {name: _as_list(label.get(name)) for name in label}
    label, starts = fields.get("text", []), fields.get("answer_start", [])
  texts = _as_list(label)
  if not all(isinstance(text, str) for text in texts):
    raise ValueError(f"the answer of row {index} is not a text: {label!r:.60}")
  starts = starts or [row["context"].find(text) for text in texts]
  if len(starts) != len(texts) or -1 in starts:
    raise ValueError(
      f"the answer of row {index} is not in its context: {label!r:.60}"
    )
  answers = [
    {"text": text, "answer_start": start} for text, start in zip(texts, starts)
  ]
  return {
    "id": str(index),
    "question": row["question"],
    "answers": answers,
    "is_impossible": not answers,
  }


def _as_list(value: Any) -> list[Any]:
  if value is None or isinstance(value, str):
    return [value] if value else []
  return inputs.as_list(value) if hasattr(value, "__iter__") else [value]
