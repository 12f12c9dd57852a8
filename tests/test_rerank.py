"""Reranking: the first hits in a new order, with a reason; bounded, deterministic, refused clearly."""

import numpy as np
import pytest

import stillroom
from stillroom import rerank as module
from stillroom.errors import BadInput, MissingExtra
from stillroom.rerank import blend
from tests.conftest import build_base, write_corpus
from tests.small_models import make_cross_encoder, make_static

QUESTION = "How do I stop user input from changing a database statement?"


def test_maxsim_orders_by_the_tokens_of_the_query(kb):
    before, after = kb.search(QUESTION, k=5), kb.search(QUESTION, k=5, rerank="maxsim")
    assert {len(before), len(after)} == {5}
    reason = after[0].reasons[-1]
    assert reason.leg == "rerank"
    assert 0 < reason.score <= 1.001
    assert [hit.score for hit in after] == sorted((hit.score for hit in after), reverse=True)
    by_score = sorted(after, key=lambda hit: -hit.reasons[-1].score)
    assert [hit.reasons[-1].rank for hit in by_score] == sorted(
        hit.reasons[-1].rank for hit in after
    )
    assert "rerank" in after.timings
    assert all(reason.leg != "rerank" for hit in before for reason in hit.reasons)


def test_what_says_the_same_words_in_context_is_first(kb):
    hits = kb.search("signing keys", k=3, rerank="maxsim")
    encoder = stillroom.models.load_for(kb.manifests[0].encoder, exact=False)
    keys = [next(r.key_text for r in hit.reasons if r.leg == "dense") for hit in hits]
    query, *found = encoder.encode_tokens(["signing keys", *keys])
    own = [float((query @ tokens.T).max(axis=1).mean()) for tokens in found]
    np.testing.assert_allclose(own, [hit.reasons[-1].score for hit in hits], atol=1e-5)


@pytest.mark.parametrize("mode", ["lexical", "dense"])
def test_one_leg_may_be_reranked(kb, mode):
    hits = kb.search(QUESTION, k=3, mode=mode, rerank="maxsim")
    assert [reason.leg for reason in hits[0].reasons][-1] == "rerank"
    assert hits[0].reasons[-1].contribution <= hits[0].score


def test_the_hits_are_among_the_leading_ones(kb, monkeypatch):
    monkeypatch.setattr(module, "DEPTH", 3)
    monkeypatch.setattr("stillroom.engine.DEPTH", 3)
    plain = kb.search(QUESTION, k=8)
    hits = kb.search(QUESTION, k=8, rerank="maxsim")
    assert {hit.id for hit in hits[:3]} == {hit.id for hit in plain[:3]}
    assert [hit.id for hit in hits[3:]] == [hit.id for hit in plain[3:]]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert [len(hit.reasons) - len(own.reasons) for hit, own in zip(hits[3:], plain[3:], strict=True)] == [0] * 5  # fmt: skip
    assert len(kb.search(QUESTION, k=1, rerank="maxsim")) == 1


def test_blending_keeps_what_was_not_looked_at_below():
    score, share = blend(np.array([9.0, 7, 6, 5, 5]), np.array([0.1, 0.9, 0.5]))
    assert list(np.argsort(-score, kind="stable")) == [1, 0, 2, 3, 4]
    assert share.tolist() == pytest.approx([0, 0.5, 0.25])
    score, _ = blend(np.array([2.0, 2, 2]), np.array([0.3, 0.3, 0.3]))
    assert score.tolist() == [0, 0, 0]


def test_a_cross_encoder_by_folder(kb, tmp_path):
    folder = make_cross_encoder(tmp_path, 3)
    hits = kb.search(QUESTION, k=6, rerank=folder)
    assert len({hit.reasons[-1].score for hit in hits}) > 1
    again = kb.search(QUESTION, k=6, rerank=folder)
    assert [(h.id, h.score) for h in hits] == [(h.id, h.score) for h in again]


def test_what_cannot_rerank_is_refused(kb, tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="gives \\(2,\\) scores a pair, not one"):
        kb.search(QUESTION, rerank=make_cross_encoder(tmp_path, 3, labels=2))
    with pytest.raises(BadInput, match="'no-such-owner/no-model' cannot be loaded"):
        kb.search(QUESTION, rerank="no-such-owner/no-model")
    with pytest.raises(BadInput, match="is a path, but no folder is there"):
        kb.search(QUESTION, rerank="/no/such/folder")
    monkeypatch.setattr(module, "is_installed", lambda spec: False)
    with pytest.raises(MissingExtra, match="maxsim"):
        kb.search(QUESTION, rerank="maxsim")


def test_nothing_found_is_nothing_to_rerank(kb):
    assert len(kb.search("qqqzzzxxx", mode="lexical", rerank="maxsim")) == 0


def test_a_static_encoder_has_no_tokens_to_compare(tmp_path):
    write_corpus(tmp_path / "docs")
    build_base(tmp_path / "docs", tmp_path / "kb", encoder=make_static(tmp_path / "static"))
    kb = stillroom.open(tmp_path / "kb")
    with pytest.raises(BadInput, match="no token vectors"):
        kb.search("a b", rerank="maxsim")


def test_on_the_command_line(run, small_kb):
    code, out, _ = run("query", str(small_kb.path), QUESTION, "--rerank", "maxsim", "-k", "2", "--explain")  # fmt: skip
    assert code == 0
    assert out.count("rerank: rank") == 2
