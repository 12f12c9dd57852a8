"""HTML to Markdown-like text, so that the segmenter sees headings, lists, tables and code.

trafilatura finds the main content of whole pages. Small pages and fragments, and pages it loses most
of, go through `html_markdown.parse_html`, which keeps each visible word exactly once
(Unstructured-IO/unstructured#1543, #3850, #3426, #1928 list what others lose).
"""

import json
import re
from collections.abc import Iterator

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.decode import decode_text
from stillroom.transforms.html_markdown import Page, parse_html
from stillroom.transforms.parsed import Parsed, Refused, parse_time, typed_facets

# Below this many visible words a page is kept whole; above, trafilatura must keep this share of it.
WHOLE_BELOW_WORDS = 150
LITTLE = 0.33
# trafilatura copies trees recursively and walks them many times: only ordinary pages go there.
MAX_TRAFILATURA_CHARS = 4_000_000
MAX_TRAFILATURA_DEPTH = 200
MIN_TRAFILATURA_TAGS, MAX_TRAFILATURA_TAGS = 6, 50_000

_WORD = re.compile(r"\w+")
_CHARSET = re.compile(
    rb"""charset\s*=\s*["']?\s*([\w:.-]+)|<\?xml[^>]*encoding=["']([\w:.-]+)""", re.IGNORECASE
)
# adbar/trafilatura#657: colspan="9007199254740991" makes a row of that many cells.
_SPAN = re.compile(r"""\b(?:col|row)span\s*=\s*(?:"[^">]*"|'[^'>]*'|[^\s>]+)""", re.IGNORECASE)
_CELL = re.compile(r"<t[dh]\b[^<>]*>", re.IGNORECASE)
_DATES = (
    "article:published_time", "datepublished", "date", "dc.date", "dcterms.created", "dc.date.issued",
    "citation_publication_date", "pubdate", "publish-date", "og:published_time",
)  # fmt: skip


def read_html(raw: bytes, stem: str) -> Parsed:
    """A page's main text, title, date and a few facets. Raises Refused, or BinaryContent."""
    found = _CHARSET.search(raw[:4096])
    declared = (found[1] or found[2]).decode("ascii", "replace") if found else None
    source, repairs = decode_text(raw, declared)
    page = parse_html(source)
    text = page.text
    if (
        len(_WORD.findall(text)) >= WHOLE_BELOW_WORDS
        and len(source) <= MAX_TRAFILATURA_CHARS
        and page.depth <= MAX_TRAFILATURA_DEPTH
        and MIN_TRAFILATURA_TAGS <= page.tags <= MAX_TRAFILATURA_TAGS
    ):
        main = _main_text(source)
        if len(_WORD.findall(main)) >= LITTLE * len(_WORD.findall(text)):
            text = main
    if not text.strip():
        raise Refused(RejectReason.EMPTY, "a page without visible text")
    meta = page.meta
    facets, more = typed_facets(
        {
            name: value
            for name, value in (
                ("author", meta.get("author", "")),
                ("language", page.language),
                ("keywords", [word.strip() for word in meta.get("keywords", "").split(",")]),
            )
            if value
        }
    )
    title = meta.get("og:title") or page.title or page.first_heading or stem
    created = next((at for at in map(parse_time, _dates(page)) if at), None)
    return Parsed("html", " ".join(title.split()), text, facets, created, (*repairs, *more))


def _main_text(source: str) -> str:
    import trafilatura

    try:
        main = trafilatura.extract(
            _CELL.sub(lambda tag: _SPAN.sub("", tag[0]), source),
            output_format="markdown",
            include_comments=False,
            include_tables=True,
            favor_recall=True,
            deduplicate=False,
        )
    except Exception:  # noqa: BLE001 - the caller goes on with the whole text
        return ""
    return main or ""


def _dates(page: Page) -> Iterator[str]:
    for name in _DATES:
        if name in page.meta:
            yield page.meta[name]
    for text in page.json_ld:
        found = re.search(r'"datePublished"\s*:\s*("[^"\\]{4,40}")', text)
        if found:
            yield json.loads(found[1])
    yield from page.times
