"""Reads and writes TF Model Garden's format, checkpoints of its BertEncoderV2.

Such a checkpoint holds a graph of objects: attributes lead from object to
object, and the leaves are keys of tensors. This module uses the attributes'
names, so that tf-models-official need not be installed.
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.checkpoint.convert import pretrained
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.model import heads, hugging_face_config

# Attributes that only an encoder has.
_ENCODER_EDGES = ("_embedding_layer", "_transformer_layers")

# Attributes of a model that hold its encoder, and its heads.
_TO_ENCODER = ("encoder_network", "_network", "encoder")
_TO_HEADS = ("masked_lm", "classifier", "span_labeling")
_MORE_HEADS = heads.NEXT_SENTENCE.model_garden

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
  "bert/embeddings/LayerNorm": "encoder/_embedding_norm_layer",
  "cls/predictions/transform/dense": "model/masked_lm/dense",
  "cls/predictions/transform/LayerNorm": "model/masked_lm/layer_norm",
  "cls/predictions": "model/masked_lm",
  "cls/seq_relationship": "model/classification_heads/0/out_proj",
  "cls/squad": "model/span_labeling/layer_with_weights-0",
}
# If a head has a pooler of its own, that one is the original's pooler, and the
# encoder's is unused.
_POOLER = "bert/pooler/dense"
_ENCODER_POOLER = "encoder/_pooler_layer"
_HEAD_POOLERS = ("model/classification_heads/0/dense", "model/classifier/dense")
_TEXTS_HEAD = "model/classifier/out_proj"
_WORDS_HEAD = "model/classifier"

# Last parts of paths, by the original's name, if the two differ.
_ENDS = {"output_weights": "kernel", "output_bias": "bias"}


class Graph:
  """The objects of a checkpoint, by number; 0 is the root.

  For each object, `edges` are the numbers of other objects by attribute, and
  `keys` the key of its tensor, None without one.
  """

  def __init__(self, path: str) -> None:
    self.path = path
    # The prefix, since the reader of a SavedModel's folder has other names.
    prefix = str(checkpoints.prefix_to_read(path))
    self._reader = checkpoints.CheckpointReader(prefix)
    if checkpoints.OBJECT_GRAPH not in self._reader.shapes:
      raise ValueError(
        f"{path} is not an object-based checkpoint. If it is one of the "
        "original, use `from=original`."
      )
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
      self._reader.get(checkpoints.OBJECT_GRAPH)
    )
    self.edges = [
      {edge.local_name: edge.node_id for edge in node.children}
      for node in graph.nodes
    ]
    self.keys = [
      node.attributes[0].checkpoint_key if node.attributes else None
      for node in graph.nodes
    ]

  def tensor(self, node: int) -> np.ndarray:
    """The tensor of an object."""
    return self._reader.get(str(self.keys[node]))

  def with_edges(self, *names: str) -> list[int]:
    """The objects that have all these attributes."""
    return [n for n, edges in enumerate(self.edges) if edges.keys() >= {*names}]

  def follow(self, roots: Mapping[str, int | None], path: str) -> int | None:
    """The object at the end of a path such as a/b; None without one."""
    first, *names = path.split("/")
    node = roots[first]
    for name in names:
      node = None if node is None else self.edges[node].get(name)
    return node

  def tensors_below(self, nodes: Iterable[int | None]) -> set[int]:
    """The objects with tensors among `nodes` and all below them."""
    seen, waiting = set(), [node for node in nodes if node is not None]
    while waiting:
      node = waiting.pop()
      if node not in seen:
        seen.add(node)
        waiting.extend(self.edges[node].values())
    return {node for node in seen if self.keys[node]}


@dataclasses.dataclass(frozen=True)
class _Layout:
  """The places of the original's tensors in a checkpoint.

  There, the tensors of attention have an axis for heads, and output_weights are
  transposed.
  """

  config: modeling.BertConfig
  own_heads: tuple[heads.Head, ...]
  pooler: str = _ENCODER_POOLER  # Path of the original's pooler.
  output_head: str = _TEXTS_HEAD  # Path of the head for labels.

  def place(self, name: str, shape: pretrained.Shape) -> pretrained.Place:
    """The place of a tensor: a path from the encoder or the model."""
    scope, _, end = name.rpartition("/")
    num_heads = self.config.num_attention_heads
    split = (num_heads, self.config.hidden_size // num_heads)
    if "/attention/self/" in scope:
      shape = (*shape[:-1], *split)
    elif scope.endswith("/attention/output/dense") and end == "kernel":
      shape = (*split, shape[-1])
    elif end == "output_weights":
      shape = shape[::-1]
    if match := re.fullmatch(r"bert/encoder/layer_(\d+)/(.+)", scope):
      base = f"encoder/_transformer_layers/{match[1]}/{_LAYER[match[2]]}"
    else:
      own = {"": self.output_head, _POOLER: self.pooler, **_SCOPES}
      base = own.get(scope, "")
    path = _TABLES.get(name) or f"{base}/{_ENDS.get(end, end)}"
    return pretrained.Place(path, shape, is_transposed=end == "output_weights")


def read(files: ModelFolder) -> pretrained.Pretrained:
  """Reads an encoder in a `tf.train.Checkpoint` or, as TF Hub's, SavedModel."""
  graph = Graph(str(files.weights))
  encoders = graph.with_edges(*_ENCODER_EDGES)
  if len(encoders) != 1:
    raise ValueError(
      f"{graph.path} must have one encoder of Model Garden's BERT, but has "
      f"{len(encoders)}."
    )
  models = [
    node
    for head in _TO_HEADS
    for node in graph.with_edges(head)
    if any(graph.edges[node].get(name) == encoders[0] for name in _TO_ENCODER)
  ]
  # The root may also have attributes for parts of the model. The model has a
  # higher number.
  roots = {"encoder": encoders[0], "model": max(models, default=None)}
  layout = _layout(graph, roots, files.config)
  bias = graph.follow(roots, f"{layout.output_head}/bias")
  num_labels = 0 if bias is None else len(graph.tensor(bias))
  shapes = pretrained.compute_shapes(files.config, layout.own_heads, num_labels)
  # The tensors by path; those that BERT does not have, by key.
  places = [layout.place(name, shape).name for name, shape in shapes.items()]
  nodes = {path: graph.follow(roots, path) for path in places}
  found = {p: n for p, n in nodes.items() if n is not None and graph.keys[n]}
  heads_there = (f"model/{head}" for head in (*_TO_HEADS, _MORE_HEADS))
  parts = [graph.follow(roots, path) for path in ("encoder", *heads_there)]
  others = graph.tensors_below(parts) - {*found.values()}
  if layout.pooler != _ENCODER_POOLER:
    # The model does not use the encoder's own pooler.
    others -= graph.tensors_below([graph.follow(roots, _ENCODER_POOLER)])
  found |= {str(graph.keys[node]): node for node in others}
  tensors = pretrained.collect_tensors(
    {name: graph.tensor(node) for name, node in found.items()},
    shapes,
    graph.path,
    layout.place,
  )
  run = files.saved
  kind = heads.find_model(layout.own_heads, run.task if run else None)
  task = kind.task if kind else "encoder"
  if run is None or run.task != task:
    labels = None
    if heads.WORD_LABELS in layout.own_heads:
      names = hugging_face_config.numbered_labels(num_labels)
      labels = run_info.LabelSpec("ner", run_info.WORDS, names)
    run = run_info.RunInfo(task=task, labels=labels)
  return pretrained.build(files, run, tensors)


