"""Filters: typed conditions, the same entries in both legs, user text never a query."""

from datetime import UTC, date, datetime

import numpy as np
import pytest
import tantivy
from hypothesis import given
from hypothesis import strategies as st

from stillroom.errors import BadInput
from stillroom.filters import facet_names, make_filter, parse_time, parse_where
from tests.conftest import FACET_WITH_SYNTAX

DAY = 86_400_000_000


def keys_of(build, mask) -> set[str]:
    column = build.entries.column("source_key")
    return {column[int(row)].as_py() for row in np.flatnonzero(mask)}


def lexical_rows(build, allowed) -> set[int]:
    """Rows that the filter's clauses allow in tantivy, whatever the words."""
    _, searcher = build.searcher
    every = tantivy.Query.all_query()
    query = tantivy.Query.boolean_query(
        [(tantivy.Occur.Must, every), *((tantivy.Occur.Must, c) for c in allowed.clauses)]
    )
    hits = searcher.search(query, build.entries.num_rows, count=False).hits
    return (
        set(searcher.fast_field_values("row", [address for _, address in hits])) if hits else set()
    )


CONDITIONS = [
    ({"year": 2021}, {"lean.md", "log4shell.md"}),
    ({"year": "2021"}, {"lean.md", "log4shell.md"}),
    ({"year": [2019, 2018]}, {"injection.md", "q2"}),
    ({"year": {"gte": 2022}}, {"economy.md", "q1", "q3"}),
    ({"year": {"gt": 2019, "lt": 2021}}, {"bread.md"}),
    ({"year": {"gt": 2019.5, "lte": 2020.0}}, {"bread.md"}),
    ({"year": {"ne": 2021}, "lang": "en"}, {"injection.md", "bread.md", "q2", "q3"}),
    ({"lang": "de"}, {"q1"}),
    ({"lang": ["de", "zh"]}, {"q1", "economy.md"}),
    ({"lang": {"gte": "en"}, "year": 2023}, {"economy.md"}),
    ({"tags": "security"}, {"log4shell.md", "injection.md"}),
    ({"tags": "security", "year": {"lt": 2020}}, {"injection.md"}),
    ({"draft": True}, {"lean.md"}),
    ({"draft": "true"}, {"lean.md"}),
    ({"draft": False}, {"injection.md"}),
    ({"version": "2"}, {"lean.md"}),
    ({"version": {"eq": "10"}}, {"log4shell.md"}),
    ({"team": FACET_WITH_SYNTAX}, {"injection.md"}),
    ({"team": "R&D"}, set()),
    ({"lang": "en OR zh"}, set()),
    ({"lang": []}, set()),
    ({"year": 1}, set()),
    ({"draft": 1}, set()),
]


@pytest.mark.parametrize(("where", "expected"), CONDITIONS, ids=[str(c) for c, _ in CONDITIONS])
def test_conditions_and_both_legs_agree(build, where, expected):
    allowed = make_filter(build, where, None, None)
    assert keys_of(build, allowed.rows) == expected
    assert lexical_rows(build, allowed) == set(np.flatnonzero(allowed.rows).tolist())


TIMES = [
    ("2021-12-10", "2021-12-10", {"log4shell.md"}),
    ("2021-12-11", None, {"q1", "economy.md"}),
    (None, "2019-05-01", {"q2", "injection.md"}),
    (None, "2019-04-30", {"q2"}),
    ("2022-01-15T07:00:00Z", "2022-01-15T07:00:00+00:00", {"q1"}),
    ("2022-01-15T08:00:00+01:00", "2022-01-15T08:00:00+01:00", {"q1"}),
    ("2022-01-15T07:00:00.000001Z", "2022-12-31", set()),
    (date(2018, 6, 30), datetime(2018, 6, 30, 23, 59, 59, tzinfo=UTC), {"q2"}),
    (datetime(2018, 6, 30, 23, 59, 59), "2018-06-30", {"q2"}),
    ("2030-01-01", "2020-01-01", set()),
]


