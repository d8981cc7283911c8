"""Reads and creates the object graph of a `tf.train.Checkpoint`."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf import checkpoints, model_folder


class Graph:
  """The objects of a checkpoint, by number; 0 is the root.

  Attributes:
    path: prefix of the checkpoint.
    edges: for each object, the numbers of other objects by attribute.
    keys: for each object, the key of its tensor; None without a tensor.

  Raises:
    ValueError: if the checkpoint is missing, damaged or has no graph.
  """

  def __init__(self, path: str) -> None:
    self._reader = checkpoints.CheckpointReader(model_folder.find_weights(path))
    self.path = path = self._reader.path
    if checkpoints.OBJECT_GRAPH not in self._reader.shapes:
      raise ValueError(
        f"{path} is not an object-based checkpoint, such as Model Garden's; "
        "the original's checkpoints need `from=original`."
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
    """Returns the tensor of an object."""
    key = self.keys[node]
    assert key is not None, "the object holds no tensor"
    return self._reader.get(key)

  def with_edges(self, names: Sequence[str]) -> list[int]:
    """Returns the objects that have all these attributes."""
    return [
      node
      for node, edges in enumerate(self.edges)
      if all(name in edges for name in names)
    ]

  def follow(self, roots: Mapping[str, int | None], path: str) -> int | None:
    """Returns the object at the end of a path such as a/b; None without one."""
    first, *names = path.split("/")
    node = roots[first]
    for name in names:
      node = None if node is None else self.edges[node].get(name)
    return node

  def tensors_below(self, nodes: Iterable[int | None]) -> set[int]:
    """Returns the objects with tensors among `nodes` and all below them."""
    seen, waiting = set(), [node for node in nodes if node is not None]
    while waiting:
      node = waiting.pop()
      if node not in seen:
        seen.add(node)
        waiting.extend(self.edges[node].values())
    return {node for node in seen if self.keys[node]}


def attach(root: tf.Module, path: str, variable: tf.Variable) -> None:
  """Sets the attribute at a path below an object; creates missing objects."""
  *names, last = path.split("/")
  for name in names:
    if not hasattr(root, name):
      setattr(root, name, tf.Module())
    root = getattr(root, name)
  setattr(root, last, variable)
