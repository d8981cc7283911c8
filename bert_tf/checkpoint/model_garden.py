"""Finds BERT in checkpoints of TF Model Garden's BertEncoderV2, as on TF Hub.

Such a checkpoint holds a graph of objects: attributes lead from object to
object, and the leaves are keys of tensors. This module uses the attributes'
names, so that tf-models-official need not be installed.
"""

from collections.abc import Callable, Mapping

import numpy as np
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf.checkpoint.checkpoint_names import Tensors

# Attributes of a model that hold its encoder, and its heads.
_TO_ENCODER = ("encoder_network", "_network", "encoder")
_TO_HEADS = ("masked_lm", "classifier", "span_labeling")

# Paths of the embedding tables, by the ends of the original's names.
_TABLES = {
  "word_embeddings": "_embedding_layer",
  "position_embeddings": "_position_embedding_layer",
  "token_type_embeddings": "_type_embedding_layer",
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


def open_model(
  path: str,
  graph: trackable_object_graph_pb2.TrackableObjectGraph,
  shapes: Mapping[str, tuple[int, ...]],
  read: Callable[[str], np.ndarray],
) -> Tensors | None:
  """Opens an encoder and the heads of its model under the original's names.

  Other tensors of the model have their keys as names.

  Args:
    path: the checkpoint.
    graph: the objects in it; the first one is the root.
    shapes: the shapes of the tensors by key.
    read: reads the tensor of a key.

  Returns:
    The tensors; None unless there is exactly one encoder.
  """
  edges = [{e.local_name: e.node_id for e in n.children} for n in graph.nodes]
  keys = [
    node.attributes[0].checkpoint_key if node.attributes else ""
    for node in graph.nodes
  ]
  # Attributes that only an encoder has.
  own = {"_embedding_layer", "_transformer_layers"}
  encoders = [i for i, names in enumerate(edges) if own <= names.keys()]
  if len(encoders) != 1:
    return None
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

  def find_below(*paths: str) -> set[int]:
    seen: set[int] = set()
    waiting = [node for path in paths if (node := follow(path)) is not None]
    while waiting:
      node = waiting.pop()
      if node not in seen:
        seen.add(node)
        waiting.extend(edges[node].values())
    return {node for node in seen if keys[node]}

  poolers = [p for p in _HEAD_POOLERS if follow(p) is not None]
  is_of_texts = follow(_TEXTS_HEAD) is not None
  outputs = {**_OUTPUTS, "": _TEXTS_HEAD if is_of_texts else "model/classifier"}
  scopes = {**_SCOPES, "bert/pooler/dense/": (*poolers, _ENCODER_POOLER)[0]}
  for i in range(len(edges[edges[encoder]["_transformer_layers"]])):
    for scope, layer in _LAYER.items():
      layer = f"encoder/_transformer_layers/{i}/{layer}"
      scopes[f"bert/encoder/layer_{i}/{scope}/"] = layer
  places = {
    f"bert/embeddings/{name}": f"encoder/{table}/embeddings"
    for name, table in _TABLES.items()
  }
  for scope, layer in scopes.items():
    for end in ("kernel", "bias", "gamma", "beta"):
      places[scope + end] = f"{layer}/{end}"
  for scope, layer in outputs.items():
    places[f"{scope}output_weights"] = f"{layer}/kernel"
    places[f"{scope}output_bias"] = f"{layer}/bias"
  nodes = {name: follow(place) for name, place in places.items()}
  named = {n: keys[i] for n, i in nodes.items() if i is not None and keys[i]}
  model_shapes = {}
  for name, key in named.items():
    shape = shapes[key]
    # Without the axis of the attention heads.
    if "/attention/self/" in name:
      shape = (*shape[:-2], shape[-2] * shape[-1])
    elif name.endswith("/attention/output/dense/kernel"):
      shape = (shape[0] * shape[1], shape[2])
    elif name.endswith("output_weights"):
      shape = shape[::-1]
    model_shapes[name] = shape
  heads = (f"model/{head}" for head in (*_TO_HEADS, "classification_heads"))
  others = find_below("encoder", *heads) - {*nodes.values()}
  if poolers:  # The model does not use the encoder's own pooler.
    others -= find_below(_ENCODER_POOLER)
  for node in others:
    named[keys[node]], model_shapes[keys[node]] = keys[node], shapes[keys[node]]

  def get(name: str) -> np.ndarray:
    value = read(named[name])
    if name.endswith("output_weights"):
      return np.ascontiguousarray(value.T)
    return value.reshape(model_shapes[name])

  labels_words = "output_weights" in named and not is_of_texts
  return Tensors(
    path, model_shapes, get, "model_garden", labels_words=labels_words
  )
