"""bert-tf doctor: what it checks, survives and advises, and its exit status."""

import os
import platform
import shlex
import sys

import pytest
from packaging import markers

from bert_tf.cli import (
  doctor,
  doctor_machine,
  doctor_packages,
  doctor_probes,
  doctor_rows,
)

BUILD = {
  "is_cuda_build": True,
  "cuda_version": "12.5.1",
  "cudnn_version": "9",
  "cuda_compute_capabilities": ["sm_60", "sm_80", "compute_90"],
}
KINDS = ("float32", "bfloat16", "XLA")
CPU_PRODUCTS = {f"CPU:0 {kind}": None for kind in KINDS}
WORKING = doctor_probes.Results(
  {
    "tensorflow": "2.20.0",
    "keras": "3.15.1",
    "build": BUILD,
    "tf32": True,
    "devices": {"CPU:0": {}},
    **CPU_PRODUCTS,
  },
  {},
)


def with_gpu(capability, faults=(), kinds=KINDS):
  """Returns the results of a machine with a GPU."""
  gpu = {"device_name": "Tesla", "compute_capability": capability}
  faults = {f"GPU:0 {kind}": text for kind, text in dict(faults).items()}
  names = [f"GPU:0 {kind}" for kind in kinds]
  values = {
    **WORKING.values,
    "devices": {"CPU:0": {}, "GPU:0": gpu},
    **{name: None for name in names if name not in faults},
  }
  return doctor_probes.Results(values, faults)


@pytest.fixture
def examine(monkeypatch, capsys):
  """Returns a function that runs the doctor on results of TensorFlow.

  It returns the exit status and the rows by name. No extra is checked, and
  other packages are not imported.
  """

  def run(results=WORKING, driver=doctor_machine.NO_DRIVER):
    def probe(kind, *modules):
      is_tensorflow = kind == "tensorflow"
      return results if is_tensorflow else imported(modules)

    monkeypatch.setattr(doctor_probes, "run", probe)
    monkeypatch.setattr(doctor_machine, "driver_row", lambda: driver)
    monkeypatch.setattr(doctor_packages, "extras", lambda: [])
    status = 0
    try:
      doctor.main()
    except SystemExit as end:
      status = end.code
    lines = capsys.readouterr().out.splitlines()
    rows = {}
    for line in lines[:-1]:
      rows.setdefault(line[9:26].strip(), []).append(line)
    return status, rows, lines[-1]

  return run


def imported(modules, faults=()):
  values = {module: None for module in modules if module not in dict(faults)}
  return doctor_probes.Results(values, dict(faults))


@pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="not Linux")
def test_cached_files_of_a_container_are_free_memory(monkeypatch):
  files = {
    "max": "8000\n",
    "current": "7000\n",
    "stat": "anon 2000\ninactive_file 5000\n",
  }
  monkeypatch.setattr(doctor_machine, "_read_cgroup", files.__getitem__)
  assert doctor_machine._memory() == (6000, 8000)


def test_a_machine_that_works_has_no_error(examine):
  status, rows, summary = examine()
  assert status == 0 and "can work" in summary
  (tensorflow,) = rows["tensorflow"]
  assert tensorflow.startswith("ok ")
  (cuda,) = rows["CUDA"]
  assert "12.5.1" in cuda and "cuDNN 9" in cuda
  assert {"Python", "memory", "disk", "NVIDIA driver", "CPU:0"} <= rows.keys()


@pytest.mark.parametrize(
  "fault",
  ["ModuleNotFoundError: No module named 'x'", "the process crashed: SIGILL"],
)
def test_a_broken_tensorflow_is_an_error(examine, fault):
  results = doctor_probes.Results({}, {"tensorflow": fault})
  status, rows, summary = examine(results)
  assert status == 1 and "cannot work" in summary
  (row,) = rows["tensorflow"]
  assert row.startswith("error ") and fault in row
  assert "pip install" in row or "AVX" in row
  assert rows["keras"][0].startswith("error ") and "CPU:0" not in rows


@pytest.mark.parametrize("name", ["nonsense", "jax"])
def test_a_backend_that_cannot_train_is_an_error(examine, monkeypatch, name):
  monkeypatch.setattr(doctor.backend, "name", lambda: name)
  status, rows, _ = examine()
  assert status == 1
  (row,) = rows["Keras backend"]
  assert name in row and "KERAS_BACKEND=tensorflow" in row


