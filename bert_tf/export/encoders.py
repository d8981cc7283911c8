"""BERT without a head, with the interface of TF Hub's text encoders.

Code written for TF Hub's BERT works with the SavedModel of an Encoder, which
`tf.saved_model.load`, `hub.load` and `hub.KerasLayer` load.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.checkpoint import run_info
from bert_tf.export import saved_models
from bert_tf.files import atomic, tokenizer_files
from bert_tf.inference import ids_functions
from bert_tf.modeling import Tensor

# TF Hub's names for ids_functions.ID_NAMES, in the same order.
HUB_NAMES = ("input_word_ids", "input_mask", "input_type_ids")


class Encoder(tf.Module):
  """BERT as a SavedModel for fine-tuning and feature extraction.

  It has the attributes of TF Hub's encoders: `variables`,
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
    spec = {n: tf.TensorSpec([None, None], tf.int32, n) for n in HUB_NAMES}
    for training in (False, True):
      self.__call__.get_concrete_function(spec, training=training)

  @tf.function(autograph=False)
  def __call__(
    self, inputs: Mapping[str, Tensor], training: bool = False
  ) -> dict[str, Tensor | list[Tensor]]:
    """Encodes inputs by HUB_NAMES, int32 [B, F], with dropout if `training`.

    Returns:
      pooled_output, default: float32 [B, D].
      sequence_output: float32 [B, F, D].
      encoder_outputs: list of float32 [B, F, D], the output of each layer.
    """
    values = [inputs[name] for name in HUB_NAMES]
    output = self.model(dict(zip(ids_functions.ID_NAMES, values)), training)
    return {
      "pooled_output": output.pooled_output,
      "default": output.pooled_output,
      "sequence_output": output.sequence_output,
      "encoder_outputs": list(output.all_encoder_layers),
    }
