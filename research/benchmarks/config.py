"""Settings of the benchmarks. Imports no TensorFlow."""

import dataclasses

from bert_tf import settings

# Sizes of BERT-Tiny, the default without `bert_config_file`.
TINY = {
  "vocab_size": 30522,
  "hidden_size": 128,
  "num_hidden_layers": 2,
  "num_attention_heads": 2,
  "intermediate_size": 512,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
  """Settings of all benchmarks."""

  input_file: str = settings.setting(
    "pydoc",
    "The text to measure on: comma-separated files and globs. pydoc stands for "
    "Python's documentation.",
    main=True,
  )
  vocab_file: str | None = settings.setting(
    None,
    "tokenizer, data: the vocabulary. Default: 5,000 entries that are learned "
    "from the text.",
  )
  do_lower_case: bool = settings.setting(
    True, "Whether to lower-case the text."
  )
  data_dir: str | None = settings.setting(None, "finetune: MRPC's folder.")
  train_file: str | None = settings.setting(
    None, "finetune: the SQuAD JSON file to train on, instead of MRPC."
  )
  predict_file: str | None = settings.setting(
    None, "finetune: the SQuAD JSON file to answer, with --train_file."
  )
  bert_config_file: str | None = settings.setting(
    None,
    "train, forward, start: the file with the model's sizes. Default: the "
    "sizes of BERT-Tiny.",
  )
  batch_size: int = settings.setting(
    32,
    "train, forward, start, finetune: the examples in a batch.",
    minimum=4,
    main=True,
  )
  max_seq_length: int = settings.setting(
    128,
    "train, forward, start, finetune, runtimes: the word pieces of an example.",
    minimum=8,
    main=True,
  )
  max_predictions_per_seq: int = settings.setting(
    20, "train, start: the masked positions of an example.", minimum=1
  )
  num_steps: int = settings.setting(
    20, "train, forward: the steps of a round.", minimum=2, main=True
  )
  num_rounds: int = settings.setting(
    3,
    "train, forward, start, predict, finetune: how often each program runs.",
    minimum=1,
    main=True,
  )
  precision: str = settings.setting(
    "float32",
    "train, forward, start: the data type of matmuls.",
    choices=("float32", "bfloat16"),
    main=True,
  )
  device: str = settings.setting(
    "cpu",
    "train, forward: cpu, or gpu for bert_tf and PyTorch, whose "
    "interpreters must support the GPU.",
    choices=("cpu", "gpu"),
    main=True,
  )
  peer_python: str = settings.setting(
    "",
    "train, forward, start, predict, finetune, serving: the interpreters with "
    "PyTorch, KerasHub, Model Garden and FastAPI, comma-separated. The "
    "running interpreter is tried last.",
  )
  original_dir: str = settings.setting(
    "",
    "train, forward, start: a checkout of google-research/bert to compare "
    "with. It needs tensorflow and tf_keras.",
  )
  plot_file: str | None = settings.setting(
    None,
    "train, forward: the PNG or SVG file for a plot of the table.",
    writes="file",
    main=True,
  )
  saved_model: str | None = settings.setting(
    None, "runtimes: a SavedModel that bert-tf export wrote."
  )
  model: str | None = settings.setting(
    None,
    "The model to measure. serving: as for bert-tf serve; to compare with "
    "FastAPI, a SavedModel. predict, finetune: a Hugging Face folder.",
    main=True,
  )
  num_clients: int = settings.setting(
    50,
    "serving: the number of concurrent clients that measure the capacity.",
    minimum=1,
  )
  duration: float = settings.setting(
    120.0,
    "serving: the seconds in which requests arrive at random times, at 50, 80, "
    "120 and 200% of the capacity for a quarter of the time each.",
    minimum=1.0,
  )
  results_file: str | None = settings.setting(
    None,
    "serving: the file that gets a line of JSON for each row of the table.",
    writes="file",
  )

  def needed(self, name: str) -> str:
    """Returns a setting; raises ValueError if it is not set."""
    value = getattr(self, name)
    if not value:
      raise ValueError(f"this benchmark needs `{name}`.")
    return value
