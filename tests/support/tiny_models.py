"""Run folders of tiny models with random values."""

import json
import shutil

import keras
import numpy as np

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads
from tests.support import checkout

TINY = checkout.ROOT / "tests" / "golden" / "tiny"
CONFIG = modeling.BertConfig(
  vocab_size=500,
  hidden_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=32,
  max_position_embeddings=128,
  type_vocab_size=2,
  # Large, so that outputs of texts differ.
  initializer_range=0.5,
)

_TASK_LAYERS = ("output_weights", "choice_weights", "cls/squad/output_weights")


def widen(model):
  """Multiplies the output layer's weights by 25; returns the model."""
  for variable in model.trainable_variables:
    if variable.path in _TASK_LAYERS:
      variable.assign(variable * 25)
  return model


def write_run(folder, model, label_map=None, step=1):
  """Writes checkpoint, config, vocabulary and labels; returns the folder."""
  folder.mkdir(parents=True, exist_ok=True)
  values = {v.path: v.numpy() for v in model.weights if "seed" not in v.path}
  values[checkpoints.GLOBAL_STEP] = np.int64(step)
  checkpoints.write(str(folder / f"model.ckpt-{step}"), values)
  state = f'model_checkpoint_path: "model.ckpt-{step}"\n'
  state += f'all_model_checkpoint_paths: "model.ckpt-{step}"\n'
  (folder / "checkpoint").write_text(state)
  (folder / "bert_config.json").write_text(json.dumps(vars(CONFIG)))
  shutil.copy(TINY / "vocab.txt", folder / "vocab.txt")
  if label_map:
    (folder / "label_map.json").write_text(json.dumps(label_map))
  return folder


def write_classifier(folder):
  """Writes a classifier for texts and pairs; returns the folder."""
  keras.utils.set_random_seed(1)
  model = widen(heads.ClassifierModel(CONFIG, 3))
  # Markup, which every page that shows a label must escape.
  labels = {
    "task_name": "own data",
    "problem_type": "classification",
    "labels": ["good", "<b>bad</b>", "so so"],
  }
  return write_run(folder, model, labels)
