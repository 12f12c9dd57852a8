"""Documents cut into segments along their headings, each an exact span within a token budget.

The rules, in the order in which they win:
1. Every character that is not white space is in exactly one segment, and no segment is over budget.
2. A heading begins its segment and never ends one (unless nothing follows it): a heading without
   text of its own, or with less than a sixteenth of the budget before its first sub-heading, goes
   with what comes next, and then the deeper heading path is the segment's.
3. Blocks under one heading are packed together up to the budget. Code and tables that fit beside
   their heading are not torn; larger ones are cut between lines and rows, other text at sentence
   ends. Packing is greedy, so that text added at the end of a page leaves the segments above it as
   they were; only a last piece under a quarter of the budget is evened out with its neighbour.
4. A section (with all below it) under a quarter of the budget is merged with neighbours of its kind
   while they fit together; their path is what their headings have in common. A section of a quarter
   of the budget or more stays alone: its own heading is the better path.

Anthropic's and LlamaIndex's "small-to-big" retrieval rest on such sections; chunks that end with the
next section's heading are the complaint of semchunk#14, which rule 2 answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from stillroom.schemas.documents import Document, Span
from stillroom.schemas.entries import Entry
from stillroom.schemas.ids import digest, entry_id
from stillroom.tokens import TokenCounter
from stillroom.transforms.blocks import Block, BlockKind, blocks_of
from stillroom.transforms.sentences import checked, separator_size, sizes, units

KIND = "segment"


@dataclass(frozen=True, slots=True)
class TableRows:
    """Where a table's rows lie in the document, and the text of the header above them."""

    start: int
    end: int
    header: str


@dataclass(frozen=True, slots=True)
class Segment:
    """An entry without keys, and what making its keys needs to know.

    `tables` are the tables whose rows the value touches: a key that begins among rows repeats their
    header, though the value (an exact span) does not. `tokens` is the size of the value's parts.
    """

    entry: Entry
    tables: tuple[TableRows, ...] = ()
    tokens: int = 0

    def table_header(self, offset: int) -> str:
        """The header of the table in whose rows a text that starts at `offset` of the value begins."""
        at = self.entry.span.start + offset
        for rows in self.tables:
            if rows.start <= at < rows.end:
                return rows.header
        return ""


@dataclass(frozen=True, slots=True)
class _Part:
    """What packing moves as one: a block, or a piece of a block that is too large."""

    start: int
    end: int
    size: int
    block: Block
    path: tuple[str, ...]  # of the section in which it stands

    @property
    def heading(self) -> bool:
        return self.block.kind is BlockKind.HEADING


@dataclass(slots=True)
class _Section:
    """A heading, the blocks directly under it, and the sections below; the root has no heading."""

    level: int
    path: tuple[str, ...]
    own: list[_Part] = field(default_factory=list)
    children: list["_Section"] = field(default_factory=list)
    size: int = 0  # with all that is below

    @property
    def bare(self) -> bool:
        """Whether it is a heading with nothing at all under it."""
        return not self.children and self.own_bare

    @property
    def own_bare(self) -> bool:
        return all(part.heading for part in self.own)

    def parts(self) -> Iterator[_Part]:
        yield from self.own
        for child in self.children:
            yield from child.parts()


@dataclass(frozen=True, slots=True)
class _Group:
    parts: list[_Part]
    path: tuple[str, ...]


def segment_document(document: Document, budget: int, tokens: TokenCounter) -> list[Segment]:
    """The segments of a document, in order; none for a blank text.

    `budget` is in tokens of `tokens`, special tokens apart; at least 16 (ValueError). `Entry.path`
    holds the headings above the value and its own, outermost first, without a first heading that only
    repeats the document's title.
    """
    if budget < 16:
        raise ValueError(f"a segment's budget is at least 16 tokens, not {budget}")
    text = document.text
    blocks = blocks_of(text, document.kind)
    cutter = _Cutter(text, budget, tokens)
    root = _tree(blocks, cutter, document.title)
    tables = [
        TableRows(block.rows[0][0], block.end, text[block.header[0] : block.header[1]])
        for block in blocks
        if block.header and block.rows
    ]
    return list(_segments(document, cutter.groups(root, []), tables))


