"""Imports point downward only; layer 0 does without TensorFlow."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bert_tf"

LAYERS = {
  0: (
    "answers character_tables corpus error_text extras file_access masking "
    "metrics "
    "pydoc_corpus tokenization vocabulary worker_pool"
  ),
  1: (
    "checkpoints distribution dropout features heads input_pipeline losses "
    "modeling optimization precision text_files text_ops "
    "word_ops"
  ),
  2: (
    "checkpoint_inspection curves estimator evaluation_step ids_models "
    "litert_models onnx_models other_runtimes output_dirs "
    "periodic_evaluation progress record_cache run_start saved_models "
    "stop_signals training_step"
  ),
  3: (
    "classifier export extend_vocab feature_extraction fill_mask "
    "interop.beside "
    "interop.convert interop.hugging_face interop.hugging_face_files "
    "interop.keras_weights interop.model_garden interop.object_graph "
    "interop.original interop.pretrained pretraining_beam "
    "pretraining_data predictor question_answering "
    "pretraining_shards served_functions server.application "
    "server.attention_json server.batching server.page server.rest_json "
    "serving.attention serving.choices serving.classification "
    "serving.context_windows serving.encoders serving.masks serving.spans "
    "serving.words tasks.classification tasks.classification_data "
    "tasks.classification_results tasks.examples tasks.glue tasks.label_map "
    "tasks.length_schedule tasks.long_texts tasks.ner tasks.ner_bilstm "
    "tasks.ner_data "
    "tasks.ner_features tasks.ner_results tasks.ner_vectors "
    "tasks.pretraining tasks.rows tasks.squad tasks.squad_data "
    "tasks.squad_evaluation tasks.squad_features tasks.squad_predictions "
    "tasks.swag tasks.swag_data tasks.swag_features tasks.sweeps "
    "tasks.fine_tuning"
  ),
}
LAYER_OF = {
  name: layer for layer, names in LAYERS.items() for name in names.split()
}

# Who may import whom inside a layer.
INSIDE_A_LAYER = {
  ("classifier", "tasks.classification"),
  ("classifier", "tasks.classification_data"),
  ("classifier", "tasks.classification_results"),
  ("classifier", "tasks.examples"),
  ("classifier", "tasks.label_map"),
  ("checkpoints", "distribution"),
  ("checkpoints", "precision"),
  ("checkpoints", "text_files"),
  ("character_tables", "tokenization"),
  ("corpus", "file_access"),
  ("corpus", "pydoc_corpus"),
  ("tokenization", "file_access"),
  ("vocabulary", "tokenization"),
  ("heads", "dropout"),
  ("heads", "modeling"),
  ("losses", "heads"),
  ("losses", "modeling"),
  ("modeling", "dropout"),
  ("optimization", "distribution"),
  ("text_files", "features"),
  ("text_ops", "word_ops"),
  ("optimization", "modeling"),
  ("precision", "modeling"),
  ("estimator", "evaluation_step"),
  ("estimator", "periodic_evaluation"),
  ("estimator", "progress"),
  ("estimator", "run_start"),
  ("estimator", "stop_signals"),
  ("estimator", "training_step"),
  ("training_step", "progress"),
  ("interop.beside", "interop.pretrained"),
  ("interop.beside", "tasks.examples"),
  ("interop.beside", "tasks.label_map"),
  ("interop.convert", "interop.beside"),
  ("interop.convert", "interop.hugging_face"),
  ("interop.convert", "interop.keras_weights"),
  ("interop.convert", "interop.model_garden"),
  ("interop.convert", "interop.original"),
  ("interop.convert", "interop.pretrained"),
  ("interop.hugging_face", "interop.beside"),
  ("interop.hugging_face", "interop.hugging_face_files"),
  ("interop.hugging_face", "interop.pretrained"),
  ("interop.hugging_face_files", "interop.pretrained"),
  ("interop.hugging_face_files", "tasks.examples"),
  ("interop.hugging_face_files", "tasks.label_map"),
  ("interop.keras_weights", "interop.beside"),
  ("interop.keras_weights", "interop.pretrained"),
  ("interop.model_garden", "interop.beside"),
  ("interop.model_garden", "interop.object_graph"),
  ("interop.model_garden", "interop.pretrained"),
  ("interop.model_garden", "tasks.examples"),
  ("interop.model_garden", "tasks.label_map"),
  ("interop.original", "interop.beside"),
  ("interop.original", "interop.pretrained"),
  ("interop.pretrained", "tasks.examples"),
  ("interop.pretrained", "tasks.label_map"),
  ("export", "serving.attention"),
  ("export", "serving.choices"),
  ("export", "serving.classification"),
  ("export", "serving.encoders"),
  ("export", "serving.masks"),
  ("export", "serving.spans"),
  ("export", "serving.words"),
  ("export", "tasks.classification_data"),
  ("export", "tasks.examples"),
  ("export", "tasks.label_map"),
  ("export", "tasks.squad_features"),
  ("export", "tasks.squad_predictions"),
  ("serving.classification", "tasks.examples"),
  ("serving.classification", "tasks.glue"),
  ("serving.context_windows", "tasks.squad_features"),
  ("serving.masks", "fill_mask"),
  ("serving.spans", "serving.context_windows"),
  ("serving.spans", "tasks.squad_features"),
  ("serving.spans", "tasks.squad_predictions"),
  ("predictor", "export"),
  ("predictor", "served_functions"),
  ("predictor", "serving.attention"),
  ("served_functions", "export"),
  ("server.application", "predictor"),
  ("server.application", "server.attention_json"),
  ("server.application", "server.batching"),
  ("server.application", "server.page"),
  ("server.application", "server.rest_json"),
  ("server.attention_json", "server.rest_json"),
  ("server.attention_json", "serving.attention"),
  ("server.rest_json", "served_functions"),
  ("serving.attention", "fill_mask"),
  ("serving.attention", "serving.masks"),
  ("ids_models", "saved_models"),
  ("litert_models", "ids_models"),
  ("litert_models", "saved_models"),
  ("onnx_models", "ids_models"),
  ("other_runtimes", "ids_models"),
  ("other_runtimes", "litert_models"),
  ("other_runtimes", "onnx_models"),
  ("pretraining_shards", "pretraining_data"),
  ("question_answering", "tasks.squad_data"),
  ("question_answering", "tasks.squad_features"),
  ("question_answering", "tasks.squad_predictions"),
  ("pretraining_beam", "pretraining_shards"),
  ("pretraining_beam", "pretraining_data"),
  ("tasks.classification", "tasks.classification_data"),
  ("tasks.classification", "tasks.classification_results"),
  ("tasks.classification", "tasks.examples"),
  ("tasks.classification", "tasks.label_map"),
  ("tasks.classification", "tasks.long_texts"),
  ("tasks.classification", "tasks.fine_tuning"),
  ("tasks.classification_data", "tasks.long_texts"),
  ("tasks.classification_results", "tasks.long_texts"),
  ("tasks.classification_data", "tasks.examples"),
  ("tasks.classification_results", "tasks.examples"),
  ("tasks.examples", "tasks.rows"),
  ("tasks.glue", "tasks.examples"),
  ("tasks.label_map", "tasks.examples"),
  ("tasks.pretraining", "tasks.length_schedule"),
  ("tasks.squad", "tasks.squad_data"),
  ("tasks.squad", "tasks.fine_tuning"),
  ("tasks.squad", "tasks.squad_features"),
  ("tasks.squad", "tasks.squad_predictions"),
  ("tasks.squad_evaluation", "tasks.squad_data"),
  ("tasks.squad_features", "tasks.squad_data"),
  ("tasks.squad_predictions", "tasks.squad_data"),
  ("tasks.squad_predictions", "tasks.squad_features"),
  ("tasks.swag", "tasks.swag_data"),
  ("tasks.swag", "tasks.fine_tuning"),
  ("tasks.swag", "tasks.swag_features"),
  ("tasks.swag_data", "tasks.rows"),
  ("tasks.swag_features", "tasks.swag_data"),
  ("tasks.ner", "tasks.examples"),
  ("tasks.ner", "tasks.label_map"),
  ("tasks.ner", "tasks.ner_bilstm"),
  ("tasks.ner", "tasks.ner_data"),
  ("tasks.ner", "tasks.fine_tuning"),
  ("tasks.ner", "tasks.ner_features"),
  ("tasks.ner", "tasks.ner_results"),
  ("tasks.ner", "tasks.ner_vectors"),
  ("tasks.ner_features", "tasks.ner_data"),
  ("tasks.ner_results", "tasks.ner_data"),
  ("tasks.ner_vectors", "tasks.ner_data"),
  ("tasks.ner_vectors", "tasks.ner_features"),
}


def module_files():
  """(name below bert_tf, file) of every module but the packages' own."""
  return [
    (".".join(path.relative_to(PACKAGE).with_suffix("").parts), path)
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__init__.py"
  ]


