"""The lexical index: one segment, no lock files left, facets as exact terms."""

from datetime import UTC, datetime

import pytest
import tantivy

from stillroom.schemas.lexical import ENDS_AT, FACET, ROW, STARTS_AT
from stillroom.transforms.lexical_index import LexicalWriter, facet_terms

AT = datetime(2024, 5, 31, tzinfo=UTC)
MICROSECONDS = int(AT.timestamp()) * 1_000_000


def row(terms, facets="{}", starts=None, ends=None):
    return {
        "terms": [{"field": name, "terms": text} for name, text in terms.items()],
        "facets": facets,
        "kind": "section",
        "source": "s",
        "starts_at": starts,
        "ends_at": ends,
    }


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lexical") / "index"
    writer = LexicalWriter(folder, ("text", "exact"))
    writer.add(0, row({"text": "whale sing whale", "exact": "nat.succ"}, '{"t":["a b","c"]}'))
    writer.add(1, row({"text": "whale"}, '{"year":2021,"on":true}', AT))
    writer.add(2, row({"text": "owl"}, "{}", AT, datetime(2024, 6, 2, tzinfo=UTC)))
    writer.close()
    return folder


def found(folder, query) -> set[int]:
    opened = tantivy.Index.open(str(folder))
    searcher = opened.searcher()
    hits = searcher.search(query(opened.schema), 10).hits
    return set(searcher.fast_field_values(ROW, [address for _, address in hits])) if hits else set()


def test_one_segment_and_no_lock(index):
    assert tantivy.Index.open(str(index)).searcher().num_segments == 1
    writer_left = [path.name for path in index.iterdir() if path.name.endswith(".lock")]
    assert [name for name in writer_left if "writer" in name] == []


@pytest.mark.parametrize(
    ("field", "term", "rows"),
    [
        ("text", "whale", {0, 1}),
        ("text", "owl", {2}),
        ("text", "nat.succ", set()),
        ("exact", "nat.succ", {0}),
        ("text", "Whale", set()),
        (FACET, 't="a b"', {0}),
        (FACET, 't="c"', {0}),
        (FACET, "year=2021", {1}),
        (FACET, 'year="2021"', set()),
        (FACET, "on=true", {1}),
        (FACET, 'source="s"', {0, 1, 2}),
        ("kind", "section", {0, 1, 2}),
    ],
)
def test_terms_are_found_in_their_field(index, field, term, rows):
    assert found(index, lambda s: tantivy.Query.term_query(s, field, term, "basic")) == rows


@pytest.mark.parametrize(
    ("field", "low", "high", "rows"),
    [
        (STARTS_AT, MICROSECONDS, MICROSECONDS, {1, 2}),
        (ENDS_AT, MICROSECONDS + 1, 2**62, {2}),
        (ENDS_AT, MICROSECONDS, MICROSECONDS, {1}),
        (STARTS_AT, -(2**62), MICROSECONDS - 1, set()),
    ],
)
def test_times_are_microseconds_and_an_end_defaults_to_the_start(index, field, low, high, rows):
    def query(schema):
        return tantivy.Query.range_query(
            schema, field, tantivy.FieldType.Integer, low, high, True, True
        )

    assert found(index, query) == rows


def test_facets_of_an_entry_are_its_own_then_kind_and_source():
    made = facet_terms('{"kind":"mine","n":1,"t":["a","b"]}', "section", "src")
    assert made == [
        ("kind", '"mine"'),
        ("source", '"src"'),
        ("n", "1"),
        ("t", '"a"'),
        ("t", '"b"'),
    ]


def test_a_folder_that_is_there_is_never_added_to(index):
    with pytest.raises(FileExistsError):
        LexicalWriter(index, ("text",))
