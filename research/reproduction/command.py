r"""Fine-tunes a model on the paper's tasks, beside the published results.

python run_scripts/reproduce.py --model=uncased_L-12_H-768_A-12 --data=DATA \
    --output_dir=out

Runs GLUE, SQuAD 1.1 and 2.0, CoNLL-2003 and SWAG with the settings of the paper
and several seeds, and compares the results with the published ones in
report.md. After an interruption, the same command resumes.
"""

import signal
import sys

from absl import flags

from bert_tf.cli import command, config_flags, devices
from research import start
from research.reproduction import config as config_lib


def main() -> None:
  """Executes the runs, prints their plan or only writes the report."""
  config = config_flags.build(config_lib.ReproductionConfig)
  if config.report_only:
    from research.reproduction import report

    report.write(config)
    return
  with start.needs_extras("reproduction"):
    import matplotlib  # noqa: F401  The report needs it after all runs.

    from research.reproduction import runner
  signal.signal(signal.SIGTERM, signal.default_int_handler)
  # All commands get the flags for devices that the user gives.
  fields = devices.DeviceConfig.__dataclass_fields__
  names = [name for name in fields if config_flags.is_given(name)]
  device_flags = [f"--{name}={flags.FLAGS[name].value}" for name in names]
  try:
    runner.run(config, device_flags)
  except KeyboardInterrupt:
    print("Interrupted. The same command continues.", file=sys.stderr)
    sys.exit(130)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(config_lib.ReproductionConfig)
  config_flags.define(devices.DeviceConfig)
  command.run(main, __doc__)
