"""Row files: each row is a document, or says why not; the others go on."""

import datetime as dt
import io
import json
import tracemalloc
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.json_items import json_items
from stillroom.transforms.parsed import MAX_FACET_CHARS, Parsed, Refused
from stillroom.transforms.read_rows import read_rows
from tests.broken_files import lines, parquet_bytes


def read(kind: str, data: bytes | str, max_chars: int = 1000, **columns: Any) -> list[Any]:
    raw = data.encode() if isinstance(data, str) else data
    return list(read_rows(io.BytesIO(raw), kind, Source("s", "x", **columns), max_chars))


def brief(rows: list[Any]) -> list[tuple[str, str]]:
    return [(r.key, r.text if isinstance(r, Parsed) else r.reason.value) for r in rows]


def test_beir_and_pyserini_columns_are_known() -> None:
    (beir,) = read("jsonl", lines({"_id": "d1", "title": "T", "text": "words", "metadata": {}}))
    assert (beir.key, beir.title, beir.text, beir.kind) == ("d1", "T", "words", "row")
    (pyserini,) = read("jsonl", lines({"id": 7, "contents": "words"}))
    assert (pyserini.key, pyserini.text) == ("7", "words")
    (headed,) = read("csv", "ID,Title,Text\n9,T,words\n")
    assert (headed.key, headed.title, headed.text, headed.metadata) == ("9", "T", "words", {})


def test_chosen_columns_others_are_facets() -> None:
    row = {"k": "x", "h": "T", "q": "ask", "a": "answer", "text": "not me", "when": 1_700_000_000}
    columns = {
        "id_column": "k",
        "title_column": "h",
        "text_columns": ("q", "a"),
        "created_column": "when",
    }
    (parsed,) = read("jsonl", lines(row), **columns)
    assert (parsed.key, parsed.title, parsed.text) == ("x", "T", "ask\n\nanswer")
    assert parsed.created_at == dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    assert parsed.metadata == {"text": "not me"}


def test_facets_are_typed() -> None:
    line = (
        '{"text": "w", "s": "a", "i": 3, "f": 1.5, "b": true, "l": ["x", 2], "o": {"k": [1]}, '
        '"n": null, "nan": NaN, "inf": Infinity, "e": "", "big": 99999999999999999999}'
    )
    (parsed,) = read("jsonl", line)
    assert parsed.metadata == {
        "s": "a", "i": 3, "f": 1.5, "b": True, "l": ("x", "2"), "o": '{"k": [1]}',
        "big": "99999999999999999999",
    }  # fmt: skip
    assert [type(parsed.metadata[k]) for k in "ifb"] == [int, float, bool]


def test_csv_facets_are_typed_where_nothing_is_lost() -> None:
    (parsed,) = read("csv", "text,i,f,b,zip,version,e\nw,3,1.5,true,007,1.10,\n")
    assert parsed.metadata == {
        "i": 3, "f": 1.5, "b": True, "zip": "007", "version": "1.10",
    }  # fmt: skip


def test_a_long_facet_is_cut_and_that_is_said() -> None:
    (parsed,) = read("jsonl", lines({"text": "w", "long": "x" * 20_000}))
    assert len(parsed.metadata["long"]) == MAX_FACET_CHARS
    assert parsed.repairs == ("facet_cut",)


def test_bad_rows_are_named_and_the_others_go_on() -> None:
    rows = read(
        "jsonl",
        lines(
            {"id": "a", "text": "one"},
            "{broken",
            "",
            "[1]",
            {"id": "b", "text": " "},
            {"id": "c", "text": "x" * 1001},
            {"id": "d", "body": 5},
            {"id": "e", "other": 5},
            {"id": "f", "text": {"an": "object"}},
            '{"text": ' + "[" * 100_000,
            {"id": "z", "text": "last"},
        ),
    )
    assert brief(rows) == [
        ("a", "one"), ("2", "malformed"), ("4", "malformed"), ("b", "empty"), ("c", "too_large"),
        ("d", "5"), ("e", "missing_column"), ("f", "malformed"), ("10", "malformed"), ("z", "last"),
    ]  # fmt: skip
    assert "line 2" in rows[1].detail


