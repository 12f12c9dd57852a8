"""Evaluation against measures worked out by hand."""

import json
import math

import numpy as np
import pytest

from stillroom.errors import BadInput
from stillroom.evaluate import DEPTH, evaluate, interval, read_qrels, read_queries
from stillroom.schemas.documents import Span


class Found:
    """A hit as far as the evaluation looks at it."""

    def __init__(self, key, start=0, end=10):
        self.source_key, self.id, self.span = key, f"id-{key}-{start}", Span("d", start, end)


class Base:
    """A base that answers with the given hits; it remembers the options it was asked with."""

    def __init__(self, answers):
        self.answers = answers

    def search_batch(self, texts, **options):
        self.options = options
        return [self.answers[text] for text in texts]


@pytest.fixture
def files(tmp_path):
    def write(queries, qrels):
        lines = [json.dumps({"_id": name, "text": text}) for name, text in queries.items()]
        (tmp_path / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / "qrels.tsv").write_text(qrels, encoding="utf-8")
        return tmp_path / "queries.jsonl", tmp_path / "qrels.tsv"

    return write


BEIR = "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t1\nq2\tc\t1\nq3\tz\t0\nq9\ta\t1\n"


def test_measures_by_document(files):
    base = Base(
        {
            "one": [Found("x"), Found("a"), Found("a", 20, 30), Found("b")],
            "two": [Found("y"), Found("w")],
        }
    )
    made = evaluate(base, *files({"q1": "one", "q2": "two", "q7": "unjudged"}, BEIR))
    gain = 2 / math.log2(3) + 1 / math.log2(4)
    ideal = 2 / math.log2(2) + 1 / math.log2(3)
    assert made["nDCG@10"].mean == pytest.approx((gain / ideal + 0) / 2, abs=1e-6)
    assert made["R@5"].mean == pytest.approx((1 + 0) / 2)
    assert made["RR@10"].mean == pytest.approx((1 / 2 + 0) / 2)
    assert made["R@5"].low == 0
    assert made["R@5"].high == 1
    assert base.options["collapse"] is False
    assert base.options["k"] >= DEPTH


def test_a_query_that_finds_nothing_counts_as_nothing(files):
    base = Base({"one": [Found("a"), Found("b")], "two": []})
    made = evaluate(base, *files({"q1": "one", "q2": "two"}, BEIR))
    assert made["nDCG@10"].mean == pytest.approx(0.5)
    assert made["R@100"].mean == pytest.approx(0.5)


def test_measures_by_entry(files):
    base = Base({"one": [Found("k", 0), Found("k", 5)]})
    made = evaluate(base, *files({"q1": "one"}, "q1\tid-k-5\t1\n"), by="entry")
    assert made["RR@10"].mean == pytest.approx(0.5)


def test_measures_by_span(files):
    base = Base({"one": [Found("a:b", 0, 10), Found("a:b", 10, 20), Found("c", 15, 16)]})
    made = evaluate(base, *files({"q1": "one"}, "q1\ta:b:15-18\t1\nq1\tc:0-15\t1\n"), by="span")
    assert made["RR@10"].mean == pytest.approx(0.5)
    assert made["R@5"].mean == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["a", "a:", "a:12", "a:x-y"])
def test_a_judgement_that_is_no_span_is_refused(files, name):
    base = Base({"one": [Found("a", 0, 10)]})
    with pytest.raises(BadInput, match=name):
        evaluate(base, *files({"q1": "one"}, f"q1\t{name}\t1\n"), by="span")


def test_real_searches_are_measured(kb, files):
    queries = {"q1": "whales", "q2": "Nat.succ_le_of_lt", "q3": "zzzqqq"}
    qrels = "q1 0 sea.txt 1\nq2 0 lean.md 1\nq3 0 lean.md 1\n"
    made = evaluate(kb, *files(queries, qrels), mode="lexical")
    assert made["RR@10"].mean == pytest.approx(2 / 3)


def test_nothing_judged_is_refused(files):
    with pytest.raises(BadInput, match="no query of .* is judged in"):
        evaluate(Base({}), *files({"q0": "zero"}, BEIR))


def test_unknown_units_are_refused(files):
    with pytest.raises(BadInput, match="document, entry, span, not 'page'"):
        evaluate(Base({}), *files({"q1": "one"}, BEIR), by="page")


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nq1\ta b\t2\nq1\tc\t-1\n",
        "q1\ta b\t2\nq1\tc\t-1",
        "\n\nq1\ta b\t2\r\nq1\tc\t-1\r\n",
    ],
)
def test_beir_judgements(tmp_path, text):
    (tmp_path / "q").write_text(text, encoding="utf-8")
    assert read_qrels(tmp_path / "q") == {"q1": {"a b": 2, "c": 0}}


def test_trec_judgements(tmp_path):
    (tmp_path / "q").write_text("q1 0 d1 1\nq1 Q0 d2 0\nq2\t0\td1\t3\n")
    assert read_qrels(tmp_path / "q") == {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 3}}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("q1\ta\t1\nq1\tb\tx\n", 2),
        ("q1\ta\t1\n\nq1\tb\tx\n", 3),
        ("q1\ta\t1\nq1\n", 2),
        ("q1\ta\t1\nq1\t1\n", 2),
        ("q1\ta\t1\nq1\tb\t0.5\n", 2),
    ],
)
def test_a_bad_judgement_is_named_by_line(tmp_path, text, line):
    (tmp_path / "q.tsv").write_text(text)
    with pytest.raises(BadInput, match=f"q.tsv:{line} is not "):
        read_qrels(tmp_path / "q.tsv")


@pytest.mark.parametrize(
    ("bad", "line"), [("{", 2), ("[]", 2), ('{"_id": "a"}', 2), ("7", 2), ("\n{", 3)]
)
def test_a_bad_query_is_named_by_line(tmp_path, bad, line):
    (tmp_path / "q.jsonl").write_text('{"_id": "q", "text": "t"}\n' + bad)
    with pytest.raises(BadInput, match=f"q.jsonl:{line} is not a row"):
        read_queries(tmp_path / "q.jsonl")


def test_queries_with_separators_inside_a_text(tmp_path):
    row = json.dumps({"_id": 7, "text": "a\u2028b"}, ensure_ascii=False)
    (tmp_path / "q.jsonl").write_text(row, encoding="utf-8")
    assert read_queries(tmp_path / "q.jsonl") == {"7": "a\u2028b"}


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        read_queries(tmp_path / "none")
    (tmp_path / "latin").write_bytes(b"q1\t\xe9\t1")
    with pytest.raises(BadInput, match="cannot be read"):
        read_qrels(tmp_path / "latin")


def test_intervals():
    same = interval(np.full(20, 0.25))
    assert (same.mean, same.low, same.high) == (0.25, 0.25, 0.25)
    values = np.tile([0.0, 1.0], 50)
    made = interval(values)
    assert made == interval(values)
    assert made.low == pytest.approx(0.4, abs=0.02)
    assert made.high == pytest.approx(0.6, abs=0.02)
    assert np.isnan(interval(np.empty(0)).mean)
