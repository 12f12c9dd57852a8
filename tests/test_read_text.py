"""One-document files: what a reader would see on the page must be in the text, once."""

import re
import sys
from datetime import UTC, datetime

import pytest

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import read_html as html_module
from stillroom.transforms.html_markdown import html_to_markdown
from stillroom.transforms.parsed import Parsed, Refused, parse_time
from stillroom.transforms.read_text import read_whole
from tests.broken_files import docx_bytes, encrypted_pdf_bytes, pdf_bytes


def read(kind: str, raw: bytes | str, name: str = "folder/my note.x") -> Parsed:
    return read_whole(kind, raw.encode() if isinstance(raw, str) else raw, name, 100_000)


def test_text_has_its_stem_as_title() -> None:
    parsed = read("text", "words", "folder/my note.txt")
    assert (parsed.kind, parsed.title, parsed.text) == ("text", "my note", "words")


def test_front_matter_becomes_title_time_and_facets() -> None:
    parsed = read(
        "markdown",
        "---\ntitle: A: note\ndate: 2024-05-06\ntags: [a, b]\nyear: 2024\ndraft: true\n"
        "nested: {x: 1}\nnothing: null\nscore: .nan\n---\n# Heading\n\nbody\n".replace(
            "A: n", "A n"
        ),
    )
    assert parsed.title == "A note"
    assert parsed.created_at == datetime(2024, 5, 6, tzinfo=UTC)
    assert parsed.text == "# Heading\n\nbody\n"
    assert parsed.metadata == {
        "tags": ("a", "b"),
        "year": 2024,
        "draft": True,
        "nested": '{"x": 1}',
    }


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: [unclosed\n---\nbody",
        "---\n- a\n- list\n---\nbody",
        "---\nno end",
        "---\na: &x [1]\nb: *x\n---\nbody",
        "---\n\n---\nbody",
        "text\n---\ntitle: x\n---\n",
    ],
)
def test_what_is_not_front_matter_stays_text(text: str) -> None:
    parsed = read("markdown", text)
    assert parsed.text == text
    assert parsed.metadata == {}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n# The title #\n\n# Second", "The title"),
        ("Under\n=====\n\nbody", "Under"),
        ("```\n# a comment\n```\n# Real", "Real"),
        ("~~~sh\n# a comment\n```\n# still\n~~~\n## only level two", "my note"),
        ("#hashtag", "my note"),
    ],
)
def test_the_title_is_the_first_heading_of_level_one(text: str, title: str) -> None:
    assert read("markdown", text).title == title


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("bare body text", "bare body text"),
        ("text before<br>and after", "text before and after"),
        ("<p>one <ins>two</ins> <del>three</del> four</p>five", "one two three four five"),
        ("<table><thead><tr><th>A</th><th>B</th></tr></thead></table>", "A B"),
        ("<tr><td>loose</td><td>cells</td></tr>", "loose cells"),
        ("<table>stray<tr><td>in", "stray in"),
        ("<table><caption>cap</caption><tr><td>a<td>b<tr><td>c</table>after", "cap a b c after"),
        ("<table><tr><td>a<table><tr><td>b<td>c</table>d<td>e</table>f", "a b c d e f"),
        ("<ul><li>one<ul><li>two</ul>three<li>four</ul>five", "one two three four five"),
        ("<li>lone item", "lone item"),
        ("</table></td>odd</ul> ends", "odd ends"),
        ("<dl><dt>term<dd>meaning</dl>", "term meaning"),
        ("a<script>no()</script>b<style>p{}</style> c<!-- no -->", "ab c"),
        ("<div hidden>no</div><p style='display: none'>no <b>no</b></p>yes", "yes"),
        ("<select><option>x<option>y</select><button>z</button>", "x y z"),
        ("x &amp; &lt;y&gt; &nbsp;z &eacute;", "x & <y> z é"),
        ("<pre>a\n  b</pre>c", "a b c"),
        ("</body></html>after the end", "after the end"),
        ("<p>Привет Geschäft</p>", "Привет Geschäft"),
        ("<table><tr><td colspan=9007199254740991>a</td><td>b</td></tr></table>", "a b"),
    ],
)
def test_every_visible_word_once(page: str, words: str) -> None:
    text = read("html", page).text
    plain = re.sub(r"```|^\|[ -]+\|[ |-]*$|^\s*- |\|", " ", text, flags=re.MULTILINE)
    assert plain.split() == words.split()


def test_structure_of_html_becomes_markdown() -> None:
    text = html_to_markdown(
        "<h1>Big\n title</h1><p>a <b>bold</b>  word</p><h3>Small</h3>"
        '<pre><code class="language-py">def f():\n    return "```"\n</code></pre>'
        "<ol start=3><li>three<li>four<ul><li>deep</ul></ol>"
        "<blockquote><p>said</p></blockquote>"
        "<table><tr><th>A<th>B<tr><td>1|2<td><p>x</p><p>y</p></table><p># no heading</p>"
    )
    assert text == (
        "# Big title\n\na bold word\n\n### Small\n\n"
        '````py\ndef f():\n    return "```"\n````\n\n'
        "3. three\n4. four\n  - deep\n\n"
        "> said\n\n"
        "| A | B |\n| --- | --- |\n| 1\\|2 | x y |\n\n\\# no heading"
    )


@pytest.mark.parametrize("tag", ["div", "ul><li", "blockquote", "table><tr><td", "b", "a", "pre"])
def test_hostile_depth_keeps_the_words_and_stays_small(tag: str) -> None:
    text = html_to_markdown(f"<{tag}>" * 10_000 + "deep words")
    assert "deep words" in text
    assert len(text) < 1000


