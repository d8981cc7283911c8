"""bert-tf doctor: what it prints and advises, and its exit status."""

import os
from importlib import metadata

from bert_tf.cli import doctor


def test_this_installation_trains(run_script, tmp_path):
  result = run_script("doctor", cwd=tmp_path)
  assert result.returncode == 0, result.stdout + result.stderr
  rows = {line[:17].strip(): line[17:] for line in result.stdout.splitlines()}
  assert rows["tensorflow"] == metadata.version("tensorflow")
  assert "CPU:0" in rows["devices"]
  assert "loss" in rows["training step"] and "loss" in rows["step with XLA"]


def test_what_is_missing_is_named_with_its_command(
  monkeypatch, capsys, tmp_path
):
  def version(name):
    if name == "tensorflow-text":
      raise metadata.PackageNotFoundError
    return "2.21.0"

  monkeypatch.setattr(doctor.metadata, "version", version)
  (tmp_path / "nvidia-smi").touch(mode=0o755)
  monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
  doctor.run.args[0]()
  output = capsys.readouterr().out
  assert "'tensorflow-text==2.21.*,!=2.21.0'" in output
  assert "CUDA_VISIBLE_DEVICES" in output and "[gpu]" in output
