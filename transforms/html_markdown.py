"""All visible text of HTML as Markdown, in one pass over its tags, each word exactly once.

Events instead of a tree: libxml2 drops what is nested deeper than 2,048, and trees of hostile depth
or width cost memory and stack.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SKIPPED = frozenset(
    [
        "script",
        "style",
        "template",
        "noscript",
        "head",
        "iframe",
        "object",
        "svg",
        "math",
        "audio",
        "video",
        "canvas",
        "rp",
        "datalist",
    ]
)
_BLOCKS = frozenset(
    [
        "p",
        "div",
        "section",
        "article",
        "main",
        "header",
        "footer",
        "nav",
        "aside",
        "address",
        "form",
        "fieldset",
        "legend",
        "figure",
        "figcaption",
        "details",
        "summary",
        "dl",
        "dt",
        "dd",
        "hr",
        "center",
        "body",
        "html",
        "option",
        "select",
        "optgroup",
        "textarea",
        "button",
        "hgroup",
        "search",
        "dialog",
        "menu",
        "noframes",
        "frameset",
        "caption",
        "tr",
        "td",
        "th",
        "li",
        "ul",
        "ol",
        "table",
        "blockquote",
        "pre",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
    ]
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPACE = re.compile(r"[ \t\n\r\f]+")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def html_to_markdown(source: str) -> str:
    """All visible text of a page or fragment, each word once, in document order."""
    return parse_html(source).text


@dataclass(slots=True)
class Page:
    """What one pass over a page's tags gives."""

    text: str = ""
    title: str = ""
    first_heading: str = ""
    language: str = ""
    meta: dict[str, str] = field(default_factory=dict)
    json_ld: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    depth: int = 0
    tags: int = 0


def parse_html(source: str) -> Page:
    """One pass of libxml2's event parser: no tree, so no depth or size of tree to be hurt by."""
    from lxml import etree

    target = _Target()
    parser = etree.HTMLParser(target=target, huge_tree=True, encoding="utf-8")
    if source.strip():
        parser.feed(source.encode("utf-8"))
        parser.close()
    return target.finish()


