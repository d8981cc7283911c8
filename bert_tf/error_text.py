"""What is to be read in an error of a TensorFlow operation."""

import re


def of_operation(message: str) -> str:
  """Returns what went wrong, without where in the graph it did.

  Args:
    message: of a tf.errors.OpError. An assertion's words stand within.
  """
  assertion = re.search(r"assertion failed: \[(.*?)\]", message, re.DOTALL)
  return assertion[1] if assertion else message.splitlines()[0]
