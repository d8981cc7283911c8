"""Flags that the fine-tuning commands share, and the steps that they run."""

from absl import flags

from bert_tf import settings
from bert_tf.cli import config_flags, flag_texts, model_flags

_STEPS = ("do_train", "do_eval", "do_predict")


def define(
  config_class: type[settings.Dataclass],
  default_steps: tuple[str, ...],
  flag_values: flags.FlagValues = flags.FLAGS,
) -> None:
  """Defines the flags of a task and of its model.

  Args:
    config_class: the settings of the task.
    default_steps: do_* flags of the steps that `bert-tf` runs if the user
      chooses none. A script of the 2018 release requires a choice.
    flag_values: receives the flags.
  """
  config_flags.define(model_flags.ModelFlags, flag_values)
  config_flags.define(config_class, flag_values)
  is_script = flag_texts.is_script()
  note = "Default: true, but false if another --do_* flag is true."
  if is_script:
    note = "Default: false, but one --do_* flag must be true."
  for name in default_steps:
    config_flags.change(name, not is_script, note, flag_values)


def chosen_steps(
  flag_values: flags.FlagValues = flags.FLAGS,
) -> dict[str, bool]:
  """Returns the value of each do_* setting if the user chooses steps.

  A user chooses by setting do_* flags to true. The other do_* settings are then
  false. Returns {} if none is true, to keep the defaults.
  """
  chosen = {
    name
    for name in _STEPS
    if name in flag_values
    and flag_values[name].present
    and flag_values[name].value
  }
  if not chosen:
    return {}
  return {name: name in chosen for name in _STEPS if name in flag_values}
