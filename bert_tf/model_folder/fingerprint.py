"""Identifies a model by a hash of its weights."""

import hashlib

import numpy as np

from bert_tf import checkpoint_names, checkpoints
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


def hash_encoder(path: str) -> str:
  """Returns a SHA-256 of an encoder's weights, in hexadecimal digits.

  The hash is that of the values, so it is the same for a checkpoint, a copy
  without optimizer state and a converted model. It leaves out the pooler and
  the heads.

  Raises:
    ValueError: if there is no such checkpoint, or a value is not finite.
  """
  reader = checkpoints.CheckpointReader(path)
  digest = hashlib.sha256()
  for name in checkpoint_names.parameters(reader.shapes):
    if name.startswith("bert/") and not name.startswith("bert/pooler/"):
      digest.update(name.encode())
      values = np.ascontiguousarray(reader.get(name), np.float32)
      digest.update(values.tobytes())
  return digest.hexdigest()
