"""Nouns to Arrow rows and back, every optional field included."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stillroom.schemas.arrow import (
    DOCUMENTS,
    ENTRIES,
    LINKS,
    document_from_row,
    documents_to_table,
    entries_to_table,
    entry_from_row,
    facets_from_json,
    facets_to_json,
    key_from_row,
    keys_schema,
    keys_to_table,
    link_from_row,
    links_to_table,
    mark_from_row,
    microseconds,
)
from stillroom.schemas.documents import Derivation, Document, Mark, MarkKind, Span
from stillroom.schemas.entries import Entry, Key, KeyKind, Link, LinkKind

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ZONES = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))]
)
TIMES = st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES)
FACETS = st.dictionaries(
    TEXT,
    st.one_of(
        TEXT,
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.lists(TEXT, max_size=3).map(tuple),
    ),
    max_size=4,
)


@st.composite
def spans(draw):
    start = draw(st.integers(0, 10**12))
    return Span(draw(TEXT), start, start + draw(st.integers(0, 99)))


@st.composite
def marks(draw):
    start = draw(st.integers(0, 20))
    return Mark(
        draw(st.sampled_from(MarkKind)), start, start + draw(st.integers(0, 9)), draw(TEXT),
        draw(st.integers(0, 6)), draw(TEXT), draw(TEXT), draw(TIMES),
        tuple(draw(st.lists(spans(), max_size=2))),
    )  # fmt: skip


DOCUMENT = st.builds(
    Document, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT,
    marks=st.lists(marks(), max_size=3).map(tuple), metadata=FACETS, created_at=TIMES,
    repairs=st.lists(TEXT, max_size=2).map(tuple),
    derivation=st.none() | st.builds(Derivation, TEXT, TEXT, st.lists(spans(), max_size=2).map(tuple)),
)  # fmt: skip
KEYS = st.builds(
    Key,
    TEXT,
    TEXT,
    st.sampled_from(KeyKind),
    TEXT,
    st.none() | spans(),
    st.booleans(),
    TIMES,
    TIMES,
)
ENTRY = st.builds(
    Entry, TEXT, TEXT, TEXT, TEXT, spans(), st.lists(KEYS, max_size=2).map(tuple),
    st.lists(TEXT, max_size=3).map(tuple), FACETS, TIMES, TIMES,
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
LINK = st.builds(
    Link, TEXT, TEXT, st.sampled_from(LinkKind), st.floats(allow_nan=False, allow_infinity=False)
)


@settings(max_examples=60)
@given(st.lists(DOCUMENT, max_size=3))
def test_documents_come_back(documents):
    table = documents_to_table(documents)
    assert table.schema == DOCUMENTS
    made = [document_from_row(row) for row in table.to_pylist()]
    assert made == documents
    for old, new in zip(documents, made, strict=True):
        assert [type(v) for v in new.metadata.values()] == [
            type(new_value) for new_value in dict(sorted(old.metadata.items())).values()
        ]


@settings(max_examples=60)
@given(DOCUMENT)
def test_a_document_that_comes_back_has_its_digests(document):
    (row,) = documents_to_table([document]).to_pylist()
    made = document_from_row(row)
    assert (made.digest, made.metadata_digest) == (document.digest, document.metadata_digest)
    assert (row["digest"], row["metadata_digest"]) == (document.digest, document.metadata_digest)


@settings(max_examples=60)
@given(ENTRY, DOCUMENT, st.none() | st.binary(max_size=8))
def test_entries_come_back_with_their_keys(entry, document, signature):
    terms = {"text": ("a", "b"), "path": (), "exact": ("c",)}
    table = entries_to_table([(entry, document, terms, signature, 2)])
    assert table.schema == ENTRIES
    (row,) = table.to_pylist()
    keys = [key_from_row(made) for made in keys_to_table(entry.keys).to_pylist()]
    assert entry_from_row(row, keys) == entry
    assert row["digest"] == entry.digest
    assert row["signature"] == signature
    assert row["terms"] == [{"field": "exact", "terms": "c"}, {"field": "text", "terms": "a b"}]
    assert (row["source"], row["source_key"], row["uri"]) == (
        document.source,
        document.source_key,
        document.uri,
    )


@given(st.lists(LINK, max_size=4))
def test_links_come_back(links):
    table = links_to_table(links)
    assert table.schema == LINKS
    assert [link_from_row(row) for row in table.to_pylist()] == links


def test_marks_beside_an_entry_are_those_inside_its_value():
    inside = Mark(MarkKind.CODE, 4, 6)
    whole = Mark(MarkKind.TURN, 2, 8, source_id="t")
    over = [Mark(MarkKind.HEADING, 0, 3), Mark(MarkKind.TABLE, 7, 9), Mark(MarkKind.QUOTE, 0, 10)]
    document = Document("d", "s", "k", "u", "text", "", "0123456789", (inside, whole, *over))
    entry = Entry("e", "section", "", "234567", Span("d", 2, 8))
    (row,) = entries_to_table([(entry, document, {}, None, 0)]).to_pylist()
    assert [mark_from_row(made) for made in row["marks"]] == [inside, whole]


def test_the_basis_of_a_derived_document_lies_beside_its_entries():
    basis = (Span("x", 1, 2), Span("y", 0, 7))
    document = Document("d", "s", "k", "u", "t", "", "ab", derivation=Derivation("m", "f", basis))
    entry = Entry("e", "section", "", "ab", Span("d", 0, 2))
    (row,) = entries_to_table([(entry, document, {}, None, 0)]).to_pylist()
    assert tuple(Span(**made) for made in row["basis"]) == basis


def test_keys_take_vectors_of_the_width_asked():
    table = keys_to_table([Key("k", "e", KeyKind.TEXT, "t")])
    schema = keys_schema(3)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(3, np.float32)), 3)
    assert table.append_column(schema.field("vector"), vectors).schema == schema


@given(FACETS)
def test_equal_facets_are_equal_text(facets):
    turned = dict(reversed(list(facets.items())))
    assert facets_to_json(turned) == facets_to_json(facets)
    made = facets_from_json(facets_to_json(facets))
    assert made == facets
    assert {n: type(v) for n, v in made.items()} == {n: type(v) for n, v in facets.items()}


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES))
def test_microseconds_are_arrow_s(moment):
    assert microseconds(moment) == pa.scalar(moment, pa.timestamp("us", tz="UTC")).value


def test_a_time_without_a_zone_is_utc():
    assert microseconds(datetime(1970, 1, 1, 0, 0, 1, 5)) == 1_000_005
