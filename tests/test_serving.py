"""Serving files: rows sorted by id whatever the tables' order, and what is not consistent refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom import store
from stillroom.dense import sign_bits
from stillroom.schemas.arrow import (
    LINKS,
    documents_to_table,
    entries_to_table,
    keys_schema,
    keys_to_table,
    links_to_table,
)
from stillroom.schemas.documents import Document, Span
from stillroom.schemas.entries import Entry, Key, KeyKind, Link, LinkKind
from stillroom.schemas.ids import digest
from stillroom.transforms.serving import _groups, write_derived

DIMS = 70
AT = datetime(2024, 5, 31, tzinfo=UTC)
DOCUMENTS = [
    Document(digest("d", n), "s", f"{n}.md", f"/in/{n}.md", "text", f"T{n}", f"0123456789 é😀 {n}")
    for n in range(4)
]


def make_entries() -> list[Entry]:
    made = []
    for n in range(12):
        document = DOCUMENTS[n % 4]
        start = n // 4
        name = digest("e", n)
        keys = tuple(
            Key(digest("k", n, m), name, KeyKind.TEXT, f"key {n} {m}", Span(document.id, m, m + 2))
            for m in range(n % 3 + 1)
        )
        keys = tuple(replace(k, dense=m < 2) for m, k in enumerate(keys))
        made.append(
            Entry(
                name, "section", document.title, document.text[start : start + 5],
                Span(document.id, start, start + 5), keys, ("a",), {"n": n % 2, "t": ("x", "y")},
                AT if n % 2 else None, AT + timedelta(days=1) if n == 3 else None, float(n),
            )
        )  # fmt: skip
    return made


ENTRIES = make_entries()
NAMES = sorted(entry.id for entry in ENTRIES)
LINKED = [
    Link(ENTRIES[0].id, ENTRIES[4].id, LinkKind.NEXT),
    Link(ENTRIES[1].id, ENTRIES[2].id, LinkKind.NEAR_DUPLICATE, 0.9),
    Link(ENTRIES[2].id, ENTRIES[5].id, LinkKind.NEAR_DUPLICATE, 0.95),
]


def vectors_of(keys) -> np.ndarray:
    seeds = [int(key.id[:8], 16) for key in keys]
    made = np.stack([np.random.default_rng(seed).normal(size=DIMS) for seed in seeds])
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def write(root, name, documents=DOCUMENTS, entries=ENTRIES, links=LINKED, seed=0, lost=()):
    """A base's tables in a random order of rows, then its derived files."""
    random = np.random.default_rng(seed)
    base = root / name
    by_id = {d.id: d for d in documents}

    def shuffled(items):
        return [items[i] for i in random.permutation(len(items))]

    keys = shuffled([k for e in entries for k in e.keys])
    table = keys_to_table(keys)
    missing = pa.array([not k.dense or k.id in lost for k in keys])
    flat = pa.array(vectors_of(keys).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, DIMS, mask=missing)
    rows = [
        (e, by_id[e.span.document_id], {"text": ("whale", str(e.prior))}, None, 0)
        for e in shuffled(entries)
    ]
    tables = {
        "documents": documents_to_table(shuffled(documents)),
        "entries": entries_to_table(rows),
        "keys": table.append_column(keys_schema(DIMS).field("vector"), column),
        "links": links_to_table(shuffled(links)) if links else LINKS.empty_table(),
    }
    datasets = {
        table: lance.write_dataset(rows, str(base / f"{table}.lance"), max_rows_per_file=5)
        for table, rows in tables.items()
    }
    return base, write_derived(base, datasets, ("text", "exact"), DIMS)


@pytest.fixture(scope="module")
def derived(tmp_path_factory):
    base, made = write(tmp_path_factory.mktemp("serving"), "base")
    return base / "serve", made, base


def arrow(folder, name):
    return pa.ipc.open_file(pa.memory_map(str(folder / name))).read_all()


def test_entries_are_sorted_by_id(derived):
    folder, made, _ = derived
    table = arrow(folder, store.ENTRIES)
    assert table.column("id").to_pylist() == NAMES
    assert made.counts == {"entries": 12, "vectors": sum(k.dense for e in ENTRIES for k in e.keys)}
    by_id = {entry.id: entry for entry in ENTRIES}
    for name, value in zip(NAMES, table.column("value").to_pylist(), strict=True):
        assert value == by_id[name].value


def test_times_and_priors_stand_in_the_rows_of_their_entries(derived):
    folder, _, _ = derived
    starts, ends = np.load(folder / store.TIMES)
    prior = np.load(folder / store.PRIOR)
    for row, name in enumerate(NAMES):
        (entry,) = [e for e in ENTRIES if e.id == name]
        assert prior[row] == entry.prior
        if entry.starts_at is None:
            assert (starts[row], ends[row]) == (store.NO_TIME, store.NO_TIME)
        else:
            assert starts[row] == entry.starts_at.timestamp() * 1_000_000
            assert ends[row] == (entry.ends_at or entry.starts_at).timestamp() * 1_000_000


