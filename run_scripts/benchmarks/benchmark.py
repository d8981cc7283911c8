"""Measures speed on this machine and compares it with the original release.

python benchmark.py tokenizer
python benchmark.py data
python benchmark.py train
python benchmark.py padding --data_dir=MRPC --vocab_file=vocab.txt
python benchmark.py scaling
python benchmark.py export --init_checkpoint=bert_model.ckpt
python benchmark.py serving --model=out --vocab_file=vocab.txt
python benchmark.py runtimes --saved_model=models/mrpc/1
"""

import benchmark_config

from bert_tf.cli import command, config_flags


def main(name: str = "") -> None:
  """Runs one benchmark, which prints a table."""
  import data_benchmark
  import export_benchmark
  import runtime_benchmark
  import scaling_benchmark
  import serving_benchmark
  import training_benchmark

  benchmarks = {
    "tokenizer": data_benchmark.measure_tokenizer,
    "data": data_benchmark.measure_data,
    "train": training_benchmark.measure_steps,
    "padding": training_benchmark.measure_padding,
    "scaling": scaling_benchmark.measure,
    "export": export_benchmark.measure,
    "serving": serving_benchmark.measure,
    "runtimes": runtime_benchmark.measure,
  }
  if name not in benchmarks:
    raise ValueError(f"name one of: {', '.join(benchmarks)}.")
  benchmarks[name](config_flags.build(benchmark_config.BenchmarkConfig))


if __name__ == "__main__":
  config_flags.define(benchmark_config.BenchmarkConfig)
  command.run(main, __doc__, ["BENCHMARK"], num_optional=1)