class _Cutter:
    """The packing of one document's parts into groups within the budget."""

    def __init__(self, text: str, budget: int, tokens: TokenCounter) -> None:
        self.text = text
        self.budget = budget
        self.small = budget // 4
        self.dust = budget // 16
        self.tokens = tokens
        self.gap = separator_size(tokens)

    def groups(self, section: _Section, lead: list[_Part]) -> Iterator[_Group]:
        """The groups of a section; `lead` is what stands above and goes with its first one."""
        if not section.children:
            yield from self.packed([*lead, *section.own], section.path)
            return
        members = list(section.children)
        own = _Section(section.level, section.path, section.own)
        own.size = _total(section.own, self.gap)
        if section.own_bare or own.size < self.dust:
            lead = [*lead, *section.own]
        else:
            members.insert(0, own)
        run: list[_Section] = []
        size = _total(lead, self.gap)
        for member in members:
            if member.size < self.small and size + member.size + self.gap <= self.budget:
                run.append(member)
                size += member.size + self.gap
                continue
            # A heading with nothing under it goes with what follows, never with what is above.
            run, bare = _without_bare_end(run)
            yield from self.merged(run, lead if run else [], section.path)
            lead = [*([] if run else lead), *(part for item in bare for part in item.own)]
            if _total(lead, self.gap) > self.budget // 2:  # too many to be anything's heading
                yield from self.packed(lead, section.path)
                lead = []
            run, size = [], _total(lead, self.gap)
            if member.size < self.small:
                run.append(member)
                size += member.size + self.gap
            else:
                yield from self.groups(member, lead)
                lead, size = [], 0
        run, bare = _without_bare_end(run)
        if run:
            yield from self.merged(run, lead, section.path)
            lead = []
        yield from self.merged(bare, lead, section.path)

    def merged(
        self, run: list[_Section], lead: list[_Part], path: tuple[str, ...]
    ) -> Iterator[_Group]:
        """Small neighbouring sections as one, under the path that they share."""
        if len(run) == 1:
            yield from self.groups(run[0], lead)
            return
        full = [item for item in run if not item.bare]
        parts = [*lead, *(part for item in run for part in item.parts())]
        yield from self.packed(parts, full[0].path if len(full) == 1 else path)

    def packed(self, parts: list[_Part], path: tuple[str, ...]) -> Iterator[_Group]:
        """Parts packed up to the budget, in order."""
        parts = self.beside_heading(parts)
        if not parts:
            return
        runs: list[tuple[int, int]] = []
        first = total = 0
        for index, part in enumerate(parts):
            more = part.size + (self.gap if index > first else 0)
            if index > first and total + more > self.budget:
                cut = index
                while cut > first and parts[cut - 1].heading:
                    cut -= 1  # a heading inside merged sections moves on with its text
                cut = cut if cut > first else index
                total = _total(parts[cut : index + 1], self.gap)
                if total > self.budget:  # headings larger than the budget itself
                    cut, total = index, part.size
                runs.append((first, cut))
                first = cut
            else:
                total += more
        runs.append((first, len(parts)))
        runs = self.evened(parts, runs)
        rough = [(part.start, part.end, part.size) for part in parts]
        for a, b in checked(self.text, rough, runs, self.budget, self.tokens):
            group = parts[a:b]
            here = any(part.path[: len(path)] == path for part in group)
            yield _Group(group, path if here else group[-1].path)

    def beside_heading(self, parts: list[_Part]) -> list[_Part]:
        """The parts, with each that has no room beside the headings right above it cut up."""
        fitting: list[_Part] = []
        above = 0  # the size of the headings right above
        for part in parts:
            if part.heading:
                above += part.size + self.gap
                fitting.append(part)
                continue
            crowded = above + part.size > self.budget and above <= self.budget // 2
            fitting.extend(self.pieces(part, self.budget - above) if crowded and above else [part])
            above = 0
        return fitting

    def evened(self, parts: list[_Part], runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The runs, with the last two shared out anew if the last is small."""
        if len(runs) < 2 or _total(parts[runs[-1][0] :], self.gap) >= self.small:
            return runs
        first, end = runs[-2][0], len(parts)
        best = None
        left, right = 0, _total(parts[first:], self.gap)
        for cut in range(first + 1, end):
            left += parts[cut - 1].size + self.gap
            right -= parts[cut - 1].size + self.gap
            if parts[cut - 1].heading or left > self.budget or right > self.budget:
                continue
            if best is None or abs(left - right) < best[0]:
                best = (abs(left - right), cut)
        return [*runs[:-2], (first, best[1]), (best[1], end)] if best else runs

    def pieces(self, part: _Part, limit: int) -> list[_Part]:
        """A block too large, as parts of at most `limit`: lines of code or a table, else sentences."""
        block = part.block
        by_line = block.kind in (BlockKind.CODE, BlockKind.TABLE, BlockKind.HTML)
        levels = ("lines",) if by_line else ("sentences", "lines")
        found = units(self.text, part.start, part.end, limit, self.tokens, levels)
        if block.header and block.rows and found:
            # The header stays with the first row, where the two fit together.
            head = [unit for unit in found if unit[1] <= block.rows[0][0]]
            rest = found[len(head) :]
            size = sum(unit[2] for unit in head) + self.gap * len(head)
            if head and rest and size + rest[0][2] <= limit:
                found = [(head[0][0], rest[0][1], size + rest[0][2]), *rest[1:]]
        return [replace(part, start=a, end=b, size=size) for a, b, size in found]


def _tree(blocks: list[Block], cutter: _Cutter, title: str) -> _Section:
    text, budget = cutter.text, cutter.budget
    root = _Section(0, ())
    stack = [root]
    measured = sizes([text[block.start : block.end] for block in blocks], cutter.tokens)
    first_heading = True
    for block, size in zip(blocks, measured, strict=True):
        if block.kind is BlockKind.HEADING:
            while stack[-1].level >= block.level:
                stack.pop()
            is_title = first_heading and block.level == 1 and _same(block.title, title)
            first_heading = False
            # A document title is a level of the tree, but not of the path: every entry has it.
            step = (block.title,) if block.title and not is_title else ()
            section = _Section(block.level, (*stack[-1].path, *step))
            stack[-1].children.append(section)
            stack.append(section)
        part = _Part(block.start, block.end, size, block, stack[-1].path)
        stack[-1].own.extend([part] if size <= budget else cutter.pieces(part, budget))
    _measure(root, cutter.gap)
    return root


def _measure(section: _Section, gap: int) -> int:
    section.size = _total(section.own, gap) + sum(
        _measure(child, gap) + gap for child in section.children
    )
    return section.size


def _segments(
    document: Document, groups: Iterator[_Group], tables: list[TableRows]
) -> Iterator[Segment]:
    text = document.text
    seen: dict[str, count[int]] = {}
    at = 0  # the first table that may still be touched: both are in order
    for group in groups:
        start, end = group.parts[0].start, group.parts[-1].end
        value = text[start:end].strip()
        start = text.index(value, start)
        end = start + len(value)
        while at < len(tables) and tables[at].end <= start:
            at += 1
        touched = []
        for rows in tables[at:]:
            if rows.start >= end:
                break
            touched.append(rows)
        value_digest = digest("value", value)
        ordinal = next(seen.setdefault(value_digest, count()))
        entry = Entry(
            id=entry_id(document.id, KIND, value_digest, ordinal),
            kind=KIND,
            title=document.title,
            value=value,
            span=Span(document.id, start, end),
            path=group.path,
            facets=document.metadata,
            starts_at=document.created_at,
        )
        yield Segment(entry, tuple(touched), sum(part.size for part in group.parts))


def _without_bare_end(run: list[_Section]) -> tuple[list[_Section], list[_Section]]:
    end = len(run)
    while end and run[end - 1].bare:
        end -= 1
    return run[:end], run[end:]


def _total(parts: list[_Part], gap: int) -> int:
    return sum(part.size for part in parts) + gap * max(0, len(parts) - 1)


def _same(heading: str, title: str) -> bool:
    return " ".join(heading.casefold().split()) == " ".join(title.casefold().split())
