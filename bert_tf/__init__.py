"""BERT on TensorFlow 2 and Keras 3."""

import ast
import gc
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from bert_tf.model.kernels import backend

if TYPE_CHECKING:
  from bert_tf.checkpoint.download import download as download
  from bert_tf.export.text import BertTokenizer as BertTokenizer
  from bert_tf.inference.feature_extraction import (
    FeatureExtractor as FeatureExtractor,
  )
  from bert_tf.inference.predictor import Predictor as Predictor
  from bert_tf.inference.predictor import load as load
  from bert_tf.inference.sentence_scorer import SentenceScorer as SentenceScorer
  from bert_tf.inference.task_models import Classifier as Classifier
  from bert_tf.inference.task_models import EntityRecognizer as EntityRecognizer
  from bert_tf.inference.task_models import MultipleChoice as MultipleChoice
  from bert_tf.inference.task_models import QuestionAnswerer as QuestionAnswerer
  from bert_tf.inference.task_models import SentenceEncoder as SentenceEncoder
  from bert_tf.model.heads import ClassifierModel as ClassifierModel
  from bert_tf.model.heads import MultipleChoiceModel as MultipleChoiceModel
  from bert_tf.model.heads import PretrainingModel as PretrainingModel
  from bert_tf.model.heads import SpanModel as SpanModel
  from bert_tf.model.heads import TokenModel as TokenModel
  from bert_tf.model.model_config import BertConfig as BertConfig
  from bert_tf.modeling import BertModel as BertModel
  from bert_tf.tasks.classification.processors import (
    DataProcessor as DataProcessor,
  )
  from bert_tf.tasks.classification.processors import (
    InputExample as InputExample,
  )
  from bert_tf.tokenization import FullTokenizer as FullTokenizer

__version__ = "0.1.0"

if sys.version_info < (3, 10):  # noqa: UP036
  # Older versions cannot parse the rest; their traceback would mislead.
  sys.exit(f"bert_tf needs Python 3.10 to 3.13, not {sys.version.split()[0]}.")

# On processors without VNNI, oneDNN is off by default, but makes a training
# step 1.35 to 1.55 times faster. TensorFlow reads this when it is imported.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Hides the log of TensorFlow's C++ code unless the user has set a level. Level
# 2 would print an error about the missing GPU on every machine without one.
# Errors that matter also raise exceptions.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# On a GPU, products of cuBLASLt add the bias themselves: a training step of
# BERT-Base, 256 x 128, took 47.4 ms instead of 50.6 on an H200. XLA reads its
# flags once. If XLA_FLAGS names a file of flags, it stays as it is.
_flags = os.environ.get("XLA_FLAGS", "")
if "xla_gpu_enable_cublaslt" not in _flags and _flags[:2] in ("", "--"):
  _flags = f"{_flags} --xla_gpu_enable_cublaslt=true".strip()
  os.environ["XLA_FLAGS"] = _flags

sys.meta_path.insert(0, backend.KerasFinder())


# Type checkers and editors read the imports above. At run time, a module is
# imported when a name is first used, because it imports TensorFlow.
with open(__file__, encoding="utf-8") as _file:
  _MODULES = {
    alias.name: str(node.module)
    for node in ast.walk(ast.parse(_file.read()))
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
    if alias.name == alias.asname
  }
__all__ = [*_MODULES, "__version__"]

# The names here of what transformers calls BertModel, AutoModel or TFBertModel.
_HERE = {
  "Model": "BertModel",
  "ForPreTraining": "PretrainingModel",
  "ForMaskedLM": "PretrainingModel",
  "ForNextSentencePrediction": "PretrainingModel",
  "ForSequenceClassification": "ClassifierModel",
  "ForTokenClassification": "TokenModel",
  "ForQuestionAnswering": "SpanModel",
  "ForMultipleChoice": "MultipleChoiceModel",
  "ModelForMultipleChoice": "MultipleChoiceModel",
  "Tokenizer": "BertTokenizer",
  "Config": "BertConfig",
  "pipeline": "load",
}


def __getattr__(name: str) -> Any:
  """Imports the module of a public name and returns its value."""
  if name not in _MODULES:
    rest = re.sub(r"^(TF)?(Bert|Auto)(Model(?=For))?|Fast$", "", name)
    hint = f"; use bert_tf.{_HERE[rest]}" if rest in _HERE else ""
    # `from bert_tf import TFBertModel` would replace the message of an
    # AttributeError. `pipeline` is a folder that Python looks for after one.
    error = ImportError if hint and name != "pipeline" else AttributeError
    raise error(f"bert_tf has no {name!r}{hint}")
  backend.check_tensorflow()
  # Python would collect garbage several times while TensorFlow is imported,
  # which takes half a second and frees nothing.
  is_collecting = gc.isenabled()
  gc.disable()
  try:
    module = importlib.import_module(_MODULES[name])
  finally:
    if is_collecting:
      gc.enable()
  return getattr(module, name)


def __dir__() -> list[str]:
  """Returns the public names, including those not imported yet."""
  return sorted(__all__)