@pytest.mark.parametrize(
  ("variable", "build", "missing", "advice"),
  [
    ("-1", {}, False, "unset CUDA_VISIBLE_DEVICES"),
    ("", {}, False, "unset CUDA_VISIBLE_DEVICES"),
    ("1", {}, False, "TF_CPP_MIN_LOG_LEVEL=0"),
    (None, {"is_cuda_build": False}, False, "tensorflow[and-cuda]"),
    (None, {}, True, "gpu"),
    (None, {}, False, "TF_CPP_MIN_LOG_LEVEL=0"),
  ],
)
def test_a_gpu_that_tensorflow_does_not_see_is_a_warning(
  examine, monkeypatch, variable, build, missing, advice
):
  monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
  if variable is not None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
  version = None if missing else "9.3"
  monkeypatch.setattr(
    doctor_packages.Requirement, "version", property(lambda self: version)
  )
  values = {**WORKING.values, "build": {**BUILD, **build}}
  status, rows, _ = examine(
    doctor_probes.Results(values, {}), doctor_rows.ok("NVIDIA driver", "580.1")
  )
  (row,) = rows["GPU"]
  assert row.startswith("warning ") and advice in row.split(": ", 1)[1]
  assert status == 0


def test_a_gpu_that_works_has_its_name_bfloat16_and_tf32(examine):
  status, rows, summary = examine(with_gpu((8, 0)))
  assert status == 0 and "warnings: 0" in summary
  (row,) = rows["GPU:0"]
  assert "Tesla" in row and "8.0" in row and "tensor cores" in row
  assert "--precision=tf32" in rows["TF32"][0]


def test_an_older_gpu_has_neither_bfloat16_nor_tf32(examine):
  _, rows, _ = examine(with_gpu((7, 5)))
  assert "no units" in rows["GPU:0"][0]
  assert "tf32" not in rows["TF32"][0]


@pytest.mark.parametrize(
  ("kind", "status", "advice"),
  [
    ("float32", 1, "CUDA_VISIBLE_DEVICES=-1"),
    ("XLA", 0, "--nouse_xla"),
    ("bfloat16", 0, "--precision=float32"),
  ],
)
def test_a_product_that_fails_on_a_gpu_is_named(examine, kind, status, advice):
  fault = {kind: "the process crashed with SIGABRT: LLVM ERROR: PTX"}
  result, rows, _ = examine(with_gpu((8, 9), fault))
  (row,) = rows["GPU:0"]
  assert result == status and fault[kind] in row and advice in row


def test_a_gpu_after_a_crash_is_not_checked(examine):
  _, rows, _ = examine(with_gpu((8, 0), kinds=()))
  assert rows["GPU:0"][0].startswith("warning ")


@pytest.mark.parametrize(
  ("capability", "is_newer"),
  [((9, 0), False), ((10, 0), True), ((12, 0), True)],
)
def test_a_gpu_newer_than_the_kernels_is_a_warning(
  examine, capability, is_newer
):
  _, rows, _ = examine(with_gpu(capability))
  warnings = [row for row in rows["GPU:0"] if row.startswith("warning ")]
  assert len(warnings) == is_newer
  assert all("Blackwell" in row for row in warnings)


# The machine.


def write_nvidia_smi(folder, lines, status=0):
  path = folder / "nvidia-smi"
  text = "\n".join(f"echo {shlex.quote(line)}" for line in lines)
  path.write_text(f"#!/bin/sh\n{text}\nexit {status}\n")
  path.chmod(0o755)


def test_the_driver_lists_its_gpus(tmp_path, monkeypatch):
  write_nvidia_smi(tmp_path, ["580.1, A100, 81000 MiB", "580.1, L4, [N/A]"])
  monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
  row = doctor_machine.driver_row()
  assert row.status == doctor_rows.OK
  assert "580.1" in row.text and "A100, 81000 MiB free" in row.text
  assert "L4" in row.text


def test_a_driver_that_fails_is_a_warning(tmp_path, monkeypatch):
  write_nvidia_smi(tmp_path, ["Driver/library version mismatch"], 18)
  monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
  row = doctor_machine.driver_row()
  assert row.status == doctor_rows.WARNING
  assert "version mismatch" in row.text and "restart" in row.mend


def test_another_python_is_an_error(monkeypatch):
  monkeypatch.setattr(platform, "python_version", lambda: "3.9.20")
  row = doctor_packages.python_row()
  assert row.status == doctor_rows.ERROR and ">=3.10" in row.text


def test_a_deleted_folder_is_a_warning(tmp_path, monkeypatch):
  folder = tmp_path / "gone"
  folder.mkdir()
  monkeypatch.chdir(folder)
  folder.rmdir()
  assert doctor_machine.disk_row().status == doctor_rows.WARNING


# Packages.


def test_extras_are_those_of_the_package_with_their_own_extras():
  names = {r.name for r in doctor_packages.requirements("bert_tf", "test")}
  assert {
    "safetensors",
    "aiohttp",
    "pytest",
  } <= names and "bert_tf" not in names
  # CUDA has no module to import.
  gpu = {
    r.name: r.module for r in doctor_packages.requirements("bert_tf", "gpu")
  }
  assert gpu["tensorflow"] == "tensorflow" and not gpu["nvidia-cudnn-cu12"]


@pytest.mark.parametrize(("system", "is_needed"), [("win32", 0), ("linux", 1)])
def test_tensorflow_text_is_not_needed_on_windows(
  monkeypatch, system, is_needed
):
  environment = {**markers.default_environment(), "sys_platform": system}
  monkeypatch.setattr(markers, "default_environment", lambda: environment)
  names = [r.name for r in doctor_packages.requirements("bert_tf")]
  assert names.count("tensorflow-text") == is_needed and "tensorflow" in names


