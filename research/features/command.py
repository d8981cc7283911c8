r"""Trains a BiLSTM on the word vectors of a frozen BERT.

python -m research.features.command --data_dir=conll --do_train --do_eval \
    --model=cased_L-12_H-768_A-12 --learning_rate=1e-3 --output_dir=out

Stores the vectors once in output_dir. All other flags are those of
bert-tf ner.
"""

import dataclasses

from bert_tf import task_registry
from bert_tf.cli import fine_tune
from research.features import config

if __name__ == "__main__":
  task = dataclasses.replace(
    task_registry.NER, config=config.FeaturesConfig, help=str(__doc__)
  )
  fine_tune.run(task, "research.features.task.run")
