"""Finds a model or data set by its name."""

import difflib

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
    ValueError: if the name is unknown, or if the data need a licence. The
      message suggests a similar name, or says how to obtain the data.
  """
  if source := find(name):
    return source
  for licensed, directions in data_sets.LICENSED.items():
    if name.lower() == licensed.lower():
      raise ValueError(f"{licensed}: {directions}")
  nearest = suggest(name) or (f"{HUGGING_FACE}{name}" if "/" in name else "")
  question = f"did you mean {nearest}? " if nearest else ""
  raise ValueError(
    f"{name} is not known; {question}`bert-tf download` lists all names."
  )


def suggest(name: str) -> str | None:
  """Returns the known name most similar to `name`; None if none is similar."""
  names = {n.lower(): s.name for s in ALL for n in (s.name, *s.other_names)}
  names |= {licensed.lower(): licensed for licensed in data_sets.LICENSED}
  longer = [known for known in names if known.startswith(name.lower())]
  nearest = difflib.get_close_matches(name.lower(), longer or names, 1, 0.8)
  return names[nearest[0]] if nearest else None
