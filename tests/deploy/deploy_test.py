"""Files of deploy/: TF_CONFIG of each process, flags, and names that match."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from bert_tf import distribution
from bert_tf.server import config as server_config
from tests.support import docs_pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ENTRYPOINT = DEPLOY / "cluster_entrypoint.py"
PRINT = "import os; print(os.environ['TF_CONFIG'])"
yaml = pytest.importorskip("yaml")


def start(*command, **environment):
  """Starts the entry point with only these environment variables."""
  return subprocess.Popen(
    [sys.executable, ENTRYPOINT, *command],
    env={"PATH": os.environ["PATH"], **environment},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def collect(processes):
  """Returns the TF_CONFIG that each process prints."""
  outputs = []
  for process in processes:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    outputs.append(output)
  return outputs


def workers(name, count, **environment):
  """Returns the TF_CONFIG of each process, by its index in a variable."""
  command = (sys.executable, "-c", PRINT)
  return collect(
    [start(*command, **environment, **{name: str(i)}) for i in range(count)]
  )


def check(texts, hosts):
  """Asserts the cluster and the task of each, and that bert_tf reads them."""
  for index, text in enumerate(texts):
    config = json.loads(text)
    assert config["cluster"] == {"worker": hosts}
    assert config["task"] == {"type": "worker", "index": index}
    assert distribution._read_cluster(text)[0] == hosts


def test_pods_of_an_indexed_job_know_each_other():
  service, job = load_all("kubernetes/training.yaml")
  spec = job["spec"]
  pod = spec["template"]["spec"]
  [container] = pod["containers"]
  environment = {e["name"]: e["value"] for e in container["env"]}
  count = int(environment["NUM_WORKERS"])
  assert (spec["completions"], spec["parallelism"]) == (count, count)
  assert spec["completionMode"] == "Indexed"
  assert service["spec"]["clusterIP"] == "None"
  assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
  assert pod["subdomain"] == service["metadata"]["name"]
  # The names that Kubernetes gives to the Pods of an Indexed Job.
  name, domain = job["metadata"]["name"], pod["subdomain"]
  hosts = [f"{name}-{i}.{domain}:2222" for i in range(count)]
  assert container["ports"] == [{"containerPort": 2222}]
  pattern = environment["HOST_PATTERN"]
  assert [
    f"{pattern.replace('{}', str(i))}:2222" for i in range(count)
  ] == hosts
  local = environment | {"HOST_PATTERN": "127.0.0.{}"}
  texts = workers("JOB_COMPLETION_INDEX", count, **local)
  check(texts, [f"127.0.0.{i}:2222" for i in range(count)])


def test_slurm_tasks_are_numbered_by_rank():
  hosts = "127.0.0.3,127.0.0.1,127.0.0.2"
  texts = workers("SLURM_PROCID", 3, HOSTS=hosts, PORT="20001")
  check(texts, [f"{host}:20001" for host in hosts.split(",")])


def test_the_slurm_script_names_the_machines_in_order(tmp_path):
  stand_in(tmp_path / "scontrol", "printf 'b2\\na1\\n'")
  stand_in(tmp_path / "srun", 'echo "$HOSTS $PORT"; echo "$@"')
  result = subprocess.run(
    ["bash", DEPLOY / "slurm.sh", "--input_file=a b"],
    env={
      "PATH": f"{tmp_path}:{os.environ['PATH']}",
      "SLURM_JOB_NODELIST": "b2,a1",
      "SLURM_JOB_ID": "40007",
    },
    capture_output=True,
    text=True,
    check=True,
  )
  first, second = result.stdout.splitlines()
  assert first == "b2,a1 20007"
  assert second.endswith("--do_train --input_file=a b")
  assert second.startswith("python deploy/cluster_entrypoint.py bert-tf")


@pytest.mark.parametrize(
  "status, requeued", [(0, ""), (1, ""), (143, "requeue 7")]
)
def test_the_slurm_script_requeues_a_run_that_saved(tmp_path, status, requeued):
  # Also asked for the names of the machines.
  stand_in(tmp_path / "scontrol", 'echo "$@" >> asked')
  stand_in(tmp_path / "srun", f"exit {status}")
  result = subprocess.run(
    ["bash", DEPLOY / "slurm.sh"],
    env={
      "PATH": f"{tmp_path}:{os.environ['PATH']}",
      "SLURM_JOB_NODELIST": "a",
      "SLURM_JOB_ID": "7",
    },
    cwd=tmp_path,
  )
  assert result.returncode == status
  _, *calls = (tmp_path / "asked").read_text().splitlines()
  assert calls == [requeued] * bool(requeued)


def stand_in(path, text):
  path.write_text(f"#!/bin/sh\n{text}\n")
  path.chmod(0o755)


def test_tf_config_of_vertex_ai_is_unchanged_and_accepted():
  config = {
    "cluster": {"chief": ["a-0:2222"], "worker": ["b-0:2222", "b-1:2222"]},
    "environment": "cloud",
    "task": {"type": "worker", "index": 1, "cloud": "x"},
    "job": "{}",
  }
  text = json.dumps(config)
  command = (sys.executable, "-c", PRINT)
  [output] = collect(
    [start(*command, TF_CONFIG=text, JOB_COMPLETION_INDEX="0")]
  )
  assert output.strip() == text
  workers, own = distribution._read_cluster(output)
  assert (workers, own) == (["a-0:2222", "b-0:2222", "b-1:2222"], "b-1:2222")


MISTAKES = {
  "no index": ({"HOSTS": "localhost"}, "JOB_COMPLETION_INDEX"),
  "no machines": ({"SLURM_PROCID": "0"}, "HOST_PATTERN"),
  "one too many": ({"SLURM_PROCID": "1", "HOSTS": "localhost"}, "process 1"),
  "unknown name": (
    {"SLURM_PROCID": "0", "HOSTS": "no.invalid", "WAIT_S": "1"},
    "'no.invalid'",
  ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name):
  environment, words = MISTAKES[name]
  process = start("true", **environment)
  _, errors = process.communicate(timeout=600)
  assert process.returncode == 1
  assert words in errors and "Traceback" not in errors


def load_all(name):
  return yaml.safe_load_all((DEPLOY / name).read_text())


def containers(value):
  """Yields the containers of manifests."""
  if isinstance(value, dict):
    if "args" in value:
      yield value
    value = list(value.values())
  for item in value if isinstance(value, list) else ():
    yield from containers(item)


@pytest.mark.parametrize(
  "name", ["kubernetes/training.yaml", "kubernetes/serving.yaml", "vertex.yaml"]
)
def test_commands_of_manifests_have_their_flags(name):
  num_checked = 0
  for container in containers(list(load_all(name))):
    words = container["args"]
    if words[0] == "bert-tf":
      words = words[1:]
    flags = {word[2:].split("=")[0] for word in words[1:]}
    assert flags <= docs_pages.flag_names(words[0]), name
    if words[0] == "pretrain":  # Its defaults suit no cluster.
      assert {"num_train_steps", "learning_rate"} <= flags
    num_checked += 1
  assert num_checked


def serving():
  """Returns the Deployment of serving.yaml, its container and the Service."""
  deployment, service, budget = load_all("kubernetes/serving.yaml")
  pods = deployment["spec"]["template"]["metadata"]["labels"]
  assert budget["spec"]["selector"]["matchLabels"] == pods
  [container] = deployment["spec"]["template"]["spec"]["containers"]
  return deployment, container, service


def flag(container, name):
  """Returns the value of a flag of a container."""
  [value] = [
    word.split("=", 1)[1]
    for word in container["args"]
    if word.startswith(f"--{name}=")
  ]
  return value


def test_the_server_is_found_and_watched_under_its_names():
  deployment, container, service = serving()
  spec = deployment["spec"]["template"]
  labels = spec["metadata"]["labels"]
  [port] = container["ports"]
  name = service["metadata"]["name"]
  [monitor] = load_all("kubernetes/pod_monitor.yaml")
  ingress, policy = load_all("kubernetes/ingress.yaml")
  [scaled] = load_all("kubernetes/autoscaling.yaml")
  [endpoint] = monitor["spec"]["podMetricsEndpoints"]
  assert endpoint["port"] == port["name"]
  assert monitor["spec"]["selector"]["matchLabels"] == labels
  assert policy["spec"]["podSelector"]["matchLabels"] == labels
  [rule] = policy["spec"]["ingress"]
  assert rule["ports"] == [{"port": port["containerPort"]}]
  target = scaled["spec"]["scaleTargetRef"]["name"]
  assert target == deployment["metadata"]["name"]
  # Requests come by the names of the service and the host of the ingress.
  [rule] = ingress["spec"]["rules"]
  for path in rule["http"]["paths"]:
    assert path["backend"]["service"]["name"] == name
  domains = ("", ".default", ".default.svc", ".default.svc.cluster.local")
  hosts = {name + domain for domain in domains} | {rule["host"]}
  assert hosts <= set(flag(container, "allowed_hosts").split(","))


def test_a_stopping_pod_has_time_to_answer():
  deployment, container, _ = serving()
  spec = deployment["spec"]["template"]["spec"]
  [_, pause] = container["lifecycle"]["preStop"]["exec"]["command"]
  needed = int(pause) + server_config.ServerConfig().stop_timeout_s
  assert spec["terminationGracePeriodSeconds"] > needed


METRIC = re.compile(r"\bbert_tf_(?!beam)[a-z_]+(?=[`{\[])|\bprocess_[a-z_]+")


@pytest.mark.parametrize(
  "name",
  [
    "deploy/kubernetes/autoscaling.yaml",
    "docs/deploy.md",
    "docs/serving_operations.md",
  ],
)
def test_the_server_has_the_metrics(name):
  metrics = pytest.importorskip("bert_tf.server.metrics")
  server = metrics.Metrics(list)
  text = server.text().decode()
  known = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
  named = set(METRIC.findall((ROOT / name).read_text()))
  assert named and named <= known
