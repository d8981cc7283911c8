"""What is to be read in an error of TensorFlow."""

import re


def of_operation(message: str) -> str:
  """Returns what went wrong, without where in the graph it did.

  Args:
    message: of a tf.errors.OpError. An assertion's words stand within.
  """
  assertion = re.search(r"assertion failed: \[(.*?)\]", message, re.DOTALL)
  return assertion[1] if assertion else first_line(message)


def first_line(message: str) -> str:
  """Returns the first line of a message, "" of one without any."""
  return (message.splitlines() or [""])[0]
