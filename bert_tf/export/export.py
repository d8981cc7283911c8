"""Exports checkpoints as SavedModels, or as files of ONNX or LiteRT.

All take word-piece ids. The SavedModels of classifiers and encoders also take
texts, with the operations of tensorflow-text, which TensorFlow Serving has too.
"""

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence

import tensorflow as tf
from absl import logging

from bert_tf import modeling, task_registry
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import runtimes, saved_models
from bert_tf.export.config import ExportConfig
from bert_tf.export.text import BertTokenizer
from bert_tf.files import atomic, paths, tokenizer_files
from bert_tf.inference import ids_functions
from bert_tf.inference.config import ModelConfig
from bert_tf.modeling import Tensor

# TF Hub's names for ids_functions.ID_NAMES, in the same order.
_HUB_NAMES = ("input_word_ids", "input_mask", "input_type_ids")


@dataclasses.dataclass(frozen=True)
class Built:
  """A model and the functions of its SavedModel."""

  files: ModelFolder
  # Owns the variables and tables; must stay alive while functions are called.
  module: tf.Module
  signatures: saved_models.Signatures


def run(config: ExportConfig, replaces: bool = False) -> str:
  """Writes a model with run.json, bert_config.json and vocab.txt.

  It is a SavedModel, or the file of another runtime, whose outputs are checked.
  A model with labels also gets label_map.json, and one exported without texts
  vocab.txt only if it has a vocabulary.

  Returns the exported task. An existing model is only replaced if `replaces` is
  true.

  Raises:
    ValueError: if the checkpoint lacks the head of the task; if settings,
      config, vocabulary, labels and run.json contradict each other or are
      missing; if the folder is not empty; or if another runtime computes
      other outputs.
    ImportError: if a package of the runtime is missing.
  """
  if not replaces and not paths.is_free(config.export_dir):
    raise ValueError(
      f"{config.export_dir} is not empty; choose another `export_dir`."
    )
  is_saved_model = config.runtime == "tensorflow"
  if not is_saved_model:
    runtimes.check_installed(config.runtime)
  with_text = config.with_text and is_saved_model
  built = build(config, with_text)
  files, info = built.files, built.files.info
  assert files.reader
  if checkpoints.GLOBAL_STEP in files.reader.shapes:
    step = int(files.reader.get(checkpoints.GLOBAL_STEP))
    training = dataclasses.replace(info.training, global_step=step)
    info = dataclasses.replace(info, training=training)
  long_text = getattr(info.settings, "long_text", None)
  if with_text and long_text not in (None, "truncate"):
    logging.warning(
      "The run reads long texts with long_text=%s, but the SavedModel's own "
      "functions cut them to %s word pieces, so their scores will differ. "
      "bert_tf.load and `bert-tf serve` read long texts as the run did.",
      long_text,
      info.settings.max_seq_length,
    )
  last = "saved_model.pb" if is_saved_model else runtimes.FILES[config.runtime]
  with (
    atomic.folder(config.export_dir, last=last, replaces=replaces) as folder,
    tempfile.TemporaryDirectory() as temporary,
  ):
    saved_model = folder if is_saved_model else temporary
    tf.saved_model.save(built.module, saved_model, signatures=built.signatures)
    if not is_saved_model:
      differences = runtimes.convert(
        saved_model,
        folder,
        files.config,
        config.runtime,
        is_int8=config.quantize == "int8",
      )
      for name, difference in differences.items():
        logging.info("%s: differs by at most %.1e.", name, difference)
    contents = run_info.describe(info, files.config, files.vocab_content)
    run_info.write_files(folder, contents)
  logging.info("Wrote %s.", config.export_dir)
  return info.task


