"""BERT itself, with the interface that TF Hub gave its text encoders.

What was written for TF Hub's BERT runs on these: `tf.saved_model.load`,
`hub.load` and `hub.KerasLayer` of an Encoder and of its Preprocessor.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.export import saved_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor

# What TF Hub's text encoders call ID_NAMES, in the same order.
HUB_NAMES = ("input_word_ids", "input_mask", "input_type_ids")


class Encoder(tf.Module):
  """BERT as a SavedModel to fine-tune, and to compute features with.

  Args:
    model: of modeling.BertModel.
    bert_config_file: the model's sizes; it is copied into the SavedModel.
    vocab_file: the model's vocabulary, or None; it is copied as well.
    do_lower_case: whether the vocabulary is of lower-cased text.

  Attributes:
    variables: all of the model's.
    trainable_variables: the same.
    regularization_losses: none.
    vocab_file: the asset, if there is one.
    do_lower_case: bool variable.
  """

  # Lists, where tf.Module has properties: only what is set is saved.
  variables = ()
  trainable_variables = ()
  regularization_losses = ()

  def __init__(
    self,
    model: saved_models.NamedModel,
    bert_config_file: str,
    vocab_file: str | None,
    do_lower_case: bool,
  ) -> None:
    super().__init__(name="encoder")
    self.model = model
    self.variables = list(model.values.values())
    self.trainable_variables = list(model.values.values())
    self.regularization_losses = []
    self.bert_config_file = tf.saved_model.Asset(bert_config_file)
    if vocab_file:
      self.vocab_file = tf.saved_model.Asset(vocab_file)
    self.do_lower_case = tf.Variable(
      do_lower_case, trainable=False, name=saved_models.DO_LOWER_CASE
    )
    spec = {n: tf.TensorSpec([None, None], tf.int32, n) for n in HUB_NAMES}
    for training in (False, True):
      self.__call__.get_concrete_function(spec, training=training)

  @tf.function(autograph=False)
  def __call__(
    self, inputs: Mapping[str, Tensor], training: bool = False
  ) -> dict[str, Tensor | list[Tensor]]:
    """Encodes a batch.

    Args:
      inputs: `input_word_ids`, `input_mask` and `input_type_ids`, int32
        [B, F].
      training: whether to drop out.

    Returns:
      `pooled_output`, float32 [B, D], again as `default`; `sequence_output`,
      float32 [B, F, D]; `encoder_outputs`, that of every layer.
    """
    values = [inputs[name] for name in HUB_NAMES]
    output = self.model(dict(zip(saved_models.ID_NAMES, values)), training)
    return {
      "pooled_output": output.pooled_output,
      "default": output.pooled_output,
      "sequence_output": output.sequence_output,
      "encoder_outputs": list(output.all_encoder_layers),
    }

  def signatures(self) -> saved_models.Signatures:
    """Returns `ids`: pooled_output and sequence_output."""

    def encoded(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
      output = self.model(inputs)
      return {
        "pooled_output": output.pooled_output,
        "sequence_output": output.sequence_output,
      }

    ids = saved_models.ids_function(encoded)
    return {saved_models.IDS: ids, saved_models.DEFAULT: ids}


class Preprocessor(tf.Module):
  """Texts to an Encoder's input.

  Called with texts, string [B], it returns HUB_NAMES, int32 [B, F]; pairs and
  other lengths are made with its `tokenize` and `bert_pack_inputs`.

  Args:
    tokenizer: of the encoder's vocabulary.
    max_seq_length: F, where a call names no other.
  """

  def __init__(
    self, tokenizer: bert_tokenizer.BertTokenizer, max_seq_length: int
  ) -> None:
    super().__init__(name="preprocessor")
    self.tokenize = Tokenize(tokenizer)
    self.bert_pack_inputs = BertPackInputs(tokenizer, max_seq_length)

  @saved_models.function(saved_models.texts_spec("text"))
  def __call__(self, text: Tensor) -> dict[str, Tensor]:
    """Returns the input of an Encoder for single texts."""
    return self.bert_pack_inputs([self.tokenize(text)])

  def signatures(self) -> saved_models.Signatures:
    """Returns the call as the signature that takes texts."""
    return {
      saved_models.TEXT: self.__call__,
      saved_models.DEFAULT: self.__call__,
    }


class Tokenize(tf.Module):
  """Texts, string [B], to word pieces, int32 [B, (words), (pieces)]."""

  def __init__(self, tokenizer: bert_tokenizer.BertTokenizer) -> None:
    super().__init__(name="tokenize")
    self._tokenizer = tokenizer

  @saved_models.function(saved_models.texts_spec("text"))
  def __call__(self, text: Tensor) -> tf.RaggedTensor:
    """Returns the ids; words are what has white space between."""
    words, _, _ = self._tokenizer.split_at_white_space(text)
    return self._tokenizer.tokenize_words(words)


class BertPackInputs(tf.Module):
  """One or two segments to an Encoder's input."""

  def __init__(
    self, tokenizer: bert_tokenizer.BertTokenizer, max_seq_length: int
  ) -> None:
    super().__init__(name="bert_pack_inputs")
    self._max_seq_length = max_seq_length
    length = tf.TensorSpec([], tf.int32)
    pieces = tf.RaggedTensorSpec([None, None], tf.int32, 1)
    # Traced once for all that follows: most of the time of an export.
    self._single = saved_models.function([length, pieces])(
      lambda length, a: tokenizer.pack([a], length)
    )
    self._pair = saved_models.function([length, pieces, pieces])(
      lambda length, a, b: tokenizer.pack([a, b], length)
    )
    for ranks in (1, 2):  # With words, as Tokenize returns them, and without.
      segment = tf.RaggedTensorSpec([None] * (ranks + 1), tf.int32, ranks)
      for segments in ([segment], [segment, segment]):
        self.__call__.get_concrete_function(segments)
        self.__call__.get_concrete_function(segments, seq_length=length)

  @tf.function(autograph=False)
  def __call__(
    self,
    inputs: Sequence[tf.RaggedTensor],
    seq_length: Tensor | None = None,
  ) -> dict[str, Tensor]:
    """Packs segments; what is longer is cut, from the end of the longer one.

    Args:
      inputs: int32 [B, (pieces)] or [B, (words), (pieces)], one or two.
      seq_length: F, int32; None for the max_seq_length of the export.

    Returns:
      HUB_NAMES, int32 [B, F].
    """
    segments = [
      segment.merge_dims(1, -1) if segment.ragged_rank > 1 else segment
      for segment in inputs
    ]
    length = self._max_seq_length if seq_length is None else seq_length
    pack = self._pair if len(segments) == 2 else self._single
    packed = pack(length, *segments)
    values = [packed[name] for name in saved_models.ID_NAMES]
    return dict(zip(HUB_NAMES, values))
