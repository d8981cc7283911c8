"""Distribution over one device, several devices, several machines or a TPU.

A command enters the scope of the strategy that its flags name, and the library
uses the strategy of the current scope: one device outside of any scope.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import names
from bert_tf.files import errors, messages

# Task types of TF_CONFIG that train. The chief is task 0 of the first of these
# types in the cluster.
_WORKER_TYPES = ("chief", "worker")


class WorkerLostError(OSError):
  """Another process of the same run ended or cannot be reached."""


def create_strategy(
  distribution: str = names.AUTO,
  tpu_name: str | None = None,
  tpu_zone: str | None = None,
  gcp_project: str | None = None,
) -> tf.distribute.Strategy:
  """Returns a distribution strategy; call it before TensorFlow computations.

  Args:
    distribution: one of names.DISTRIBUTIONS. "mirrored" is all GPUs of this
      machine or, without GPUs, all its logical CPUs; "multi_worker" the
      machines of TF_CONFIG; "auto" a TPU with a name, mirrored with several
      GPUs, else one device.
    tpu_name: name or grpc:// address of a TPU, or "local" on a TPU machine;
      None for no TPU.
    tpu_zone: zone of the TPU; None to ask the machine's metadata.
    gcp_project: project of the TPU in Google Cloud; None as for the zone.

  Raises:
    ValueError: if distribution contradicts the name, the TPU does not answer,
      or TF_CONFIG is invalid.
    OSError: if the port of this worker in TF_CONFIG is in use.
  """
  if distribution == names.AUTO:
    several = len(tf.config.list_physical_devices("GPU")) > 1
    one_machine = names.MIRRORED if several else names.ONE_DEVICE
    distribution = names.TPU if tpu_name else one_machine
  if bool(tpu_name) != (distribution == names.TPU):
    raise ValueError(
      f"`distribution={distribution}` contradicts `use_tpu={bool(tpu_name)}`."
    )
  if tpu_name:
    return _tpu_strategy(tpu_name, tpu_zone, gcp_project)
  if distribution == names.MULTI_WORKER:
    workers, own = _read_cluster(os.environ.get("TF_CONFIG"))
    logging.info(f"Waiting for the workers {messages.join_names(workers)}.")
    _wait_for_workers(workers, own)
    return tf.distribute.MultiWorkerMirroredStrategy()
  if distribution == names.MIRRORED:
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
  return tf.distribute.get_strategy()


def _wait_for_workers(workers: Sequence[str], address: str) -> None:
  """Waits until the workers at other addresses than `address` listen.

  TensorFlow would wait as well, but its wait cannot be ended by a signal, and
  its error for a port in use does not name the port.
  """
  # The others see this port until TensorFlow listens there.
  with socket.create_server(("", int(address.rpartition(":")[2]))):
    # The default is to ignore it in a container.
    old = signal.signal(signal.SIGTERM, lambda n, _: sys.exit(128 + n))
    for worker in workers:
      while worker != address:
        with contextlib.suppress(OSError):
          _connect(worker, 5)
          break
        time.sleep(0.5)
    signal.signal(signal.SIGTERM, old)


def _connect(address: str, timeout: float) -> None:
  host, _, port = address.rpartition(":")
  socket.create_connection((host.strip("[]"), int(port)), timeout).close()


def _tpu_strategy(
  name: str, zone: str | None, project: str | None
) -> tf.distribute.TPUStrategy:
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
      name, zone=zone, project=project
    )
    if name != "local":
      # Connecting to a TPU that does not listen would wait forever.
      _connect(resolver.master().removeprefix("grpc://"), 10)
      tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
  # Google's client libraries, if installed, have their own error classes.
  except Exception as error:
    reason = errors.reason(error).partition(" Failed in initialization")[0]
    raise ValueError(
      f"there is no TPU {name!r} (`tpu_name`): {reason.rstrip('.')}. See "
      '"TPUs" in docs/gpu.md.'
    ) from error
  return tf.distribute.TPUStrategy(resolver)


def _read_cluster(text: str | None) -> tuple[list[str], str]:
  """Returns the addresses of all workers of a TF_CONFIG and of this one."""
  try:
    config = json.loads(text or "")
    cluster, task = config["cluster"], config["task"]
    job, index = task["type"], int(task["index"])
    is_valid = job in _WORKER_TYPES and 0 <= index < len(cluster[job])
    address = cluster[job][index]
    workers = [a for job in _WORKER_TYPES for a in cluster.get(job, ())]
  except (LookupError, TypeError, ValueError):
    is_valid = False
  if not is_valid:  # TensorFlow would train alone or wait forever.
    raise ValueError(
      f"TF_CONFIG is {text!r}. Set it on every machine, as in "
      '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
      '"task": {"type": "worker", "index": 0}}.'
    )
  return workers, address


def num_workers() -> int:
  """The number of training processes of the current strategy."""
  strategy = tf.distribute.get_strategy()
  if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
    return 1
  cluster = strategy.cluster_resolver.cluster_spec().as_dict()
  return sum(len(cluster.get(job, ())) for job in _WORKER_TYPES)


def is_chief() -> bool:
  """Whether this process is the chief, which writes shared files."""
  if num_workers() == 1:
    return True
  resolver = tf.distribute.get_strategy().cluster_resolver
  first = next(k for k in _WORKER_TYPES if k in resolver.cluster_spec().jobs)
  return (resolver.task_type, resolver.task_id) == (first, 0)


def device_kind() -> str:
  """Returns "TPU" or "GPU" if TensorFlow has one, else "CPU"."""
  kinds = ("TPU", "GPU")
  return next(filter(tf.config.list_logical_devices, kinds), "CPU")


def has_accelerator() -> bool:
  """Whether TensorFlow has a GPU or a TPU."""
  return device_kind() != "CPU"


def describe_devices() -> str:
  """Names the devices of the current strategy, such as "2 x GPU"."""
  num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
  return f"{num_replicas} x {device_kind()}"


def needs_full_batches() -> bool:
  """Whether all batches need the shape of the first, as on TPUs."""
  return isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)


@contextlib.contextmanager
def translate_worker_loss() -> Iterator[None]:
  """Turns TensorFlow's errors for a lost process into WorkerLostError."""
  try:
    yield
  except tf.errors.OpError as error:
    if num_workers() == 1 or "ollective" not in str(error):
      raise
    raise WorkerLostError(
      "another worker ended or cannot be reached. Start all again to resume."
    ) from error


