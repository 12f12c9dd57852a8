"""The lexical leg on a real index: BM25 by hand, no syntax in user text, no zero-score hits."""

import math
from itertools import pairwise

import numpy as np
import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from stillroom.analyzers import standard_analyzer
from stillroom.filters import make_filter
from stillroom.lexical import lexical_leg, matched_ranges, query_terms
from stillroom.store import table_uri


def keys(build, rows) -> list[str]:
    return [build.entries.column("source_key")[int(row)].as_py() for row in rows]


def leg(build, text, where=None):
    allowed = make_filter(build, where, None, None)
    return lexical_leg(build, build.manifest.plan, text, allowed)


@pytest.mark.parametrize("text", ["zzzqqq", "the of and", "???", "", "∀∃", "qwertzuiop Xyz.zzz_q"])
def test_unknown_words_give_no_hit(build, text):
    rows, scores = leg(build, text)
    assert len(rows) == len(scores) == 0


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Nat.succ_le_of_lt", "lean.md"),
        ("cve-2021-44228", "log4shell.md"),
        ("CWE-89", "injection.md"),
        ("通货膨胀", "economy.md"),
        ("supremum ⊔", "lean.md"),
        ("WHALE songs", "sea.txt"),
    ],
)
def test_words_and_identifiers_are_found(build, text, key):
    rows, scores = leg(build, text)
    assert keys(build, rows)[0] == key
    assert (scores > 0).all()
    assert (np.diff(scores) <= 0).all()


@pytest.mark.parametrize(
    "text",
    [
        'title:("whales" AND [a TO b}',
        "text:whales^100 -whales +nothing",
        "whales\\",
        "*:* whales ~2",
        'row:0 "whales',
    ],
)
def test_syntax_in_a_query_is_only_text(build, text):
    plain = leg(build, "whales")
    rows, _ = leg(build, text)
    assert keys(build, plain[0])[0] in keys(build, rows)
    assert len(rows) < build.entries.num_rows


@settings(max_examples=60)
@given(st.text(max_size=30))
def test_no_query_raises(build, text):
    rows, scores = leg(build, text)
    assert len(rows) == len(scores)


def test_a_filter_changes_no_score(build):
    text = "the key of a database statement in Vienna and the class of an element"
    rows, scores = leg(build, text)
    plain = dict(zip(rows.tolist(), scores.tolist(), strict=True))
    for where in ({"lang": "en"}, {"lang": "en", "year": {"gte": 2019}}):
        mask = make_filter(build, where, None, None).rows
        rows, scores = leg(build, text, where)
        assert dict(zip(rows.tolist(), scores.tolist(), strict=True)) == pytest.approx(
            {row: score for row, score in plain.items() if mask[row]}
        )
        assert 0 < len(rows) < len(plain)


def test_scores_are_bm25_of_the_weighted_fields(build):
    plan = build.manifest.plan
    terms = {}
    for row, item in enumerate(_terms(build)):
        terms[row] = {made["field"]: made["terms"].split() for made in item}
    text = "whales travel"
    expected = dict.fromkeys(terms, 0.0)
    for name, wanted in query_terms(text, plan.field_weights).items():
        lengths = [len(fields.get(name, ())) for fields in terms.values()]
        mean = sum(lengths) / len(lengths)
        for term, count in wanted.items():
            n = sum(term in fields.get(name, ()) for fields in terms.values())
            idf = math.log(1 + (len(terms) - n + 0.5) / (n + 0.5))
            for row, fields in terms.items():
                tf = fields.get(name, []).count(term)
                length = len(fields.get(name, ())) / (mean or 1)
                gain = idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length))
                expected[row] += plan.field_weights[name] * count * gain
    rows, scores = leg(build, text)
    assert {int(r) for r in rows} == {row for row, score in expected.items() if score > 0}
    for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
        assert score == pytest.approx(expected[row], rel=2e-2)  # field lengths are kept in a byte


def _terms(build):
    import lance

    version = build.manifest.tables["entries"].version
    table = lance.dataset(table_uri(build.kb, "entries"), version=version).to_table()
    by_id = dict(
        zip(table.column("id").to_pylist(), table.column("terms").to_pylist(), strict=True)
    )
    return [by_id[name] for name in build.entries.column("id").to_pylist()]


def test_equal_scores_are_in_the_order_of_rows(build):
    rows, scores = leg(build, "rotate the signing keys")
    for score in set(scores.tolist()):
        same = rows[scores == score]
        assert same.tolist() == sorted(same.tolist())
    assert len(set(scores.tolist())) < len(scores)  # the two copies are equal


def test_repeated_words_count_in_a_query(build):
    once = dict(zip(*(side.tolist() for side in leg(build, "whales")), strict=True))
    twice = dict(zip(*(side.tolist() for side in leg(build, "whales whales")), strict=True))
    assert twice == pytest.approx({row: 2 * score for row, score in once.items()})


def test_a_pasted_file_is_a_query(build):
    text = " ".join(f"word{n}" for n in range(20_000)) + " whales"
    rows, _ = leg(build, text)
    assert len(rows) <= 1


def test_the_index_is_one_segment_that_never_says_its_text(build):
    _, searcher = build.searcher
    assert searcher.num_segments == 1
    assert isinstance(searcher, tantivy.Searcher)


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("run fast", "She runs; running is fast.", ["runs", "running", "fast"]),
        ("世界", "关于世界经济", ["世界"]),
        ("世界经济", "关于世界经济。", ["世界经济"]),
        ("Nat.succ_le", "see Nat.succ_le now", ["Nat.succ_le"]),
        ("cafe", "ein Cafe\u0301 😀 café", ["Cafe\u0301", "café"]),
        ("nothing", "else", []),
    ],
)
def test_matched_ranges_are_code_points_of_the_text(query, text, found):
    ranges = matched_ranges(query, text)
    assert [text[a:b] for a, b in ranges] == found


@settings(max_examples=60)
@given(st.text("ab 世界é.-", max_size=20), st.text("ab 世界é.-", max_size=40))
def test_matched_ranges_are_sorted_and_apart(query, text):
    ranges = matched_ranges(query, text)
    for start, end in ranges:
        assert 0 <= start < end <= len(text)
    assert all(a[1] <= b[0] for a, b in pairwise(ranges))
    wanted = {t.text for t in standard_analyzer().words(query)}
    assert bool(ranges) >= bool(wanted & {t.text for t in standard_analyzer().words(text)})
