"""Names that configs and TensorFlow code share.

Configs offer these values as flags. Importing a config must not import
TensorFlow, which takes seconds, so this module imports nothing of the
package.
"""

# Keras' dtype policy for each precision (layers/mixed_precision.py). TF32 is no
# type of tensors: GPUs round the factors of float32 products to it.
TF32 = "tf32"
PRECISIONS = {
  "float32": "float32",
  TF32: "float32",
  "bfloat16": "mixed_bfloat16",
  "float16": "mixed_float16",
}

# Kinds of distribution strategies (distribution.py).
DISTRIBUTIONS = ("auto", "one", "mirrored", "multi_worker", "tpu")
AUTO, ONE_DEVICE, MIRRORED, MULTI_WORKER, TPU = DISTRIBUTIONS

# The end of a message about a call that only the original's modules know.
OLD_NAMES = (
  "Python code for TensorFlow 1 has to be rewritten: docs/old_names.md says "
  "what each name became."
)
