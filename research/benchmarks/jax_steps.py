"""Times steps of bert_tf on JAX. A process of `benchmark.py train`.

Needs no TensorFlow. The Keras backend must be JAX.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import jax
import keras
from jax import numpy as jnp
from keras import ops

from bert_tf import modeling, optimization
from bert_tf.model import heads, losses
from bert_tf.modeling import Tensor
from research.benchmarks.peers import step_timing


class State(NamedTuple):
  """Values of all variables, in the order of the model and the optimizer."""

  trainable: list[jax.Array]
  untrainable: list[jax.Array]
  optimizer: list[jax.Array]


# From a state and a batch to the state after the step and the loss before it.
Step = Callable[[State, dict[str, Tensor]], tuple[State, jax.Array]]


def main() -> None:
  """Times the steps that the command-line argument describes."""
  step_timing.run(
    f"JAX {jax.__version__}, Keras {keras.__version__}",
    _training_step,
    _forward_step,
    _product,
    lambda: jax.devices()[0].memory_stats()["peak_bytes_in_use"],
  )


def _product(settings: step_timing.Settings) -> step_timing.Step:
  size = settings.product_size
  matrix = jnp.ones((size, size), settings.precision)
  multiply = jax.jit(lambda x: x @ x)
  return lambda: multiply(matrix).block_until_ready()


def _prepare(
  settings: step_timing.Settings,
) -> tuple[modeling.BertConfig, str | None]:
  """Returns the model's config and dtype policy; sets the precision of JAX."""
  if settings.device == "gpu" and jax.default_backend() != "gpu":
    sys.exit("JAX finds no GPU; for NVIDIA, run: pip install 'jax[cuda12]'")
  config = modeling.BertConfig(**settings.sizes, type_vocab_size=2)
  if settings.precision == "bfloat16":
    return config, "mixed_bfloat16"
  # On a GPU, JAX rounds inputs of products to TF32 by default; PyTorch doesn't.
  jax.config.update("jax_default_matmul_precision", "highest")
  return config, None


def training_step(
  model: heads.PretrainingModel,
  optimizer: keras.optimizers.Optimizer,
  seed: int,
) -> tuple[Step, State]:
  """Returns a pre-training step and its initial state.

  The step leaves the model's variables unchanged and reuses the memory of the
  state that it receives.

  Args:
    model: on the JAX backend.
    optimizer: built here, for the variables of the model.
    seed: seed of dropout.
  """
  optimizer.build(model.trainable_variables)
  counter = [v is optimizer.iterations for v in optimizer.variables].index(True)

  def compute_loss(
    trainable: list[jax.Array],
    untrainable: list[jax.Array],
    features: dict[str, Tensor],
    seeds: Tensor,
  ) -> jax.Array:
    variables = model.trainable_variables + model.non_trainable_variables
    values = list(zip(variables, trainable + untrainable, strict=True))
    with keras.StatelessScope(values):
      with model.seed_generator.counted_from(seeds):
        sums = model.loss_sums(features, training=True)
      terms = losses.loss_from_sums(sums, features)
    return sum(total / weight for total, weight in terms.values())

  def step(
    state: State, features: dict[str, Tensor]
  ) -> tuple[State, jax.Array]:
    words = jnp.asarray([seed, state.optimizer[counter], 0])
    seeds = ops.cast(words, model.seed_generator.state.dtype)
    loss, gradients = jax.value_and_grad(compute_loss)(
      state.trainable, state.untrainable, features, seeds
    )
    trainable, variables = optimizer.stateless_apply(
      state.optimizer, gradients, state.trainable
    )
    return State(trainable, state.untrainable, variables), loss

  # Copies the values, since the step reuses the memory of its input.
  state = jax.tree.map(
    lambda variable: jnp.array(variable.value, copy=True),
    State(
      model.trainable_variables,
      model.non_trainable_variables,
      optimizer.variables,
    ),
  )
  return jax.jit(step, donate_argnums=0), state


def _training_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns a function that computes the next step of a new model."""
  config, policy = _prepare(settings)
  step, state = training_step(
    heads.PretrainingModel(config, dtype=policy),
    optimization.create_optimizer(1e-4, 10_000, 100),
    seed=12345,
  )
  features = jax.device_put(settings.batch())

  def take_step() -> float:
    nonlocal state
    state, loss = step(state, features)
    return float(loss)

  return take_step


def _forward_step(settings: step_timing.Settings) -> step_timing.Step:
  """Returns the encoder's forward pass, without dropout."""
  config, policy = _prepare(settings)
  model = modeling.BertModel(config, dtype=policy)
  batch = settings.batch()
  names = ("input_ids", "input_mask", "segment_ids")
  features = jax.device_put({name: batch[name] for name in names})

  @jax.jit
  def encode(variables: list[jax.Array]) -> jax.Array:
    output, _ = model.stateless_call(variables, untrainable, features)
    return output.sequence_output

  variables = [v.value for v in model.trainable_variables]
  untrainable = [v.value for v in model.non_trainable_variables]
  return lambda: encode(variables).block_until_ready()


if __name__ == "__main__":
  main()
