"""The fine-tuning tasks as data, without TensorFlow."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.tasks import config as config_lib
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.swag import config as swag_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSpec:
  """What the rest of the package needs to know about a task.

  Attributes:
    command: the name of its command, as in `bert-tf COMMAND`.
    settings: the class of its settings, each of which becomes a flag.
    module: the dotted name of the module whose `run(config)` trains, evaluates
      and predicts. It needs TensorFlow, so it is imported when a run begins.
    answerer: the dotted name of the prediction.Answerer that turns texts into
      the model's inputs, and its outputs into answers. Imported when needed.
      "" for a task whose models are only used by its command.
    help: the command's text for --help. Its first line says what the task is.
    default_steps: the do_* settings that `bert-tf COMMAND` turns on if the user
      chooses no step.
    idle: tells which settings have no effect in a config, and what they do not
      apply to, by name. A user may not give them.
  """

  command: str
  settings: type[config_lib.FineTuningConfig]
  module: str
  help: str
  answerer: str = ""
  default_steps: tuple[str, ...] = ("do_train", "do_eval")
  idle: Callable[[Any], Mapping[str, str]] = lambda config: {}

  @property
  def name(self) -> str:
    """The task's name in run.json."""
    return self.settings.task


CLASSIFICATION = TaskSpec(
  command="classifier",
  settings=classification_config.ClassificationConfig,
  module="bert_tf.tasks.classification.task",
  answerer="bert_tf.tasks.classification.answers.TextAnswerer",
  help=r"""Fine-tunes BERT to classify texts or pairs of texts.

bert-tf classifier --data_file=reviews.csv --text_a_column=review \
    --label_column=stars --model=uncased_L-12_H-768_A-12 \
    --output_dir=out --do_train --do_eval
""",
  idle=classification_config.idle_settings,
)

SQUAD = TaskSpec(
  command="squad",
  settings=squad_config.SquadConfig,
  module="bert_tf.tasks.squad.task",
  answerer="bert_tf.tasks.squad.answers.SpanAnswerer",
  help=r"""Fine-tunes BERT to answer questions, as in SQuAD.

bert-tf squad --do_train --train_file=train-v1.1.json \
    --do_predict --predict_file=dev-v1.1.json \
    --model=uncased_L-12_H-768_A-12 --output_dir=out
""",
  default_steps=("do_train", "do_predict"),
)

NER = TaskSpec(
  command="ner",
  settings=ner_config.NerConfig,
  module="bert_tf.tasks.ner.task",
  answerer="bert_tf.tasks.ner.answers.WordAnswerer",
  help=r"""Fine-tunes BERT to recognize named entities.

bert-tf ner --data_dir=conll --model=cased_L-12_H-768_A-12 \
    --do_train --do_eval --do_predict --output_dir=out
""",
)

SWAG = TaskSpec(
  command="swag",
  settings=swag_config.SwagConfig,
  module="bert_tf.tasks.swag.task",
  answerer="bert_tf.tasks.swag.answers.ChoiceAnswerer",
  help=r"""Fine-tunes BERT on SWAG or other multiple choice.

bert-tf swag --data_dir=swag --do_train --do_eval \
    --model=uncased_L-12_H-768_A-12 --output_dir=out
""",
  idle=swag_config.idle_settings,
)

# By the task's name in run.json.
TASKS = {task.name: task for task in (CLASSIFICATION, SQUAD, NER, SWAG)}
