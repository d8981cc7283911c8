"""Times steps of this project on JAX: a process of `benchmark.py train`.

Needs no TensorFlow; Keras' backend has to be JAX.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import jax
import keras
from jax import numpy as jnp
from keras import ops

from bert_tf import heads, losses, modeling, optimization
from bert_tf.modeling import Tensor
from research.benchmarks.peers import step_timing


class State(NamedTuple):
  """All variables' values, in the order of the model's and the optimizer's."""

  trainable: list[jax.Array]
  untrainable: list[jax.Array]
  optimizer: list[jax.Array]


# From a state and a batch to the state after the step, and the loss before it.
Step = Callable[[State, dict[str, Tensor]], tuple[State, jax.Array]]


def main() -> None:
  """Times the steps of one setting."""
  settings = step_timing.read_settings()
  if settings.device == "gpu" and jax.default_backend() != "gpu":
    sys.exit("JAX finds no GPU; one of NVIDIA needs: pip install 'jax[cuda12]'")
  if settings.precision == "float32":
    # As PyTorch: on a GPU JAX would round what it multiplies to TF32.
    jax.config.update("jax_default_matmul_precision", "highest")
  config = modeling.BertConfig(**settings.sizes, type_vocab_size=2)
  policy = "mixed_bfloat16" if settings.precision == "bfloat16" else None
  make = _training_step if settings.task == "train" else _forward_step
  size = step_timing.PRODUCT_SIZES[settings.device]
  matrix = jnp.ones((size, size), settings.precision)
  product = jax.jit(lambda x: x @ x)
  step_timing.report(
    settings,
    f"JAX {jax.__version__}, Keras {keras.__version__}",
    make(config, policy, settings),
    lambda: product(matrix).block_until_ready(),
    peak_of_gpu=_peak_bytes if settings.device == "gpu" else None,
  )


def _peak_bytes() -> int:
  """Returns the most memory of the GPU that was in use."""
  return jax.devices()[0].memory_stats()["peak_bytes_in_use"]


def training_step(
  model: heads.PretrainingModel,
  optimizer: optimization.AdamWeightDecayOptimizer,
  seed: int,
) -> tuple[Step, State]:
  """Returns a step of pre-training, and the values that it begins with.

  The step changes no variable of the model, and takes over the memory of the
  state that it is given.

  Args:
    model: on JAX.
    optimizer: of the model's variables; it is built here.
    seed: of dropout.
  """
  optimizer.build(model.trainable_variables)
  counter = [v is optimizer.iterations for v in optimizer.variables].index(True)

  def loss_of(
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
      found = losses.loss_from_sums(sums, features)
    return sum(total / weight for total, weight in found.values())

  def step(
    state: State, features: dict[str, Tensor]
  ) -> tuple[State, jax.Array]:
    words = jnp.asarray([seed, state.optimizer[counter], 0])
    seeds = ops.cast(words, model.seed_generator.state.dtype)
    loss, gradients = jax.value_and_grad(loss_of)(
      state.trainable, state.untrainable, features, seeds
    )
    trainable, variables = optimizer.stateless_apply(
      state.optimizer, gradients, state.trainable
    )
    return State(trainable, state.untrainable, variables), loss

  # Copies, since the memory of what the step takes is used again.
  state = jax.tree.map(
    lambda variable: jnp.array(variable.value, copy=True),
    State(
      model.trainable_variables,
      model.non_trainable_variables,
      optimizer.variables,
    ),
  )
  return jax.jit(step, donate_argnums=0), state


def _training_step(
  config: modeling.BertConfig,
  policy: str | None,
  settings: step_timing.Settings,
) -> Callable[[], object]:
  """Returns what takes the next step of a new model."""
  step, state = training_step(
    heads.PretrainingModel(config, dtype=policy),
    optimization.create_optimizer(1e-4, 10_000, 100),
    seed=12345,
  )
  features = jax.device_put(step_timing.batch_of(settings))

  def take_step() -> float:
    nonlocal state
    state, loss = step(state, features)
    return float(loss)

  return take_step


def _forward_step(
  config: modeling.BertConfig,
  policy: str | None,
  settings: step_timing.Settings,
) -> Callable[[], object]:
  """Returns the encoder's forward pass, without dropout."""
  model = modeling.BertModel(config, dtype=policy)
  batch = step_timing.batch_of(settings)
  names = ("input_ids", "input_mask", "segment_ids")
  features = jax.device_put({name: batch[name] for name in names})

  @jax.jit
  def run(variables: list[jax.Array]) -> jax.Array:
    output, _ = model.stateless_call(variables, untrainable, features)
    return output.sequence_output

  variables = [v.value for v in model.trainable_variables]
  untrainable = [v.value for v in model.non_trainable_variables]
  return lambda: run(variables).block_until_ready()


if __name__ == "__main__":
  main()
