"""Pre-training steps on JAX, without TensorFlow.

python -m tests.research.benchmarks.jax_run BERT_CONFIG ARRAYS RESULTS

ARRAYS is an NPZ file with variables by path, and features with the prefix
"batch/". Writes the losses and the variables after NUM_STEPS steps to RESULTS.
"""

import sys

import numpy as np

from bert_tf import heads, modeling, optimization

NUM_STEPS, LEARNING_RATE, SEED = 4, 1e-3, 7


def main(config_file, arrays_file, results_file):
  # Imported here, since the test reads the numbers above without JAX.
  from research.benchmarks import jax_steps

  arrays = dict(np.load(arrays_file))
  model = heads.PretrainingModel(
    modeling.BertConfig.from_json_file(config_file)
  )
  for variable in model.trainable_variables:
    variable.assign(arrays[variable.path])
  optimizer = optimization.create_optimizer(LEARNING_RATE, NUM_STEPS, 2)
  step, state = jax_steps.training_step(model, optimizer, SEED)
  batch = {
    name.removeprefix("batch/"): value
    for name, value in arrays.items()
    if name.startswith("batch/")
  }
  losses = []
  for _ in range(NUM_STEPS):
    state, loss = step(state, batch)
    losses.append(float(loss))
  values = zip(model.trainable_variables, state.trainable, strict=True)
  results = {variable.path: np.asarray(value) for variable, value in values}
  assert "tensorflow" not in sys.modules
  np.savez(results_file, losses=losses, **results)


if __name__ == "__main__":
  main(*sys.argv[1:])
