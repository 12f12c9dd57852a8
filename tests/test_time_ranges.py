"""Times in a query: what people write, relative to a given moment and never to the clock."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.time_ranges import event_range, time_ranges

NOW = datetime(2023, 10, 20, 15, tzinfo=UTC)  # a Friday


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("What did Ann do in May 2023?", "2023-05-01", "2023-06-01"),
        ("what happened in June", "2023-06-01", "2023-07-01"),
        ("in December", "2022-12-01", "2023-01-01"),
        ("last spring", "2023-03-01", "2023-06-01"),
        ("during the winter of 2022", "2021-12-01", "2022-03-01"),
        ("in summer 2022", "2022-06-01", "2022-09-01"),
        ("on 8 May, 2023", "2023-05-07", "2023-05-10"),
        ("on May 8th", "2023-05-07", "2023-05-10"),
        ("2023-02-01", "2023-01-31", "2023-02-03"),
        ("in 2021", "2021-01-01", "2022-01-01"),
        ("two weeks ago", "2023-10-03", "2023-10-10"),
        ("who called yesterday?", "2023-10-19", "2023-10-20"),
        ("today", "2023-10-20", "2023-10-21"),
        ("on Monday", "2023-10-16", "2023-10-17"),
        ("last week", "2023-10-09", "2023-10-16"),
        ("last weekend", "2023-10-14", "2023-10-16"),
        ("last month", "2023-09-01", "2023-10-01"),
        ("this year", "2023-01-01", "2024-01-01"),
        ("since 2021", "2021-01-01", "9999-12-31"),
        ("after 3 June", "2023-06-02", "9999-12-31"),
        ("before March 2022", "0001-01-01", "2022-03-01"),
        ("between May and July 2023", "2023-05-01", "2023-08-01"),
    ],
)
def test_ranges(text, start, end):
    (made,) = time_ranges(text, NOW)
    assert (made.start.date().isoformat(), made.end.date().isoformat()) == (start, end)
    assert made.words in text or " to " in made.words


@pytest.mark.parametrize(
    "text", ["May I ask you?", "march on", "on 31 June", "version 2023", "the second item", ""]
)
def test_what_names_no_time(text):
    assert time_ranges(text, NOW) == []


def test_a_day_is_exact_where_that_is_wanted():
    (made,) = time_ranges("on 8 May 2023", NOW, exact=True)
    assert (made.start.day, made.end.day) == (8, 9)


def test_several_ranges_in_the_order_of_the_text():
    made = time_ranges("What changed in May 2023 and what in June 2022?", NOW)
    assert [one.words for one in made] == ["May 2023", "June 2022"]


@pytest.mark.parametrize(
    ("text", "before", "event"),
    [
        ("Where did she live before the move?", True, "the move"),
        ("what did he say after Bob's wedding", False, "Bob's wedding"),
    ],
)
def test_an_event_bounds_a_range(text, before, event):
    made = event_range(text)
    assert (made.before, made.event) == (before, event)


def test_no_event():
    assert event_range("before noon") is None


@given(st.text(max_size=80))
def test_any_text(text):
    for one in time_ranges(text, NOW):
        assert one.start <= one.end
