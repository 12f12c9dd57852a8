"""Values of chat logs: times that are times, and the heads of files however they are cut."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.transforms.chat_values import (
    UniqueKeys,
    peek,
    peek_records,
    role_of,
    text_of,
    time_of,
)

EAST = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    "value",
    [1700000000, 1700000000.0, "1700000000", 1700000000000, 1700000000000000.0, 1700000000 * 10**9,
     "2023-11-14T22:13:20Z", "2023-11-14T22:13:20.0000000+00:00", "2023-11-15T07:13:20"],
)  # fmt: skip
def test_times_in_all_their_forms(value: Any) -> None:
    assert time_of(value, EAST) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -5, "0", "", "soon", "2024-13-01", 1e300, float("nan"), float("inf"), 10**400,
     "9" * 500, [], {}, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"],
)  # fmt: skip
def test_what_is_no_time_is_none(value: Any) -> None:
    assert time_of(value, EAST) is None


def test_text_roles_and_keys() -> None:
    odd = (None, True, [], {}, float("nan"), 10**400)
    assert [text_of(value) for value in ("x", 1, 1.5, *odd)] == ["x", "1", "1.5", *[""] * 6]
    assert [role_of(name) for name in ("Human", " gpt ", "Ann")] == ["user", "assistant", "person"]
    unique = UniqueKeys()
    assert [unique(key) for key in ("a", "a#2", "a", "a")] == ["a", "a#2", "a#2#2", "a#3"]


def test_a_cut_head_gives_what_was_complete() -> None:
    assert peek_records(b'[{"a": "x", "b": [1, {"c": "y\\') == [{"a": "x", "b": [1, {}]}]
    assert peek_records(b'[{"a": "x", "b"') == [{"a": "x"}]
    assert peek_records(b'{"a": 1}\n{"b": 2}') == [{"a": 1}, {"b": 2}]
    assert peek_records(b'[{"a": tru}, {"b": 2},\n]') == [{"b": 2}]
    assert peek_records(b'{"a": "cut\n{"b": 2}\n{"c": 3}')[-2:] == [{"b": 2}, {"c": 3}]
    assert peek_records('[{"a": 1}, 2]'.encode("utf-16")) == [{"a": 1}]
    for nothing in (b"", b" \n", b"hello", b"\xff\xfe", b"\0\1\2" * 50, b"[1]", b"]["):
        assert peek_records(nothing) == []
        assert peek(nothing) is None
    assert peek(b'\n {"name": "x", "messages": [{"id": 1}, {"id": 2, "te') == {
        "name": "x",
        "messages": [{"id": 1}, {"id": 2}],
    }
    assert peek(b'[{"a": 1}]') is None


VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=4), st.floats(0, 1))
def test_any_cut_of_a_list_is_a_list(value: list[Any], share: float) -> None:
    raw = json.dumps(value).encode()
    whole = peek_records(raw[: int(share * len(raw))])
    assert whole[:-1] == value[: len(whole)][:-1]
    assert peek_records(raw) == value