def _layout(
  graph: Graph, roots: Mapping[str, int | None], config: modeling.BertConfig
) -> _Layout:
  model = roots["model"]
  edges = {} if model is None else graph.edges[model]
  more_heads = edges.get(_MORE_HEADS)
  has_next_sentence = more_heads is not None and graph.edges[more_heads]
  poolers = [p for p in _HEAD_POOLERS if graph.follow(roots, p) is not None]
  is_of_texts = graph.follow(roots, _TEXTS_HEAD) is not None
  labels = heads.TEXT_LABELS if is_of_texts else heads.WORD_LABELS
  known = (heads.MASKED_LM, heads.NEXT_SENTENCE, heads.SPAN, labels)
  return _Layout(
    config,
    own_heads=tuple(
      head
      for head in known
      if head.model_garden in edges
      and (head.model_garden != _MORE_HEADS or has_next_sentence)
    ),
    pooler=poolers[0] if poolers else _ENCODER_POOLER,
    output_head=_TEXTS_HEAD if is_of_texts else _WORDS_HEAD,
  )


def write(model: pretrained.Pretrained, path: str) -> None:
  """Writes a checkpoint for Model Garden's model with the same heads.

  `tf.train.Checkpoint(encoder=...)` reads the encoder, and `(model=...)` a
  BertPretrainerV2, BertClassifier, BertTokenClassifier or BertSpanLabeler.
  Without heads, the model is the encoder too.
  """
  own_heads = model.own_heads
  single = (heads.MASKED_LM, heads.SPAN, heads.TEXT_LABELS, heads.WORD_LABELS)
  known = ((), heads.PretrainingModel.heads, *((head,) for head in single))
  if own_heads not in known:
    names = ", ".join(head.name for head in own_heads)
    raise ValueError(f"no model of Model Garden has exactly the heads {names}.")
  if (epsilon := model.config.layer_norm_eps) != 1e-12:
    raise ValueError(
      f"layer_norm_eps is {epsilon}, but Model Garden's encoder has 1e-12."
    )
  pretrained.write_files(os.path.dirname(path) or ".", model)
  checkpoints.write_atomically(path, _root(model).write)
  hidden_act = model.config.hidden_act
  if hidden_act != "gelu":  # Model Garden's default.
    logging.warning(
      "The checkpoint does not store the activation, so give BertEncoderV2 "
      f"{hidden_act!r} as its inner_activation."
    )


