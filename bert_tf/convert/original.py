"""The original's form: name-based checkpoints, and what stands beside them."""

from bert_tf import checkpoints
from bert_tf.convert import beside, pretrained


def read(path: str, given: beside.Given) -> pretrained.Pretrained:
  """Reads a checkpoint, without slots and step.

  Args:
    path: prefix of a checkpoint, or the folder of a run: its newest.
    given: what is not beside it.

  Raises:
    ValueError: if it is missing or damaged, or its tensors are not those of
      its config: names all of them.
  """
  reader = checkpoints.CheckpointReader(path)
  found = beside.read(reader.path, given)
  names = checkpoints.parameters(reader.shapes)
  num_labels = reader.shapes.get("output_bias", (0,))[0]
  tensors = pretrained.checked(
    {name: reader.get(name) for name in names},
    found.config,
    num_labels,
    reader.path,
  )
  return pretrained.Pretrained(
    config=found.config,
    tensors=tensors,
    vocab=found.vocab,
    do_lower_case=given.do_lower_case,
    task=found.task,
  )


def write(model: pretrained.Pretrained, path: str) -> pretrained.Pretrained:
  """Writes a checkpoint, its config, vocabulary and labels.

  Args:
    model: what is written.
    path: prefix of the checkpoint.

  Returns:
    What was written.

  Raises:
    ValueError: if another model's files stand beside it.
    OSError: if it cannot be written.
  """
  beside.check(path, model)
  beside.write(path, model)
  checkpoints.write(path, model.tensors)
  return model
