"""SavedModels as files of other runtimes, checked there before they are kept.

What is converted is the function that takes word-piece ids. Those that take
texts stay in TensorFlow: neither ONNX nor LiteRT has its operations on strings.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.export.runtimes import config as runtime_config
from bert_tf.export.runtimes import ids_models, litert, onnx
from bert_tf.export.runtimes.ids_models import Inputs, Run
from bert_tf.files import atomic, paths

# By the end of the file's name.
FORMATS = {module.ENDING: module for module in (onnx, litert)}

# What float32 may differ by in any output, logits and vectors of unit scale.
# It is 5e-6 with 6 layers, and 12 to 24 add rounding, not 20 times as much.
_TOLERANCE = 1e-4

# Batch sizes and lengths of the check; shorter where the model's input is.
_CHECKED_SIZES = ((1, 16), (3, 128))


def convert(config: runtime_config.ConversionConfig) -> dict[str, float]:
  """Converts, checks the file in its own runtime, and puts it in place.

  Returns:
    The largest difference from the SavedModel of each output, on made-up ids of
    two batch sizes and lengths.

  Raises:
    ValueError: if the name of the file ends in no format, if the SavedModel
      cannot be converted, or if what came out computes something else; nothing
      is written then.
    ImportError: if a package of the format is missing.
  """
  runtime = FORMATS.get(os.path.splitext(config.output_file)[1])
  if runtime is None:
    raise ValueError(
      f"{config.output_file} should end in {' or '.join(FORMATS)}: ONNX or "
      "LiteRT."
    )
  runtime.check_is_installed()
  model = ids_models.IdsModel(config.saved_model)
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model" + runtime.ENDING)
    runtime.write(model, path, config.is_int8)
    samples = [model.sample(*sizes) for sizes in _CHECKED_SIZES]
    found = differences(model.run, runtime.load(path), samples)
    _check(found, config)
    _put_in_place(path, config.output_file)
  return found


def differences(
  wanted: Run, converted: Run, samples: Sequence[Inputs]
) -> dict[str, float]:
  """Returns the largest absolute difference of each output by name.

  Raises:
    ValueError: if outputs or their shapes are not the same.
  """
  largest = {}
  for inputs in samples:
    want, got = wanted(inputs), converted(inputs)
    shapes = [{n: v.shape for n, v in out.items()} for out in (want, got)]
    if shapes[0] != shapes[1]:
      raise ValueError(
        f"the SavedModel returns {shapes[0]}, what was converted {shapes[1]}."
      )
    for name, value in want.items():
      difference = np.abs(value.astype(np.float64) - got[name]).max()
      # Not max(): it may pass over what is not a number.
      largest[name] = np.maximum(largest.get(name, 0.0), difference)
  return {name: float(value) for name, value in sorted(largest.items())}


def _check(
  found: Mapping[str, float], config: runtime_config.ConversionConfig
) -> None:
  """Raises ValueError if outputs are not what they should be.

  How far int8 may be off is for its user to say, who sees the differences.
  """
  limit = np.finfo(np.float32).max if config.is_int8 else _TOLERANCE
  wrong = [f"{n} by {d:.1e}" for n, d in found.items() if not d <= limit]
  if wrong:
    raise ValueError(
      f"{config.output_file} was not written: converted, {config.saved_model} "
      f"differs in {', '.join(wrong)}, more than {limit:.0e}; try another "
      "version of the converter."
    )


def _put_in_place(path: str, output_file: str) -> None:
  """Copies a local file to where it belongs, visible once it is whole."""
  with atomic.file(output_file) as unfinished:
    paths.copy(path, unfinished)
