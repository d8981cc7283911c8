"""Checks the installation: packages, devices and a training step.

bert-tf doctor | tee report.txt

If training works, the exit status is 0. Some commands also need
tensorflow-text.
"""

import dataclasses
import math
import platform
import shutil
from importlib import metadata

import bert_tf
from bert_tf.cli import command
from bert_tf.files import packages


@dataclasses.dataclass(frozen=True)
class DoctorConfig:
  """No settings."""


@command.of(DoctorConfig)
def run(config: DoctorConfig) -> None:
  """Prints the versions and trains; an error ends it with status 1."""
  print(f"Python           {platform.python_version()}, {platform.platform()}")
  print(f"bert_tf          {bert_tf.__version__}")
  for name in ("tensorflow", "keras", "numpy", "tensorflow-text"):
    try:
      print(f"{name:17}{metadata.version(name)}")
    except metadata.PackageNotFoundError:
      requirement = packages.tensorflow_text_requirement(
        metadata.version("tensorflow")
      )
      print(f"{name:17}missing: pip install '{requirement}'")
  import keras
  import tensorflow as tf

  from bert_tf import optimization
  from bert_tf.model import heads

  devices = tf.config.list_physical_devices()
  print(f"devices          {', '.join(device.name for device in devices)}")
  gpus = [device for device in devices if device.device_type == "GPU"]
  for gpu in gpus:
    # TensorFlow would take all of the memory, which others may use.
    tf.config.experimental.set_memory_growth(gpu, True)
  if not gpus and shutil.which("nvidia-smi"):  # NVIDIA's driver has it.
    print(
      "GPU              TensorFlow does not see it. CUDA_VISIBLE_DEVICES may "
      f"hide it, or else: {packages.format_install_command('gpu')}"
    )
  sizes = bert_tf.BertConfig(32, hidden_size=24, num_hidden_layers=1)
  inputs, labels = {"input_ids": tf.ones([2, 8], "int32")}, tf.constant([0, 1])
  for name in ("training step", "step with XLA"):
    print(f"{name:17}", end="", flush=True)
    model = heads.ClassifierModel(sizes, num_labels=2)
    model.compile(
      optimizer=optimization.AdamWeightDecayOptimizer(1e-3),
      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      jit_compile=name == "step with XLA",
    )
    loss = float(model.train_on_batch(inputs, labels))
    if not math.isfinite(loss):
      raise ValueError(f"the loss is {loss}.")
    print(f"the loss is {loss:.3f}")
  print("Training works.")
