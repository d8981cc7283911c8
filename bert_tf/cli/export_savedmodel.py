"""Exports a checkpoint as a SavedModel, or for ONNX or LiteRT.

bert-tf export --model=out --export_dir=models/mrpc/1
"""

from bert_tf.cli import command
from bert_tf.export.config import ExportConfig


@command.of(ExportConfig, needs_model=True)
def run(config: ExportConfig) -> None:
  """Exports the model and prints a summary."""
  from bert_tf.export import export

  task = export.run(config)
  print(f"{config.export_dir}: {task} of {config.init_checkpoint}")
