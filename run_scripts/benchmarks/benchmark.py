"""Measures speed on this machine, train and forward beside other projects.

python benchmark.py tokenizer
python benchmark.py data
python benchmark.py train --peer_python=peers/bin/python
python benchmark.py forward --peer_python=peers/bin/python
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
  config = config_flags.build(benchmark_config.BenchmarkConfig)
  if name in ("train", "forward"):
    import step_benchmark

    step_benchmark.measure(config, name)
    return
  import data_benchmark
  import export_benchmark
  import padding_benchmark
  import runtime_benchmark
  import scaling_benchmark
  import serving_benchmark

  benchmarks = {
    "tokenizer": data_benchmark.measure_tokenizer,
    "data": data_benchmark.measure_data,
    "padding": padding_benchmark.measure,
    "scaling": scaling_benchmark.measure,
    "export": export_benchmark.measure,
    "serving": serving_benchmark.measure,
    "runtimes": runtime_benchmark.measure,
  }
  if name not in benchmarks:
    known = ", ".join([*benchmarks, "train", "forward"])
    raise ValueError(f"name one of: {known}.")
  benchmarks[name](config)


if __name__ == "__main__":
  config_flags.define(benchmark_config.BenchmarkConfig)
  command.run(main, __doc__, ["BENCHMARK"], num_optional=1)
