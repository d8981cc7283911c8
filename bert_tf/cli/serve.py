"""Serves a model over HTTP, with TensorFlow Serving's paths and a page.

python run_scripts/serve.py --model=models/mrpc --model_name=mrpc
"""

from absl import flags

from bert_tf.cli import command
from bert_tf.export import export
from bert_tf.inference import loaded_model, predictor
from bert_tf.server import application
from bert_tf.tasks.squad import decoding

FLAGS = flags.FLAGS
_DEFAULTS = application.ServerConfig()

flags.DEFINE_string(
  "model",
  None,
  "Folder of a SavedModel, or of its versions, whose newest is served; or a "
  "checkpoint: its prefix, or the output_dir of a run.",
)
flags.DEFINE_string(
  "model_name", _DEFAULTS.model_name, "The model's name in the paths."
)
flags.DEFINE_string(
  "host",
  _DEFAULTS.host,
  "Address to listen at. Only this machine reaches the default; there is "
  "neither encryption nor a password.",
)
flags.DEFINE_integer(
  "port",
  _DEFAULTS.port,
  "Port to listen at; 0 for any that is free.",
  lower_bound=0,
  upper_bound=65535,
)
flags.DEFINE_integer(
  "max_batch_size",
  _DEFAULTS.max_batch_size,
  "Rows that are computed together; more is worth it on a GPU.",
  lower_bound=1,
)
flags.DEFINE_float(
  "max_wait_ms",
  _DEFAULTS.max_wait_ms,
  "Milliseconds that a request waits for others to be computed with.",
  lower_bound=0,
)
flags.DEFINE_integer(
  "max_queue_size",
  _DEFAULTS.max_queue_size,
  "Requests that may wait; more are refused with status 503.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_rows",
  _DEFAULTS.max_rows,
  "Rows of a request; more are refused with status 400.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_request_bytes",
  _DEFAULTS.max_request_bytes,
  "Bytes of a request; larger ones are refused with status 413.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_text_length",
  _DEFAULTS.max_text_length,
  "Bytes of a text in UTF-8; longer ones are refused with status 400.",
  lower_bound=1,
)
flags.DEFINE_float(
  "stop_timeout_s",
  _DEFAULTS.stop_timeout_s,
  "Seconds that what runs has to end when the server is stopped.",
  lower_bound=0,
)
flags.DEFINE_string(
  "bert_config_file",
  None,
  "Of a checkpoint: JSON file with the sizes of the model; default: "
  "bert_config.json beside it.",
)
flags.DEFINE_string(
  "vocab_file",
  None,
  "Of a checkpoint: its vocabulary; default: vocab.txt beside it.",
)
flags.DEFINE_bool(
  "do_lower_case",
  True,
  "Of a checkpoint: whether the model is for lower-cased text.",
)
flags.DEFINE_integer(
  "max_seq_length",
  None,
  "Of a checkpoint: word pieces of a text; default: 384 for squad, else 128.",
  lower_bound=5,
)
flags.DEFINE_bool(
  "version_2_with_negative",
  False,
  "Of a checkpoint of squad: whether there may be no answer.",
)

_CHECKPOINT_FLAGS = (
  "bert_config_file",
  "vocab_file",
  "do_lower_case",
  "max_seq_length",
  "version_2_with_negative",
)


def _export_config() -> export.ExportConfig:
  """Returns how the checkpoint is used that the flags name."""
  return export.ExportConfig(
    export_dir="",
    init_checkpoint=FLAGS.model,
    bert_config_file=FLAGS.bert_config_file,
    vocab_file=FLAGS.vocab_file,
    do_lower_case=FLAGS.do_lower_case,
    max_seq_length=FLAGS.max_seq_length,
    predictions=decoding.PredictionConfig(
      version_2_with_negative=FLAGS.version_2_with_negative
    ),
    with_attention=True,
  )


def _predictor() -> predictor.Predictor:
  """Returns the model that the flags name."""
  folder = loaded_model.find_saved_model(FLAGS.model)
  if not folder:
    return predictor.Predictor(_export_config())
  for name in _CHECKPOINT_FLAGS:
    if FLAGS[name].present:
      raise ValueError(
        f"--{name} is for checkpoints; {folder} is a SavedModel, which brings "
        "its own. Leave the flag out."
      )
  return predictor.Predictor(folder)


def main() -> None:
  """Loads the model and serves it until it is stopped."""
  config = application.ServerConfig(
    model_name=FLAGS.model_name,
    host=FLAGS.host,
    port=FLAGS.port,
    max_batch_size=FLAGS.max_batch_size,
    max_wait_ms=FLAGS.max_wait_ms,
    max_queue_size=FLAGS.max_queue_size,
    max_rows=FLAGS.max_rows,
    max_request_bytes=FLAGS.max_request_bytes,
    max_text_length=FLAGS.max_text_length,
    stop_timeout_s=FLAGS.stop_timeout_s,
  )
  model = _predictor()

  def started(url: str) -> None:
    path = f"{url}/v1/models/{FLAGS.model_name}"
    print(f"{FLAGS.model}: {url}/ and {path}:predict", flush=True)

  application.run(model, config, started)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  flags.mark_flag_as_required("model")
  command.run(main, __doc__)
