"""Converts SavedModels to ONNX and LiteRT, and checks the results.

Only the function on word-piece ids is converted, because neither runtime has
TensorFlow's string ops.
"""

import os
import tempfile
from collections.abc import Sequence

import numpy as np

from bert_tf.export.runtimes import config as runtime_config
from bert_tf.export.runtimes import ids_models, litert, onnx
from bert_tf.export.runtimes.ids_models import Inputs, Run
from bert_tf.files import atomic, paths

# Converters by file suffix.
FORMATS = {module.ENDING: module for module in (onnx, litert)}

# Allowed difference of float32 outputs, which have a scale of about 1. With 6
# layers they differ by 5e-6, with 12 to 24 layers by less than 1e-4.
_TOLERANCE = 1e-4

# Batch sizes and lengths of the check; lengths are cut to the model's maximum.
_CHECKED_SIZES = ((1, 16), (3, 128))


def convert(config: runtime_config.ConversionConfig) -> dict[str, float]:
  """Converts a SavedModel, checks the result in its runtime and writes it.

  Returns:
    The largest absolute difference of each output from the SavedModel, for
    random ids of two batch sizes and lengths.

  Raises:
    ValueError: if the suffix is unknown, the SavedModel cannot be converted, or
      the outputs differ too much. Nothing is written then.
    ImportError: if a package for the format is missing.
  """
  runtime = FORMATS.get(os.path.splitext(config.output_file)[1])
  if runtime is None:
    raise ValueError(
      f"output_file {config.output_file} must end in {' or '.join(FORMATS)}, "
      "for ONNX or LiteRT."
    )
  runtime.check_is_installed()
  is_int8 = config.quantize == "int8"
  model = ids_models.IdsModel(config.saved_model)
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model" + runtime.ENDING)
    runtime.write(model, path, is_int8)
    samples = [model.sample(*sizes) for sizes in _CHECKED_SIZES]
    largest = differences(model.run, runtime.load(path), samples)
    # The differences of int8 outputs may have any finite size.
    limit = np.finfo(np.float32).max if is_int8 else _TOLERANCE
    wrong = [f"{n} by {d:.1e}" for n, d in largest.items() if not d <= limit]
    if wrong:
      raise ValueError(
        f"{config.output_file} was not written: the outputs differ from "
        f"{config.saved_model} in {', '.join(wrong)}, more than {limit:.0e}; "
        "try another version of the converter."
      )
    with atomic.file(config.output_file) as unfinished:
      paths.copy(path, unfinished)
  return largest


def differences(
  wanted: Run, converted: Run, samples: Sequence[Inputs]
) -> dict[str, float]:
  """Returns the largest absolute difference of each output by name.

  Raises ValueError if outputs or their shapes are not the same.
  """
  largest: dict[str, float] = {}
  for inputs in samples:
    want, got = wanted(inputs), converted(inputs)
    shapes = [{n: v.shape for n, v in out.items()} for out in (want, got)]
    if shapes[0] != shapes[1]:
      raise ValueError(
        f"the SavedModel returns {shapes[0]}, but its conversion {shapes[1]}."
      )
    for name, value in want.items():
      difference = np.abs(value.astype(np.float64) - got[name]).max()
      # Unlike max(), np.maximum keeps NaN.
      largest[name] = np.maximum(largest.get(name, 0.0), difference)
  return {name: float(value) for name, value in sorted(largest.items())}
