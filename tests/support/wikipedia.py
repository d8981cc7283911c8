"""Small Wikipedia dumps in the XML format of MediaWiki."""

from collections.abc import Iterable
from xml.sax import saxutils

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/"
    version="0.11" xml:lang="de">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>dewiki</dbname>
    <base>https://de.wikipedia.org/wiki/Wikipedia:Hauptseite</base>
    <generator>MediaWiki 1.45.0</generator>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Diskussion</namespace>
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""


def page(
  number: int, title: str, text: str, namespace: int = 0, redirect: str = ""
) -> str:
  """Returns a page with one revision."""
  target = f'<redirect title="{redirect}" />' if redirect else ""
  num_bytes = len(text.encode())
  return f"""  <page>
    <title>{saxutils.escape(title)}</title>
    <ns>{namespace}</ns>
    <id>{number}</id>
    {target}
    <revision>
      <id>{number + 1000}</id>
      <parentid>{number + 900}</parentid>
      <timestamp>2026-01-01T00:00:00Z</timestamp>
      <contributor><username>Someone</username><id>7</id></contributor>
      <comment>c</comment>
      <origin>{number + 1000}</origin>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text bytes="{num_bytes}" sha1="0" xml:space="preserve">{
    saxutils.escape(text)
  }</text>
      <sha1>0</sha1>
    </revision>
  </page>
"""


def dump(pages: Iterable[str]) -> str:
  """Returns a complete dump."""
  return HEAD + "".join(pages) + "</mediawiki>\n"
