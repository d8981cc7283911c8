"""Writes contextual features of a file's lines, of their tokens or of each."""

from absl import flags

from bert_tf.cli import command
from bert_tf.inference import feature_extraction

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_file", None, "A text a line; `a ||| b` is a pair. .gz too."
)
flags.DEFINE_string("output_file", None, "The features to write.")
flags.DEFINE_string(
  "layers",
  "-1,-2,-3,-4",
  "Encoder layers with commas between them; 0 is the first, -1 the last.",
)
flags.DEFINE_string(
  "bert_config_file", None, "JSON file with the sizes of the model."
)
flags.DEFINE_integer(
  "max_seq_length",
  128,
  "Word pieces a line, [CLS] and [SEP] included; what is longer is cut.",
  lower_bound=3,
)
flags.DEFINE_string(
  "init_checkpoint", None, "The model's checkpoint, usually a BERT."
)
flags.DEFINE_string("vocab_file", None, "The vocabulary of the model.")
flags.DEFINE_bool(
  "do_lower_case", True, "Whether the model is for lower-cased text."
)
flags.DEFINE_integer("batch_size", 32, "Lines a batch.", lower_bound=1)
flags.DEFINE_bool("use_tpu", False, "Whether to run on a TPU.")
flags.DEFINE_string("master", None, "The address of a TensorFlow master.")
flags.DEFINE_integer("num_tpu_cores", 8, "Cores of the TPU.")
flags.DEFINE_bool(
  "use_one_hot_embeddings",
  False,
  "Whether word pieces are looked up by a matrix product: the same result, "
  "slower but on TPUs.",
)

flags.DEFINE_enum(
  "output_format",
  "jsonl",
  feature_extraction.OUTPUT_FORMATS,
  "jsonl: an object a line, numbers rounded to 6 places, as the original. "
  "npz, for numpy.load, smaller and faster: tokens_0, features_0 (float32 "
  "[layers, tokens, hidden size]) and so on for each line; with a pooling one "
  "array, features (float32 [lines, layers, hidden size]).",
)
flags.DEFINE_enum(
  "pooling",
  "none",
  feature_extraction.POOLINGS,
  "What is written of a line: none, every token's vectors; else one vector a "
  "layer: cls, that of [CLS]; mean or max, over all tokens with [CLS] and "
  "[SEP].",
)
flags.DEFINE_bool(
  "attention_probs",
  False,
  "Whether the attention probabilities of the layers are written too: [heads, "
  "from token, to token].",
)


def main() -> None:
  """Builds the config from the flags and extracts."""
  devices = [f"--{name}" for name in ("use_tpu", "master") if FLAGS[name].value]
  if devices:
    raise ValueError(
      f"{', '.join(devices)} cannot be honoured: this version runs on the CPU "
      "or on one GPU, which it finds by itself; leave the flag out."
    )
  config = feature_extraction.ExtractionConfig(
    bert_config_file=FLAGS.bert_config_file,
    vocab_file=FLAGS.vocab_file,
    init_checkpoint=FLAGS.init_checkpoint,
    layers=feature_extraction.parse_layers(FLAGS.layers),
    do_lower_case=FLAGS.do_lower_case,
    max_seq_length=FLAGS.max_seq_length,
    batch_size=FLAGS.batch_size,
    pooling=FLAGS.pooling,
    attention_probs=FLAGS.attention_probs,
    use_one_hot_embeddings=FLAGS.use_one_hot_embeddings,
  )
  num_lines = feature_extraction.extract_file(
    config, FLAGS.input_file, FLAGS.output_file, FLAGS.output_format
  )
  print(f"{FLAGS.output_file}: the features of {num_lines:,} lines")


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in (
    "input_file",
    "output_file",
    "bert_config_file",
    "init_checkpoint",
    "vocab_file",
  ):
    flags.mark_flag_as_required(name)
  command.run(main, __doc__)
