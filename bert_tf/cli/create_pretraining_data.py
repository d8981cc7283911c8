"""Turns text into TFRecords of masked, paired instances for pre-training."""

from absl import flags

from bert_tf.cli import command
from bert_tf.data import (
  corpus,
  masking,
  pretraining_beam,
  pretraining_data,
  pretraining_shards,
)

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_file",
  None,
  "Text files and globs, separated by commas, gs:// too: one sentence a line, "
  "a blank line between documents, UTF-8, .gz too. `pydoc` is the "
  "documentation of the running Python.",
)
flags.DEFINE_string(
  "output_file",
  None,
  "TFRecord file to write; several, separated by commas, take the instances "
  "in turn. With --num_shards above 1 one name, completed by -00000-of-0000N.",
)
flags.DEFINE_string("vocab_file", None, "Vocabulary, one token a line.")
flags.DEFINE_bool(
  "do_lower_case",
  True,
  "Lower-case the text: True for uncased vocabularies, False for cased ones.",
)
flags.DEFINE_bool(
  "do_whole_word_mask", False, "Mask all pieces of a word or none."
)
flags.DEFINE_integer(
  "max_seq_length", 128, "Tokens of an instance, specials included."
)
flags.DEFINE_integer(
  "max_predictions_per_seq", 20, "Masked tokens of an instance at most."
)
flags.DEFINE_integer("random_seed", 12345, "Seed of all random draws.")
flags.DEFINE_integer(
  "dupe_factor", 10, "Passes over the text, each with other masks and pairs."
)
flags.DEFINE_float("masked_lm_prob", 0.15, "Share of tokens to mask, (0, 1].")
flags.DEFINE_float(
  "short_seq_prob",
  0.1,
  "Share of documents, in each pass, cut into instances of a random shorter "
  "length, [0, 1].",
)

flags.DEFINE_integer(
  "num_shards",
  1,
  "Parts of the text, each built by itself into a file of its own. Memory is "
  "bounded by the largest. 1 gives the instances of the original release.",
)
flags.DEFINE_integer(
  "num_workers",
  1,
  "Processes, at most one a shard; the data are the same for any number.",
)
flags.DEFINE_string(
  "runner",
  None,
  "Build the shards on Apache Beam in place of --num_workers: DirectRunner "
  "(this machine), DataflowRunner, FlinkRunner, SparkRunner or another that "
  "Beam knows. Needs pip install -e '.[beam]'.",
)
flags.DEFINE_string(
  "pipeline_options",
  "",
  "Options of Beam and its runner, separated by spaces, such as "
  "'--direct_running_mode=multi_processing --direct_num_workers=2'; '--help' "
  "lists them.",
)
flags.DEFINE_bool(
  "resume",
  False,
  "Keep the shards that an interrupted run with the same flags finished.",
)
flags.DEFINE_bool(
  "no_nsp",
  False,
  "Make [CLS] text [SEP] without a second segment; next_sentence_labels is 0.",
)
flags.DEFINE_float(
  "mask_prob",
  0.8,
  "Share of the masked tokens that become [MASK]; this and the next two sum "
  "to 1.",
)
flags.DEFINE_float("keep_prob", 0.1, "Share that stays as it is.")
flags.DEFINE_float("random_prob", 0.1, "Share that becomes a random token.")
flags.DEFINE_bool(
  "strip_accents", None, "Drop accents; unset: as --do_lower_case."
)
flags.DEFINE_string(
  "pydoc_packages",
  "",
  "Installed packages, separated by commas, whose documentation joins pydoc.",
)


def main() -> None:
  """Builds the records that the flags describe."""
  _check_flags()
  config = pretraining_data.PretrainingDataConfig(
    vocab_file=FLAGS.vocab_file,
    do_lower_case=FLAGS.do_lower_case,
    strip_accents=FLAGS.strip_accents,
    max_seq_length=FLAGS.max_seq_length,
    random_seed=FLAGS.random_seed,
    dupe_factor=FLAGS.dupe_factor,
    short_seq_prob=FLAGS.short_seq_prob,
    no_nsp=FLAGS.no_nsp,
    masking_config=masking.MaskingConfig(
      max_predictions_per_seq=FLAGS.max_predictions_per_seq,
      masked_lm_prob=FLAGS.masked_lm_prob,
      do_whole_word_mask=FLAGS.do_whole_word_mask,
      mask_prob=FLAGS.mask_prob,
      keep_prob=FLAGS.keep_prob,
      random_prob=FLAGS.random_prob,
    ),
  )
  input_files = corpus.input_files(FLAGS.input_file, FLAGS.pydoc_packages)
  if FLAGS.runner:
    pretraining_beam.create(
      config,
      input_files,
      FLAGS.output_file,
      num_shards=FLAGS.num_shards,
      runner=FLAGS.runner,
      pipeline_options=FLAGS.pipeline_options,
      resume=FLAGS.resume,
    )
    return
  pretraining_shards.create(
    config,
    input_files,
    FLAGS.output_file,
    num_shards=FLAGS.num_shards,
    num_workers=FLAGS.num_workers,
    resume=FLAGS.resume,
  )


def _check_flags() -> None:
  """Refuses flags that exclude one another."""
  if FLAGS.runner and FLAGS["num_workers"].present:
    raise ValueError(
      f"--num_workers={FLAGS.num_workers} is for this machine and "
      f"--runner={FLAGS.runner} for Beam; give one. Beam's workers are set in "
      "--pipeline_options."
    )
  if FLAGS.pipeline_options and not FLAGS.runner:
    raise ValueError(
      f"--pipeline_options={FLAGS.pipeline_options} has no meaning without "
      "--runner; add it, or drop the options."
    )


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])
  command.run(main, __doc__)
