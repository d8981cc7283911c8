"""Attention as lines from each word piece to those that it takes from."""

from collections.abc import Sequence

import numpy as np

from bert_tf.plots import style

# Lines from each word piece, the strongest; weaker ones only darken a picture.
NUM_LINES = 3
_MIN_WEIGHT = 0.02
_LINE_HEIGHT = 22  # Pixels of a word piece.
_PADDING = 80  # Pixels of a picture's title and edges.


def plot(
  panels: Sequence[tuple[str, np.ndarray]],
  tokens: Sequence[str],
  plot_file: str,
  width: int = 600,
  num_lines: int = NUM_LINES,
) -> None:
  """Draws the strongest links of each word piece, on the left, to the right.

  Args:
    panels: a title, such as "layer 2, head 1", and weights [F, T] of each.
    tokens: the word pieces, F of them.
    plot_file: PNG or SVG file to write.
    width: of the picture, in pixels.
    num_lines: at most, from each word piece.

  Raises:
    ValueError: for weights of another shape, or as `style.picture`.
    ImportError: if matplotlib is not installed.
  """
  expected = (len(tokens), len(tokens))
  for title, weights in panels:
    if weights.shape != expected:
      raise ValueError(
        f"{title}: the weights are {weights.shape}; {len(tokens)} tokens have "
        f"{expected}."
      )
  height = _LINE_HEIGHT * len(tokens) + _PADDING
  with style.picture(plot_file, len(panels), width, height) as axes:
    for axis, (title, weights) in zip(axes, panels):
      axis.set_title(title)
      _draw(axis, tokens, weights, num_lines)


def _draw(
  axis: style.Axes, tokens: Sequence[str], weights: np.ndarray, num_lines: int
) -> None:
  """Draws one panel."""
  for start, row in enumerate(weights):
    for end in np.argsort(row)[::-1][:num_lines]:
      if row[end] >= _MIN_WEIGHT:
        axis.plot(
          [0, 1],
          [start, end],
          color=style.COLORS[0],
          alpha=float(min(1.0, row[end])),
          linewidth=0.6 + 2.4 * float(row[end]),
          solid_capstyle="round",
        )
  for place, token in enumerate(tokens):
    text = token.replace("$", r"\$")  # It would begin a formula.
    axis.text(-0.04, place, text, ha="right", va="center")
    axis.text(1.04, place, text, ha="left", va="center")
  axis.set_xlim(0, 1)
  axis.set_ylim(len(tokens) - 0.5, -0.5)
  axis.grid(visible=False)
  axis.set_xticks([])
  axis.set_yticks([])
  for side in axis.spines.values():
    side.set_visible(False)
