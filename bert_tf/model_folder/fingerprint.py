"""Recognizes a model by its weights."""

from bert_tf import checkpoints
from bert_tf.files import paths
from bert_tf.formats import hugging_face


def hash_weights(path: str) -> str:
  """Returns a hash of weights in hexadecimal digits.

  Hashes the index of a checkpoint, which has a checksum per tensor. A
  safetensors file has no checksums, so the whole file is hashed.

  Raises:
    ValueError: if there is no such checkpoint.
  """
  weights = checkpoints.CheckpointReader(path).path
  if not weights.endswith(hugging_face.SUFFIX):
    weights = f"{checkpoints.prefix_to_read(weights)}.index"
  return paths.sha256(weights)