def test_without_a_text_column_there_is_one_reject_that_names_the_columns() -> None:
    for kind, data in (
        ("jsonl", lines(*[{"name": "x", "price": 1}] * 5)),
        ("csv", "name,price\n" + "x,1\n" * 5),
        ("parquet", parquet_bytes([{"name": "x", "price": 1}] * 5)),
    ):
        (reject,) = read(kind, data)
        assert reject.reason == RejectReason.MISSING_COLUMN
        assert "name, price" in reject.detail
        assert "5 rows" in reject.detail


def test_a_named_column_that_is_not_there_is_missing() -> None:
    (reject,) = read("csv", "id,text\n1,x\n", title_column="titel")
    assert reject.reason == RejectReason.MISSING_COLUMN
    assert "'titel'" in reject.detail
    (reject,) = read("jsonl", lines({"text": "x"}), id_column="key")
    assert "'key'" in reject.detail


def test_rows_without_text_before_the_first_with_it_are_each_rejected() -> None:
    rows = read("jsonl", lines({"meta": 1}, {"meta": 2}, {"text": "x"}, {"meta": 3}))
    assert brief(rows) == [
        ("1", "missing_column"), ("2", "missing_column"), ("3", "x"), ("4", "missing_column"),
    ]  # fmt: skip


def test_surrogates_in_json_escapes() -> None:
    half, pair = read("jsonl", '{"text": "a\\ud83d", "f": "\\ude00"}\n{"text": "\\ud83d\\ude00"}')
    assert (half.text, half.metadata, half.repairs) == ("a\ufffd", {"f": "\ufffd"}, ("surrogates",))
    assert (pair.text, pair.repairs) == ("😀", ())


def test_one_row_in_another_encoding_costs_no_other() -> None:
    data = '{"text": "Привет"}\n'.encode() * 50 + '{"text": "café"}\n'.encode("latin-1")
    rows = read("jsonl", data)
    assert [r.text for r in rows] == ["Привет"] * 50 + ["café"]
    assert read("jsonl", '{"text": "é"}'.encode("utf-16"))[0].text == "é"
    assert read("csv", "text\ncafé\n".encode("latin-1"))[0].text == "café"
    assert read("csv", b"\xef\xbb\xbftext\nx\n")[0].text == "x"


def test_a_broken_first_line_costs_only_itself() -> None:
    for first in ('{"text": "cut', "[1]", "nonsense", '{"text": "a",}'):
        rows = read("jsonl", lines(first, {"text": "b"}, {"text": "c"}))
        assert brief(rows) == [("1", "malformed"), ("2", "b"), ("3", "c")]


@pytest.mark.parametrize(
    "data",
    [
        '[{"text": "a"}, {"text": "b, ]}"}]',
        '[\n  {\n    "text": "a"\n  },\n  {"text": "b, ]}"}\n]\n',
        '{"text": "a"}\n{"text": "b, ]}"}',
        '{\n "text": "a"\n}\n{\n "text": "b, ]}"\n}',
        '  [{"text": "a"},{"text":"b, ]}"}',
    ],
)
def test_json_in_lines_arrays_and_pretty_objects(data: str) -> None:
    assert [row.text for row in read("jsonl", data)] == ["a", "b, ]}"]


def test_a_bad_item_of_an_array_does_not_lose_the_others() -> None:
    rows = read("jsonl", '[{"text": "a"},\n {"text": oops},\n 5,\n {"text": "d"}]')
    assert brief(rows) == [("1", "a"), ("2", "malformed"), ("3", "malformed"), ("4", "d")]


