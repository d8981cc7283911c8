"""The sizes of a BERT model, as in `bert_config.json`."""

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import keras
import pydantic
from absl import logging

from bert_tf.files import json_files
from bert_tf.model import hugging_face_config
from bert_tf.model.layers import activations

# What a position attends to: all of its input (BERT), itself and those before
# it (Devlin et al. 2019, section 5.1), or itself and those after it.
Direction = Literal["both", "left_to_right", "right_to_left"]

# Keys that the original lacks. Our files have them if they are not the default.
_ADDED = ("attention_direction", "layer_norm_eps")


def _from(low: float, high: float) -> Any:
  # At least `low`, below `high`.
  return pydantic.Field(ge=low, lt=high)


@keras.saving.register_keras_serializable("bert_tf")
@dataclasses.dataclass(frozen=True)
class BertConfig:
  """The size and shape of a BERT model; the keys of `bert_config.json`.

  The defaults are those of the 2018 release: BERT-Base (Devlin et al. 2019,
  section 3, appendix A.2). Only `from_json_file` checks the bounds.

  Args:
    vocab_size: number of word pieces.
    hidden_size: D, the width of the vectors.
    num_hidden_layers: number of encoder layers.
    num_attention_heads: N; D must be a multiple of it.
    intermediate_size: I, the width of the feed-forward layers, usually 4 D.
    hidden_act: "gelu" (the tanh approximation), "gelu_erf" (exact), "relu",
      "tanh", "linear" or "".
    hidden_dropout_prob: dropout of embeddings and dense outputs, in [0, 1).
    attention_probs_dropout_prob: dropout of attention weights, in [0, 1).
    max_position_embeddings: the longest input in word pieces.
    type_vocab_size: number of segment ids. 16 is the original's default, but
      released models have 2.
    initializer_range: standard deviation of the truncated normal.
    attention_direction: the positions that a position attends to: "both",
      "left_to_right" or "right_to_left".
    layer_norm_eps: added to the variance in layer norms. The default is that of
      the original, whose files lack the key.
    unknown: other keys of the file, kept but not used.

  Examples:
    >>> config = bert_tf.BertConfig(vocab_size=30522, num_hidden_layers=6)
    >>> config.hidden_size
    768
    >>> config = bert_tf.BertConfig.from_json_file("bert_config.json")
    >>> config.num_attention_heads
    2
  """

  vocab_size: Annotated[int, _from(1, 10**8)]
  hidden_size: Annotated[int, _from(1, 10**6)] = 768
  num_hidden_layers: Annotated[int, _from(1, 1000)] = 12
  num_attention_heads: Annotated[int, _from(1, 10**4)] = 12
  intermediate_size: Annotated[int, _from(1, 10**7)] = 3072
  hidden_act: str = "gelu"
  hidden_dropout_prob: Annotated[float, _from(0, 1)] = 0.1
  attention_probs_dropout_prob: Annotated[float, _from(0, 1)] = 0.1
  max_position_embeddings: Annotated[int, _from(1, 10**7)] = 512
  type_vocab_size: Annotated[int, _from(1, 10**6)] = 16
  initializer_range: Annotated[float, _from(0, 100)] = 0.02
  attention_direction: Direction = "both"
  # As in tf.contrib.layers.layer_norm, which the original calls.
  layer_norm_eps: Annotated[float, _from(0, 1)] = 1e-12
  unknown: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @classmethod
  def from_dict(cls, json_object: Mapping[str, Any]) -> "BertConfig":
    """Returns the config with these keys; keeps and logs unknown keys.

    Raises ValueError if vocab_size is missing.
    """
    if "vocab_size" not in json_object:
      raise ValueError("a BERT config needs the key vocab_size.")
    names = {*cls.original_keys(), *_ADDED}
    values = {k: v for k, v in json_object.items() if k in names}
    unknown = {k: v for k, v in json_object.items() if k not in names}
    if unknown:
      logging.info("BERT does not use these config keys: %s", sorted(unknown))
    return cls(**values, unknown=unknown)

  @classmethod
  def from_json_file(cls, json_file: str) -> "BertConfig":
    """Reads a `bert_config.json`, or Hugging Face's `config.json`.

    Raises:
      ValueError: if the file is not a JSON object, vocab_size is missing, a
        value is out of range, or a key says that the model is not a BERT.
    """
    return cls.from_json_object(json_files.read_object(json_file), json_file)

  @classmethod
  def from_json_object(
    cls, json_object: Mapping[str, Any], json_file: str
  ) -> "BertConfig":
    """Returns the config in the content of a file; see `from_json_file`."""
    json_object = hugging_face_config.original_config(
      json_object, cls.original_keys(), json_file
    )
    config = json_files.check(json_object, cls, json_file)
    unknown = cls.from_dict(json_object).unknown
    return dataclasses.replace(config, unknown=unknown)

  @classmethod
  def original_keys(cls) -> list[str]:
    """The keys that the original's and Hugging Face's files share."""
    names = [field.name for field in dataclasses.fields(cls)]
    return [n for n in names if n not in (*_ADDED, "unknown")]

  def check_sizes(self) -> None:
    """Raises ValueError if no model of these sizes can be built.

    BertModel calls this; a config itself may have any values.
    """
    if self.hidden_size % self.num_attention_heads:
      raise ValueError(
        f"hidden_size {self.hidden_size} is not a multiple of "
        f"num_attention_heads {self.num_attention_heads}."
      )
    activations.get_activation(self.hidden_act)

  def check_bidirectional(self, path: str) -> None:
    """Raises ValueError if a position of this model sees one side only.

    Such a model cannot fill masks, and other formats cannot store it.
    """
    if self.attention_direction != "both":
      raise ValueError(
        f"{path} has attention_direction={self.attention_direction}. Such a "
        "model can be fine-tuned, or exported with `task=encoder`, but not "
        "predict masked words or be converted to other formats."
      )

  def check_lengths(self, max_seq_length: int, config_file: str) -> None:
    """Raises ValueError if inputs are longer than the position embeddings."""
    if max_seq_length > self.max_position_embeddings:
      raise ValueError(
        f"max_seq_length {max_seq_length} exceeds max_position_embeddings "
        f"{self.max_position_embeddings} of {config_file}."
      )

  def check_vocab(
    self, num_tokens: int, vocab_file: str, config_file: str
  ) -> None:
    """Raises ValueError if a vocabulary is larger than vocab_size.

    Logs a warning if it is smaller: some models pad their embeddings to a
    multiple of 8 or 64, and no text uses the last rows.
    """
    fault = (
      f"{vocab_file} has {num_tokens} word pieces, but vocab_size of "
      f"{config_file} is {self.vocab_size}."
    )
    if num_tokens > self.vocab_size:
      raise ValueError(fault)
    if num_tokens < self.vocab_size:
      _warn_once(fault)

  def without_random_values(self) -> "BertConfig":
    """The config of a model to load, whose matrices are 0 until then.

    Drawing those of BERT-Base takes seconds.
    """
    return dataclasses.replace(self, initializer_range=0.0)

  def to_dict(self) -> dict[str, Any]:
    """Returns the content of `bert_config.json`, with unknown keys."""
    values = dataclasses.asdict(self)
    unknown = values.pop("unknown")
    for name in _ADDED:
      if values[name] == getattr(BertConfig, name):
        del values[name]
    return {**values, **unknown}

  def to_json_string(self) -> str:
    """Returns the text of a `bert_config.json`."""
    return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

  # Keras calls these methods by its own names when it saves a model.
  get_config = to_dict
  from_config = from_dict


_warn_once = functools.cache(logging.warning)  # Commands check repeatedly.
