"""The flags that say how text of some formats is read."""

from collections.abc import Iterable

from bert_tf.cli import config_flags
from bert_tf.data import sources, text_config

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
