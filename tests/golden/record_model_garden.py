"""Records checkpoints and outputs of small models of TF Model Garden.

Needs `pip install 'bert_tf[models]'`; writes into the folder model_garden
beside this file.
"""

import os
import pathlib
import sys

import numpy as np
import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers, models, networks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.support import interop_models  # noqa: E402

FOLDER = pathlib.Path(__file__).parent / "model_garden"
SIZES = interop_models.CONFIG


def new_encoder():
  """A BertEncoderV2 of the sizes of the tests, built."""
  encoder = networks.BertEncoderV2(
    vocab_size=SIZES.vocab_size,
    hidden_size=SIZES.hidden_size,
    num_layers=SIZES.num_hidden_layers,
    num_attention_heads=SIZES.num_attention_heads,
    max_sequence_length=SIZES.max_position_embeddings,
    type_vocab_size=SIZES.type_vocab_size,
    inner_dim=SIZES.intermediate_size,
  )
  encoder(encoder.inputs)
  return encoder


def new_model(kind):
  """The model for one of interop_models.KINDS, built, and its encoder."""
  encoder = new_encoder()
  if kind == "encoder":
    return encoder, encoder
  if kind == "pretraining":
    head = layers.ClassificationHead(
      inner_dim=SIZES.hidden_size, num_classes=2, name="next_sentence"
    )
    model = models.BertPretrainerV2(
      encoder,
      mlm_activation=lambda x: tf_keras.activations.gelu(x, approximate=True),
      classification_heads=[head],
    )
  elif kind == "classifier":
    model = models.BertClassifier(encoder, interop_models.LABELS)
  elif kind == "token":
    model = models.BertTokenClassifier(encoder, interop_models.LABELS)
  else:
    model = models.BertSpanLabeler(encoder)
  model(model.inputs)
  return model, encoder


def outputs(model, kind):
  """Returns a model's outputs for the two texts, by this project's names."""
  features = {
    "input_word_ids": interop_models.IDS,
    "input_mask": interop_models.MASK,
    "input_type_ids": interop_models.SEGMENTS,
  }
  if kind == "pretraining":
    features["masked_lm_positions"] = interop_models.POSITIONS
  output = model(features, training=False)
  if kind in ("classifier", "token"):
    output = output if kind == "classifier" else output["logits"]
    return {"logits": output.numpy()}
  names = {
    "encoder": {
      "sequence_output": "sequence_output",
      "pooled_output": "pooled_output",
    },
    "pretraining": {
      "masked_lm_logits": "mlm_logits",
      "next_sentence_logits": "next_sentence",
    },
    "span": {"start_logits": 0, "end_logits": 1},
  }[kind]
  return {ours: output[theirs].numpy() for ours, theirs in names.items()}


def main():
  """Saves each kind as Model Garden's own trainers do, with its outputs."""
  FOLDER.mkdir(exist_ok=True)
  rng = np.random.default_rng(5)
  for kind in ("encoder", "pretraining", "classifier", "token", "span"):
    model, _ = new_model(kind)
    for variable in model.trainable_variables:
      values = rng.normal(size=variable.shape) * 0.5
      variable.assign(values.astype(np.float32))
    checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(3))
    checkpoint.write(str(FOLDER / kind))
    np.savez(FOLDER / f"{kind}.npz", **outputs(model, kind))


if __name__ == "__main__":
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  main()
