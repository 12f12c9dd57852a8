"""The staging area: whole files or none, the second delivery in the place of the first."""

import pickle

import pyarrow as pa
import pytest

from stillroom.transforms.staging import Staging

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", None, "é"]})


def test_a_table_comes_back(tmp_path):
    staging = Staging(str(tmp_path))
    staging.write("keys", "p-0", TABLE)
    assert staging.read("keys", "p-0").equals(TABLE)
    staging.write("keys", "empty", TABLE.slice(0, 0))
    assert staging.read("keys", "empty").num_rows == 0
    assert staging.read("keys", "empty").schema == TABLE.schema


def test_a_second_delivery_replaces_the_first(tmp_path):
    staging = Staging(str(tmp_path))
    staging.write("keys", "p", TABLE)
    staging.write("keys", "p", TABLE)
    assert staging.names("keys") == ["p"]
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["p.arrow"]


def test_a_reader_of_the_first_is_not_disturbed(tmp_path):
    staging = Staging(str(tmp_path))
    staging.write("keys", "p", TABLE)
    before = staging.read("keys", "p")
    staging.write("keys", "p", pa.table({"a": list(range(1000))}))
    assert before.equals(TABLE)


def test_a_write_that_fails_leaves_nothing_to_read(tmp_path, monkeypatch):
    staging = Staging(str(tmp_path))

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr("stillroom.folders.os.replace", broken)
    with pytest.raises(OSError, match="disk full"):
        staging.write("keys", "p", TABLE)
    assert staging.names("keys") == []
    with pytest.raises(FileNotFoundError):
        staging.read("keys", "p")


def test_names_are_sorted_and_of_one_kind(tmp_path):
    staging = Staging(str(tmp_path))
    for kind, name in (("keys", "b"), ("keys", "a"), ("links", "c")):
        staging.write(kind, name, TABLE)
    assert staging.names("keys") == ["a", "b"]
    assert staging.names("none") == []


def test_it_is_pickled_as_its_path(tmp_path):
    Staging(str(tmp_path)).write("keys", "p", TABLE)
    there = pickle.loads(pickle.dumps(Staging(str(tmp_path))))
    assert there.read("keys", "p").equals(TABLE)
