"""BERT without a head, with the interface of TF Hub's text encoders.

Code written for TF Hub's BERT works with the SavedModels of Encoder and
Preprocessor: `tf.saved_model.load`, `hub.load` and `hub.KerasLayer` load them.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.checkpoint import run_info
from bert_tf.export import saved_models, text
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


class Preprocessor(tf.Module):
  """Converts texts to inputs of an Encoder.

  A call takes texts, string [B], and returns HUB_NAMES, int32 [B, F]. Use
  `tokenize`, from texts to int32 [B, (words), (pieces)], and `bert_pack_inputs`
  for pairs and for other lengths.
  """

  def __init__(
    self, tokenizer: text.BertTokenizer, max_seq_length: int
  ) -> None:
    super().__init__(name="preprocessor")
    self.tokenizer = tokenizer  # Owns the vocabulary of the next two.
    self.tokenize = tokenizer.tokenize_words
    self.bert_pack_inputs = BertPackInputs(tokenizer, max_seq_length)

  @saved_models.function(saved_models.texts_spec("text"))
  def __call__(self, text: Tensor) -> dict[str, Tensor]:
    """Returns the inputs of an Encoder for single texts."""
    return self.bert_pack_inputs([self.tokenize(text)])

  def signatures(self) -> saved_models.Signatures:
    """Returns the function that takes texts."""
    return {
      ids_functions.TEXT: self.__call__,
      ids_functions.DEFAULT: self.__call__,
    }


class BertPackInputs(tf.Module):
  """Packs one or two segments as inputs of an Encoder."""

  def __init__(
    self, tokenizer: text.BertTokenizer, max_seq_length: int
  ) -> None:
    super().__init__(name="bert_pack_inputs")
    self._max_seq_length = max_seq_length
    length = tf.TensorSpec([], tf.int32)
    pieces = tf.RaggedTensorSpec([None, None], tf.int32, 1)
    # Traced once for all calls below: tracing takes most of the export's time.
    self._single = saved_models.function([length, pieces])(
      lambda length, a: tokenizer.pack([a], length)
    )
    self._pair = saved_models.function([length, pieces, pieces])(
      lambda length, a, b: tokenizer.pack([a, b], length)
    )
    for ranks in (1, 2):  # Segments without and with a (words) axis.
      segment = tf.RaggedTensorSpec([None] * (ranks + 1), tf.int32, ranks)
      for segments in ([segment], [segment, segment]):
        self.__call__.get_concrete_function(segments)
        self.__call__.get_concrete_function(segments, seq_length=length)

  @tf.function(autograph=False)
  def __call__(
    self, inputs: Sequence[tf.RaggedTensor], seq_length: Tensor | None = None
  ) -> dict[str, Tensor]:
    """Returns HUB_NAMES, int32 [B, F]: the segments, truncated and padded.

    `inputs` are one or two of int32 [B, (pieces)] or [B, (words), (pieces)].
    F is seq_length, int32 [], or max_seq_length.
    """
    segments = [
      segment.merge_dims(1, -1) if segment.ragged_rank > 1 else segment
      for segment in inputs
    ]
    length = self._max_seq_length if seq_length is None else seq_length
    pack = self._pair if len(segments) == 2 else self._single
    packed = pack(length, *segments)
    values = [packed[name] for name in ids_functions.ID_NAMES]
    return dict(zip(HUB_NAMES, values))
