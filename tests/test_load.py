"""Read: shards that do not depend on workers, the first of one id, documents staged in parts."""

from pathlib import Path

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.arrow import document_from_row
from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import load
from stillroom.transforms.files import InputFile, list_source
from stillroom.transforms.load import (
    DUPLICATES,
    REJECTS,
    DocumentRef,
    ReadDocuments,
    first_of_id,
    plan_shards,
)
from stillroom.transforms.staging import Staging

SOURCE = Source("s", "/in")


def file(number: int, size: int) -> InputFile:
    return InputFile("s", f"/in/{number}", f"{number}", size, "text")


@given(st.lists(st.sampled_from([0, 1, 1000, load.SHARD_BYTES // 2, load.SHARD_BYTES * 3])))
def test_shards_hold_every_file_once_in_order(sizes):
    files = [file(number, size) for number, size in enumerate(sizes)]
    shards = plan_shards(SOURCE, files)
    assert [f for shard in shards for f in shard.files] == files
    assert all(shard.files for shard in shards)
    for shard in shards:
        total = sum(f.size for f in shard.files)
        assert (
            total <= load.SHARD_BYTES
            or len(shard.files) == 1
            or not any(f.size for f in shard.files[1:])
        )
    assert len({shard.name for shard in shards}) == len(shards)


def test_shards_are_bounded_in_number_of_files():
    shards = plan_shards(SOURCE, [file(n, 1) for n in range(2 * load.SHARD_FILES + 1)])
    assert [len(s.files) for s in shards] == [load.SHARD_FILES, load.SHARD_FILES, 1]


def test_a_shard_s_name_does_not_say_where_the_source_lies():
    (here,) = plan_shards(SOURCE, [file(1, 1)])
    moved = InputFile("s", "/else/1", "1", 99, "text")
    (there,) = plan_shards(Source("s", "/else"), [moved])
    assert here.name == there.name
    (other,) = plan_shards(Source("t", "/in"), [file(1, 1)])
    assert other.name != here.name


def ref(part: str, row: int, digest: str = "d", metadata: str = "m") -> DocumentRef:
    return DocumentRef("id", digest, metadata, part, row, f"{part}:{row}")


@given(st.permutations([ref("a", 2), ref("a", 10), ref("b", 0, "e"), ref("b", 1, "d", "n")]))
def test_the_first_of_an_id_stays_whatever_arrives_first(refs):
    made = list(first_of_id(("id", refs)))
    assert made[0] == ref("a", 2)
    tagged = [one for one in made[1:] if isinstance(one, TaggedOutput)]
    assert len(tagged) == len(made) - 1 == 3
    assert [t.value for t in tagged if t.tag == DUPLICATES] == ["id"]
    rejects = [t.value for t in tagged if t.tag == REJECTS]
    assert [reject.uri for reject in rejects] == ["b:0", "b:1"]
    for reject in rejects:
        assert reject.reason is RejectReason.CONFLICTING_ID
        assert "a:2" in reject.detail
        assert reject.document_id == "id"


def test_one_alone_stays():
    assert list(first_of_id(("id", iter([ref("a", 0)])))) == [ref("a", 0)]


def read(folder, staging, max_chars=1_000_000):
    """What ReadDocuments makes of a folder, as lists by output."""
    source = Source("s", str(folder))
    shards = plan_shards(source, list_source(source))
    (staging / "out").mkdir(exist_ok=True)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        made = (
            pipeline
            | beam.Create(shards).with_output_types(load.Shard)
            | ReadDocuments(Staging(str(staging)), max_chars)
        )
        for name in ("refs", REJECTS, DUPLICATES):
            lines = made[name] | f"Repr {name}" >> beam.Map(repr)
            _ = (
                lines
                | f"One {name}" >> beam.combiners.ToList()
                | f"Write {name}" >> beam.Map(_write, str(staging / "out" / name))
            )
    return {
        name: (staging / "out" / name).read_text().splitlines()
        for name in ("refs", REJECTS, DUPLICATES)
    }


def _write(lines, path):
    Path(path).write_text("\n".join(sorted(lines)))


def test_documents_are_staged_and_everything_is_counted(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    rows = ['{"_id": "a", "text": "one"}', '{"_id": "b", "text": "two"}']
    (folder / "rows.jsonl").write_text(
        "\n".join([*rows, rows[0], '{"_id": "b", "text": "2"}', "{"])
    )
    (folder / "page.md").write_text("# Page\n\nText.")
    (folder / "empty.txt").write_text(" ")
    staging = tmp_path / "staging"
    staging.mkdir()
    made = read(folder, staging)
    assert len(made["refs"]) == 3
    assert len(made[DUPLICATES]) == 1
    reasons = sorted(line.split("reason=")[1].split(",")[0] for line in made[REJECTS])
    assert len(reasons) == 3
    assert "CONFLICTING_ID" in "".join(reasons)
    assert "EMPTY" in "".join(reasons)
    assert "MALFORMED" in "".join(reasons)
    store = Staging(str(staging))
    texts = {
        document_from_row(row).text
        for part in store.names("documents")
        for row in store.read("documents", part).to_pylist()
    }
    assert {"one", "two", "# Page\n\nText."} <= texts


def test_parts_are_small_and_refs_point_into_them(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "PART_DOCUMENTS", 2)
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [f'{{"_id": "{n}", "text": "text {n}"}}' for n in range(5)]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    staging = tmp_path / "staging"
    staging.mkdir()
    made = read(folder, staging)
    store = Staging(str(staging))
    assert [store.read("documents", p).num_rows for p in store.names("documents")] == [2, 2, 1]
    assert len(made["refs"]) == 5
