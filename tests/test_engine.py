"""The engine: modes, candidates with their true scores, reasons that add up, collapse, federation."""

import itertools

import numpy as np
import pytest

from stillroom import legs as legs_module
from stillroom.errors import BadInput
from stillroom.filters import make_filter
from stillroom.legs import Query
from stillroom.query_vectors import Encode

QUESTIONS = [
    "How do I stop user input from changing a database statement?",
    "Nat.succ_le_of_lt",
    "rotate the signing keys every ninety days",
    "世界经济",
    "night trains to Paris",
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "vector"}, "hybrid, dense, lexical, not 'vector'"),
        ({"k": 0}, "at least 1, not 0"),
        ({"k": -3}, "not -3"),
    ],
)
def test_a_query_that_cannot_be_is_refused(options, message):
    with pytest.raises(BadInput, match=message):
        Query("x", **options)


@pytest.mark.parametrize("text", [None, 5, ["x"], b"x"])
def test_a_query_is_a_text(text):
    with pytest.raises(BadInput, match=f"not {type(text).__name__}"):
        Query(text)


def gathered(build, text, mode="hybrid", where=None):
    allowed = make_filter(build, where, None, None)
    return legs_module.gather(
        build, build.manifest.plan, Query(text, mode=mode), allowed, Encode("full"), {}
    )


@pytest.mark.parametrize("text", QUESTIONS)
def test_every_candidate_has_its_true_cosine(build, text):
    legs = gathered(build, text)
    vector = Encode("full")(build, text).vector
    for row, score, chosen in zip(legs.candidates, legs.dense, legs.vector, strict=True):
        own = np.flatnonzero(build.key_entry == row)
        assert score == pytest.approx(float((build.vectors[own] @ vector).max()), abs=1e-6)
        assert int(chosen) in own


def test_a_candidate_of_the_lexical_leg_alone_has_its_true_cosine(build):
    from dataclasses import replace

    plan = replace(build.manifest.plan, depth=1, rescore=1)
    text = "stars and planets in the night sky, three times a week"
    legs = legs_module.gather(build, plan, Query(text), None, Encode("full"), {})
    only = legs.dense_rank == 0
    assert only.any()
    vector = Encode("full")(build, text).vector
    for row, score, chosen in zip(
        legs.candidates[only], legs.dense[only], legs.vector[only], strict=True
    ):
        own = np.flatnonzero(build.key_entry == row)
        assert score == pytest.approx(float((build.vectors[own] @ vector).max()), abs=1e-6)
        assert int(chosen) in own


@pytest.mark.parametrize("text", QUESTIONS)
def test_ranks_are_those_of_each_leg_s_list(build, text):
    legs = gathered(build, text)
    for rank, score in ((legs.lexical_rank, legs.lexical), (legs.dense_rank, legs.dense)):
        inside = rank > 0
        assert sorted(rank[inside].astype(int).tolist()) == list(range(1, inside.sum() + 1))
        assert (np.diff(score[inside][np.argsort(rank[inside])]) <= 0).all()


@pytest.mark.parametrize("where", [{"lang": "en"}, {"tags": ["security", "cooking"]}])
def test_both_legs_see_the_same_entries(build, where):
    mask = make_filter(build, where, None, None).rows
    text = "the key of a database statement, bread and a class"
    for mode in legs_module.MODES:
        legs = gathered(build, text, mode, where)
        assert len(legs.candidates)
        assert mask[legs.candidates].all()
    assert set(gathered(build, text, "dense", where).candidates) == set(np.flatnonzero(mask))


@pytest.mark.parametrize("mode", ["lexical", "dense"])
@pytest.mark.parametrize("text", QUESTIONS)
def test_a_filter_never_changes_an_order(kb, text, mode):
    everything = kb.search(text, k=100, mode=mode, collapse=False)
    some = kb.search(text, k=100, mode=mode, collapse=False, where={"lang": "en"})
    kept = [(h.id, pytest.approx(h.score)) for h in everything if h.facets.get("lang") == "en"]
    assert [(h.id, h.score) for h in some] == kept


@pytest.mark.parametrize("mode", legs_module.MODES)
@pytest.mark.parametrize("text", QUESTIONS)
def test_contributions_sum_to_the_score(kb, text, mode):
    hits = kb.search(text, k=100, mode=mode)
    assert hits
    for hit in hits:
        assert sum(reason.contribution for reason in hit.reasons) == pytest.approx(hit.score)
        legs = [reason.leg for reason in hit.reasons]
        assert legs
        assert set(legs) <= ({"lexical", "dense"} if mode == "hybrid" else {mode})
        assert len(set(legs)) == len(legs)


@pytest.mark.parametrize("text", QUESTIONS)
def test_reasons_say_where_and_by_what(kb, text):
    hits = kb.search(text, k=100)
    for hit in hits:
        for reason in hit.reasons:
            for start, end in reason.ranges:
                assert 0 <= start < end <= len(hit.value)
            if reason.leg == "lexical":
                assert reason.rank >= 1
                assert reason.score > 0
                assert reason.terms
            else:
                assert -1.001 <= reason.score <= 1.001
                assert reason.key_kind == "text"
                assert reason.key_text
                if reason.key_span is not None:
                    assert reason.key_span.document_id == hit.document_id
    first = kb.search(text, k=1, mode="lexical")[0].reasons[0]
    assert first.rank == 1


def test_scores_fall_and_ids_are_different(kb):
    for text, mode in itertools.product(QUESTIONS, legs_module.MODES):
        hits = kb.search(text, k=100, mode=mode)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert len({hit.id for hit in hits}) == len(hits)


def test_near_duplicates_fold_into_the_best_with_their_ids(kb):
    text = "rotate the signing keys every ninety days"
    names = {"copy-a.txt", "copy-b.txt", "near.txt"}
    loose = kb.search(text, k=100, collapse=False)
    group = [hit for hit in loose if hit.source_key in names]
    assert {hit.source_key for hit in group} == names
    assert all(hit.duplicates == () for hit in loose)
    folded = kb.search(text, k=100)
    (best,) = [hit for hit in folded if hit.source_key in names]
    assert best.id == group[0].id
    assert set(best.duplicates) == {hit.id for hit in group[1:]}
    assert len(folded) == len(loose) - 2


def test_k_counts_after_folding(kb):
    text = "rotate the signing keys every ninety days"
    two = kb.search(text, k=2)
    assert len(two) == 2
    assert len({hit.source_key[:4] for hit in two}) == 2
    assert set(two[0].duplicates) == set(kb.search(text, k=100)[0].duplicates)


def test_timings_name_the_parts(kb):
    timings = kb.search(QUESTIONS[0]).timings
    assert {"lexical", "dense", "encode", "fuse", "fetch"} <= set(timings)
    assert all(spent >= 0 for spent in timings.values())
