"""Names that configs and TensorFlow code share.

Configs offer these values as flags. Importing a config must not import
TensorFlow, which takes seconds, so this module imports nothing of the
package.
"""

from collections.abc import Collection, Sequence

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


def find_scope(names: Collection[str], anchors: Sequence[str]) -> str:
  """Returns what stands before the names of the only model in a file, or "".

  For instance `module.`. The model has one name that ends with an anchor; the
  first anchor that ends any of the names counts.
  """
  for anchor in anchors:
    scopes = [n.removesuffix(anchor) for n in names if n.endswith(anchor)]
    scopes = [scope for scope in scopes if scope[-1:] in ("", ".", "/")]
    if scopes:
      return scopes[0] if len(scopes) == 1 else ""
  return ""
