"""The fitted fusion weight: shrunk towards its prior, moved by evidence, its sources taken out."""

import numpy as np
import pytest

from stillroom.errors import StillroomError
from stillroom.transforms.calibrate import (
    GRID,
    PRIOR_WEIGHT,
    ask,
    calibrate,
    pseudo_queries,
    shrunk_weight,
)

G = np.array(GRID)


def ranks(curve, queries):
    """Reciprocal ranks of `queries` equal pseudo-queries along the grid."""
    return np.tile(np.asarray(curve, float), (queries, 1))


def test_without_queries_the_weight_is_the_prior():
    weight, _ = shrunk_weight(np.empty((0, len(GRID))))
    assert weight == pytest.approx(PRIOR_WEIGHT, abs=0.02)


def test_legs_that_are_equally_good_leave_the_prior():
    for curve in (np.ones(len(GRID)), np.full(len(GRID), 0.3)):
        weight, _ = shrunk_weight(ranks(curve, 128))
        assert weight == pytest.approx(PRIOR_WEIGHT, abs=0.02)


def test_a_useless_dense_leg_loses_its_weight():
    weight, _ = shrunk_weight(ranks(np.where(G == 0, 1.0, 1 / (1 + 200 * G)), 128))
    assert weight < 0.02


def test_a_useless_lexical_leg_gives_the_dense_one_all():
    weight, _ = shrunk_weight(ranks(np.where(G == 1, 1.0, 1 / (1 + 200 * (1 - G))), 128))
    assert weight > 0.98


def test_a_better_leg_gains_with_evidence():
    better = 0.3 + 0.5 * G
    few, _ = shrunk_weight(ranks(better, 4))
    many, spread = shrunk_weight(ranks(better, 128))
    assert PRIOR_WEIGHT < few < many <= 1
    mirrored, _ = shrunk_weight(ranks(better[::-1], 128))
    assert mirrored < PRIOR_WEIGHT
    assert spread < shrunk_weight(ranks(better, 4))[1]


def test_a_query_that_nothing_finds_says_nothing():
    better = ranks(0.3 + 0.5 * G, 50)
    silent = ranks(np.zeros(len(GRID)), 50)
    assert shrunk_weight(np.concatenate((better, silent))) == pytest.approx(shrunk_weight(better))


def test_a_pseudo_query_is_not_in_what_must_find_it(build):
    made = list(pseudo_queries(build))
    assert made
    values = build.entries.column("value")
    for query in made:
        whole = values[query.row].as_py()
        assert query.text
        assert query.text not in query.value
        assert query.text != query.title
        assert len(query.value) < len(whole)
        outside = whole.replace(query.text, "", 1)
        assert set(query.value.split()) <= set(outside.split()) | set(whole.split())
    assert len({query.row for query in made}) == len(made)
    assert made == list(pseudo_queries(build))


def test_a_sample_is_a_limit(build):
    assert len(list(pseudo_queries(build, 2))) <= 2


def test_an_encoder_that_knows_nothing_gets_less_weight(build, minilm):
    def noise(seed):
        def encode(texts):
            made = np.random.default_rng(seed).normal(size=(len(texts), 384)).astype(np.float32)
            return made / np.linalg.norm(made, axis=1, keepdims=True)

        return encode

    useless = calibrate(build, ask(build, noise(1), noise(2))).plan
    good = calibrate(build, ask(build, minilm.encode_queries, minilm.encode_documents)).plan
    assert good == build.manifest.plan
    assert useless.dense_weight < good.dense_weight
    assert useless.calibration["dense_mrr"] < good.calibration["dense_mrr"]
    assert useless.calibration["queries"] == good.calibration["queries"] >= 5


def test_a_copy_of_an_entry_does_not_count_against_it(build, minilm):
    """What a search folds into one hit is one answer: an untouched copy is no better one."""
    plan = calibrate(build, ask(build, minilm.encode_queries, minilm.encode_documents)).plan
    copied = [q for q in pseudo_queries(build) if "signing keys" in q.value]
    assert copied  # their sentence stands unchanged in two other entries of their group
    assert plan.calibration["dense_mrr"] >= 0.9


def test_a_refusal_of_the_encoder_is_not_hidden(build):
    def refuse(texts):
        raise StillroomError("no model")

    with pytest.raises(StillroomError, match="no model"):
        ask(build, refuse, refuse)
