"""Content digests: what rows say, not how they are batched."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.arrow import ENTRIES, MARK, SPAN, keys_schema
from stillroom.transforms.content import ContentDigest, content_digest

SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("l", pa.large_string()),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("raw", pa.binary()),
        ("names", pa.list_(pa.string())),
        ("spans", pa.list_(SPAN)),
        ("span", SPAN),
        ("v", pa.list_(pa.float32(), 2)),
    ]
)
SPANS = st.fixed_dictionaries(
    {"document_id": st.text(max_size=2), "start": st.integers(0, 9), "end": st.none()}
)
ROW = st.fixed_dictionaries(
    {
        "s": st.none() | st.text(max_size=3),
        "l": st.none() | st.text(max_size=3),
        "n": st.none() | st.integers(-5, 5),
        "f": st.none() | st.floats(-1, 1),
        "b": st.none() | st.booleans(),
        "t": st.none() | st.integers(0, 10),
        "raw": st.none() | st.binary(max_size=3),
        "names": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=3),
        "spans": st.none() | st.lists(SPANS, max_size=2),
        "span": st.none() | SPANS,
        "v": st.none() | st.tuples(st.floats(0, 1, width=32), st.floats(0, 1, width=32)).map(list),
    }
)


def table(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@given(st.lists(ROW, min_size=1, max_size=6), st.lists(st.integers(0, 6), max_size=3))
def test_batching_does_not_matter(rows, cuts):
    whole = table(rows)
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [whole.slice(a, b - a) for a, b in pairwise(edges)]
    copied = [table(part.to_pylist()) for part in parts]
    expected = content_digest([whole])
    assert content_digest(parts) == content_digest(copied) == expected
    assert content_digest([pa.concat_tables(parts)]) == expected


@given(st.lists(ROW, min_size=1, max_size=4), ROW, st.data())
def test_each_value_matters(rows, other, data):
    row = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(SCHEMA.names))
    changed = [dict(r) for r in rows]
    changed[row][name] = other[name]
    same = table(rows).equals(table(changed))
    assert (content_digest([table(rows)]) == content_digest([table(changed)])) == same


@given(st.lists(ROW, min_size=2, max_size=4))
def test_the_order_of_rows_matters(rows):
    turned = rows[::-1]
    same = table(rows).equals(table(turned))
    assert (content_digest([table(rows)]) == content_digest([table(turned)])) == same


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [
        (pa.string(), [None], [""]),
        (pa.int64(), [None], [0]),
        (pa.bool_(), [None], [False]),
        (pa.list_(pa.string()), [None], [[]]),
        (pa.list_(pa.string()), [[None]], [[""]]),
        (pa.list_(pa.string()), [["a", "b"], []], [["a"], ["b"]]),
        (pa.list_(pa.string()), [["ab"]], [["a", "b"]]),
        (pa.string(), ["ab", "c"], ["a", "bc"]),
        (pa.binary(), [b""], [None]),
        (SPAN, [None], [{"document_id": None, "start": None, "end": None}]),
        (pa.list_(MARK), [None], [[]]),
    ],
)
def test_nulls_empties_and_borders_differ(kind, a, b):
    made = [content_digest([pa.table({"x": pa.array(rows, kind)})]) for rows in (a, b)]
    assert made[0] != made[1]


def test_names_of_columns_matter_and_their_order_does_not():
    first = pa.table({"a": [1], "b": [2]})
    assert content_digest([first]) != content_digest([pa.table({"a": [2], "b": [1]})])
    assert content_digest([first]) == content_digest([first.select(["b", "a"])])


def test_columns_fed_apart_agree():
    state = ContentDigest()
    whole = pa.table({"a": [1, 2], "b": ["x", "y"]})
    state.update(whole.select(["b"]))
    state.update(whole.select(["a"]))
    assert state.hexdigest() == content_digest([whole])


def test_real_schemas_are_covered(build):
    import lance

    for name, schema in (("entries", ENTRIES), ("keys", keys_schema(384))):
        version = build.manifest.tables[name].version
        rows = lance.dataset(str(Path(build.kb) / f"{name}.lance"), version=version).to_table()
        assert set(schema.names) <= set(rows.column_names)
        assert content_digest([rows]) == content_digest([rows.slice(0, 3), rows.slice(3)])
