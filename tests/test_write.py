"""Write: vectors to their rows, a document without one rejected whole, fragments that Lance reads."""

import json
from pathlib import Path

import apache_beam as beam
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.arrow import (
    documents_to_table,
    entries_to_table,
    keys_schema,
    keys_to_table,
    links_to_table,
)
from stillroom.schemas.documents import Document, Span
from stillroom.schemas.entries import Entry, Key, KeyKind, Link, LinkKind
from stillroom.transforms.load import REJECTS
from stillroom.transforms.parts import write_fragment
from stillroom.transforms.shape import TextRef, VectorRef
from stillroom.transforms.staging import Staging
from stillroom.transforms.write import (
    KeyVector,
    WriteParts,
    check_spans,
    documents_without_vectors,
    locate,
)

DIMS = 3


def test_every_place_of_a_text_gets_its_vector():
    refs = [TextRef("p", 0, 1), TextRef("q", 7, 1)]
    made = list(locate(("digest", {"texts": refs, "vectors": [VectorRef("b", 2)]})))
    assert made == [
        ("p", KeyVector(0, VectorRef("b", 2))),
        ("q", KeyVector(7, VectorRef("b", 2))),
    ]


def test_a_text_without_a_vector_says_so():
    ((part, made),) = locate(("digest", {"texts": [TextRef("p", 1, 1)], "vectors": []}))
    assert (part, made) == ("p", KeyVector(1, VectorRef("", 0)))


@given(st.permutations([VectorRef("b", 1), VectorRef("a", 5), VectorRef("a", 3)]))
def test_of_several_vectors_of_one_text_the_same_is_taken(vectors):
    ((_, made),) = locate(("digest", {"texts": [TextRef("p", 1, 1)], "vectors": vectors}))
    assert made.vector == VectorRef("a", 3)


def document(name: str) -> Document:
    text = f"text of {name}"
    return Document(name, "s", name, f"/in/{name}", "text", name, text, repairs=("nul",))


def entry(name: str, of: str, *keys: Key) -> Entry:
    return Entry(name, "section", "", f"text of {of}", Span(of, 0, len(f"text of {of}")), keys)


def key(name: str, of: str, dense: bool = True) -> Key:
    return Key(name, of, KeyKind.TEXT, f"text {name}", dense=dense)


# d1 has two entries, of which one will lack a vector; d2 is whole; d3 has only a key without vector.
DOCUMENTS = [document(name) for name in ("d1", "d2", "d3")]
ENTRIES = [
    entry("e1", "d1", key("k1", "e1"), key("k2", "e1")),
    entry("e2", "d1", key("k3", "e2")),
    entry("e3", "d2", key("k4", "e3"), key("k5", "e3", dense=False)),
    entry("e4", "d3", key("k6", "e4", dense=False)),
]
KEYS = [k for e in ENTRIES for k in e.keys]
LINKS = [Link("e1", "e2", LinkKind.NEXT)]


def entries_table() -> pa.Table:
    by_id = {d.id: d for d in DOCUMENTS}
    signatures = {"e1": b"s1", "e2": b"s2", "e3": b"s3", "e4": None}
    rows = [(e, by_id[e.span.document_id], {}, signatures[e.id], 1) for e in ENTRIES]
    return entries_to_table(rows)


def with_vectors(keys: pa.Table, have: list[bool]) -> pa.Table:
    values = pa.array(np.ones(len(have) * DIMS, np.float32))
    mask = pa.array([not one for one in have])
    column = pa.FixedSizeListArray.from_arrays(values, DIMS, mask=mask)
    return keys.append_column(keys_schema(DIMS).field("vector"), column)


def test_a_document_lacks_a_vector_if_one_of_its_dense_keys_does():
    keys = keys_to_table(KEYS)
    have = [True, False, True, True, False, False]
    assert documents_without_vectors(entries_table(), with_vectors(keys, have)) == ["d1"]
    whole = with_vectors(keys, [True] * 4 + [False, False])
    assert documents_without_vectors(entries_table(), whole) == []
    none = with_vectors(keys, [False] * 6)
    assert documents_without_vectors(entries_table(), none) == ["d1", "d2"]


@pytest.mark.parametrize(
    ("column", "value"),
    [("value", "other"), ("start", 1), ("end", 2), ("end", 900), ("document_id", "gone")],
)
def test_a_value_that_is_not_the_span_it_names_is_refused(column, value):
    documents, entries = documents_to_table(DOCUMENTS), entries_table()
    check_spans(documents, entries)
    rows = entries.to_pylist()
    rows[1][column] = value
    with pytest.raises(ValueError, match=f"entry {rows[1]['id']} "):
        check_spans(documents, pa.Table.from_pylist(rows, schema=entries.schema))