def build(config: ModelConfig, with_text: bool = True) -> Built:
  """Builds in memory the model that `run` writes.

  `with_text` adds the functions that take texts, for tasks that have them.
  Raises the errors of `run`.
  """
  files = config.open()
  if with_text:
    files.needed_vocab()
  task, settings = task_registry.find(files.task_name), files.settings
  if task is task_registry.PRETRAINING:
    files.config.check_bidirectional(files.config_file)
  tokenizer = None
  if with_text and task.text_signatures:
    of_texts = files.tokenizer
    case = of_texts.basic_tokenizer
    tokenizer = BertTokenizer(
      of_texts.vocab, case.do_lower_case, case.strip_accents
    )
  model_class = task_registry.load(task.model)
  model = saved_models.NamedModel(files.load_model(model_class))
  # It takes ID_NAMES, int32 [B, F], for multiple choice [B, C, F], and for a
  # pre-trained model `masked_lm_positions`, int32 [B, P].
  model_class = model_class or modeling.BertModel
  ids = saved_models.named_function(
    lambda inputs: ids_functions.name_outputs(model(inputs), files.info),
    (*ids_functions.ID_NAMES, *model_class.more_inputs),
    rank=len(model_class.input_shape_names),
  )
  functions = {ids_functions.IDS: ids, ids_functions.DEFAULT: ids}
  module = tf.Module(name="served")
  if task is task_registry.ENCODER:
    lower_case = settings.do_lower_case is not False
    module = Encoder(model, files.vocab_file, lower_case)
  module.model = model
  if tokenizer:
    make_signatures = task_registry.load(task.text_signatures)
    functions |= make_signatures(model, tokenizer, files.info)
  module.tokenizer = tokenizer  # Its vocabulary is saved with the module.
  return Built(files, module, functions)


class Encoder(tf.Module):
  """BERT without a head as a SavedModel, for fine-tuning and features.

  Code for TF Hub's BERT loads it by `tf.saved_model.load`, `hub.load` or
  `hub.KerasLayer`. It has the attributes of TF Hub's encoders: `variables`,
  `trainable_variables`, `regularization_losses`, the asset `vocab_file` (if
  there is a vocabulary) and the variable `do_lower_case`.
  """

  # Override properties of tf.Module, which would not be saved.
  variables: Sequence[tf.Variable] = ()
  trainable_variables: Sequence[tf.Variable] = ()
  regularization_losses: Sequence[Tensor] = ()

  def __init__(
    self,
    model: saved_models.NamedModel,
    vocab_file: str | None,
    do_lower_case: bool,
  ) -> None:
    super().__init__(name="encoder")
    self.model = model
    self.variables = list(model.values.values())
    self.trainable_variables = list(model.values.values())
    self.regularization_losses = []
    if vocab_file:
      if tokenizer_files.is_tokenizer_json(vocab_file):
        # The folder must exist until the encoder is saved.
        self._folder = tempfile.TemporaryDirectory()
        content = tokenizer_files.read_vocab(vocab_file)
        vocab_file = os.path.join(self._folder.name, run_info.VOCAB_FILE)
        atomic.write_bytes(vocab_file, content)
      self.vocab_file = tf.saved_model.Asset(vocab_file)
    self.do_lower_case = tf.Variable(
      do_lower_case, trainable=False, name="do_lower_case"
    )
    spec = {n: tf.TensorSpec([None, None], tf.int32, n) for n in _HUB_NAMES}
    for training in (False, True):
      self.__call__.get_concrete_function(spec, training=training)

  @tf.function(autograph=False)
  def __call__(
    self, inputs: Mapping[str, Tensor], training: bool = False
  ) -> dict[str, Tensor | list[Tensor]]:
    """Encodes inputs by _HUB_NAMES, int32 [B, F], with dropout if `training`.

    Returns:
      pooled_output, default: float32 [B, D].
      sequence_output: float32 [B, F, D].
      encoder_outputs: list of float32 [B, F, D], the output of each layer.
    """
    values = [inputs[name] for name in _HUB_NAMES]
    output = self.model(dict(zip(ids_functions.ID_NAMES, values)), training)
    return {
      "pooled_output": output.pooled_output,
      "default": output.pooled_output,
      "sequence_output": output.sequence_output,
      "encoder_outputs": list(output.all_encoder_layers),
    }
