"""Pictures of attention."""

import numpy as np
import pytest

from bert_tf.plots import attention
from tests.support import drawn

pytest.importorskip("matplotlib", reason="pip install 'bert_tf[plots]'")


panels = drawn.panels


def test_the_strongest_links_are_drawn(tmp_path, panels):
  weights = np.array([[0.6, 0.39, 0.01], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]])
  path = tmp_path / "attention.png"
  tokens = ["[CLS]", "$5", "$6"]  # Two of these would make a formula.
  attention.plot([("head 1", weights)], tokens, str(path), num_lines=2)
  [axis] = panels
  links = [drawn.line(axis, n)[1] for n in range(len(axis.get_lines()))]
  assert links == [[0, 0], [0, 1], [1, 2], [1, 1], [2, 0]]
  opaque = [one.get_alpha() for one in axis.get_lines()]
  assert opaque == pytest.approx([0.6, 0.39, 0.7, 0.2, 1.0])
  assert path.read_bytes()[:4] == b"\x89PNG"


def test_weights_of_another_shape_are_refused(tmp_path):
  with pytest.raises(ValueError, match=r"head 1: .* \(2, 2\); 3 tokens"):
    attention.plot(
      [("head 1", np.eye(2))], ["a", "b", "c"], str(tmp_path / "a.png")
    )
  assert not list(tmp_path.iterdir())
