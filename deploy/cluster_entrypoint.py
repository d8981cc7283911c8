"""Runs a command with TF_CONFIG set from the cluster's environment variables.

  python cluster_entrypoint.py COMMAND [ARGUMENTS...]

The index of this process is JOB_COMPLETION_INDEX (a Kubernetes Indexed Job) or
SLURM_PROCID. These variables name the machines:

  HOSTS          host names in the order of indices, separated by commas;
  HOST_PATTERN   instead of HOSTS: a host name with {} for the index;
  NUM_WORKERS    with HOST_PATTERN: the number of machines;
  PORT           port of TensorFlow on each machine, default 2222;
  WAIT_S         seconds to wait until all names resolve, default 300.

If TF_CONFIG is already set, as on Vertex AI, it stays unchanged.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence

_INDICES = ("JOB_COMPLETION_INDEX", "SLURM_PROCID")


def tf_config(environment: Mapping[str, str]) -> str:
  """Returns the value of TF_CONFIG for this process.

  Raises:
    ValueError: if the environment is incomplete or inconsistent.
  """
  index = _number(environment, *_INDICES)
  hosts = _hosts(environment)
  if not 0 <= index < len(hosts):
    raise ValueError(
      f"this is process {index}, but there are {len(hosts)} machines; set "
      "HOSTS or NUM_WORKERS to all of them."
    )
  port = _number({"PORT": "2222", **environment}, "PORT")
  cluster = {"worker": [f"{host}:{port}" for host in hosts]}
  task = {"type": "worker", "index": index}
  return json.dumps({"cluster": cluster, "task": task})


def wait_for(hosts: Sequence[str], seconds: float) -> None:
  """Waits until all names resolve, which takes time in a new Service.

  Raises:
    ValueError: if a name does not resolve in time.
  """
  end = time.monotonic() + seconds
  for host in hosts:
    while not _resolves(host):
      if time.monotonic() >= end:
        raise ValueError(
          f"host name {host!r} does not resolve after {seconds:g} s; check "
          "that HOSTS or HOST_PATTERN is right and that the machine runs."
        )
      time.sleep(0.5)


def _hosts(environment: Mapping[str, str]) -> list[str]:
  if hosts := environment.get("HOSTS"):
    return hosts.split(",")
  pattern = environment.get("HOST_PATTERN", "")
  if "{}" not in pattern:
    raise ValueError(
      f"HOST_PATTERN is {pattern!r}; set it, for example to bert-{{}}.bert, or "
      "set HOSTS."
    )
  count = _number(environment, "NUM_WORKERS")
  return [pattern.replace("{}", str(i)) for i in range(count)]


def _number(environment: Mapping[str, str], *names: str) -> int:
  """Returns the value of the first name that is set."""
  value = next((environment[n] for n in names if n in environment), "")
  if not value.isdecimal():
    raise ValueError(
      f"{' or '.join(names)} is {value!r}; set it to a whole number."
    )
  return int(value)


def _resolves(host: str) -> bool:
  try:
    socket.getaddrinfo(host, None)
  except OSError:
    return False
  return True


def main(arguments: Sequence[str]) -> None:
  """Replaces this process by the command, which then receives all signals."""
  if not arguments:
    sys.exit(f"error: no command to run.\n\n{__doc__}")
  if not os.environ.get("TF_CONFIG"):
    try:
      os.environ["TF_CONFIG"] = tf_config(os.environ)
      seconds = _number({"WAIT_S": "300", **os.environ}, "WAIT_S")
      wait_for(_hosts(os.environ), seconds)
    except ValueError as error:
      sys.exit(f"error: {error}")
  try:
    os.execvp(arguments[0], arguments)
  except OSError as error:
    sys.exit(f"error: {arguments[0]}: {error.strerror}")


if __name__ == "__main__":
  main(sys.argv[1:])