class _Frame:
    """A table cell, or the page: blocks done, and the line being written."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.line: list[str] = []
        self.structured = False  # holds what a Markdown cell cannot


class _Target:
    """Writes Markdown from start, data and end events."""

    def __init__(self) -> None:
        self.page = Page()
        self.frames = [_Frame()]
        self.tables: list[list[list[_Frame]]] = []
        self.lists: list[int] = []  # next number, 0 for bullets
        self.marker = ""
        self.quotes = 0
        self.depth = 0
        self.skip = 0  # depth of the element whose content is not shown
        self.pre = 0
        self.language = ""
        self.heading = 0
        self.capture: list[str] | None = None

    def start(self, tag: str, attrs: Mapping[str, str]) -> None:
        self.depth += 1
        self.page.depth = max(self.page.depth, self.depth)
        self.page.tags += 1
        self._meta(tag, attrs)
        if self.skip:
            return
        hidden = "hidden" in attrs or _HIDDEN.search(attrs.get("style") or "")
        if tag in _SKIPPED or (hidden and tag not in ("html", "body")):
            self.skip = self.depth
            return
        if tag == "br":
            self.frames[-1].line.append("\n")
        elif tag == "code" and self.pre:
            self.language = self.language or _code_language(attrs)
        if tag in _BLOCKS and not self.pre:
            self._open_block(tag, attrs)

    def _open_block(self, tag: str, attrs: Mapping[str, str]) -> None:
        self._flush()
        frame = self.frames[-1]
        if tag in _HEADINGS:
            self.heading = _HEADINGS[tag]
            frame.structured = True
        elif tag == "pre":
            self.pre, self.language = self.depth, _code_language(attrs)
            frame.structured = True
        elif tag in ("ul", "ol", "menu"):
            start = attrs.get("start") or "1"
            self.lists.append(int(start) if tag == "ol" and re.fullmatch(r"\d{1,6}", start) else 0)
            if tag == "ol" and not self.lists[-1]:
                self.lists[-1] = 1
            frame.structured = True
        elif tag == "li":
            self.marker = "- "
            if self.lists and self.lists[-1]:
                self.marker = f"{self.lists[-1]}. "
                self.lists[-1] += 1
        elif tag == "blockquote":
            self.quotes += 1
            frame.structured = True
        elif tag == "table":
            frame.structured = True
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and len(self.frames) <= len(self.tables):
            if not self.tables[-1]:
                self.tables[-1].append([])
            self.frames.append(_Frame())
            self.tables[-1][-1].append(self.frames[-1])

    def data(self, text: str) -> None:
        if self.capture is not None:
            self.capture.append(text)
        if not self.skip:
            self.frames[-1].line.append(text if self.pre else _SPACE.sub(" ", text))

    def end(self, tag: str) -> None:
        depth, self.depth = self.depth, self.depth - 1
        self._end_meta(tag)
        if self.skip:
            if self.skip == depth:
                self.skip = 0
            return
        if self.pre:
            if self.pre == depth:
                self._end_pre()
            elif tag in _BLOCKS:
                self.frames[-1].line.append("\n")
            return
        if tag not in _BLOCKS:
            return
        self._flush()
        self.heading = 0 if tag in _HEADINGS else self.heading
        if tag in ("ul", "ol", "menu") and self.lists:
            self.lists.pop()
            self.marker = ""
        elif tag == "li":
            self.marker = ""
        elif tag == "blockquote":
            self.quotes = max(0, self.quotes - 1)
        elif tag in ("td", "th") and len(self.frames) > max(1, len(self.tables)):
            self.frames.pop()
        elif tag == "table" and self.tables:
            self._end_table()

    def close(self) -> Page:
        return self.page

    def finish(self) -> Page:
        while self.tables:
            self._flush()
            self._end_table()
        self._flush()
        self.page.text = _join(self.frames[0].blocks)
        return self.page

    def _flush(self) -> None:
        frame = self.frames[-1]
        lines = (" ".join(line.split(" ")).strip(" \t") for line in "".join(frame.line).split("\n"))
        text = "\n".join(re.sub(r"[ \t]+", " ", line) for line in lines).strip()
        frame.line = []
        if not text:
            return
        if self.heading:
            flat = " ".join(text.split())
            self.page.first_heading = self.page.first_heading or flat
            text = f"{'#' * self.heading} {flat}"
        elif text.startswith(("#", "```", "~~~")):
            text = "\\" + text  # a sentence, not structure
        self._emit(text)

    def _emit(self, text: str) -> None:
        if self.lists:
            # A deep hostile list must not be indented by megabytes.
            indent = "  " * min(len(self.lists) - (1 if self.marker else 0), 20)
            first = indent + self.marker
            text = first + text.replace("\n", "\n" + (indent + "  " if self.marker else indent))
            self.marker = ""
        if self.quotes:
            quote = "> " * min(self.quotes, 20)
            text = quote + text.replace("\n", "\n" + quote)
        self.frames[-1].blocks.append(text)

    def _end_pre(self) -> None:
        code = "".join(self.frames[-1].line).strip("\n")
        self.frames[-1].line = []
        self.pre = 0
        if code.strip():
            longest = max((len(run) for run in re.findall("`{3,}", code)), default=2)
            fence = "`" * max(3, longest + 1)
            self._emit(f"{fence}{self.language}\n{code}\n{fence}")

    def _end_table(self) -> None:
        """A table of data becomes a Markdown table; one for layout becomes its cells' blocks."""
        rows = [row for row in self.tables.pop() if row]
        del self.frames[len(self.tables) + 1 :]
        cells = [cell for row in rows for cell in row]
        width = max((len(row) for row in rows), default=0)
        if width < 2 or any(cell.structured for cell in cells):
            for cell in cells:
                self.frames[-1].blocks.extend(cell.blocks)
            return
        shown = [
            [" ".join(" ".join(cell.blocks).split()).replace("|", "\\|") for cell in row]
            for row in rows
        ]
        shown = [row for row in shown if any(row)]
        if shown:
            lines = [f"| {' | '.join(row)} |" for row in shown]
            lines.insert(1, f"|{' --- |' * len(shown[0])}")
            self._emit("\n".join(lines))

    def _meta(self, tag: str, attrs: Mapping[str, str]) -> None:
        if tag == "html":
            self.page.language = self.page.language or (attrs.get("lang") or "").strip()
        elif tag == "meta":
            name = attrs.get("property") or attrs.get("name") or attrs.get("itemprop") or ""
            self.page.meta.setdefault(name.strip().lower(), (attrs.get("content") or "").strip())
        elif tag == "time" and "pubdate" in attrs:
            self.page.times.append(attrs.get("datetime") or "")
        elif (tag == "title" and not self.page.title) or (
            tag == "script" and "ld+json" in (attrs.get("type") or "")
        ):
            self.capture = []

    def _end_meta(self, tag: str) -> None:
        if self.capture is not None and tag in ("title", "script"):
            if tag == "title":
                self.page.title = " ".join("".join(self.capture).split())
            else:
                self.page.json_ld.append("".join(self.capture))
            self.capture = None


def _code_language(attrs: Mapping[str, Any]) -> str:
    found = re.search(r"(?:language|lang|highlight-source)-([\w+#-]+)", attrs.get("class") or "")
    return found[1] if found else ""


def _join(blocks: list[str]) -> str:
    """Blank lines between blocks, but not between the items of a list."""
    made: list[str] = []
    item = re.compile(r"(?:> )*\s*(?:-|\d+\.) ")
    for i, block in enumerate(blocks):
        tight = i > 0 and item.match(block) and item.match(blocks[i - 1])
        made.append(("\n" if tight else "\n\n") + block if i else block)
    return "".join(made)