def test_a_fragment_is_invisible_until_it_is_committed(tmp_path):
    table = documents_to_table(DOCUMENTS)
    made = write_fragment(str(tmp_path), "documents", table)
    assert (made.table, made.rows) == ("documents", 3)
    path = tmp_path / "documents.lance"
    assert list(path.rglob("*.lance"))
    assert not (path / "_versions").exists()
    assert read_fragments(path, [made], table.schema).equals(table)


def test_no_rows_write_no_file(tmp_path):
    made = write_fragment(str(tmp_path), "links", links_to_table([]))
    assert (made.rows, made.files) == (0, ())
    assert list(tmp_path.iterdir()) == []


def read_fragments(path: Path, fragments, schema) -> pa.Table:
    files = [lance.fragment.FragmentMetadata.from_json(one) for f in fragments for one in f.files]
    dataset = lance.LanceDataset.commit(str(path), lance.LanceOperation.Overwrite(schema, files))
    return dataset.to_table()


def test_a_part_is_written_without_the_documents_that_failed(tmp_path):
    staging = Staging(str(tmp_path / "staging"))
    kb = str(tmp_path / "kb")
    staging.write("kept", "p", documents_to_table(DOCUMENTS))
    staging.write("entries", "p", entries_table())
    staging.write("keys", "p", keys_to_table(KEYS))
    staging.write("links", "p", links_to_table(LINKS))
    values = np.arange(12, dtype=np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values), DIMS)
    staging.write("vectors", "b", pa.table({"vector": column}))
    refs = [(k.text_digest, TextRef("p", row, 2)) for row, k in enumerate(KEYS) if k.dense]
    vectors = [(d, VectorRef("b", n)) for n, (d, _) in enumerate(refs)]
    vectors[1] = (vectors[1][0], VectorRef("", 1))  # the encoder failed on k2
    out = tmp_path / "out"
    out.mkdir()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        inputs = {
            "parts": pipeline | "P" >> beam.Create(["p"]),
            "texts": pipeline | "T" >> beam.Create(refs).with_output_types(tuple[str, TextRef]),
            "vectors": pipeline
            | "V" >> beam.Create(vectors).with_output_types(tuple[str, VectorRef]),
        }
        made = inputs | WriteParts(staging, kb, DIMS)
        for name in ("written", REJECTS):
            _ = (
                made[name]
                | f"Plain {name}" >> beam.Map(_plain)
                | f"List {name}" >> beam.combiners.ToList()
                | f"Write {name}" >> beam.Map(_write, str(out / name))
            )
    (reject,) = json.loads((out / REJECTS).read_text())
    assert (reject["document_id"], reject["reason"], reject["uri"]) == ("d1", "encoder", "/in/d1")
    (written,) = json.loads((out / "written").read_text())
    assert written["rows"] == {"documents": 2, "entries": 2, "keys": 3, "links": 0}
    assert (written["repairs"], written["truncated"]) == ({"nul": 2}, 2)
    tables = {
        f["table"]: read_fragments(Path(kb) / f"{f['table']}.lance", [_Fragment(f)], schema)
        for f in written["fragments"]
        if f["rows"]
        for schema in [_schema(f["table"])]
    }
    assert tables["documents"].column("id").to_pylist() == ["d2", "d3"]
    assert tables["entries"].column("id").to_pylist() == ["e3", "e4"]
    assert tables["keys"].column("id").to_pylist() == ["k4", "k5", "k6"]
    assert "links" not in tables
    assert tables["keys"].column("vector").to_pylist() == [[9, 10, 11], None, None]


class _Fragment:
    def __init__(self, data):
        self.files = data["files"]


def _schema(name: str) -> pa.Schema:
    from stillroom.schemas.arrow import DOCUMENTS as D
    from stillroom.schemas.arrow import ENTRIES as E
    from stillroom.schemas.arrow import LINKS as L

    return {"documents": D, "entries": E, "links": L, "keys": keys_schema(DIMS)}[name]


def _plain(element):
    from dataclasses import asdict, is_dataclass

    return asdict(element) if is_dataclass(element) else element[1][0]


def _write(elements, path):
    Path(path).write_text(json.dumps(elements, default=str))