def all_reduce_sum(tensors: Any) -> Any:
  """Returns each tensor summed over replicas; call it in a replica's step."""
  context = tf.distribute.get_replica_context()
  if context is None or context.num_replicas_in_sync == 1:
    return tensors
  flat = tf.nest.flatten(tensors)
  summed = context.all_reduce(tf.distribute.ReduceOp.SUM, flat)
  return tf.nest.pack_sequence_as(tensors, summed)


def select_part(
  features: Mapping[str, tf.Tensor], index: tf.Tensor | int, num_parts: int
) -> dict[str, tf.Tensor]:
  """Returns part number `index`, from 0, of a batch of tensors [B, ...].

  The parts have [B / num_parts, ...], rounded up; the last may be smaller.
  """
  if num_parts == 1:
    return dict(features)

  def cut(tensor: tf.Tensor) -> tf.Tensor:
    size = tensor.shape[0]
    if size is None or size % num_parts:
      rows = -(-tf.shape(tensor)[0] // num_parts)
      return tensor[index * rows : (index + 1) * rows]
    # Slicing with a tensor would lose the static shape, which XLA needs.
    shape = [num_parts, size // num_parts, *tf.unstack(tf.shape(tensor))[1:]]
    rows = tf.gather(tf.reshape(tensor, shape), index)
    return tf.ensure_shape(rows, [size // num_parts, *tensor.shape[1:]])

  return {name: cut(tensor) for name, tensor in features.items()}


def select_replica_part(
  features: Mapping[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
  """Returns this replica's part of a batch. Call it inside its step."""
  context = tf.distribute.get_replica_context()
  replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
  return select_part(features, replica, context.num_replicas_in_sync)


def gather_outputs(value: Any) -> Any:
  """Concatenates the outputs of all replicas along axis 0."""
  strategy = tf.distribute.get_strategy()
  if strategy.num_replicas_in_sync == 1:
    return value
  return tf.nest.map_structure(lambda v: strategy.gather(v, axis=0), value)


def all_gather_objects(values: Mapping[str, Any]) -> list[dict[str, Any]]:
  """Gathers the JSON values of each process. All processes must call it."""
  strategy = tf.distribute.get_strategy()
  if num_workers() == 1:
    return [dict(values)]
  text = np.frombuffer(json.dumps(values).encode(), np.uint8)

  def gather(value: np.ndarray) -> np.ndarray:
    distribute = strategy.experimental_distribute_values_from_function
    per_replica = distribute(lambda _: tf.constant(value, tf.int32))
    return strategy.gather(per_replica, axis=0).numpy()

  sizes = gather(np.array([len(text)]))
  pieces = np.split(gather(text).astype(np.uint8), np.cumsum(sizes)[:-1])
  replicas_each = len(sizes) // num_workers()
  return [json.loads(piece.tobytes()) for piece in pieces[::replicas_each]]


def barrier() -> None:
  """Waits until all processes have called this function."""
  all_gather_objects({})


def check_same(values: Mapping[str, Any]) -> None:
  """Raises ValueError if values differ between processes."""
  processes = all_gather_objects(values)
  for name in sorted(set().union(*processes)):
    found = sorted({repr(process.get(name)) for process in processes})
    if len(found) > 1:
      given, size = " and ".join(found), len(processes)
      raise ValueError(f"the {size} workers differ: {name} is {given}.")
