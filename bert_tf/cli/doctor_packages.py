"""Checks of `bert-tf doctor` of packages: dependencies and extras.

Functions that need `packaging` import it, since it may be missing.
"""

import platform
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from bert_tf.cli import doctor_probes, doctor_rows
from bert_tf.files import errors

PACKAGE = "bert_tf"

# Modules to import, by distribution, if the names differ. Model Garden 2.20
# imports pkg_resources, which setuptools 81 drops.
_MODULES = {
  "absl-py": "absl",
  "ai-edge-litert": "ai_edge_litert.interpreter",
  "mkdocs-material": "material",
  "mkdocstrings-python": "mkdocstrings_handlers.python",
  "protobuf": "google.protobuf",
  "pytest-xdist": "xdist",
  "scikit-learn": "sklearn",
  "setuptools": "pkg_resources",
  "tf-models-official": "official.nlp.modeling",
}


class Requirement(NamedTuple):
  """A package that another package needs.

  Attributes:
    name: name of the distribution.
    bounds: allowed versions, such as ">=2.20,<2.22"; "" for any.
  """

  name: str
  bounds: str = ""

  @property
  def module(self) -> str:
    """The module to import; "" for CUDA's libraries, which have none."""
    if self.name.startswith("nvidia-"):
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


def extras() -> list[str]:
  """Returns the names of bert_tf's extras."""
  return _read_metadata("Provides-Extra")


def _read_metadata(key: str) -> list[str]:
  """Returns a field of bert_tf's metadata; [] if bert_tf is not installed."""
  try:
    return metadata.metadata(PACKAGE).get_all(key) or []
  except metadata.PackageNotFoundError:  # dependency_rows reports it.
    return []


def requirements(package: str, extra: str = "") -> Iterator[Requirement]:
  """Yields the requirements of a package, or those that an extra of it adds.

  For tensorflow[and-cuda], also yields the requirements of and-cuda. Leaves out
  requirements for another system or another version of Python. Yields nothing
  for a package that is not installed.
  """
  from packaging import requirements as parsing

  try:
    lines = metadata.requires(package) or []
  except metadata.PackageNotFoundError:
    return
  for parsed in map(parsing.Requirement, lines):
    marker = parsed.marker
    if marker and not marker.evaluate({"extra": extra}):
      continue
    if extra and (not marker or marker.evaluate({"extra": ""})):
      continue  # The package needs it without the extra.
    if parsed.name.replace("-", "_") != PACKAGE:
      yield Requirement(parsed.name, str(parsed.specifier))
    for other in sorted(parsed.extras):
      yield from requirements(parsed.name, other)


def find_requirement(name: str) -> Requirement:
  """Returns bert_tf's requirement of a package; any version if unknown."""
  known = {needed.name: needed for needed in requirements(PACKAGE)}
  return known.get(name, Requirement(name))


def python_row() -> doctor_rows.Row:
  """Returns the row of Python."""
  version = platform.python_version()
  bounds = "".join(_read_metadata("Requires-Python"))
  if not _is_within(version, bounds):
    return doctor_rows.error(
      "Python",
      f"{version} is not {bounds}",
      "make an environment with another version, python3.13 -m venv venv",
    )
  system = f"{platform.system()} {platform.machine()}"
  return doctor_rows.ok("Python", f"{version} on {system}")


def _is_within(version: str, bounds: str) -> bool:
  from packaging import specifiers

  return specifiers.SpecifierSet(bounds).contains(version, prereleases=True)


def package_row(
  package: Requirement, results: doctor_probes.Results
) -> doctor_rows.Row:
  """Returns the row of a package: its version or its fault.

  Args:
    package: the package.
    results: results of a process that imported the package's module.
  """
  name, version, command = (
    package.name,
    package.version,
    package.install_command,
  )
  if package.module and package.module not in results.values:
    row = doctor_rows.error
    if name == "tensorflow-text":  # Training does not need it.
      row = doctor_rows.warning if version else doctor_rows.missing
    if not version:
      return row(name, "not installed", command)
    fault = results.faults.get(package.module, results.faults.get(""))
    if fault and "SIGILL" in fault:
      command = "use a processor with AVX, or build TensorFlow from source"
    return row(name, fault or "not imported after a fault before it", command)
  if version and not _is_within(version, package.bounds):
    text = f"{version} is not {package.bounds}"
    return doctor_rows.warning(name, text, command)
  return doctor_rows.ok(name, version or "imported")


def dependency_rows(skipped: tuple[str, ...]) -> Iterator[doctor_rows.Row]:
  """Yields the rows of bert_tf's dependencies, except the `skipped` ones.

  Yields a row for each package with a fault, then one for all others.
  """
  needed = [p for p in requirements(PACKAGE) if p.name not in skipped]
  if not needed:
    text = "not installed, so its dependencies and extras are not known"
    yield doctor_rows.warning(PACKAGE, text, "pip install .")
    return
  results = doctor_probes.run("import", *(p.module for p in needed))
  working = []
  for row in [package_row(package, results) for package in needed]:
    if row.status == doctor_rows.OK:
      working.append(f"{row.name} {row.text}")
    else:
      yield row
  yield doctor_rows.ok("other packages", ", ".join(working) or "none")


def extra_row(extra: str) -> doctor_rows.Row:
  """Imports the packages of an extra in a process; returns the extra's row."""
  needed = list(requirements(PACKAGE, extra))
  missing = [package.name for package in needed if package.version is None]
  if missing:
    command = errors.format_install_command(extra)
    return doctor_rows.missing(extra, errors.join_names(missing, 5), command)
  results = doctor_probes.run("import", *(p.module for p in needed if p.module))
  rows = [package_row(package, results) for package in needed]
  for row in rows:
    if row.status != doctor_rows.OK:
      text = f"{row.name} is broken: {row.text}"
      return doctor_rows.warning(extra, text, row.mend)
  names = [f"{row.name} {row.text}" for row in rows]
  return doctor_rows.ok(extra, errors.join_names(names, 5))
