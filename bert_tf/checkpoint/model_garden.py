"""Finds BERT in checkpoints of TF Model Garden's BertEncoderV2, as on TF Hub.

Such a checkpoint holds a graph of objects: attributes lead from object to
object, and the leaves are keys of tensors. This module uses the attributes'
names, so that tf-models-official need not be installed.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from tensorflow.core.protobuf import trackable_object_graph_pb2

# Attributes of a model that hold its encoder, and its heads.
_TO_ENCODER = ("encoder_network", "_network", "encoder")
_TO_HEADS = ("masked_lm", "classifier", "span_labeling")

# Paths of the embedding tables, by the original's names.
_TABLES = {
  "bert/embeddings/word_embeddings": "encoder/_embedding_layer/embeddings",
  "bert/embeddings/position_embeddings": (
    "encoder/_position_embedding_layer/embeddings"
  ),
  "bert/embeddings/token_type_embeddings": (
    "encoder/_type_embedding_layer/embeddings"
  ),
}
# Paths from an encoder layer, by the original's scopes.
_LAYER = {
  "attention/self/query": "_attention_layer/_query_dense",
  "attention/self/key": "_attention_layer/_key_dense",
  "attention/self/value": "_attention_layer/_value_dense",
  "attention/output/dense": "_attention_layer/_output_dense",
  "attention/output/LayerNorm": "_attention_layer_norm",
  "intermediate/dense": "_intermediate_dense",
  "output/dense": "_output_dense",
  "output/LayerNorm": "_output_layer_norm",
}
_SCOPES = {
  "bert/embeddings/LayerNorm/": "encoder/_embedding_norm_layer",
  "cls/predictions/transform/dense/": "model/masked_lm/dense",
  "cls/predictions/transform/LayerNorm/": "model/masked_lm/layer_norm",
}
# The heads' linear layers.
_OUTPUTS = {
  "cls/predictions/": "model/masked_lm",
  "cls/seq_relationship/": "model/classification_heads/0/out_proj",
  "cls/squad/": "model/span_labeling/layer_with_weights-0",
}
# If a head has a pooler of its own, that one is the original's pooler, and the
# encoder's is unused.
_ENCODER_POOLER = "encoder/_pooler_layer"
_HEAD_POOLERS = ("model/classification_heads/0/dense", "model/classifier/dense")
_TEXTS_HEAD = "model/classifier/out_proj"


class Place(NamedTuple):
  """Where a tensor of the original is in a checkpoint."""

  key: str
  # Its shape in the original. The values have the same order, unless they are
  # transposed.
  shape: tuple[int, ...]
  is_transposed: bool = False

  def to_original(self, value: np.ndarray) -> np.ndarray:
    """Converts the tensor of the checkpoint to the original's."""
    value = value.T if self.is_transposed else value.reshape(self.shape)
    return np.ascontiguousarray(value)


def find_places(
  graph: trackable_object_graph_pb2.TrackableObjectGraph,
  shapes: Mapping[str, tuple[int, ...]],
) -> tuple[dict[str, Place], bool]:
  """Finds an encoder and the heads of its model in a graph of objects.

  Args:
    graph: the graph; its first object is the root.
    shapes: the shapes of the tensors by key.

  Returns:
    The places by the original's names. Other tensors of the model have their
    keys as names. Without exactly one encoder, there are none. The second value
    is whether the model has a head that labels words.
  """
  edges = [
    {edge.local_name: edge.node_id for edge in node.children}
    for node in graph.nodes
  ]
  keys = [
    node.attributes[0].checkpoint_key if node.attributes else None
    for node in graph.nodes
  ]
  # Attributes that only an encoder has.
  own = {"_embedding_layer", "_transformer_layers"}
  encoders = [i for i, names in enumerate(edges) if own <= names.keys()]
  if len(encoders) != 1:
    return {}, False
  [encoder] = encoders
  models = [
    i
    for i, names in enumerate(edges)
    if names.keys() & {*_TO_HEADS} and encoder in map(names.get, _TO_ENCODER)
  ]
  # The root may also have attributes for parts of the model. The model has a
  # higher number.
  roots = {"encoder": encoder, "model": max(models, default=None)}

  def follow(path: str) -> int | None:
    first, *names = path.split("/")
    node = roots[first]
    for name in names:
      node = None if node is None else edges[node].get(name)
    return node

  def below(*nodes: int | None) -> set[int]:
    seen: set[int] = set()
    waiting = [node for node in nodes if node is not None]
    while waiting:
      node = waiting.pop()
      if node not in seen:
        seen.add(node)
        waiting.extend(edges[node].values())
    return {node for node in seen if keys[node]}

  poolers = [p for p in _HEAD_POOLERS if follow(p) is not None]
  pooler = poolers[0] if poolers else _ENCODER_POOLER
  is_of_texts = follow(_TEXTS_HEAD) is not None
  outputs = {**_OUTPUTS, "": _TEXTS_HEAD if is_of_texts else "model/classifier"}
  scopes = {**_SCOPES, "bert/pooler/dense/": pooler}
  for i in range(len(edges[edges[encoder]["_transformer_layers"]])):
    for scope, path in _LAYER.items():
      path = f"encoder/_transformer_layers/{i}/{path}"
      scopes[f"bert/encoder/layer_{i}/{scope}/"] = path
  nodes = {name: follow(path) for name, path in _TABLES.items()}
  for scope, path in (*scopes.items(), *outputs.items()):
    for end in ("kernel", "bias", "gamma", "beta"):
      name = scope + end
      if scope in outputs:
        name = scope + {"kernel": "output_weights"}.get(end, f"output_{end}")
      nodes[name] = follow(f"{path}/{end}")
  places = {}
  for name, node in nodes.items():
    if node is None or not keys[node]:
      continue
    key = str(keys[node])
    shape, is_transposed = tuple(shapes[key]), name.endswith("output_weights")
    # Without the axis of the attention heads.
    if "/attention/self/" in name:
      shape = (*shape[:-2], shape[-2] * shape[-1])
    elif name.endswith("/attention/output/dense/kernel"):
      shape = (shape[0] * shape[1], shape[2])
    elif is_transposed:
      shape = shape[::-1]
    places[name] = Place(key, shape, is_transposed)
  heads = (
    follow(f"model/{head}") for head in (*_TO_HEADS, "classification_heads")
  )
  others = below(encoder, *heads)
  others -= {node for node in nodes.values() if node is not None}
  if poolers:  # The model does not use the encoder's own pooler.
    others -= below(follow(_ENCODER_POOLER))
  for node in others:
    key = str(keys[node])
    places[key] = Place(key, tuple(shapes[key]))
  has_words = "output_weights" in places and not is_of_texts
  return places, has_words
