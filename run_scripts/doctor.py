"""Runs bert_tf.cli.doctor."""

from bert_tf.cli import doctor

if __name__ == "__main__":
  doctor.run()
