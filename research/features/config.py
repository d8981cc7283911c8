"""Settings of NER on features. Imports no TensorFlow."""

import dataclasses

from bert_tf import settings
from bert_tf.tasks.ner import config

# The rows of Devlin et al. 2019, table 7, as slices of BERT's outputs: the
# embeddings, followed by every layer.
FEATURE_LAYERS = {
  "embeddings": slice(0, 1),
  "second_to_last": slice(-2, -1),
  "last": slice(-1, None),
  "weighted_sum_last_four": slice(-4, None),
  "concat_last_four": slice(-4, None),
  "weighted_sum_all": slice(1, None),
}


def num_needed_layers(feature_layers: str) -> int:
  """Returns how many encoder layers a name in FEATURE_LAYERS needs at least."""
  return max(0, -(FEATURE_LAYERS[feature_layers].start or 0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeaturesConfig(config.NerConfig):
  """Settings of a run; `init_checkpoint` is the frozen BERT."""

  feature_layers: str = settings.model(
    "concat_last_four",
    "The layers of BERT to use, as in table 7 of the paper. The weights of a "
    "sum are learned.",
    choices=tuple(FEATURE_LAYERS),
  )
