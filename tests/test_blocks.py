"""Blocks: what CommonMark says is code or a heading, exact spans, and nothing left out."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.transforms.blocks import BlockKind, blocks_of, markdown_blocks

MARKUP = st.lists(
    st.sampled_from(
        [
            "# h",
            "## h ##",
            "text",
            "===",
            "---",
            "```",
            "~~~~",
            "    code",
            "- item",
            "1. one",
            "> q",
        ]
        + [
            "| a | b |",
            "|---|---|",
            "| 1 | 2 |",
            "<div>",
            "</div>",
            "",
            "  ",
            "\t- x",
            "[a]: /b",
            ">",
        ]
        + [
            "a\x0cb",
            "a\u2028# b",
            "a\x85b",
            "-",
            "é\u0301",
            "字",
            "\ud800",
            "- - - a",
            "* * *",
            "\x1c",
        ]
    ),
    max_size=25,
).map("\n".join)
KINDS = st.sampled_from(["markdown", "html", "office", "text", "pdf", "row"])


def shape(text: str, kind: str = "markdown") -> list[tuple[str, str]]:
    return [(b.kind.value, text[b.start : b.end]) for b in blocks_of(text, kind)]


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("~~~~\n```\n# a\n~~~~\n# b", ["b"]),  # a backtick fence inside a tilde fence is text
        ("```\n# a\n\n# b", []),  # an unclosed fence runs to the end
        ("````\n```\n# a\n````\n# b", ["b"]),  # a shorter fence closes nothing
        ("```\n# a\n``` x\n# b", []),  # a closing fence has no words after it
        ("``` a`b\n# c", ["c"]),  # no backtick in a backtick fence's words
        ("   ```\n# a\n   ```\n# b", ["b"]),
        ("    ```\n# a", ["a"]),  # four spaces make code of one line, not a fence
        ("    # a\n\n# b", ["b"]),
        ("- ```\n  # a\n  ```\n# b", ["b"]),
        ("> # a\n\n# b", ["b"]),  # a quoted heading is not the document's
        ("#a\n####### b\n\\# c", []),
        ("# a #\n## `b` **c** [d](e)\n### x <a name='y'></a>", ["a", "b c d", "x"]),
        ("a\nb\n===\nc\n---", ["a b", "c"]),
        ("## Title {#anchor}", ["Title"]),
        ("<!--\n# a\n-->\n# b", ["b"]),
        ("a\x0c# b\u2028# c\x85# d\n# e", ["e"]),  # only a line feed ends a line
        ("---\ntitle: x\n---\n# a", ["a"]),  # front matter is not a heading
    ],
)
def test_headings_are_those_of_commonmark(text: str, headings: list[str]) -> None:
    found = [b.title for b in markdown_blocks(text) if b.kind is BlockKind.HEADING]
    assert found == headings


@pytest.mark.parametrize("kind", ["text", "pdf", "row"])
def test_plain_text_has_only_paragraphs(kind: str) -> None:
    text = "# not a heading\n```\n\n \t\n    | a |\n|---|\n\n\nend\n"
    assert shape(text, kind) == [
        ("paragraph", "# not a heading\n```"),
        ("paragraph", "    | a |\n|---|"),
        ("paragraph", "end"),
    ]


def test_a_table_knows_its_header_and_rows() -> None:
    text = "x\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |\n\ny"
    (table,) = [b for b in markdown_blocks(text) if b.kind is BlockKind.TABLE]
    assert table.header is not None
    assert text[slice(*table.header)] == "| a | b |\n|---|:-:|"
    assert [text[a:b] for a, b in table.rows] == ["| 1 | 2 |", "| 3 |"]


def test_list_items_are_apart_and_their_code_is_one_block() -> None:
    text = "- one\n- two\n\n  ```\n  x\n\n  y\n  ```\n- three"
    assert shape(text) == [
        ("list_item", "- one"),
        ("list_item", "- two"),
        ("code", "  ```\n  x\n\n  y\n  ```"),
        ("list_item", "- three"),
    ]


def test_a_link_definition_is_text_too() -> None:
    assert shape("[a]: /b 'c'") == [("paragraph", "[a]: /b 'c'")]


@given(MARKUP | st.text(), KINDS)
def test_blocks_are_in_order_and_hold_every_visible_character(text: str, kind: str) -> None:
    at = 0
    for block in blocks_of(text, kind):
        assert not text[at : block.start].strip()
        assert block.start < block.end
        assert text[block.start : block.end].strip()
        assert block.start == 0 or text[block.start - 1] == "\n"  # whole lines
        at = block.end
    assert not text[at:].strip()


@pytest.mark.parametrize(
    "text",
    [
        "> " * 10_000 + "x",
        ">" * 10_000,
        "[" * 50_000,
        "*" * 100_000,
        "# " + "[" * 50_000,
        "`" * 100_000,
        "".join("  " * i + "- a\n" for i in range(1_000)),
        "|" * 50_000 + "\n" + "|-" * 50_000,
        "# h\n" * 20_000,
    ],
)
def test_hostile_nesting_ends(text: str) -> None:
    start = time.process_time()
    blocks = markdown_blocks(text)
    # A quadratic or exponential parser would need minutes or for ever.
    assert time.process_time() - start < 20
    seen = "".join("".join(text[b.start : b.end].split()) for b in blocks)
    assert seen == "".join(text.split())


def test_an_endless_heading_has_a_short_title() -> None:
    (block,) = markdown_blocks("word " * 10_000 + "\n===")
    assert block.kind is BlockKind.HEADING
    assert len(block.title) == 200
