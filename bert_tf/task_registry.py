"""The tasks as data: what the rest of the package needs to know about each.

This module imports nothing of the package, so every folder may read it.
"""

import dataclasses
import importlib
from typing import Any

# A class or a function, or its dotted name, which is imported when needed: most
# of them need TensorFlow. "" for none.
Named = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSpec:
  """What the rest of the package needs to know about a task.

  Attributes:
    name: its name in run.json and --task.
    model: its heads.HeadModel; "" for models without a head.
    task: the tasks.base.Task that turns rows into the model's inputs, and its
      outputs into answers.
    text_signatures: makes the functions on texts of a SavedModel, by name, from
      a saved_models.NamedModel, an export.text.BertTokenizer and a RunInfo. ""
      for a task whose SavedModels take only ids.
    hugging_face: Hugging Face's classes of such models.
    label_defaults: the task_name and problem_type of labels whose files do not
      tell them; None for a task without labels.
    command: the name of its command, as in `bert-tf COMMAND`; "" if it is not
      fine-tuned.
    settings: the class of the settings that run.json keeps.
    config: the class of all settings of its command, each of which becomes a
      flag; a subclass of `settings`.
    help: the command's text for --help. Its first line says what the task is.
    default_steps: the do_* settings that `bert-tf COMMAND` turns on if the user
      chooses no step.
  """

  name: str
  model: Named = ""
  task: Named = ""
  text_signatures: Named = ""
  hugging_face: tuple[str, ...] = ()
  label_defaults: tuple[str, str] | None = None
  command: str = ""
  settings: Named = "bert_tf.tasks.config.TaskSettings"
  config: Named = ""
  help: str = ""
  default_steps: tuple[str, ...] = ("do_train", "do_eval")


def load(named: Named) -> Any:
  """Returns a class or function, imported if its name is given; None for ""."""
  if not isinstance(named, str):
    return named
  module, _, name = named.rpartition(".")
  return getattr(importlib.import_module(module), name) if module else None


def find(task: str) -> TaskSpec:
  """Returns the task with a name; raises ValueError if nobody registered it."""
  if task not in TASKS:
    raise ValueError(
      f"There is no task {task!r}, only {', '.join(TASKS)}. If it is a task of "
      "your own, import the file that registers it."
    )
  return TASKS[task]


def settings_class(task: Any) -> Any:
  """Returns the class of a task's settings, also of an unknown task."""
  return load(TASKS[task].settings if task in TASKS else TaskSpec.settings)


PRETRAINING = TaskSpec(
  name="pretraining",
  model="bert_tf.model.heads.PretrainingModel",
  task="bert_tf.tasks.pretraining.masked_lm.MaskedLmTask",
  settings="bert_tf.tasks.config.MaskedLmSettings",
  hugging_face=("BertForPreTraining", "BertForMaskedLM"),
)

CLASSIFICATION = TaskSpec(
  name="classification",
  model="bert_tf.model.heads.ClassifierModel",
  task="bert_tf.tasks.classification.task.ClassificationTask",
  text_signatures="bert_tf.export.text.classifier_signatures",
  hugging_face=("BertForSequenceClassification",),
  label_defaults=("own data", "classification"),
  command="classifier",
  settings="bert_tf.tasks.classification.config.ClassificationSettings",
  config="bert_tf.tasks.classification.config.ClassificationConfig",
  help=r"""Fine-tunes BERT to classify texts or pairs of texts.

bert-tf classifier --data_file=reviews.csv --text_a_column=review \
    --label_column=stars --model=uncased_L-12_H-768_A-12 \
    --output_dir=out --do_train --do_eval
""",
)

SQUAD = TaskSpec(
  name="squad",
  model="bert_tf.model.heads.SpanModel",
  task="bert_tf.tasks.squad.task.SquadTask",
  hugging_face=("BertForQuestionAnswering",),
  command="squad",
  settings="bert_tf.tasks.squad.config.SquadSettings",
  config="bert_tf.tasks.squad.config.SquadConfig",
  help=r"""Fine-tunes BERT to answer questions, as in SQuAD.

bert-tf squad --do_train --train_file=train-v1.1.json \
    --do_predict --predict_file=dev-v1.1.json \
    --model=uncased_L-12_H-768_A-12 --output_dir=out
""",
  default_steps=("do_train", "do_predict"),
)

NER = TaskSpec(
  name="ner",
  model="bert_tf.model.heads.TokenModel",
  task="bert_tf.tasks.ner.task.NerTask",
  hugging_face=("BertForTokenClassification",),
  label_defaults=("ner", "words"),
  command="ner",
  settings="bert_tf.tasks.ner.config.NerSettings",
  config="bert_tf.tasks.ner.config.NerConfig",
  help=r"""Fine-tunes BERT to recognize named entities.

bert-tf ner --data_dir=conll --model=cased_L-12_H-768_A-12 \
    --do_train --do_eval --do_predict --output_dir=out
""",
)

SWAG = TaskSpec(
  name="swag",
  model="bert_tf.model.heads.MultipleChoiceModel",
  task="bert_tf.tasks.swag.task.SwagTask",
  hugging_face=("BertForMultipleChoice",),
  command="swag",
  config="bert_tf.tasks.swag.config.SwagConfig",
  help=r"""Fine-tunes BERT on SWAG or other multiple choice.

bert-tf swag --data_dir=swag --do_train --do_eval \
    --model=uncased_L-12_H-768_A-12 --output_dir=out
""",
)

# BERT without a head: TF Hub's interface, and vectors of texts.
ENCODER = TaskSpec(
  name="encoder",
  task="bert_tf.tasks.encoder.task.EncoderTask",
  settings="bert_tf.tasks.config.EncoderSettings",
  text_signatures="bert_tf.export.text.encoder_signatures",
  command="vectors",
  config="bert_tf.tasks.encoder.config.VectorsConfig",
  help=r"""Trains BERT to compute vectors of texts, to search and compare with.

bert-tf vectors --data_file=questions.csv --text_a_column=question \
    --text_b_column=answer --model=minilm --output_dir=out \
    --do_train --do_eval
""",
)

_ALL = (PRETRAINING, CLASSIFICATION, SQUAD, NER, SWAG, ENCODER)
TASKS = {task.name: task for task in _ALL}  # By name.


def register(task: TaskSpec) -> None:
  """Makes a task of your own known to commands, exports and the server."""
  TASKS[task.name] = task
