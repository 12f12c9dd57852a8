"""Retention of each form: whole vectors are the measure, worse forms keep less, and nothing is guessed."""

import lance
import numpy as np
import pytest

from stillroom.elastic import bytes_per_vector
from stillroom.schemas.plan import DTYPES, SearchPlan
from stillroom.store import table_uri
from stillroom.transforms.calibrate import Asked, ask
from stillroom.transforms.retention import (
    forms,
    measure_forms,
    sampled_rows,
    whole_vectors,
)
from tests.test_dense import clustered, unit


@pytest.fixture(scope="module")
def keys(build):
    uri = table_uri(build.kb, "keys")
    return lance.dataset(uri, version=build.manifest.tables["keys"].version)


def made_up(n=1500, queries=60, seed=0):
    """Vectors, queries near some of them, and what the queries look for."""
    chance = np.random.default_rng(seed)
    vectors = clustered(n, 64)
    rows = chance.choice(n, queries, replace=False)
    asked = unit(vectors[rows] + 0.16 * chance.normal(size=(queries, 64)))
    others = np.ones((queries, n), bool)
    others[np.arange(queries), rows] = False
    return vectors, asked, vectors[rows], others


def test_whole_vectors_score_as_brute_force_does():
    vectors, asked, own, others = made_up()
    found = dict(forms(vectors, asked, own, others, SearchPlan()))
    scores = np.where(others, asked @ vectors.T, -9)
    ranks = 1 + (scores > (asked * own).sum(axis=1)[:, None]).sum(axis=1)
    expected = np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0)
    np.testing.assert_allclose(found["64/f32"], expected)
    assert set(found) == {f"{dims}/{dtype}" for dims in (64, 32) for dtype in DTYPES}
    assert 0.5 < found["64/f32"].mean() < 1
    assert found["64/int8"].mean() == pytest.approx(found["64/f32"].mean(), abs=0.02)
    assert found["32/f32"].mean() < found["64/f32"].mean()


def test_bits_that_propose_few_lose_answers():
    vectors, asked, own, others = made_up()
    few, many = (
        dict(forms(vectors, asked, own, others, SearchPlan(rescore=n)))["32/bit"] for n in (3, 1500)
    )
    assert few.mean() < many.mean() - 0.2


def test_a_build_says_what_each_form_keeps(build, keys, minilm):
    made = build.manifest.elastic
    assert set(made) == {f"{d}/{t}" for d in (384, 256, 128, 64, 32) for t in DTYPES}
    assert made["384/f32"]["retention"] == 1
    for name, point in made.items():
        dims, dtype = name.split("/")
        assert point["bytes"] == bytes_per_vector(int(dims), dtype)
        assert 0.3 < point["retention"] < 1.5
    asked = ask(build, minilm.encode_queries, minilm.encode_documents)
    assert measure_forms(build, keys, asked) == made


def test_whole_vectors_are_read_back_in_the_order_of_the_build(build, keys):
    rows = sampled_rows(build)
    assert rows.tolist() == list(range(len(build.vectors)))
    np.testing.assert_array_equal(whole_vectors(build, keys, rows), build.vectors)
    np.testing.assert_array_equal(whole_vectors(build, keys, rows[3:5]), build.vectors[3:5])


def test_a_smaller_sample_is_part_of_a_larger_one(build):
    few, more = sampled_rows(build, 5), sampled_rows(build, 9)
    assert (len(few), len(more)) == (5, 9)
    assert (np.diff(more) > 0).all()
    assert set(few) < set(more)


def test_without_pseudo_queries_nothing_is_said(build, keys):
    nothing = np.empty((0, 384), np.float32)
    assert measure_forms(build, keys, Asked((), nothing, (), nothing)) == {}
