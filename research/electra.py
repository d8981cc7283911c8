r"""Replaced-token detection (ELECTRA: Clark et al. 2020, arXiv 2003.10555).

python -m research.electra --input_file=data.tfrecord --do_train --do_eval \
    --bert_config_file=bert_config.json --vocab_file=vocab.txt --output_dir=out

A small generator fills in the masked word pieces, and BERT, the discriminator,
tells for every piece whether the generator replaced it. All flags are those of
bert-tf pretrain. The run's folder can be fine-tuned: its `bert/` variables are
those of the discriminator.
"""

import dataclasses

import keras
import tensorflow as tf

from bert_tf import modeling
from bert_tf.cli import config_flags, devices, model_flags
from bert_tf.model import heads, losses
from bert_tf.tasks.pretraining import pretraining, pretraining_config
from bert_tf.training import objective

# The generator is a quarter as wide as the discriminator, whose loss weighs 50
# times as much (section 3.2 and appendix A).
_WIDTH_FRACTION = 4
_WEIGHT = 50.0


class ElectraModel(heads.HeadModel):
  """The discriminator, as `bert` with a head, and a generator beside it."""

  task = "pretraining"
  heads = ()
  reads_pooled_output = False

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(config)
    small = dataclasses.replace(
      config,
      hidden_size=config.hidden_size // _WIDTH_FRACTION,
      intermediate_size=config.intermediate_size // _WIDTH_FRACTION,
      num_attention_heads=max(1, config.num_attention_heads // _WIDTH_FRACTION),
    )
    with keras.name_scope("generator"):
      self.generator = heads.PretrainingModel(small)
    size = config.hidden_size
    self.hidden = keras.layers.Dense(size, "gelu", name="discriminator_dense")
    self.replaced = keras.layers.Dense(1, name="discriminator_prediction")
    self.hidden.build((None, size))
    self.replaced.build((None, size))

  def replace(self, features: losses.Features, training: bool) -> tuple:
    """Returns the generator's logits, and the text with its guesses.

    The guesses are drawn from its distribution, with the seeds of the step.
    """
    keys = self.seed_generator.draw_mask((), 0.0).keys
    with self.generator.seed_generator.counted_from(keys):
      logits = self.generator(features, training=training).masked_lm_logits
    seed = tf.bitcast(keys, tf.int32)
    uniform = tf.random.stateless_uniform(tf.shape(logits), seed, minval=1e-9)
    noise = -tf.math.log(-tf.math.log(uniform))
    guesses = tf.argmax(logits + noise, axis=-1, output_type=tf.int32)
    ids, positions = features["input_ids"], features["masked_lm_positions"]
    is_masked = features["masked_lm_weights"] > 0
    rows = tf.zeros_like(positions) + tf.range(tf.shape(ids)[0])[:, None]
    places = tf.stack([rows, positions], axis=-1)[is_masked]
    masked = features["masked_lm_ids"][is_masked]
    real = tf.tensor_scatter_nd_update(ids, places, masked)
    text = tf.tensor_scatter_nd_update(ids, places, guesses[is_masked])
    return logits, text, text != real

  def call(self, features: losses.Features, training: bool = False) -> tuple:
    """Returns the logits of both models, and which pieces were replaced."""
    logits, text, is_replaced = self.replace(features, training)
    inputs = {n: features[n] for n in ("input_mask", "segment_ids")}
    output = self.bert({**inputs, "input_ids": text}, training=training)
    scores = self.replaced(self.hidden(output.sequence_output))[..., 0]
    return logits, scores, is_replaced


@dataclasses.dataclass(frozen=True)
class ElectraObjective(objective.Objective):
  """The masked-LM loss of the generator and that of the discriminator."""

  metrics = ("masked_lm_loss", "replaced_loss", "replaced_accuracy", "loss")

  def build_model(self, config: modeling.BertConfig) -> ElectraModel:
    """Returns both models."""
    return ElectraModel(config)

  def weights(self, features: losses.Features, training: bool) -> dict:
    """Returns the numbers of masked pieces and of all pieces."""
    masked = tf.reduce_sum(features["masked_lm_weights"])
    pieces = tf.reduce_sum(tf.cast(features["input_mask"], tf.float32))
    return {"masked_lm_loss": masked, "replaced_loss": pieces}

  def loss_sums(
    self, model: ElectraModel, features: losses.Features, training: bool
  ) -> objective.BatchSums:
    """Returns the losses and metrics of a batch."""
    logits, scores, is_replaced = model(features, training=training)
    weights = self.weights(features, training)
    pieces = weights["replaced_loss"]
    each = losses.cross_entropy(logits, features["masked_lm_ids"])
    masked = tf.reduce_sum(each * features["masked_lm_weights"])
    is_piece = tf.cast(features["input_mask"], tf.float32)
    labels = tf.cast(is_replaced, tf.float32)
    binary = tf.nn.sigmoid_cross_entropy_with_logits(labels, scores)
    replaced = tf.reduce_sum(binary * is_piece)
    is_right = tf.cast((scores > 0) == is_replaced, tf.float32) * is_piece
    sums = {"masked_lm_loss": (masked, weights["masked_lm_loss"])}
    metrics = {**sums, "replaced_loss": (replaced, pieces)}
    metrics["replaced_accuracy"] = tf.reduce_sum(is_right), pieces
    sums["replaced_loss"] = _WEIGHT * replaced, pieces
    return objective.BatchSums(sums, metrics)

  def unused_variables(self, model: ElectraModel) -> list[keras.Variable]:
    """Returns the poolers, and the generator's head for next sentences."""
    generator = model.generator
    unused = (
      model.bert.pooler,
      generator.bert.pooler,
      generator.next_sentence_head,
    )
    return [v for layer in unused for v in layer.trainable_variables]


def _run() -> None:
  config = config_flags.build(
    pretraining_config.PretrainingConfig, **model_flags.init_checkpoint()
  )
  pretraining.run(config, objective=ElectraObjective())


if __name__ == "__main__":
  configs = (pretraining_config.PretrainingConfig, model_flags.ModelFlags)
  devices.run(_run, str(__doc__), *configs)
