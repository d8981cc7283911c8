"""Exports a checkpoint as a SavedModel, or for ONNX or LiteRT.

bert-tf export --model=out --export_dir=models/mrpc/1
"""

from bert_tf.cli import command, config_flags, model_flags
from bert_tf.export import config as configs


@command.of(configs.ExportConfig, model_flags.ModelFlags)
def run() -> None:
  """Exports the model and prints a summary."""
  from bert_tf.export import export

  config = config_flags.build(
    configs.ExportConfig, **model_flags.require_model()
  )
  task = export.run(config)
  print(f"{config.export_dir}: {task} of {config.init_checkpoint}")
