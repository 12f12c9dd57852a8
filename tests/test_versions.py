"""Builds as readers and operators see them: listed, rolled back, held while others move on."""

import shutil
import threading
import time

import pytest

import stillroom
from stillroom.errors import BadInput, Damaged, VersionSkew
from stillroom.folders import open_folder
from stillroom.store import current_build, manifest_name, read_manifest
from stillroom.transforms.maintenance import collect_garbage
from stillroom.versions import Locked, find_build, list_builds, rollback
from tests.test_incremental import build, pages, write


@pytest.fixture(scope="module")
def three_builds(tmp_path_factory):
    """A base of three builds: one, two and three pages."""
    root = tmp_path_factory.mktemp("history")
    made = [build(write(root / "in", pages("abc"[: n + 1])), root / "kb").build for n in range(3)]
    return root, made


@pytest.fixture
def history(three_builds, tmp_path):
    """A copy of it that a test may change."""
    root, made = three_builds
    shutil.copytree(root / "kb", tmp_path / "kb")
    return tmp_path / "kb", made


def test_builds_are_listed_in_the_order_they_were_published(history):
    kb, made = history
    assert [m.build for m in list_builds(kb)] == made
    assert [m.parent for m in list_builds(kb)] == ["", *made[:2]]


def test_a_build_is_named_by_the_beginning_of_its_id(history):
    kb, made = history
    assert find_build(kb, made[1][:12]) == made[1]
    for wrong in ("", "zz", "*", "../" + made[0]):
        with pytest.raises(BadInput, match="builds of"):
            find_build(kb, wrong)


def test_rollback_needs_a_build_that_can_be_served(history):
    kb, made = history
    serve = kb / "serve" / read_manifest(kb, made[0]).serve.digest
    vectors = serve / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-4])
    with pytest.raises(Damaged, match="vectors.npy"):
        rollback(str(kb), made[0])
    assert current_build(kb) == made[2]
    assert rollback(str(kb), made[1]) == made[1]
    assert len(stillroom.open(kb)) == read_manifest(kb, made[1]).counts["entries"]


def test_writers_exclude_each_other(history):
    kb, made = history
    with open_folder(kb).lock():
        for change in (lambda: rollback(str(kb), made[0]), lambda: collect_garbage(kb, 1)):
            with pytest.raises(Locked, match="is running"):
                change()
    assert current_build(kb) == made[2]


def test_an_open_build_is_held_until_its_reader_goes(history):
    kb, made = history
    folder, name = open_folder(kb), manifest_name(made[2])
    assert not folder.is_held(name)
    reader = stillroom.open(kb)
    assert folder.is_held(name)
    del reader
    assert not folder.is_held(name)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ('"format": 2', '"format": 9', VersionSkew),
        ('"lexical_format": "tantivy', '"lexical_format": "tantive', VersionSkew),
        ('"probe": "', '"probe": "0', VersionSkew),
        ('"build"', '"bulid"', Damaged),
    ],
)
def test_what_this_version_cannot_read_is_refused_by_name(history, old, new, kind):
    kb, made = history
    path = kb / manifest_name(made[2])
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(kind):
        stillroom.open(kb)


def test_readers_see_one_build_each_while_builds_come_and_go(history, tmp_path):
    kb, _ = history
    errors: list[str] = []
    answers = [0]
    stop = threading.Event()

    def read() -> None:
        base = stillroom.open(kb)
        while not stop.is_set():
            try:
                hits = base.search("checks each year", 100, mode="lexical", collapse=False)
                builds = {hit.build_id for hit in hits}
                if builds != {base.build_id}:
                    errors.append(f"one answer from {builds}")
                answers[0] += 1
                base.refresh()
                time.sleep(0.02)
            except Exception as error:  # noqa: BLE001 - whatever it is, a reader must not see it
                errors.append(repr(error))

    readers = [threading.Thread(target=read) for _ in range(60)]
    for reader in readers:
        reader.start()
    for n in range(4, 8):
        build(write(tmp_path / "in", pages("abcdefgh"[:n])), kb)
        if n == 5:
            rollback(str(kb), list_builds(kb)[-2].build)
        collect_garbage(kb, keep=2)
    stop.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert answers[0] > 200
