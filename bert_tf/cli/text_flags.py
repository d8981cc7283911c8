"""The flags that say how text of some formats is read."""

from collections.abc import Iterable

from bert_tf.cli import config_flags
from bert_tf.corpora import sources, text_config

# The formats that a flag is for.
_FORMATS = {
  "documents": {text_config.TEXT},
  "text_column": {text_config.JSONL, text_config.PARQUET},
  "language": {
    text_config.TEXT,
    text_config.JSONL,
    text_config.PARQUET,
    text_config.DUMP,
    text_config.WIKIEXTRACTOR,
  },
}


def check(inputs: Iterable[sources.Source]) -> None:
  """Raises ValueError for a given flag that none of the inputs uses."""
  formats = {source.input_format for source in inputs}
  for name, used_by in _FORMATS.items():
    if not formats & used_by:
      config_flags.refuse_given(
        [name],
        f"is for input of the formats {', '.join(sorted(used_by))}; this is "
        f"{', '.join(sorted(formats))} (see --input_format)",
      )


def check_text(
  text: str, reading: text_config.TextConfig, pydoc_packages: str = ""
) -> None:
  """Checks as `check` the inputs that `text` names, unless no flag is given.

  They are looked into for it, and pydoc's is written, which takes a while.

  Raises:
    ValueError: as `check` and `sources.find`.
  """
  if any(map(config_flags.is_given, _FORMATS)):
    check(sources.find(text, reading, text_config.TEXT, pydoc_packages))
