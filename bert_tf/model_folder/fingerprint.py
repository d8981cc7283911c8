"""Identifies a model by a hash of its weights."""

from bert_tf import checkpoints
from bert_tf.files import paths
from bert_tf.formats import hugging_face


def hash_weights(path: str) -> str:
  """Returns a SHA-256 of a model's weights, in hexadecimal digits.

  Hashes only the index of a TensorFlow checkpoint, which has a checksum per
  tensor. Hashes all of a safetensors file, since it has no checksums.

  Raises:
    ValueError: if there is no such checkpoint.
  """
  weights = checkpoints.CheckpointReader(path).path
  if not weights.endswith(hugging_face.SUFFIX):
    weights = f"{checkpoints.prefix_to_read(weights)}.index"
  return paths.sha256(weights)