@pytest.mark.parametrize(("since", "until", "expected"), TIMES)
def test_times_and_both_legs_agree(build, since, until, expected):
    allowed = make_filter(build, None, since, until)
    assert keys_of(build, allowed.rows) == expected
    assert lexical_rows(build, allowed) == set(np.flatnonzero(allowed.rows).tolist())


def test_untimed_entries_are_outside_and_counted(build):
    everything = make_filter(build, None, "0001-01-01", None)
    timed = int(everything.rows.sum())
    assert everything.untimed == build.entries.num_rows - timed > 0
    german = make_filter(build, {"lang": "de"}, "2000-01-01", None)
    assert german.untimed == 0


def test_no_condition_is_no_filter(build):
    assert make_filter(build, None, None, None) is None
    assert make_filter(build, {}, None, None) is None


def test_an_unknown_facet_is_refused_with_the_known_ones(build):
    with pytest.raises(BadInput, match="no entry has a facet 'yaer'.*year"):
        make_filter(build, {"yaer": 2021}, None, None)
    assert {"year", "lang", "tags", "kind", "source"} <= set(facet_names(build))


def test_an_unknown_comparison_is_refused(build):
    with pytest.raises(BadInput, match="year: ge is none of eq, ne, gt, gte"):
        make_filter(build, {"year": {"ge": 2021}}, None, None)


@pytest.mark.parametrize(
    ("facet", "value"), [("version", "2"), ("draft", "true"), ("year", "2021"), ("lang", "en")]
)
def test_not_equal_on_a_command_line_is_the_rest_of_equal(build, facet, value):
    equal = make_filter(build, parse_where([f"{facet}={value}"]), None, None).rows
    other = make_filter(build, parse_where([f"{facet}!={value}"]), None, None).rows
    assert equal.any()
    assert not (equal & other).any()


@pytest.mark.parametrize(
    "moment", ["2024-13-01", "yesterday", "", "2024-05-31T25:00", "31.05.2024"]
)
def test_what_is_no_time_is_refused(moment, build):
    with pytest.raises(BadInput, match="is not a time: write 2024-05-31"):
        make_filter(build, None, moment, None)


def test_a_number_is_no_time(build):
    with pytest.raises(BadInput, match="20240531"):
        make_filter(build, None, 20240531, None)


def test_a_date_is_its_whole_day():
    low = parse_time("2024-05-31", end=False)
    assert parse_time("2024-05-31", end=True) == low + DAY - 1
    assert parse_time(date(2024, 5, 31), end=False) == low
    assert parse_time("2024-05-31T00:00:00+00:00", end=True) == low
    assert parse_time(datetime(2024, 5, 31), end=False) == low


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_written_times_are_read_back(moment):
    assert parse_time(moment.isoformat(), end=False) == parse_time(moment, end=False)


@pytest.mark.parametrize(
    ("items", "made"),
    [
        (["year>=2020"], {"year": {"gte": 2020}}),
        (["year>2019", "year<=2021"], {"year": {"gt": 2019, "lte": 2021}}),
        (["lang=de", "lang=zh"], {"lang": {"eq": ["de", "zh"]}}),
        (["team=R&D >= (x)"], {"team": {"eq": ["R&D >= (x)"]}}),
        (["lang!=de"], {"lang": {"ne": ["de"]}}),
        (["score<0.5"], {"score": {"lt": 0.5}}),
        (["a="], {"a": {"eq": [""]}}),
        ([], {}),
    ],
)
def test_conditions_of_a_command_line(items, made):
    assert parse_where(items) == made


@pytest.mark.parametrize("items", [["year"], ["=2020"], [""]])
def test_conditions_that_cannot_be_are_refused(items):
    with pytest.raises(BadInput):
        parse_where(items)


@pytest.mark.parametrize("items", [["year=2020", "year>=2019"], ["year>=2019", "year=2020"]])
def test_an_equal_and_a_range_of_one_facet_must_both_hold(items):
    assert parse_where(items) == {"year": {"eq": ["2020"], "gte": 2019}}
