"""Files that hold one document a row: JSONL, JSON arrays, CSV, TSV and Parquet, in bounded memory.

Columns follow BEIR (`_id, title, text`) and Pyserini (`id, contents`) unless the source names them. A
bad row is yielded as a Refused, and reading goes on with the next.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.decode import BinaryContent, clean_text, decode_text
from stillroom.transforms.parsed import Parsed, Refused, parse_time, typed_facets
from stillroom.transforms.row_formats import Row, csv_rows, json_rows, parquet_rows

ID_COLUMNS = ("_id", "id", "docid", "doc_id", "uuid")
TITLE_COLUMNS = ("title", "headline")
TEXT_COLUMNS = ("text", "contents", "content", "body", "passage", "document", "abstract")
CREATED_COLUMNS = ("created_at", "created", "published_at", "published", "date", "timestamp")
# Rows without a text column before the first with one; after so many the file is given up.
MAX_PENDING = 1000


def read_rows(
    stream: BinaryIO, kind: str, source: Source, max_chars: int
) -> Iterator[Parsed | Refused]:
    """The rows of a stream. `kind` is `jsonl`, `csv`, `tsv` or `parquet`.

    A row without an id has its number: its line in JSON, else its place counted from 1. If no row
    has a text column there is one Refused(MISSING_COLUMN), which names the columns there are.
    Raises Refused or BinaryContent where the file itself is damaged, after the rows before that.
    """
    limit = 6 * max_chars + (1 << 20)  # JSON may write a character as six; and the other columns
    if kind == "parquet":
        rows = parquet_rows(stream)
    elif kind == "jsonl":
        rows = json_rows(stream, limit)
    else:
        rows = csv_rows(stream, kind, limit)
    made = (
        row
        if isinstance(row, Refused)
        else parse_row(number, row, source, max_chars, kind != "jsonl", kind in ("csv", "tsv"))
        for number, row in rows
    )
    yield from _one_if_all_lack_text(made)


def _one_if_all_lack_text(rows: Iterator[Parsed | Refused]) -> Iterator[Parsed | Refused]:
    pending: list[Refused] = []
    seen = 0
    try:
        for row in rows:
            seen += 1
            if isinstance(row, Refused) and row.reason == RejectReason.MISSING_COLUMN:
                if seen == len(pending) + 1:  # no other kind of row so far
                    pending.append(row)
                    if len(pending) == MAX_PENDING:
                        break
                    continue
            elif pending:
                yield from pending
                pending = []
            yield row
    except (Refused, BinaryContent):
        yield from pending
        raise
    if not seen:
        raise Refused(RejectReason.EMPTY, "no rows")
    if len(pending) == 1:
        yield pending[0]
    elif pending:
        which = "the first " if len(pending) == MAX_PENDING else "all "
        yield Refused(
            RejectReason.MISSING_COLUMN, f"{pending[0].detail}; so {which}{len(pending):,} rows"
        )


def parse_row(
    number: int,
    row: Row,
    source: Source,
    max_chars: int,
    strict: bool = False,
    infer: bool = False,
) -> Parsed | Refused:
    """One row as a document. `strict` says that each row has all columns, so that a named title or
    time column that is not there is a mistake; `infer` gives types to strings (see typed_facets)."""
    key = str(number)
    id_column = source.id_column or _find(row, ID_COLUMNS)
    if id_column:
        given = _key(row.get(id_column))
        key = given or key
    text_columns = source.text_columns or tuple(filter(None, [_find(row, TEXT_COLUMNS)]))
    title_column = source.title_column or _find(row, TITLE_COLUMNS)
    created_column = source.created_column or _find(row, CREATED_COLUMNS)
    wanted = [source.id_column]
    wanted += [*source.text_columns, source.title_column, source.created_column] if strict else []
    absent = [column for column in wanted if column and column not in row]
    if absent or not any(column in row for column in text_columns):
        what = f"no column {', '.join(map(repr, absent or source.text_columns))}"
        if not absent and not source.text_columns:
            what = f"no text column ({', '.join(TEXT_COLUMNS)})"
        have = ", ".join(str(name)[:100] for name in list(row)[:50])
        return Refused(RejectReason.MISSING_COLUMN, f"{what}; it has: {have}", key)

    repairs: dict[str, None] = {}
    try:
        parts = [_text(row.get(column), repairs) for column in text_columns]
        title = " ".join(_text(row.get(title_column), repairs).split())
    except TypeError as error:
        return Refused(RejectReason.MALFORMED, str(error), key)
    except BinaryContent as error:
        return Refused(RejectReason.BINARY, str(error), key)
    text = "\n\n".join(part for part in parts if part.strip())
    if not text:
        return Refused(RejectReason.EMPTY, "a row with a blank text", key)
    if len(text) > max_chars:
        return Refused(
            RejectReason.TOO_LARGE, f"{len(text):,} characters; the limit is {max_chars:,}", key
        )
    used = {id_column, title_column, *text_columns}
    created = parse_time(row.get(created_column))
    if created:
        used.add(created_column)
    elif source.created_column and row.get(source.created_column) not in (None, ""):
        repairs["created_at"] = None  # its value stays visible, as a facet
    rest = {name: value for name, value in row.items() if name not in used}
    facets, more = typed_facets(rest, infer)
    return Parsed("row", title, text, facets, created, (*repairs, *more), key)


def _find(row: Mapping[Any, Any], names: tuple[str, ...]) -> str:
    """The first of these columns that the row has, whatever its case."""
    for name in names:
        if name in row:
            return name
    folded = {str(name).strip().lower(): str(name) for name in reversed(list(row))}
    return next((folded[name] for name in names if name in folded), "")


def _key(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex()
    return clean_text(str(value))[0].strip()


def _text(value: Any, repairs: dict[str, None]) -> str:
    """The text of one column; paragraphs in a list are joined. Raises TypeError for an object."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        text, found = decode_text(value)
    elif isinstance(value, list | tuple):
        return "\n\n".join(part for item in value if (part := _text(item, repairs)).strip())
    elif isinstance(value, Mapping):
        raise TypeError(f"the text is an object with {', '.join(map(str, list(value)[:20]))}")
    else:
        text, found = clean_text(str(value))
    repairs.update(dict.fromkeys(found))
    return text
