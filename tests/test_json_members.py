"""Arrays inside an object, streamed."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.transforms import json_items as module
from stillroom.transforms.json_items import JsonReader, json_members


def members(text: str, limit: int = 1000, array: str = "messages") -> list:
    return list(json_members(io.StringIO(text), limit, array))


def test_items_come_with_their_lines_between_two_headers() -> None:
    text = '{"name": "x", "n": {"a": [1]},\n"messages": [{"id": 1},\n {"id": "],}"}], "end": null, "b": 2}'
    assert members(text) == [
        {"name": "x", "n": {"a": [1]}},
        (2, '{"id": 1}'),
        (3, '{"id": "],}"}'),
        {"name": "x", "n": {"a": [1]}, "b": 2},
    ]


def test_what_is_broken_costs_itself_alone() -> None:
    text = '{"a": nul, "messages": [{"x" 1}, tru, {"y": 2}}, "z", [1,]], "b": 3}'
    assert members(text) == [
        {},
        (1, '{"x" 1}'),
        (1, "tru"),
        (1, '{"y": 2}'),
        (1, '"z"'),
        (1, "[1,]"),
        {"b": 3},
    ]


def test_an_item_over_the_limit_is_none_and_a_cut_one_is_what_is_left() -> None:
    text = '{"messages": ["' + "x" * 200 + '", "short", {"cut": "of'
    assert members(text, limit=50) == [{}, (1, None), (1, '"short"'), (1, '{"cut": "of'), {}]


@pytest.mark.parametrize("text", ["", "[]", "1", '"messages"', "{", '{"messages"', "}{", "{]}"])
def test_no_object_or_no_array_gives_no_items(text: str) -> None:
    assert all(isinstance(item, dict) for item in members(text))


def test_an_array_within_an_array_is_walked_in_turn() -> None:
    text = '{"chats": {"list": [{"name": "a", "messages": [1, 2]}, {"messages": [3]}]}, "left": 1}'
    reader = JsonReader(io.StringIO(text))
    found = []
    for name in reader.members():
        for inner in reader.members() if name == "chats" else ():
            assert inner == "list"
            for _ in reader.items():
                for member in reader.members():
                    if member == "messages":
                        found.append([reader.text(9) for _ in reader.items()])
    assert found == [["1", "2"], ["3"]]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text().filter(lambda name: name != "messages"), VALUES, max_size=3),
    st.lists(VALUES, max_size=5),
    st.integers(1, 9),
    st.sampled_from([None, 1]),
)
def test_any_object_comes_back_whole_whatever_the_chunks(header, items, chunk, indent) -> None:
    text = json.dumps({**header, "messages": items}, indent=indent, ensure_ascii=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        made = members(text, limit=10**6)
    assert [json.loads(item[1]) for item in made if isinstance(item, tuple)] == items
    wanted = {name: value for name, value in header.items() if value is not None}
    assert made[-1] == wanted
