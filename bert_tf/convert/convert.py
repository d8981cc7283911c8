"""From any form of a model to any other."""

import types

from bert_tf.convert import (
  beside,
  hugging_face,
  keras_weights,
  model_garden,
  original,
  pretrained,
)

# A module reads a form and writes it.
FORMS: dict[str, types.ModuleType] = {
  "original": original,
  "hf": hugging_face,
  "model_garden": model_garden,
  "keras": keras_weights,
}


def convert(
  source: str,
  source_form: str,
  target: str,
  target_form: str,
  given: beside.Given,
) -> pretrained.Pretrained:
  """Writes a model in another form; no optimizer state is carried.

  Args:
    source: where it is: a checkpoint's prefix or the folder of a run
      (original, model_garden), a folder (hf) or a .weights.h5 (keras).
    source_form: one of FORMS.
    target: where it goes, of the same kind; a config and a vocabulary go
      beside it or into it.
    target_form: one of FORMS.
    given: what does not stand beside the source.

  Returns:
    What was written.

  Raises:
    ValueError: if the source is missing, damaged or of another architecture,
      if its tensors do not fit its config (names all of them), if the target
      has no place for its heads, or if it holds other files.
    ImportError: without the package safetensors, for hf.
    OSError: if it cannot be written.
  """
  model = FORMS[source_form].read(source, given)
  return FORMS[target_form].write(model, target)
