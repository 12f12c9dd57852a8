"""Backends: the same vectors whatever runs the layers, and a base keeps the one that it began with."""

from dataclasses import replace

import numpy as np
import pytest

import stillroom
from stillroom import models
from stillroom.errors import BadInput, MissingExtra, VersionSkew
from stillroom.models import load_encoder, load_for, spec_for
from tests.conftest import build_base, write_corpus
from tests.small_models import LETTERS, make_static, make_tiny

OTHERS = ("onnx", "openvino")
TEXTS = ["Whales sing.", "", "Rotate the signing keys every ninety days. " * 12, "世界经济", "x"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"), 0)


@pytest.mark.parametrize("backend", OTHERS)
def test_vectors_are_those_of_torch_and_equal_in_any_company(backend):
    torch, other = load_encoder("minilm", "float32"), load_encoder("minilm", "auto", backend)
    assert other.spec.backend == backend
    made = other.encode_documents(TEXTS)
    assert (np.sum(made * torch.encode_documents(TEXTS), axis=1) > models.MIN_COSINE).all()
    alone = np.concatenate([other.encode_documents([text]) for text in TEXTS[::-1]])[::-1]
    np.testing.assert_array_equal(made.view(np.uint32), alone.view(np.uint32))
    vocabulary = other.encode_vocabulary(2000, 2010)
    np.testing.assert_allclose(vocabulary, torch.encode_vocabulary(2000, 2010), atol=1e-2)


@pytest.mark.parametrize("backend", OTHERS)
def test_vectors_of_another_backend_are_other_bits_in_the_same_space(tiny, backend):
    torch, other = load_encoder(tiny, "float32").spec, load_encoder(tiny, "float32", backend).spec
    assert torch.fingerprint != other.fingerprint
    assert torch.model_fingerprint == other.model_fingerprint
    assert load_for(other, exact=True).spec == other
    assert backend in models.describe(other)
    with pytest.raises(VersionSkew, match="are here|is here"):
        load_for(replace(other, weights="0" * 32), exact=False)


def test_tokens_have_vectors_in_their_context(tiny):
    encoder = load_encoder(tiny)
    one, long, nothing, two = encoder.encode_tokens(["a b c", " ".join(LETTERS * 4), "", "c b a"])
    room = encoder.spec.max_tokens - encoder.spec.special_tokens
    assert (len(one), len(long), len(nothing), len(two)) == (3, room, 0, 3)
    np.testing.assert_allclose(np.linalg.norm(long, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(one, encoder.encode_tokens(["a b c"])[0])
    assert np.abs(one[0] - two[2]).max() > 1e-3  # the same letter elsewhere


def test_a_static_model_has_one_backend_and_no_token_vectors(tmp_path):
    folder = make_static(tmp_path / "static")
    with pytest.raises(BadInput, match="no transformer: onnx cannot run it"):
        load_encoder(folder, "auto", "onnx")
    with pytest.raises(BadInput, match="no token vectors"):
        load_encoder(folder).encode_tokens(["a"])


def test_what_cannot_run_is_refused(tiny, monkeypatch):
    with pytest.raises(BadInput, match="one of auto, torch, onnx, openvino, not 'tpu'"):
        load_encoder(tiny, "auto", "tpu")
    monkeypatch.setattr(models, "_has_bfloat16", lambda: True)
    with pytest.raises(VersionSkew, match="bfloat16 with onnx cannot run"):
        load_encoder(tiny, "bfloat16", "onnx")
    monkeypatch.setattr(models, "_has_bfloat16", lambda: False)
    with pytest.raises(VersionSkew, match="does not multiply"):
        load_encoder(tiny, "bfloat16")
    monkeypatch.setattr("stillroom.backends.importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(models, "_loaded", {})
    with pytest.raises(MissingExtra, match="stillroom"):
        load_encoder(tiny, "float32", "openvino")


def test_a_backend_that_strays_from_float32_is_not_used(tiny, monkeypatch):
    def turned(model, backend, dtype, make=models.make_layers):
        layers = make(model, "torch", "float32")
        if backend == "torch":
            return layers

        def run(ids, mask):
            features = layers(ids, mask)
            features["token_embeddings"] = features["token_embeddings"].flip(-1)
            return features

        return run

    monkeypatch.setattr(models, "make_layers", turned)
    monkeypatch.setattr(models, "_loaded", {})
    with pytest.raises(VersionSkew, match=r"float32 with onnx has cosine .* to float32 here"):
        load_encoder(tiny, "float32", "onnx")


def test_bfloat16_goes_to_openvino_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(models, "_has_bfloat16", lambda: True)
    assert next(models._candidates("auto", "auto")) == ("openvino", "bfloat16")
    monkeypatch.setattr(models, "is_installed", lambda name: name != "openvino")
    assert next(models._candidates("auto", "auto")) == ("torch", "bfloat16")
    monkeypatch.setattr(models, "_has_bfloat16", lambda: False)
    assert list(models._candidates("auto", "auto")) == [("torch", "float32")]


def test_a_base_keeps_its_backend_until_another_is_named(tiny):
    known = load_encoder(tiny, "auto", "onnx").spec
    assert spec_for(tiny, "auto", known) == known
    assert spec_for(tiny, "auto", replace(known, files="older")).backend == "onnx"
    assert spec_for(tiny, "torch", known).backend == "torch"


def test_a_base_built_and_searched_with_onnx(tmp_path):
    write_corpus(tmp_path / "docs")
    build_base(tmp_path / "docs", tmp_path / "kb", backend="onnx")
    kb = stillroom.open(tmp_path / "kb")
    assert kb.manifests[0].encoder.backend == "onnx"
    hits = kb.search("rotate the signing keys", k=1, mode="dense", encoder="full")
    assert "keys" in hits[0].value
