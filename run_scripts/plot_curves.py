"""Runs bert_tf.cli.plot_curves."""

from bert_tf.cli import plot_curves

if __name__ == "__main__":
  plot_curves.run()