def page_of(paragraphs: int) -> str:
    body = "".join(
        f"<p>Paragraph {i} tells of stills, spirit and water at length.</p>"
        for i in range(paragraphs)
    )
    return f"<html><body><nav><a href=/>Home menu</a></nav><main><h1>Stills</h1>{body}</main>"


def test_a_whole_page_loses_its_menu_and_keeps_its_paragraphs() -> None:
    text = read("html", page_of(40)).text
    assert "Home menu" not in text
    assert text.count("Paragraph 39 tells of stills") == 1


def test_where_trafilatura_returns_little_the_whole_page_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(html_module, "_main_text", lambda source: "little")
    assert read("html", page_of(40)).text.count("tells of stills") == 40


def test_a_hostile_colspan_on_a_whole_page_is_harmless() -> None:
    row = "<table><tr><td colspan=9007199254740991>hostile</td><td>cell</td></tr></table>"
    assert "Paragraph 39" in read("html", page_of(40) + row).text


def test_metadata_of_html() -> None:
    parsed = read(
        "html",
        "<html lang=de><head><meta charset=utf-8><title>A &amp;\n B</title>"
        "<meta name=author content='N. N.'><meta name=keywords content='x, y'>"
        "<meta property='article:published_time' content='2024-05-06T07:08:09+02:00'></head>words",
    )
    assert parsed.title == "A & B"
    assert parsed.created_at == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
    assert parsed.metadata == {"author": "N. N.", "language": "de", "keywords": ("x", "y")}
    linked = '<script type="application/ld+json">{"datePublished": "2023-01-02"}</script><p>words'
    assert read("html", linked).created_at == datetime(2023, 1, 2, tzinfo=UTC)


def test_a_declared_charset_is_used() -> None:
    assert read("html", "<meta charset=koi8-r><p>Привет".encode("koi8-r")).text == "Привет"


def test_pdf_pages_are_joined_and_counted() -> None:
    info = "<< /Title (On stills) /CreationDate (D:20240506070809+02'00') >>"
    parsed = read("pdf", pdf_bytes(["First page.", "Second page."], info, "/Info EXTRA"))
    assert parsed.text == "First page.\n\nSecond page."
    assert parsed.metadata == {"pages": 2}
    assert parsed.title == "On stills"
    assert parsed.created_at == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
    assert parsed.repairs == ()


@pytest.mark.parametrize(
    ("kind", "raw", "reason", "detail"),
    [
        ("pdf", encrypted_pdf_bytes(), RejectReason.ENCRYPTED, "password"),
        ("pdf", b"%PDF-1.4 nothing", RejectReason.CORRUPT, "PdfiumError"),
        ("pdf", pdf_bytes([""]), RejectReason.EMPTY, "scanned images"),
        ("office", b"PK\x03\x04 cut", RejectReason.CORRUPT, "BadZipFile"),
        ("text", b" \n\t", RejectReason.EMPTY, "white space"),
        ("text", b"", RejectReason.EMPTY, "no bytes"),
        ("text", b"x" * 100_001, RejectReason.TOO_LARGE, "100,001"),
        ("pdf", pdf_bytes(["x" * 30_000] * 5), RejectReason.TOO_LARGE, "page 4 of 5"),
    ],
)
def test_refusals(kind: str, raw: bytes, reason: RejectReason, detail: str) -> None:
    with pytest.raises(Refused, match=detail) as caught:
        read(kind, raw)
    assert caught.value.reason == reason


def test_docx_becomes_markdown() -> None:
    parsed = read("office", docx_bytes(["# Stills", "Spirit and water."]), "note.docx")
    assert parsed.text == "# Stills\n\nSpirit and water."
    assert (parsed.kind, parsed.title) == ("office", "Stills")


def test_without_the_office_extra_the_reject_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "markitdown", None)
    with pytest.raises(Refused) as caught:
        read("office", docx_bytes(["words"]), "note.docx")
    assert caught.value.reason == RejectReason.UNSUPPORTED
    assert caught.value.detail == "needs pip install 'stillroom[office]'"


def test_an_office_bomb_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stillroom.transforms.read_text.MAX_OFFICE_EXPANDED", 1000)
    with pytest.raises(Refused, match="expands") as caught:
        read("office", docx_bytes(["words"] * 500), "note.docx")
    assert caught.value.reason == RejectReason.TOO_LARGE


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2024-05-06", "2024-05-06T00:00:00+00:00"),
        ("2024-05-06T07:08:09+02:00", "2024-05-06T05:08:09+00:00"),
        ("2024-05", "2024-05-01T00:00:00+00:00"),
        (2024, "2024-01-01T00:00:00+00:00"),
        ("20240506", "2024-05-06T00:00:00+00:00"),
        (1_700_000_000, "2023-11-14T22:13:20+00:00"),
        ("1700000000.5", "2023-11-14T22:13:20.500000+00:00"),
        (1_712_121_212_000, "2024-04-03T05:13:32+00:00"),
        ("1712121212000", "2024-04-03T05:13:32+00:00"),
        ("Mon, 06 May 2024 07:08:09 +0200", "2024-05-06T05:08:09+00:00"),
        ("6 May 2024", "2024-05-06T00:00:00+00:00"),
        (datetime(2024, 5, 6), "2024-05-06T00:00:00+00:00"),
        ("03/04/2024", None),  # two days
        ("May 2024", None),
        (10**40, None),
        (float("nan"), None),
        (True, None),
        ("9999-12-31T23:59:59-12:00", None),
        ("soon", None),
    ],
)
def test_parse_time(written: object, expected: str | None) -> None:
    parsed = parse_time(written)
    assert (parsed.isoformat() if parsed else None) == expected