def test_vectors_keys_and_bits_agree(derived):
    folder, _, _ = derived
    key_entry = np.load(folder / store.KEY_ENTRY)
    vectors = np.load(folder / store.VECTORS)
    keys = arrow(folder, store.KEYS).to_pylist()
    assert (np.diff(key_entry) >= 0).all()
    by_id = {k.id: k for e in ENTRIES for k in e.keys if k.dense}
    assert sorted(k["id"] for k in keys) == sorted(by_id)
    for row, plain in enumerate(keys):
        key = by_id[plain["id"]]
        assert NAMES[key_entry[row]] == key.entry_id
        assert plain["text"] == key.text
        assert (plain["document_id"], plain["start"], plain["end"]) == (
            key.span.document_id,
            key.span.start,
            key.span.end,
        )
        np.testing.assert_array_equal(vectors[row], vectors_of([key])[0])
    np.testing.assert_array_equal(np.load(folder / store.BITS), sign_bits(vectors))
    within = [k["id"] for k in keys if NAMES[key_entry[0]] == by_id[k["id"]].entry_id]
    assert within == sorted(within)


def test_facets_are_an_inverted_index(derived):
    folder, _, _ = derived
    rows = arrow(folder, store.FACETS).to_pylist()
    assert [(r["name"], r["value"]) for r in rows] == sorted((r["name"], r["value"]) for r in rows)
    found = {(r["name"], r["value"]): r["rows"] for r in rows}
    odd = [row for row, name in enumerate(NAMES) for e in ENTRIES if e.id == name and e.facets["n"]]
    assert found["n", "1"] == odd
    assert found["t", '"y"'] == found["kind", '"section"'] == list(range(12))


def test_links_are_rows_and_near_duplicates_are_groups(derived):
    folder, _, _ = derived
    links = arrow(folder, store.LINKS).to_pylist()
    assert {(NAMES[k["source"]], NAMES[k["target"]], k["kind"]) for k in links} == {
        (k.source_id, k.target_id, k.kind.value) for k in LINKED
    }
    assert [k["source"] for k in links] == sorted(k["source"] for k in links)
    group = np.load(folder / store.GROUP)
    together = {NAMES.index(ENTRIES[n].id) for n in (1, 2, 5)}
    for row in range(12):
        assert group[row] == (min(together) if row in together else row)


def test_equal_tables_give_equal_files_in_whatever_order(derived, tmp_path):
    _, first, _ = derived
    again, second = write(tmp_path, "again", seed=7)
    assert second.contents == first.contents
    assert second.serve == first.serve
    assert second.lexical.content == first.lexical.content
    for folder in ("serve", "lexical"):
        files = {"serve": second.serve, "lexical": second.lexical}[folder].files
        assert {p.name: p.stat().st_size for p in (again / folder).iterdir()} == {
            name: size for name, (size, _) in files.items()
        }


@pytest.mark.parametrize("what", ["value", "prior", "facets", "links", "documents"])
def test_a_change_changes_the_content(derived, tmp_path, what):
    _, first, _ = derived
    entries, links, documents = list(ENTRIES), list(LINKED), list(DOCUMENTS)
    if what == "value":
        span = Span(entries[0].span.document_id, 0, 6)
        entries[0] = replace(entries[0], value=DOCUMENTS[0].text[:6], span=span)
    elif what == "prior":
        entries[0] = replace(entries[0], prior=9.5)
    elif what == "facets":
        entries[0] = replace(entries[0], facets={"n": 5})
    elif what == "links":
        links = links[1:]
    else:
        documents[0] = replace(documents[0], metadata={"new": 1})
    _, second = write(tmp_path, "changed", documents, entries, links)
    changed = {name for name, made in second.contents.items() if made != first.contents[name]}
    assert changed == {{"links": "links", "documents": "documents"}.get(what, "entries")}


def test_a_base_without_vectors_or_links(tmp_path):
    entries = [replace(e, keys=()) for e in ENTRIES]
    entries[0] = replace(ENTRIES[0], keys=(replace(ENTRIES[0].keys[0], dense=False),))
    base, made = write(tmp_path, "plain", entries=entries, links=[])
    folder = base / "serve"
    assert np.load(folder / store.VECTORS).shape == (0, DIMS)
    assert np.load(folder / store.BITS).shape == (2, 0)
    assert np.load(folder / store.GROUP).tolist() == list(range(12))
    assert made.counts["vectors"] == 0


def test_a_key_that_names_no_entry_is_refused(tmp_path):
    stray = replace(ENTRIES[0].keys[0], entry_id="f" * 32, id="0" * 32)
    entries = [replace(ENTRIES[0], keys=(*ENTRIES[0].keys, stray)), *ENTRIES[1:]]
    with pytest.raises(ValueError, match="names an entry that is not there"):
        write(tmp_path, "stray", entries=entries)


@pytest.mark.parametrize("end", ["source_id", "target_id"])
def test_a_link_that_names_no_entry_is_refused(tmp_path, end):
    links = [*LINKED, replace(LINKED[0], **{end: "0" * 32})]
    with pytest.raises(ValueError, match="names an entry that is not there"):
        write(tmp_path, "stray", links=links)


def test_a_dense_key_without_a_vector_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no vector"):
        write(tmp_path, "lost", lost={ENTRIES[0].keys[0].id})


def test_two_entries_of_one_id_are_refused(tmp_path):
    with pytest.raises(ValueError, match="one id"):
        write(tmp_path, "twice", entries=[*ENTRIES, replace(ENTRIES[0], keys=())])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=15))
def test_groups_are_connected_components(pairs):
    pairs = [(a, b) for a, b in pairs if a != b]
    made = _groups(10, np.array([a for a, _ in pairs], int), np.array([b for _, b in pairs], int))
    expected = list(range(10))
    for _ in range(10):
        for a, b in pairs:
            expected[a] = expected[b] = min(expected[a], expected[b])
    assert made.tolist() == expected