def test_json_items_across_chunks_equal_the_parsed_array(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [{"a": 'q"\\', "b": [1, {"c": "]},{["}]}, [], "x, y", 5, {"d": "\\\\"}, None]
    for indent in (None, 1):
        text = json.dumps(items, indent=indent)
        for size in (1, 2, 3, 7):
            monkeypatch.setattr("stillroom.transforms.json_items._CHUNK", size)
            found = [json.loads(item or "") for _, item in json_items(io.StringIO(text), 1000)]
            assert found == items


@pytest.mark.parametrize("prefix", ["", "["])
def test_a_huge_row_is_refused_in_bounded_memory(prefix: str) -> None:
    huge = 40_000_000

    class Endless(io.RawIOBase):
        left = huge

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            start = f'{prefix}{{"text": "'.encode() if self.left == huge else b""
            size = min(len(buffer), self.left)
            buffer[:size] = (start + b"x" * size)[:size]
            self.left -= size
            return size

    tracemalloc.start()
    rows = list(read_rows(Endless(), "jsonl", Source("s", "x"), 1000))  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [row.reason for row in rows if isinstance(row, Refused)] == [RejectReason.TOO_LARGE]
    assert peak < 20_000_000


@pytest.mark.parametrize(
    ("kind", "data", "texts"),
    [
        ("csv", 'id,text\n1,"a, ""b""\nc"\n2,d\n', ['a, "b"\nc', "d"]),
        ("csv", "id;text\n1;a, b\n", ["a, b"]),
        ("csv", "id,text\r\n1,a\r\n\r\n2,b\r\n", ["a", "b"]),
        ("tsv", 'id\ttext\n1\t"open quote\n2\tb "c"\n', ['"open quote', 'b "c"']),
        ("tsv", 'id\ttext\n1\t"a"\n2\t"b"\n', ["a", "b"]),
        ("csv", 'id,text\n1,"' + "x" * 200_000 + '"\n', ["x" * 200_000]),
    ],
)
def test_dialects(kind: str, data: str, texts: list[str]) -> None:
    assert [row.text for row in read(kind, data, max_chars=300_000)] == texts


def test_ragged_rows_say_their_line() -> None:
    rows = read("csv", 'id,text\n1,"two\nlines"\n2,a,b\n3\n4,d\n')
    assert brief(rows) == [
        ("1", "two\nlines"), ("2", "malformed"), ("3", "malformed"), ("4", "d"),
    ]  # fmt: skip
    assert "line 4: 3 fields; the header has 2" in rows[1].detail


def test_an_open_quote_does_not_swallow_a_whole_file() -> None:
    data = 'id,text\n1,"open\n' + "2,words and more words\n" * 100_000
    rows = read("csv", data, max_chars=10)
    assert rows[0].reason == RejectReason.TOO_LARGE
    assert "open quote" in rows[0].detail
    assert len(rows) > 1000  # went on behind it


def test_parquet_types() -> None:
    table = pa.table(
        {
            "id": [1, 2],
            "text": ["a", None],
            "created_at": pa.array([0, None], pa.timestamp("s", "UTC")),
            "day": pa.array([19_000, None], pa.date32()),
            "tags": [["x", "y"], []],
            "raw": [b"\xff\xfe\x00", None],
            "far": pa.array([2**62, 0], pa.timestamp("us")),
            "kind": pa.array(["k", "k"]).dictionary_encode(),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    first, second = read("parquet", buffer.getvalue())
    assert first.created_at == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert first.metadata["tags"] == ("x", "y")
    assert first.metadata["day"] == "2022-01-08"
    assert first.metadata["kind"] == "k"
    assert "raw" not in first.metadata
    assert "facet_binary" in first.repairs
    assert "far" in first.metadata
    assert second.reason == RejectReason.EMPTY


def test_a_created_column_that_cannot_be_read_is_a_repair_and_a_facet() -> None:
    (parsed,) = read("jsonl", lines({"text": "x", "when": 10**30}), created_column="when")
    assert parsed.created_at is None
    assert parsed.repairs == ("created_at",)
    assert parsed.metadata == {"when": str(10**30)}


def test_a_file_without_rows_is_empty() -> None:
    for kind, data in (("csv", "id,text\n"), ("jsonl", "\n \n"), ("parquet", pa_empty())):
        with pytest.raises(Refused) as caught:
            read(kind, data)
        assert caught.value.reason == RejectReason.EMPTY


def pa_empty() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), buffer)
    return buffer.getvalue()
