"""A knowledge base that lies on an object store, from build to query, against a real S3 server.

What single files do there is in test_folders.py; that killed builds are harmless, in test_crash.py.
"""

import os
import signal
import threading
from datetime import timedelta

import pytest

import stillroom
from stillroom.errors import Damaged, NotAKnowledgeBase, NotPublished, Unreachable
from stillroom.folders import open_folder
from stillroom.object_store import ObjectFolder
from stillroom.store import current_build, read_manifest
from stillroom.transforms.maintenance import collect_garbage, diff_builds, verify_build
from stillroom.versions import find_build, list_builds, rollback
from tests.test_crash import run_child
from tests.test_incremental import build, contents, pages, write


@pytest.fixture
def kb(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("STILLROOM_CACHE", str(tmp_path / "cache"))
    return f"{s3}/{tmp_path.name}/my.kb"


def test_a_life_on_an_object_store_is_that_of_a_local_folder(kb, tmp_path):
    with pytest.raises(NotAKnowledgeBase, match=f"{kb} has no published build"):
        stillroom.open(kb)
    made = []
    for step in (pages("abc"), pages("abcd", b=1), pages("acd", b=1)):
        folder = write(tmp_path / "in", step)
        made.append(build(folder, kb).build)
    build(folder, tmp_path / "local.kb")
    assert contents(kb) == contents(tmp_path / "local.kb")
    assert verify_build(kb) == []
    assert not build(folder, kb).changed
    assert [m.build for m in list_builds(kb)] == made
    assert find_build(kb, made[0][:10]) == made[0]
    assert diff_builds(kb, made[1], made[2]).removed == ("docs: b.md",)
    left = {file.name.split("/")[0] for file in open_folder(kb).files()}
    assert left == {
        "CURRENT", "builds", "documents.lance", "entries.lance", "keys.lance", "lexical",
        "links.lance", "serve",
    }  # fmt: skip


def test_it_answers_as_a_local_one_does_and_caches_what_it_reads(kb, tmp_path, monkeypatch):
    folder = write(tmp_path / "in", pages("abcd"))
    build(folder, kb)
    build(folder, tmp_path / "local.kb")
    monkeypatch.setenv("STILLROOM_CACHE", str(tmp_path / "elsewhere"))
    there, here = stillroom.open(kb), stillroom.open(tmp_path / "local.kb")
    for mode in ("hybrid", "lexical", "dense"):
        a, b = (
            base.search("checks each year by d", 4, mode=mode).to_list() for base in (there, here)
        )
        assert [(h["id"], h["score"]) for h in a] == [(h["id"], h["score"]) for h in b]
    hit = there.search("checks", 1)[0]
    assert there.document(hit.document_id) == here.document(hit.document_id)
    assert len(there.neighbours(hit.id)) == len(here.neighbours(hit.id))
    fetched = sorted((tmp_path / "elsewhere").iterdir())
    files = [*there.manifests[0].serve.files.values(), *there.manifests[0].lexical.files.values()]
    assert {path.name for path in fetched} == {checksum for _, checksum in files}
    opened = stillroom.open(kb)
    for path in fetched:
        path.unlink()
    assert opened.search("checks", 1), "what was swept is still mapped"
    open_folder(kb).remove("serve")
    assert opened.search("checks", 1)
    with pytest.raises(Damaged, match="is missing"):
        stillroom.open(kb)


def test_readers_move_and_roll_back(kb, tmp_path):
    first = build(write(tmp_path / "in", pages("ab")), kb).build
    reader = stillroom.open(kb)
    second = build(write(tmp_path / "in", pages("abc")), kb).build
    assert (reader.build_id, reader.refresh(), reader.build_id) == (first, True, second)
    assert rollback(kb, first[:8]) == first
    assert (reader.refresh(), reader.build_id) == (True, first)
    after = build(write(tmp_path / "in", pages("abc", c=4)), kb)
    assert read_manifest(kb, after.build).parent == first
    assert verify_build(kb) == []


def test_of_two_builds_at_once_one_wins_and_the_other_says_so(kb, tmp_path, fork_server):
    base = build(write(tmp_path / "in", pages("ab")), kb).build
    said = [tmp_path / "one.txt", tmp_path / "two.txt"]
    inputs = [write(tmp_path / name, pages(names)) for name, names in (("1", "abc"), ("2", "abd"))]
    builders = [
        fork_server.Process(target=build_and_say, args=(*args, dict(os.environ)))
        for args in ((inputs[0], kb, said[0]), (inputs[1], kb, said[1]))
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(120)
    ends = sorted(path.read_text() for path in said)
    (lost,) = (end for end in ends if "moved to" in end)
    (won,) = (end for end in ends if end != lost)
    assert "run" in lost
    assert current_build(kb) == won != base
    assert verify_build(kb) == []


def build_and_say(folder, kb, said, environment):
    """In a child: the id of the build, or why there is none."""
    os.environ.update(environment)
    try:
        end = build(folder, kb).build
    except NotPublished as refusal:
        end = str(refusal)
    said.write_text(end)
    os._exit(0)


def test_a_swap_that_comes_too_late_publishes_nothing(kb, tmp_path, monkeypatch):
    first = build(write(tmp_path / "in", pages("ab")), kb).build
    second = build(write(tmp_path / "in", pages("abc")), kb).build
    folder = write(tmp_path / "in", pages("abcd"))
    real = ObjectFolder.create

    def create(self, name, data):
        if name.endswith("manifest.json"):
            rollback(kb, first)  # just before this build would go live
        return real(self, name, data)

    monkeypatch.setattr(ObjectFolder, "create", create)
    with pytest.raises(NotPublished, match=f"moved to build {first} while this one ran"):
        build(folder, kb)
    assert current_build(kb) == first != second


def test_gc_keeps_what_is_young_and_sweeps_the_rest(kb, tmp_path):
    made = [build(write(tmp_path / "in", pages("abc"[: n + 1])), kb).build for n in range(3)]
    folder = open_folder(kb)
    folder.write(".staging/attempt-dead/keys/x.arrow", b"left by a killed build")
    everything = len(folder.files())
    assert collect_garbage(kb, keep=1) == []
    assert len(folder.files()) == everything
    assert collect_garbage(kb, keep=1, min_age=timedelta(0)) == made[:2]
    assert [m.build for m in list_builds(kb)] == made[2:]
    assert len(folder.folders("serve")) == len(folder.folders("lexical")) == 1
    assert folder.files(".staging") == []
    assert verify_build(kb) == []
    assert stillroom.open(kb).search("checks each year", 3)


@pytest.fixture(scope="module")
def undisturbed(s3, tmp_path_factory):
    """A base, the input that comes next, and what an undisturbed build makes of it."""
    root = tmp_path_factory.mktemp("undisturbed")
    base = f"{s3}/undisturbed/my.kb"
    build(write(root / "in", pages("abc")), base)
    folder = write(root / "in", pages("abd", b=2))
    build(folder, root / "local.kb")
    return base, folder, contents(root / "local.kb")


@pytest.mark.parametrize("point", ["fragment-keys:2", "after-commit-entries", "before-current"])
def test_a_killed_build_leaves_the_old_one_served_there_too(
    kb,
    undisturbed,
    fork_server,
    point,
):
    base, folder, wanted = undisturbed
    for file in open_folder(base).files():
        open_folder(kb).write(file.name, open_folder(base).read(file.name))
    assert run_child(fork_server, folder, kb, point) == -signal.SIGKILL
    assert current_build(kb) == current_build(base)
    assert stillroom.open(kb).search("checks each year", 3)
    build(folder, kb)
    assert contents(kb) == wanted
    assert verify_build(kb) == []


def test_many_readers_through_builds(kb, tmp_path):
    build(write(tmp_path / "in", pages("a")), kb)
    errors, stop = [], threading.Event()

    def read():
        base = stillroom.open(kb)
        while not stop.is_set():
            try:
                hits = base.search("checks each year", 50, mode="lexical", collapse=False)
                if {hit.build_id for hit in hits} != {base.build_id}:
                    errors.append("mixed")
                base.refresh()
            except Exception as error:  # noqa: BLE001
                errors.append(repr(error))
            stop.wait(0.2)

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for n in range(2, 4):
        build(write(tmp_path / "in", pages("abcde"[:n])), kb)
        collect_garbage(kb, keep=1)
    stop.set()
    for reader in readers:
        reader.join()
    assert errors == []


def test_a_store_that_does_not_answer_is_said_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr("stillroom.object_store.PATIENCE", timedelta(seconds=1))
    with pytest.raises(Unreachable, match=r"^s3://nobody/kb/CURRENT: .*127.0.0.1:9") as caught:
        stillroom.open("s3://nobody/kb")
    assert "\n" not in str(caught.value)


def test_a_bucket_that_is_not_there_has_no_build(s3):
    with pytest.raises(NotAKnowledgeBase, match="s3://another-bucket/kb has no published build"):
        stillroom.open("s3://another-bucket/kb")
