"""Flags for the devices that a command trains on, and running on them."""

import dataclasses
import functools
import importlib
import importlib.util
import os
from collections.abc import Callable

from absl import logging

from bert_tf import names, settings
from bert_tf.cli import command, config_flags

# A setting of the release for TPUs.
_original = functools.partial(settings.devices, original=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceConfig:
  """The devices to run on."""

  use_tpu: bool = _original(False, "Whether to run on a TPU.")
  tpu_name: str | None = _original(
    None,
    "The name or the grpc:// address of the TPU. Default: this machine's TPU.",
  )
  tpu_zone: str | None = _original(None, "The zone of the TPU.")
  gcp_project: str | None = _original(
    None, "The Google Cloud project of the TPU."
  )
  master: str | None = _original(
    None, "The grpc:// address of the TPU, if --tpu_name is not set."
  )
  num_tpu_cores: int = _original(
    8, "This flag is ignored: all cores of the TPU are used."
  )
  distribution: str = settings.devices(
    names.AUTO,
    "The devices to train on: one; mirrored, all GPUs of this machine; "
    "multi_worker, the machines in TF_CONFIG; or tpu. auto takes tpu with "
    "--use_tpu, mirrored if there are several GPUs, and otherwise one.",
    choices=names.DISTRIBUTIONS,
  )


def run(
  main: Callable[[], None],
  description: str | None,
  *configs: type[settings.Dataclass],
) -> None:
  """Runs a command on the devices that the flags name; see `command.run`."""

  def run_on_devices() -> None:
    config = config_flags.build(DeviceConfig)
    tpu_name = config.tpu_name or config.master or "local"
    is_local = config.use_tpu and tpu_name == "local"
    if is_local and importlib.util.find_spec("libtpu"):
      # Part of tensorflow-tpu. TensorFlow reads the variables when imported.
      library = importlib.import_module("libtpu").get_library_path()
      os.environ.setdefault("PJRT_DEVICE", "TPU")
      os.environ.setdefault("NEXT_PLUGGABLE_DEVICE_USE_C_API", "true")
      os.environ.setdefault("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", library)
    from bert_tf import distribution

    try:
      for name in ("tpu_name", "tpu_zone", "gcp_project", "master"):
        if getattr(config, name) and not config.use_tpu:
          raise ValueError(f"--{name} needs --use_tpu.")
      strategy = distribution.create_strategy(
        config.distribution,
        tpu_name if config.use_tpu else None,
        config.tpu_zone,
        config.gcp_project,
      )
      with strategy.scope():
        with distribution.translate_worker_loss():
          all_flags = config_flags.get_flags()
          distribution.check_same({f"--{f.name}": f.value for f in all_flags})
          if not distribution.is_chief():
            logging.set_verbosity(logging.ERROR)
          main()
    except distribution.WorkerLostError as error:
      command.report(error)
      # TensorFlow's shutdown may wait for the lost worker forever.
      os._exit(1)

  command.run(run_on_devices, description, *configs, DeviceConfig)
