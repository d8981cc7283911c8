"""Tests that the committed notebooks are complete, and that they run."""

import os
import pathlib
import re
import shlex
import sys

import pytest

from tests.support import docs_files, docs_pages, forks, ports

nbformat = pytest.importorskip("nbformat", reason="needs the extra notebooks")
nbclient = pytest.importorskip("nbclient", reason="needs the extra notebooks")
pytest.importorskip("ipykernel", reason="needs the extra notebooks")

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
MAX_BYTES = 400_000
# Parameters of a run that takes seconds, and assertions at its end on the
# notebook's variables.
SMALL = {
  "bert_from_the_inside": (
    {"PACKAGES": (), "VOCAB_SIZE": 1000, "NUM_STEPS": 60, "EVERY": 20},
    """
    first, *_, last = [values["masked_lm_loss"] for values in history]
    # ln 1000 is 6.9; the most frequent pieces are learned first.
    assert first > 6.7 and last < 6, (first, last)
    assert [values["step"] for values in history] == [0, 20, 40, 60]
    assert vocab[np.argmax(probes[-1])] in ("the", ".", ",", "a", "to", "of")
    for probs in output.attention_probs:
      assert probs.shape == (1, 2, len(tokens), len(tokens))
      np.testing.assert_allclose(np.sum(probs, axis=-1), 1, rtol=1e-5)
    # The last probe equals the model's own prediction.
    probs = read_layer(output.sequence_output)
    np.testing.assert_allclose(probs, probes[-1], atol=1e-5)
    """,
  ),
  "fine_tune_your_csv": (
    {"MODEL": "minilm", "PORT": 0, "NUM_EPOCHS": 1, "MAX_PASSAGES": 160},
    """
    assert len(rows) == 160 and len(predicted) == len(held_out)
    assert 28 <= len(held_out) <= 36  # A fifth of each label's rows.
    assert set(predicted) <= set(LIBRARIES)
    assert table.sum() == len(held_out)
    assert table.trace() == sum(p == t for p, t in zip(predicted, labels))
    [prediction] = answer["predictions"]
    assert set(prediction["probabilities"]) == set(LIBRARIES)
    assert abs(sum(prediction["probabilities"].values()) - 1) < 1e-5
    """,
  ),
  "the_2018_workflow": (
    {
      "ROOT": str(ROOT),
      "MODEL": "minilm",
      "NUM_TRAIN_STEPS": 5,
      "NUM_TRAIN_EPOCHS": 0.1,
    },
    """
    def read(name):
      with open(os.path.join(folder, name)) as file:
        return file.read()

    assert "global_step = 5\\n" in read("pretraining_output/eval_results.txt")
    assert "eval_accuracy = " in read("cola_output/eval_results.txt")
    assert len(read("cola_output/test_results.tsv").splitlines()) == 50
    assert len(json.loads(read("squad_output/predictions.json"))) == 50
    assert line["features"][0]["token"] == "[CLS]"
    """,
  ),
}


def load(name):
  return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def with_cells_added(notebook, parameters, check, python):
  """Returns the notebook with new parameters, a check, and another `python`."""
  [index] = [
    index
    for index, cell in enumerate(notebook.cells)
    if "parameters" in cell.metadata.get("tags", ())
  ]
  original = notebook.cells[index].source
  assert set(parameters) <= set(re.findall(r"^(\w+) = ", original, re.M))
  lines = [f"{name} = {value!r}" for name, value in parameters.items()]
  lines += ["import sys", f"sys.executable = {str(python)!r}"]
  added = nbformat.v4.new_code_cell("\n".join(lines))
  notebook.cells.insert(index + 1, added)
  # Learning 4000 pieces and reading large libraries takes many seconds.
  for cell in notebook.cells:
    cell.source = re.sub(r"(vocab_size\W+)4000", r"\g<1>1000", cell.source)
    cell.source = cell.source.replace(', "scipy", "sklearn")', ")")
  notebook.cells.append(
    nbformat.v4.new_code_cell("if True:" + check.rstrip(" "))
  )
  return notebook


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_its_outputs_and_no_warnings(name):
  notebook = load(name)
  assert (FOLDER / f"{name}.ipynb").stat().st_size < MAX_BYTES
  cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
  counts = [cell.execution_count for cell in cells]
  assert counts == list(range(1, len(cells) + 1))
  outputs = [output for cell in cells for output in cell.outputs]
  kinds = {output.output_type for output in outputs}
  assert "stream" in kinds and "error" not in kinds
  # No warnings of libraries, and no folders of the recording machine.
  assert not any(output.get("name") == "stderr" for output in outputs)
  texts = [output.get("text", "") for output in outputs]
  assert not [text for text in texts if "/tmp/" in text or "/home/" in text]
  for cell in notebook.cells:
    if cell.cell_type == "markdown":
      docs_pages.check_links(FOLDER / f"{name}.ipynb", cell.source)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, tmp_path, monkeypatch, fork_server):
  parameters, check = SMALL[name]
  parameters = dict(parameters)
  if "MODEL" in parameters:
    docs_files.write_model(tmp_path / parameters["MODEL"], 2)
  if "PORT" in parameters:
    parameters["PORT"] = ports.free_port()
  # Commands fork a process that has already imported TensorFlow.
  python = tmp_path / "programs" / "python"
  python.parent.mkdir()
  command = shlex.join([sys.executable, forks.__file__, fork_server])
  python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
  python.chmod(0o755)
  notebook = with_cells_added(load(name), parameters, check, python)
  path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
  monkeypatch.setenv("PYTHONPATH", path)
  monkeypatch.setenv("TMPDIR", str(tmp_path))
  # One notebook trains for seconds in XLA-compiled code.
  monkeypatch.delenv("XLA_FLAGS", raising=False)
  client = nbclient.NotebookClient(
    notebook,
    timeout=1800,
    kernel_name="python3",
    resources={"metadata": {"path": str(tmp_path)}},
  )
  client.execute()
