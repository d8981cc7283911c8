"""Checks of `bert-tf doctor` of packages: dependencies and extras."""

import re
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from bert_tf.cli import doctor_machine, doctor_probes, doctor_rows
from bert_tf.files import errors

PACKAGE = "bert_tf"

# Packages that some commands need and training does not.
_OPTIONAL = ("tensorflow-text",)

# Modules to import, by distribution, if the names differ. Model Garden 2.20
# imports pkg_resources, which setuptools 81 drops.
_MODULES = {
  "absl-py": "absl",
  "ai-edge-litert": "ai_edge_litert.interpreter",
  "mkdocs-material": "material",
  "protobuf": "google.protobuf",
  "pytest-xdist": "xdist",
  "scikit-learn": "sklearn",
  "setuptools": "pkg_resources",
  "tf-models-official": "official.nlp.modeling",
}

# Name, extras, bounds and marker of a requirement, as in pyproject.toml.
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?\s*([^;]*)(?:;(.*))?")


class Requirement(NamedTuple):
  """A package that another package needs.

  Attributes:
    name: name of the distribution.
    bounds: allowed versions, such as ">=2.20,<2.22"; "" for any.
    is_indirect: whether an extra of a dependency adds this package, as
      tensorflow[and-cuda] adds CUDA. The package may have no module to import.
  """

  name: str
  bounds: str = ""
  is_indirect: bool = False

  @property
  def module(self) -> str:
    """The module to import; "" for an indirect requirement."""
    if self.is_indirect:
      return ""
    return _MODULES.get(self.name, self.name.replace("-", "_"))

  @property
  def version(self) -> str | None:
    """The installed version; None if the package is not installed."""
    try:
      return metadata.version(self.name)
    except metadata.PackageNotFoundError:
      return None

  @property
  def install_command(self) -> str:
    """The command that installs or repairs the package."""
    requirement = f"{self.name}{self.bounds}"
    tensorflow = Requirement("tensorflow").version
    if self.name == "tensorflow-text" and tensorflow:
      requirement = errors.tensorflow_text_requirement(tensorflow)
    repair = "--force-reinstall " if self.version else ""
    return f"pip install {repair}'{requirement}'"


def python_versions() -> str:
  """Returns bounds of the supported versions of Python; "" if not known."""
  return "".join(_about("Requires-Python"))


def extras() -> list[str]:
  """Returns the names of bert_tf's extras."""
  return _about("Provides-Extra")


def _about(key: str) -> list[str]:
  """Returns a field of bert_tf's metadata; [] if bert_tf is not installed."""
  try:
    return metadata.metadata(PACKAGE).get_all(key) or []
  except metadata.PackageNotFoundError:  # dependency_rows reports it.
    return []


def requirements(package: str, extra: str = "") -> Iterator[Requirement]:
  """Yields the requirements of a package, or those that an extra of it adds.

  For tensorflow[and-cuda], also yields the requirements of and-cuda. Yields
  nothing for a package that is not installed.
  """
  try:
    lines = metadata.requires(package) or []
  except metadata.PackageNotFoundError:
    return
  for line in lines:
    match = _REQUIREMENT.match(line)
    assert match
    name, extras, bounds, marker = (part or "" for part in match.groups())
    marked = re.search(r"extra == ['\"]([\w.-]+)['\"]", marker)
    if (marked[1] if marked else "") != extra:
      continue
    names = tuple(filter(None, map(str.strip, extras.split(","))))
    is_own = name.replace("-", "_") == PACKAGE
    if not is_own:
      yield Requirement(name, bounds.strip(" ()"))
    for other in names:
      for needed in requirements(name, other):
        yield needed if is_own else needed._replace(is_indirect=True)


def find_requirement(name: str) -> Requirement:
  """Returns bert_tf's requirement of a package; any version if unknown."""
  known = {needed.name: needed for needed in requirements(PACKAGE)}
  return known.get(name, Requirement(name))


def version_row(needed: Requirement) -> doctor_rows.Row:
  """Returns the row of a package that can be imported, with its version."""
  version = needed.version or "imported"
  if needed.version and not doctor_machine.is_within(version, needed.bounds):
    text = f"{version} is not {needed.bounds}"
    mend = f"pip install '{needed.name}{needed.bounds}'"
    return doctor_rows.warning(needed.name, text, mend)
  return doctor_rows.ok(needed.name, version)


def dependency_rows(skipped: tuple[str, ...]) -> Iterator[doctor_rows.Row]:
  """Yields the rows of bert_tf's dependencies, except the `skipped` ones.

  Yields a row for each package with a fault, then one for all others.
  """
  needed = {
    package.module: package
    for package in requirements(PACKAGE)
    if package.name not in skipped
  }
  if not needed:
    text = "not installed, so its dependencies and extras are not known"
    yield doctor_rows.warning(PACKAGE, text, "pip install .")
    return
  results = doctor_probes.run("import", *needed)
  working = []
  for package in needed.values():
    fault = _find_fault(package, results)
    if fault:
      status = doctor_rows.ERROR
      if package.name in _OPTIONAL:
        is_there = package.version is not None
        status = doctor_rows.WARNING if is_there else doctor_rows.MISSING
      command = package.install_command
      yield doctor_rows.Row(status, package.name, fault, command)
      continue
    version = version_row(package)
    if version.status == doctor_rows.OK:
      working.append(f"{package.name} {version.text}")
    else:
      yield version
  yield doctor_rows.ok("other packages", ", ".join(working) or "none")


def extra_row(extra: str) -> doctor_rows.Row:
  """Imports the packages of an extra in a process; returns the extra's row."""
  needed = list(requirements(PACKAGE, extra))
  command = errors.format_install_command(extra)
  missing = [package.name for package in needed if package.version is None]
  if missing:
    return doctor_rows.missing(extra, errors.join_names(missing, 5), command)
  modules = [package.module for package in needed if package.module]
  results = doctor_probes.run("import", *modules)
  for package in needed:
    fault = package.module and _find_fault(package, results)
    if fault:
      text = f"{package.name} is broken: {fault}"
      return doctor_rows.warning(extra, text, package.install_command)
  names = [f"{package.name} {package.version}" for package in needed]
  return doctor_rows.ok(extra, errors.join_names(names, 5))


def _find_fault(package: Requirement, results: doctor_probes.Results) -> str:
  """Returns why a package cannot be imported; "" if it can."""
  if package.module in results.values:
    return ""
  if package.version is None:
    return "not installed"
  # A package before this one may have crashed the process.
  return results.faults.get(package.module, "not imported after a crash")
