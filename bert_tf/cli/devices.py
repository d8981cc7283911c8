"""Flags for the devices that a command trains on, and running on them."""

import dataclasses
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import logging

from bert_tf import names, settings
from bert_tf.cli import command, config_flags
from bert_tf.kernels import backend

if TYPE_CHECKING:
  import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceConfig:
  """The devices to run on."""

  use_tpu: bool = settings.setting(
    False, "Whether to run on a TPU.", original=True, topic=settings.DEVICES
  )
  tpu_name: str | None = settings.setting(
    None,
    "Name or grpc:// address of the TPU. Default: the TPU of this machine.",
    original=True,
    topic=settings.DEVICES,
  )
  tpu_zone: str | None = settings.setting(
    None, "Zone of the TPU.", original=True, topic=settings.DEVICES
  )
  gcp_project: str | None = settings.setting(
    None,
    "Google Cloud project of the TPU.",
    original=True,
    topic=settings.DEVICES,
  )
  master: str | None = settings.setting(
    None,
    "The grpc:// address of the TPU, if --tpu_name is not set.",
    original=True,
    topic=settings.DEVICES,
  )
  num_tpu_cores: int = settings.setting(
    8,
    "Number of TPU cores, checked only if set.",
    original=True,
    topic=settings.DEVICES,
  )
  distribution: str = settings.setting(
    names.AUTO,
    "Devices to run on. one: a single device; mirrored: all GPUs of this "
    "machine; multi_worker: the machines in TF_CONFIG; tpu. auto: tpu with "
    "--use_tpu, mirrored with several GPUs, otherwise one.",
    choices=names.DISTRIBUTIONS,
    topic=settings.DEVICES,
  )


def run(main: Callable[[], None], description: str | None) -> None:
  """Runs a command on the devices that the flags name; see `command.run`."""
  config_flags.define(DeviceConfig)

  def run_on_devices() -> None:
    backend.check_tensorflow()
    _set_pjrt(config_flags.build(DeviceConfig))
    from bert_tf import distribution

    try:
      with _strategy().scope(), distribution.translate_worker_loss():
        distribution.check_same(config_flags.given_values())
        if not distribution.is_chief():
          logging.set_verbosity(logging.ERROR)
        main()
    except distribution.WorkerLostError as error:
      command.report(error)
      # TensorFlow's shutdown may wait for the lost worker forever.
      os._exit(1)

  command.run(run_on_devices, description)


def _set_pjrt(config: DeviceConfig) -> None:
  """Sets the variables that tensorflow-tpu reads for a local TPU.

  tensorflow-tpu reads the variables when it is imported. Variables that are
  already set stay unchanged.
  """
  if not config.use_tpu or _tpu_name(config) != "local":
    return
  if importlib.util.find_spec("libtpu"):  # Part of tensorflow-tpu.
    library = importlib.import_module("libtpu").get_library_path()
    os.environ.setdefault("PJRT_DEVICE", "TPU")
    os.environ.setdefault("NEXT_PLUGGABLE_DEVICE_USE_C_API", "true")
    os.environ.setdefault("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", library)


def _tpu_name(config: DeviceConfig) -> str:
  return config.tpu_name or config.master or "local"


def _strategy() -> "tf.distribute.Strategy":
  """Returns the distribution strategy of the flags.

  Raises:
    ValueError: for contradicting flags or a missing device.
  """
  from bert_tf import distribution

  config = config_flags.build(DeviceConfig)
  if not config.use_tpu:
    for name in ("tpu_name", "tpu_zone", "gcp_project", "master"):
      if getattr(config, name):
        raise ValueError(
          f"--{name} needs --use_tpu. For several machines set TF_CONFIG and "
          "--distribution=multi_worker."
        )
    return distribution.create_strategy(config.distribution)
  tpu = distribution.TpuAddress(
    _tpu_name(config), config.tpu_zone, config.gcp_project
  )
  strategy = distribution.create_strategy(config.distribution, tpu)
  num_cores = strategy.num_replicas_in_sync
  if (
    config_flags.is_given("num_tpu_cores") and num_cores != config.num_tpu_cores
  ):
    raise ValueError(
      f"the TPU has {num_cores} cores, but --num_tpu_cores is "
      f"{config.num_tpu_cores}; leave the flag out or set it to {num_cores}."
    )
  return strategy
