"""Opens whatever a folder holds, to ask it from Python.

bert_tf.load("models/mrpc").predict([("He left.", "He went away.")])
"""

import os

from bert_tf import checkpoints, heads, model_folder
from bert_tf.inference import config as configs
from bert_tf.inference import feature_extraction, predictor


def load(
  folder: str | os.PathLike[str],
) -> predictor.Predictor | feature_extraction.FeatureExtractor:
  """Returns the predictor of a model's folder.

  That is a released one, one of a run or its best/, a conversion, a SavedModel,
  or one of Hugging Face. It is a Predictor of a model with a head; a
  FeatureExtractor, of the last layer, of one without.

  Raises:
    ValueError: if there is no model, or not just one, that can be read.
    ImportError: if reading it needs another package.
  """
  path = os.fspath(folder)
  weights = model_folder.find_weights(path)
  if checkpoints.is_saved_model(weights):
    return predictor.Predictor(weights)
  names = checkpoints.CheckpointReader(weights).shapes
  if all(model.missing_variables(names) for model in heads.MODELS):
    return feature_extraction.FeatureExtractor(
      configs.ExtractionConfig(init_checkpoint=path, layers=(-1,))
    )
  return predictor.Predictor(path)
