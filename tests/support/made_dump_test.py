"""The synthetic dump contains the sentences of its texts, with markup."""

import bz2

from bert_tf.corpora import corpus, corpus_build, sources, text_config
from tests.support import made_dump

SENTENCES = [
  "The old boat lay in the harbour.",
  "Its sails were torn.",
  "Nobody had mended them for a year.",
]


def test_the_sentences_of_a_made_dump_are_found_again(tmp_path):
  documents = [SENTENCES * 5, SENTENCES * 90]
  text = tmp_path / "text.txt"
  text.write_text("".join("\n".join(d) + "\n\n" for d in documents))
  dump = tmp_path / "made.xml.bz2"
  made_dump.main(str(dump), [str(text)])
  content = bz2.decompress(dump.read_bytes()).decode()
  assert len(content) > 2 * text.stat().st_size
  assert 'xml:lang="en"' in content and "&lt;ref&gt;" in content
  config = text_config.TextConfig()
  inputs = sources.find_files(str(dump), config, text_config.TEXT)
  assert [source.input_format for source in inputs] == [text_config.DUMP]
  target = tmp_path / "out.txt"
  output = corpus_build.Output(output_file=str(target))
  counts = corpus_build.create(config, inputs, output)
  # Articles of 120 sentences at most: 15, and 120, 120, 30.
  articles = list(corpus.documents([str(target)]))
  assert list(map(len, articles)) == [15, 120, 120, 30]
  assert [s for a in articles for s in a] == [s for d in documents for s in d]
  assert counts["documents_read"] == 4
