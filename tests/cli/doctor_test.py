"""bert-tf doctor: what it checks and advises, and its exit status."""

import os
import subprocess

import keras
import pytest

from bert_tf.cli import doctor

GOOD = {"devices": "CPU:0", "training step": "0.7", "step with XLA": "0.7"}


@pytest.fixture
def examine(monkeypatch, capsys):
  """Returns a function that runs the doctor on the output of a training.

  It returns the exit status, the row of each check and the summary.
  """

  def run(stdout=GOOD, stderr="", status=0):
    lines = [f"{name}\t{text}" for name, text in stdout.items()]
    process = subprocess.CompletedProcess([], status, "\n".join(lines), stderr)
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: process)
    status = 0
    try:
      doctor.run.args[0]()
    except SystemExit as end:
      status = end.code
    *rows, summary = capsys.readouterr().out.splitlines()
    return status, {row[9:26].strip(): row for row in rows}, summary

  return run


def test_this_installation_trains(run_script, tmp_path):
  result = run_script("doctor", cwd=tmp_path)
  assert result.returncode == 0, result.stdout + result.stderr
  lines = {line[9:26].strip(): line for line in result.stdout.splitlines()}
  assert {"tensorflow", "keras"} <= lines.keys()
  assert "CPU:0" in lines["devices"]
  assert lines["training step"].startswith("ok ")
  assert lines["step with XLA"].startswith("ok ")


def test_a_tensorflow_that_crashes_is_an_error(examine):
  status, rows, summary = examine({}, "x\nImportError: undefined symbol", -4)
  assert status == 1 and "cannot work" in summary
  assert rows["devices"].startswith("error ")
  for text in ("ImportError: undefined symbol", "-4", "pip install"):
    assert text in rows["devices"]
  assert "training step" not in rows


def test_a_step_that_fails_is_an_error_and_one_with_xla_a_warning(examine):
  status, rows, _ = examine({"devices": "GPU:0 L4"}, "PTX", 1)
  assert status == 1
  assert "CUDA_VISIBLE_DEVICES=-1" in rows["training step"]
  works = {"devices": "GPU:0 L4", "training step": "0.7"}
  status, rows, summary = examine(works, "PTX", -6)
  assert status == 0 and "warnings: 1" in summary
  assert rows["step with XLA"].startswith("warning ")
  assert (
    "PTX" in rows["step with XLA"] and "--nouse_xla" in rows["step with XLA"]
  )


def test_a_gpu_that_tensorflow_does_not_see_is_a_warning(
  examine, monkeypatch, tmp_path
):
  (tmp_path / "nvidia-smi").write_text("")
  (tmp_path / "nvidia-smi").chmod(0o755)
  monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
  status, rows, _ = examine()
  assert status == 0
  assert rows["GPU"].startswith("warning ")
  assert "pip install" in rows["GPU"] and "CUDA_VISIBLE_DEVICES" in rows["GPU"]


def test_a_backend_that_cannot_train_is_refused(examine, monkeypatch):
  monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
  with pytest.raises(ValueError, match="KERAS_BACKEND=tensorflow"):
    doctor.run.args[0]()


@pytest.mark.parametrize(
  ("versions", "row", "words"),
  [
    ({"h5py": ""}, "h5py", ("error ", "pip install 'h5py>=")),
    (
      {"tensorflow": "2.21.0", "tensorflow_text": ""},
      "tensorflow-text",
      ("missing ", "'tensorflow-text==2.21.*,!=2.21.0'"),
    ),
  ],
)
def test_a_missing_package_is_named_with_its_command(
  versions, row, words, examine, monkeypatch
):
  installed = doctor._version

  def version(name):
    return versions.get(name.replace("-", "_"), installed(name))

  monkeypatch.setattr(doctor, "_version", version)
  status, rows, _ = examine()
  assert status == ("error " in words)
  assert all(word in rows[row] for word in words), rows[row]
