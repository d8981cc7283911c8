"""The settings of the benchmarks, without TensorFlow."""

import dataclasses
from typing import TYPE_CHECKING

from bert_tf import settings

if TYPE_CHECKING:
  from bert_tf import modeling

# BERT-Tiny's sizes, without `bert_config_file`.
TINY = {
  "vocab_size": 30522,
  "hidden_size": 128,
  "num_hidden_layers": 2,
  "num_attention_heads": 2,
  "intermediate_size": 512,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
  """What is measured."""

  input_file: str = settings.setting(
    "pydoc",
    "Text to measure on: comma-separated files and globs, and the word pydoc "
    "for the documentation of the running Python.",
  )
  vocab_file: str | None = settings.setting(
    None,
    "Vocabulary to measure with; unset learns 5,000 entries from the text, but "
    "for records, which needs one.",
  )
  do_lower_case: bool = settings.setting(
    True, "Whether to lower-case the text."
  )
  data_dir: str | None = settings.setting(
    None, "For padding and finetune: the folder of MRPC."
  )
  train_file: str | None = settings.setting(
    None, "For finetune: SQuAD's JSON to train on, instead of MRPC."
  )
  predict_file: str | None = settings.setting(
    None, "For finetune: SQuAD's JSON to answer, with --train_file."
  )
  bert_config_file: str | None = settings.setting(
    None,
    "For records, train, forward, start, padding and scaling: the model's "
    "sizes; "
    "unset: BERT-Tiny.",
  )
  batch_size: int = settings.setting(
    32,
    "For records, train, forward, start, finetune and scaling: examples in a "
    "batch.",
    minimum=4,
  )
  max_seq_length: int = settings.setting(
    128,
    "For records, train, forward, scaling, export and runtimes: word pieces of "
    "an example.",
    minimum=8,
  )
  max_predictions_per_seq: int = settings.setting(
    20,
    "For records and train: masked positions of an example.",
    minimum=1,
  )
  num_steps: int = settings.setting(
    20,
    "Steps of scaling, and of a round of records, train and forward.",
    minimum=2,
  )
  num_rounds: int = settings.setting(
    3,
    "For train, forward, start, predict and finetune: processes of each "
    "program; for records: rounds.",
    minimum=1,
  )
  precision: str = settings.setting(
    "float32",
    "For train, forward and start: type of the products.",
    choices=("float32", "bfloat16"),
  )
  device: str = settings.setting(
    "cpu",
    "For train and forward: cpu; gpu for the programs that run on JAX and "
    "PyTorch, whose interpreters have to know the GPU.",
    choices=("cpu", "gpu"),
  )
  peer_python: str = settings.setting(
    "",
    "For train, forward, start, predict and finetune: interpreters with JAX, "
    "PyTorch, KerasHub and Model Garden, separated by commas; the running one "
    "is asked last.",
  )
  original_dir: str = settings.setting(
    "",
    "For train, forward and start: a copy of google-research/bert, to measure "
    "beside; it needs tensorflow and tf_keras.",
  )
  plot_file: str | None = settings.setting(
    None,
    "For train and forward: PNG or SVG file to draw the table in.",
    writes="file",
  )
  init_checkpoint: str | None = settings.setting(
    None,
    "For export: a checkpoint, with bert_config.json and, unless --vocab_file "
    "is set, vocab.txt beside it.",
  )
  saved_model: str | None = settings.setting(
    None, "For runtimes: a SavedModel of export_savedmodel.py."
  )
  hf_model_dir: str | None = settings.setting(
    None,
    "For export, predict and finetune: the same model as transformers saves "
    "it, to time as well; of the two last it is --model if this is unset.",
  )
  model: str | None = settings.setting(
    None,
    "For serving: what serve.py is given; needs aiohttp. For predict and "
    "finetune: the folder of a model.",
  )
  num_clients: int = settings.setting(
    50, "For serving: clients at the same time.", minimum=1
  )
  num_requests: int = settings.setting(
    20, "For serving: requests of each client.", minimum=1
  )

  def bert_config(self) -> "modeling.BertConfig":
    """Returns the sizes of the model to measure."""
    from bert_tf import modeling

    if self.bert_config_file:
      return modeling.BertConfig.from_json_file(self.bert_config_file)
    return modeling.BertConfig.from_dict({**TINY, "type_vocab_size": 2})

  def needed(self, name: str) -> str:
    """Returns a setting; raises ValueError if it is not given."""
    value = getattr(self, name)
    if not value:
      raise ValueError(f"this benchmark needs `{name}`.")
    return value
