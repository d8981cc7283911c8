import mwparserfromhell
import pytest

from bert_tf.corpora import wikitext

HIDDEN = ("category", "datei", "file", "image", "kategorie")

CASES = {
  # name: (wikitext, text)
  "links": ("[[A]] is [[B|the b]]s of [http://x.y C].", "A is the bs of C."),
  "styles": ("'''A''' is ''b'' and '''''c'''''.", "A is b and c."),
  "templates": ("{{Infobox|a={{b}}}}\nA{{sfn|x}} ({{IPA|a}}) is.", "A is."),
  "kept_templates": ("{{lang|de|Haus}} {{nowrap|3 km}}.", "Haus 3 km."),
  "notes": ("A.<ref>b</ref> C<ref name=d />. <!-- e -->F", "A. C. F"),
  "notes_in_notes": ("A<ref>b<ref name=c>d</ref>e</ref>f<ref>g", "Af<ref>g"),
  "references": ("A<references><ref name=b>c</ref></references>.", "A."),
  "pictures": ("[[Datei:x.jpg|thumb|Ein [[Bild]]]]\nA.", "A."),
  "categories": ("A.\n[[Kategorie:B]]\n[[Category:C]]", "A."),
  "link_to_a_category": ("See [[:Kategorie:B]].", "See Kategorie:B."),
  "title_with_a_colon": ("[[Star: Wars]] is.", "Star: Wars is."),
  "headings": ("A.\n\n== B ==\n\nC.", "A.\nC."),
  "lists": ("A.\n* b\n** [[c]]\n# d\n: e\n; f : g\nH.", "A.\nH."),
  "tables": ('A.\n{| class="x"\n! b\n|-\n| c || d\n|}\nE.', "A.\nE."),
  "formulas": ("A <math>x^2</math>b.", "A b."),
  "entities": ("A&nbsp;b &amp; c &ndash; d", "A\xa0b & c – d"),
  "pair_of_surrogates": ("A &#xD83D;&#xDE00; b", "A \U0001f600 b"),
  "lone_surrogates": ("A&#55357;b &#xDE00;&#xD83D;", "A\ufffdb \ufffd\ufffd"),
  "elements": ("A <b>b</b> <span>c</span><br/>d", "A b c d"),
  "switches": ("__NOTOC__\nA.", "A."),
  "variants": ("-{汉}-字-{zh-hans:软;zh-hant:軟}-件-{T|x}-。", "汉字软件。"),
  "unclosed": ("A {{b [[c <ref>d", "A {{b [[c <ref>d"),
  "nothing": ("{{stub}}", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_only_running_text_remains(name):
  markup, expected = CASES[name]
  assert wikitext.plain_text(markup, HIDDEN) == expected


@pytest.fixture
def parsed_sizes(monkeypatch):
  """The lengths of the texts that the parser gets."""
  sizes = []
  parse = mwparserfromhell.parse

  def counted(text, **options):
    sizes.append(len(text))
    return parse(text, **options)

  monkeypatch.setattr(mwparserfromhell, "parse", counted)
  return sizes


@pytest.mark.parametrize(
  "mark", ["<!--", "<ref>", "<ref ", "{{a|", "[[a|", "<p>", "{{a|[[b|", "[//a "]
)
def test_a_page_of_unclosed_marks_is_parsed_in_blocks(parsed_sizes, mark):
  text = wikitext.plain_text(mark * 10_000 + "\nThe end.", HIDDEN)
  assert max(parsed_sizes) <= 501
  assert text.endswith("The end.")


def test_a_long_page_with_few_unclosed_marks_is_parsed_whole(parsed_sizes):
  page = (
    "The [[city|town]] {{lang|de|Bonn}}<ref name=a>x</ref> is old.<br>\n" * 2000
    + "{{b [[c <ref>d <li>e\n[0, 1) " * 20
  )
  text = wikitext.plain_text(page, HIDDEN)
  assert len(parsed_sizes) == 1
  assert text.startswith("The town Bonn is old.\n" * 2000)


def test_unclosed_variants_stay_as_they_are():
  text = "-{" + "a;" * 20_000
  assert wikitext.plain_text(text, HIDDEN) == text
