"""The command of every fine-tuning task; `task_registry` has what differs."""

import dataclasses

from absl import flags

from bert_tf import task_registry
from bert_tf.cli import config_flags, devices, model_flags


def define(
  task: task_registry.TaskSpec, flag_values: flags.FlagValues = flags.FLAGS
) -> None:
  """Defines the flags of a task and of its model.

  `bert-tf` runs the default steps of a task if the user chooses none. A script
  of the 2018 release requires a choice.
  """
  config_flags.define(model_flags.ModelFlags, flag_values)
  config_flags.define(task_registry.load(task.config), flag_values)
  is_script = config_flags.is_script()
  note = "Default: true, but false if another --do_* flag is true."
  if is_script:
    note = "Default: false, but one --do_* flag must be true."
  for name in task.default_steps:
    flag = flag_values[name]
    flag_values.set_default(name, not is_script)
    flag.help = f"{flag.setting.help} {note}"
    flag.setting = dataclasses.replace(flag.setting, help=flag.help)


def run(
  task: task_registry.TaskSpec,
  function: task_registry.Named = "bert_tf.tasks.fine_tuning.run",
) -> None:
  """Runs the command of a task, `function` of its config; never returns."""

  def main() -> None:
    config_class = task_registry.load(task.config)
    config = config_flags.build(config_class, **model_flags.init_checkpoint())
    for name, other in config.idle_settings().items():
      config_flags.refuse_given([name], f"does not apply to {other}")
    task_registry.load(function)(config)

  define(task)
  devices.run(main, task.help)
