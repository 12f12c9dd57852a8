"""The structure of a text as blocks: headings, code, tables, list items, paragraphs, each a span.

Markdown follows CommonMark 0.31 with GitHub's tables, as markdown-it-py parses them; only its block
rules run. Inline rules are not needed to know where a block lies, and some of them are slow on
hostile input (`[` x 50,000). The block parser is called directly, without markdown-it's normalising
of line ends and NUL, so that its line numbers count `\\n` and nothing else: a form feed, U+0085 or
U+2028 is an ordinary character here, though `str.splitlines` would split at it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

MARKUP_KINDS = frozenset({"markdown", "html", "office"})
TITLE_CHARS = 200  # a heading's title is repeated in every entry below it: a 1 MB one must not be

_INLINE_CHARS = 500
_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n(?=[A-Za-z_][\w-]*[ \t]*:)(?:[^\n]*\n){1,200}?---[ \t]*(?:\n|\Z)"
)
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n")
_ATTRIBUTES = re.compile(r"\s*\{[#.:][^{}]*\}\s*$")


class BlockKind(StrEnum):
    """What a block is."""

    HEADING = "heading"
    CODE = "code"
    TABLE = "table"
    LIST_ITEM = "list_item"
    PARAGRAPH = "paragraph"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a text: `text[start:end]`, in code points, without the last line's end.

    `level` (1 to 6) and `title` (plain words, at most 200 code points) describe a heading. `header`
    is the span of a table's header and delimiter lines, `rows` are the spans of its other lines.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""
    header: tuple[int, int] | None = None
    rows: tuple[tuple[int, int], ...] = ()


def blocks_of(text: str, kind: str) -> list[Block]:
    """The blocks of a document's text, in order; together they cover every non-blank character.

    `kind` is a `Document.kind`: "markdown", "html" and "office" texts are read as Markdown, any other
    text as paragraphs between blank lines, in which a `#` means nothing.
    """
    return markdown_blocks(text) if kind in MARKUP_KINDS else plain_blocks(text)


def plain_blocks(text: str) -> list[Block]:
    """Paragraphs between blank lines, and nothing else."""
    blocks = []
    start = 0
    for gap in [*_BLANK_LINES.finditer(text), None]:
        end = gap.start() if gap else len(text)
        blocks.extend(_paragraph(text, start, end))
        start = gap.end() if gap else end
    return blocks


def markdown_blocks(text: str) -> list[Block]:
    """The blocks of a CommonMark text.

    What is inside block quotes and lists is told apart as well (a code block in a list item is one
    block), but only headings outside of them are headings. Whatever the parser leaves out, such as
    nesting deeper than it follows, becomes paragraphs. YAML front matter is one paragraph: CommonMark
    would see a heading in it.
    """
    blocks: list[Block] = []
    front = _FRONT_MATTER.match(text)
    offset = front.end() if front else 0
    body = text[offset:] if offset else text
    end = 0
    for block in _leaves(text, offset, _parse(body)):
        if block.start < end:
            continue  # never seen; it would break the order that callers rely on
        blocks.extend(_paragraph(text, end, block.start))
        blocks.append(block)
        end = block.end
    blocks.extend(_paragraph(text, end, len(text)))
    return blocks


class _BlockTokens(list[Token]):
    """A token list that leaves out table cells: millions of them would fill the memory."""

    def append(self, token: Token) -> None:
        if token.type in ("th_open", "th_close", "td_open", "td_close"):
            return
        if token.type == "inline" and not (
            self and self[-1].type in ("paragraph_open", "heading_open")
        ):
            return
        super().append(token)


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    # Without the rule `reference`, a link definition is a paragraph: it is text, and is covered.
    return MarkdownIt("commonmark").enable("table").disable("reference")


def _parse(text: str) -> list[Token]:
    tokens = _BlockTokens()
    parser = _markdown()
    parser.block.parse(text, parser, {}, tokens)
    return tokens


def _leaves(text: str, offset: int, tokens: list[Token]) -> Iterator[Block]:
    lines = _line_starts(text, offset)
    lists = 0
    for index, token in enumerate(tokens):
        if token.type == "list_item_open":
            lists += 1
        elif token.type == "list_item_close":
            lists -= 1
        if token.map is None:
            continue
        span = _trim(text, lines[token.map[0]], lines[token.map[1]])
        if span is None:
            continue
        plain = BlockKind.LIST_ITEM if lists else BlockKind.PARAGRAPH
        if token.type == "heading_open" and token.level == 0:
            title = _title(tokens[index + 1].content)
            yield Block(BlockKind.HEADING, *span, level=int(token.tag[1:]), title=title)
        elif token.type in ("fence", "code_block"):
            yield Block(BlockKind.CODE, *span)
        elif token.type == "html_block":
            yield Block(BlockKind.HTML, *span)
        elif token.type == "table_open":
            yield _table(text, lines, span, tokens, index)
        elif token.type in ("paragraph_open", "heading_open", "hr"):
            yield Block(plain, *span)


def _table(
    text: str, lines: list[int], span: tuple[int, int], tokens: list[Token], index: int
) -> Block:
    first_row = None
    rows = []
    in_body = False
    for at in range(index, len(tokens)):
        token = tokens[at]
        if token.type == "table_close":
            break
        if token.type == "tbody_open":
            in_body = True
        elif token.type == "tr_open" and in_body and token.map is not None:
            first_row = token.map[0] if first_row is None else first_row
            row = _trim(text, lines[token.map[0]], lines[token.map[1]])
            rows.extend([row] if row else [])
    header = _trim(text, span[0], span[1] if first_row is None else lines[first_row])
    return Block(BlockKind.TABLE, *span, header=header, rows=tuple(rows))


def _paragraph(text: str, start: int, end: int) -> list[Block]:
    span = _trim(text, start, end)
    return [Block(BlockKind.PARAGRAPH, *span)] if span else []


def _trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The span without blank lines around it and without white space at its end; None if blank."""
    inside = text[start:end]
    kept = inside.rstrip()
    if not kept:
        return None
    lead = len(kept) - len(kept.lstrip())
    line = inside.rfind("\n", 0, lead) + 1  # the first line keeps its indentation
    return start + line, start + len(kept)


def _line_starts(text: str, offset: int) -> list[int]:
    starts = [offset]
    at = text.find("\n", offset)
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    starts.append(len(text))
    return starts


@lru_cache(maxsize=4096)
def _title(content: str) -> str:
    """A heading in plain words: without emphasis, links, tags and `{#anchors}`."""
    words = _ATTRIBUTES.sub("", content)
    if len(content) <= _INLINE_CHARS:
        (line,) = _markdown().parseInline(words)
        words = "".join(
            " " if token.type in ("softbreak", "hardbreak") else token.content
            for token in line.children or []
            if token.type != "html_inline"
        )
    words = " ".join(words[: 4 * TITLE_CHARS].split())
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1] + "…"
