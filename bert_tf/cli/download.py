"""Downloads a released model or a data set by its name.

  bert-tf download
  bert-tf download uncased_L-12_H-768_A-12
  bert-tf download MRPC
  bert-tf download hf:OWNER/NAME

The command prints the folder, or without a name all names. You can then give a
model's name as --model. Downloads are kept in the folder BERT_TF_HOME, which is
by default in your cache folder.
"""

import dataclasses

from bert_tf import settings
from bert_tf.checkpoint import download
from bert_tf.cli import command


@dataclasses.dataclass(frozen=True, kw_only=True)
class DownloadConfig:
  """The address to download from."""

  base_url: str | None = settings.setting(
    None,
    "The address of a mirror, which replaces https://HOST. For hf: names, the "
    "default is HF_ENDPOINT.",
  )


@command.of(DownloadConfig, arguments="[NAME]")
def run(config: DownloadConfig, name: str | None = None) -> None:
  """Downloads a model or data set, or lists all names."""
  if name is not None:
    print(download.download(name, config.base_url))
    return
  print(f"{'name':34}{'size':>11}  {'here':5}description")
  for source in download.list_sources():
    is_here = "yes" if download.is_downloaded(source) else ""
    size = f"{source.num_bytes / 1e6:,.1f} MB"
    print(f"{source.name:34}{size:>11}  {is_here:5}{source.title}")
  print(
    "\nhf:OWNER/NAME is a model of Hugging Face. A model's size is its "
    f"checkpoint's.\nThe cache is {download.find_home()}."
  )