def test_a_missing_packaging_is_an_error(examine, monkeypatch):
  monkeypatch.setitem(sys.modules, "packaging", None)
  status, rows, _ = examine()
  assert status == 1 and "pip install packaging" in rows["packaging"][0]


def test_a_version_out_of_bounds_is_a_warning():
  package = doctor_packages.Requirement("numpy", "<1.0")
  row = doctor_packages.package_row(package, imported(["numpy"]))
  assert row.status == doctor_rows.WARNING and "<1.0" in row.mend


def fake_requirements(monkeypatch, *names):
  needed = [doctor_packages.Requirement(name) for name in names]
  monkeypatch.setattr(
    doctor_packages, "requirements", lambda *unused: iter(needed)
  )


def test_a_missing_extra_names_its_packages_and_command(monkeypatch):
  fake_requirements(monkeypatch, "numpy", "no-such-package")
  row = doctor_packages.extra_row("hf")
  assert row.status == doctor_rows.MISSING
  assert row.text == "no-such-package"
  assert row.mend.startswith("pip install") and "hf" in row.mend


def test_a_broken_extra_is_a_warning(monkeypatch):
  fake_requirements(monkeypatch, "numpy", "scipy")
  fault = "ImportError: undefined symbol"
  monkeypatch.setattr(
    doctor_probes, "run", lambda _, *m: imported(m, {"scipy": fault})
  )
  row = doctor_packages.extra_row("hf")
  assert row.status == doctor_rows.WARNING
  assert fault in row.text and "--force-reinstall" in row.mend


@pytest.mark.parametrize(
  ("name", "status"),
  [("tensorflow-text", doctor_rows.WARNING), ("numpy", doctor_rows.ERROR)],
)
def test_only_a_package_that_training_needs_is_an_error(
  monkeypatch, name, status
):
  fake_requirements(monkeypatch, name, "scipy")
  module = name.replace("-", "_")
  monkeypatch.setattr(
    doctor_probes, "run", lambda _, *m: imported(m, {module: "broken"})
  )
  rows = list(doctor_packages.dependency_rows(()))
  assert [row.status for row in rows] == [status, doctor_rows.OK]
  assert name in rows[0].mend and "scipy" in rows[1].text


def test_a_missing_tensorflow_text_is_no_fault(monkeypatch):
  fake_requirements(monkeypatch, "tensorflow-text")
  monkeypatch.setattr(
    doctor_packages.Requirement, "version", property(lambda self: None)
  )
  monkeypatch.setattr(
    doctor_probes, "run", lambda _, *m: imported(m, dict.fromkeys(m, "missing"))
  )
  row, _ = doctor_packages.dependency_rows(())
  assert row.status == doctor_rows.MISSING and "pip install" in row.mend


def test_tensorflow_text_is_installed_for_the_tensorflow_that_is_there(
  monkeypatch,
):
  monkeypatch.setattr(
    doctor_packages.Requirement, "version", property(lambda self: "2.21.0")
  )
  command = doctor_packages.Requirement("tensorflow-text").install_command
  assert "'tensorflow-text==2.21.*,!=2.21.0'" in command


# The processes.


def test_tensorflow_multiplies_on_this_machine():
  results = doctor_probes.run("tensorflow")
  assert not results.faults
  assert CPU_PRODUCTS.keys() <= results.values.keys()
  assert results.values["build"]["cuda_version"]


def test_packages_may_raise_exit_or_crash(tmp_path, monkeypatch):
  modules = {
    "raising": "raise KeyError('a\\nb')",
    "exiting": "import sys; sys.exit('bye')",
    "printing": "print('noise')",
    "crashing": "import os; os.abort()",
    "after": "",
  }
  for name, text in modules.items():
    (tmp_path / f"{name}.py").write_text(text)
  monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
  results = doctor_probes.run("import", *modules)
  assert list(results.values) == ["printing"]
  assert results.faults["raising"].startswith("KeyError")
  assert results.faults["exiting"] == "SystemExit: bye"
  assert "SIGABRT" in results.faults["crashing"]
  assert "after" not in results.faults


def test_packages_are_imported_from_a_deleted_folder(tmp_path, monkeypatch):
  folder = tmp_path / "gone"
  folder.mkdir()
  monkeypatch.chdir(folder)
  folder.rmdir()
  assert "json" in doctor_probes.run("import", "json").values


def test_a_process_that_hangs_is_ended(tmp_path, monkeypatch):
  (tmp_path / "hanging.py").write_text("import time; time.sleep(60)")
  monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
  monkeypatch.setattr(doctor_probes, "_TIMEOUT", 2)
  results = doctor_probes.run("import", "hanging")
  assert "2 seconds" in results.faults.get("hanging", results.faults.get(""))