def _root(model: pretrained.Pretrained) -> tf.train.Checkpoint:
  of_words = heads.WORD_LABELS in model.own_heads
  layout = _Layout(
    model.config,
    model.own_heads,
    output_head=_WORDS_HEAD if of_words else _TEXTS_HEAD,
  )
  roots = tf.Module()
  for name, value in model.tensors.items():
    place = layout.place(name, value.shape)
    variable = tf.Variable(place.from_original(value))
    attach(roots, place.name, variable)
  encoder = roots.encoder
  if not model.own_heads:
    return tf.train.Checkpoint(encoder=encoder, model=encoder)
  is_pretrainer = heads.MASKED_LM in model.own_heads
  setattr(
    roots.model, "encoder_network" if is_pretrainer else "_network", encoder
  )
  objects = {"encoder": encoder, "model": roots.model}
  if is_pretrainer:
    objects["masked_lm"] = roots.model.masked_lm
    table = encoder._embedding_layer.embeddings
    roots.model.masked_lm.embedding_table = table
  if heads.NEXT_SENTENCE in model.own_heads:
    for end in ("kernel", "bias"):
      variable = tf.Variable(model.tensors[f"{_POOLER}/{end}"])
      attach(roots, f"{_HEAD_POOLERS[0]}/{end}", variable)
    # Model Garden's fine-tuning reads the pooler by this name.
    head = getattr(roots.model.classification_heads, "0")
    objects["next_sentence.pooler_dense"] = head.dense
  return tf.train.Checkpoint(**objects)


def attach(root: tf.Module, path: str, variable: tf.Variable) -> None:
  """Sets the attribute at a path below an object."""
  *names, last = path.split("/")
  for name in names:
    if not hasattr(root, name):
      setattr(root, name, tf.Module())
    root = getattr(root, name)
  setattr(root, last, variable)