def imported_names(path):
  """Every dotted name that a file imports, wherever in it."""
  names = set()
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      names.update(alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      names.update(f"{node.module}.{alias.name}" for alias in node.names)
  return names


def imported_modules(path):
  """The modules of bert_tf that a file imports."""
  modules = set()
  for name in imported_names(path):
    parts = name.split(".")
    if parts[0] == "bert_tf":
      for end in range(len(parts), 1, -1):
        if ".".join(parts[1:end]) in LAYER_OF:
          modules.add(".".join(parts[1:end]))
          break
  return modules


def test_every_module_has_a_layer():
  unknown = [name for name, _ in module_files() if name not in LAYER_OF]
  assert not unknown, "give these a layer in LAYERS"


def test_imports_point_downward():
  wrong = [
    f"{name} imports {imported}"
    for name, path in module_files()
    for imported in imported_modules(path)
    if LAYER_OF[imported] >= LAYER_OF[name]
    and (name, imported) not in INSIDE_A_LAYER
  ]
  assert not wrong


def test_the_library_imports_no_script():
  scripts = {path.stem for path in (ROOT / "run_scripts").glob("*.py")}
  for name, path in module_files():
    tops = {imported.split(".")[0] for imported in imported_names(path)}
    assert not tops & scripts, name


def test_the_library_defines_no_flags():
  for name, path in module_files():
    absl = {n for n in imported_names(path) if n.startswith("absl")}
    assert not absl & {"absl.flags", "absl.app", "absl"}, name


@pytest.mark.parametrize("name", LAYERS[0].split())
def test_layer_0_reads_no_tensorflow(name):
  path = PACKAGE / f"{name}.py"
  top_level = ast.parse(path.read_text()).body
  for node in top_level:
    if isinstance(node, ast.Import | ast.ImportFrom):
      text = ast.unparse(node)
      assert "tensorflow" not in text and "keras" not in text, text


def test_importing_layer_0_leaves_tensorflow_out():
  names = [n for n in LAYERS[0].split() if (PACKAGE / f"{n}.py").exists()]
  code = "import sys\n"
  code += "".join(f"import bert_tf.{name}\n" for name in names)
  code += "print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
  result = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
  )
  assert (result.stdout.strip(), result.stderr) == ("[]", "")
