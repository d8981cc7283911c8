"""Finds a model or data set by its name."""

from bert_tf.hub import data_sets, released_models, sources

ALL = (
  *released_models.BASE_AND_LARGE,
  *released_models.SMALL,
  *data_sets.GLUE,
  *data_sets.OTHERS,
)

# Names of models at Hugging Face begin with this prefix: hf:OWNER/NAME.
HUGGING_FACE = "hf:"


def find(name: str) -> sources.Source | None:
  """Returns the source with a name, ignoring case; None if unknown."""
  names = {source.name.lower(): source for source in ALL}
  return names.get(name.lower())


def get(name: str) -> sources.Source:
  """Returns the source with a name, ignoring case.

  Raises:
    ValueError: if the name is unknown, or if the data need a licence.
  """
  if source := find(name):
    return source
  if name in data_sets.LICENSED:
    raise ValueError(f"{name}: {data_sets.LICENSED[name]}")
  raise ValueError(
    f"{name} is not known; `bert-tf download` lists all names. Models of "
    f"Hugging Face are {HUGGING_FACE}OWNER/NAME."
  )
