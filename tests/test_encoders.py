"""Encoders: equal bits in any company, cut where the spec says, refusals that name both sides."""

from dataclasses import replace

import numpy as np
import pytest

from stillroom.encoders import Encoder, EncoderFailure
from stillroom.errors import BadInput, MissingExtra, VersionSkew
from stillroom.models import describe, load_encoder, load_for, model_folder, tokens_for
from stillroom.schemas.specs import EncoderSpec
from tests.small_models import LETTERS, make_static, make_tiny

TEXTS = [
    "Whales sing.",
    "",
    "The lemma `Nat.succ_le_of_lt` turns a strict inequality into a weak one. " * 6,
    "世界经济在今年缓慢增长",
    "A mirror of eight metres gathers enough light to see faint galaxies, and a little more. " * 2,
    "x",
    "Rotate the signing keys every ninety days; keep the old ones until their tokens expire.",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"), 0)


def test_a_vector_does_not_depend_on_its_company(minilm):
    import torch

    alone = np.concatenate([minilm.encode_documents([text]) for text in TEXTS])
    together = minilm.encode_documents(TEXTS)
    turned = minilm.encode_documents(TEXTS[::-1])[::-1]
    crowd = minilm.encode_documents([t for text in TEXTS for t in (text, text + " more", "y")])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        threaded = minilm.encode_documents(TEXTS)
    finally:
        torch.set_num_threads(threads)
    for other in (together, turned, crowd[::3], threaded):
        np.testing.assert_array_equal(alone.view(np.uint32), other.view(np.uint32))


def test_a_query_alone_and_in_a_list_agree(minilm):
    alone = np.concatenate([minilm.encode_queries([text]) for text in TEXTS])
    np.testing.assert_array_equal(alone, minilm.encode_queries(TEXTS))


def test_vectors_are_unit_float32(minilm):
    made = minilm.encode_documents(TEXTS)
    assert made.dtype == np.float32
    assert made.shape == (len(TEXTS), minilm.spec.dims) == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    assert minilm.encode_documents([]).shape == (0, 384)


def test_vectors_are_those_of_sentence_transformers(minilm):
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(model_folder("minilm"), device="cpu").encode(TEXTS)
    cosine = np.sum(reference * minilm.encode_documents(TEXTS), axis=1)
    assert (cosine > 0.998).all()
    assert (np.sum(reference * minilm.encode_queries(TEXTS), axis=1) > 0.998).all()


def test_similar_texts_are_near(minilm):
    a, b, c = minilm.encode_documents(
        ["The cat sleeps on the sofa.", "A cat is asleep on the couch.", "Interest rates rose."]
    )
    assert a @ b > 0.6
    assert a @ c < 0.3


def test_texts_are_cut_at_the_maximum(tiny):
    encoder = load_encoder(tiny)
    assert encoder.spec.max_tokens == 24
    letters = [LETTERS[i % 10] for i in range(40)]
    room = 24 - encoder.spec.special_tokens
    whole, cut, other = encoder.encode_documents(
        [" ".join(letters[:room]), " ".join(letters), " ".join([*letters[: room - 1], "a"])]
    )
    np.testing.assert_array_equal(whole, cut)
    assert np.abs(whole - other).max() > 1e-4


def test_padded_lengths_hold_the_text(minilm):
    for tokens in (0, 1, 13, 14, 15, 100, 254, 255, 10_000):
        length = minilm.padded_length(tokens)
        assert length >= min(tokens + minilm.spec.special_tokens, minilm.spec.max_tokens)
        assert length in minilm.spec.lengths
    assert minilm.padded_length(14) == 16
    assert minilm.padded_length(15) == 32


class Fake:
    """A model object that gives the vectors it is told to."""

    def __init__(self, vectors):
        self.vectors = np.asarray(vectors, np.float64)

    def encode(self, texts, **options):
        return self.vectors[: len(texts)]


def faked(vectors, dims=2):
    return Encoder(Fake(vectors), EncoderSpec("fake", "w", "t", dims, 8), None, None)


def test_a_row_without_a_finite_vector_is_nan():
    made = faked([[3, 4], [np.nan, 1], [0, 0], [np.inf, 0]]).encode_documents(list("abcd"))
    np.testing.assert_allclose(made[0], [0.6, 0.8])
    assert np.isnan(made[1:]).all()


def test_a_model_of_another_width_is_refused():
    with pytest.raises(EncoderFailure, match=r"fake gave vectors of shape \(1, 3\), not \(n, 2\)"):
        faked([[1, 2, 3]]).encode_documents(["a"])


def test_another_local_model(tiny):
    encoder = load_encoder(tiny)
    assert load_encoder(tiny) is encoder
    assert (encoder.spec.name, encoder.spec.dims) == (tiny, 32)
    texts = ["a b c", "c b a", "a", " ".join(LETTERS)]
    made = encoder.encode_documents(texts)
    np.testing.assert_array_equal(made, encoder.encode_documents(texts[::-1])[::-1])
    assert tokens_for(tiny).count("a b zzz") == 3


def test_a_static_model(tmp_path):
    encoder = load_encoder(make_static(tmp_path / "static"))
    assert encoder.spec.dims == 16
    assert encoder.spec.lengths == ()
    a, b, both = encoder.encode_documents(["a", "b", "a b"])
    assert both @ (a + b) > 1.2
    np.testing.assert_array_equal(encoder.encode_queries(["a b"])[0], both)
    long = encoder.encode_documents(["a " * 50_000])
    np.testing.assert_allclose(long[0], a, atol=1e-3)
    crowd = encoder.encode_documents(["c d e " * 40, "a b", "j"])
    np.testing.assert_array_equal(crowd[1], both)


def test_prompts_are_put_in_front_once(tmp_path):
    prompts = {"query": "a b ", "document": "c "}
    folder = make_static(tmp_path / "prompted", prompts=prompts, default_prompt_name="document")
    encoder = load_encoder(folder)
    plain = load_encoder(make_static(tmp_path / "plain"))
    assert (encoder.spec.query_prefix, encoder.spec.document_prefix) == ("a b ", "c ")
    np.testing.assert_allclose(
        encoder.encode_documents(["d e"]), plain.encode_documents(["c d e"]), atol=1e-6
    )
    np.testing.assert_allclose(
        encoder.encode_queries(["d e"]), plain.encode_documents(["a b d e"]), atol=1e-6
    )


def test_prompts_of_a_transformer(tmp_path):
    encoder = load_encoder(make_tiny(tmp_path, 0, prompts={"query": "a b ", "document": "c "}))
    np.testing.assert_array_equal(
        encoder.encode_documents(["a b d"])[0].shape, encoder.encode_queries(["d"])[0].shape
    )
    close = encoder.encode_queries(["d e"]) @ encoder.encode_documents(["d e"]).T
    bare = replace(encoder.spec, query_prefix="", document_prefix="")
    other = Encoder(encoder._model, bare, encoder.tokens, encoder._layers)
    np.testing.assert_array_equal(
        encoder.encode_documents(["d e"]), other.encode_documents(["c d e"])
    )
    np.testing.assert_array_equal(
        encoder.encode_queries(["d e"]), other.encode_queries(["a b d e"])
    )
    assert close < 0.9999


@pytest.mark.parametrize("name", ["/no/such/folder", "./none", "~/none-at-all"])
def test_a_path_that_is_not_there(name):
    with pytest.raises(BadInput, match="is a path, but no folder is there"):
        load_encoder(name)


def test_a_folder_that_holds_no_model(tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    with pytest.raises(BadInput, match="cannot be loaded"):
        load_encoder(str(tmp_path))


def test_a_name_that_no_hub_has():
    with pytest.raises(BadInput, match="'no-such-owner/no-such-model' cannot be loaded"):
        load_encoder("no-such-owner/no-such-model")


def test_a_packaged_name_that_is_not_installed(monkeypatch):
    monkeypatch.setattr("stillroom.models.PACKAGED", {"huge": "not_an_installed_package"})
    with pytest.raises(MissingExtra, match=r"'huge'.*stillroom\[models\]"):
        load_encoder("huge")


@pytest.mark.parametrize("exact", [True, False])
def test_another_model_of_the_same_width_is_refused(tiny, tmp_path, exact):
    other = load_encoder(make_tiny(tmp_path, 1))
    spec = replace(other.spec, name=tiny)
    assert spec.dims == load_encoder(tiny).spec.dims
    with pytest.raises(VersionSkew) as raised:
        load_for(spec, exact=exact)
    assert spec.weights[:8] in str(raised.value)
    assert load_encoder(tiny).spec.weights[:8] in str(raised.value)


def test_the_published_model_is_loaded_again(tiny):
    spec = load_encoder(tiny).spec
    assert load_for(spec, exact=True).spec == spec
    assert describe(spec) in describe(load_for(spec, exact=False).spec)


@pytest.mark.parametrize("change", [{"lengths": (24,)}, {"rows": (4, 4)}])
def test_other_shapes_are_refused_to_workers_and_fine_for_queries(tiny, change):
    spec = replace(load_encoder(tiny).spec, **change)
    with pytest.raises(VersionSkew):
        load_for(spec, exact=True)
    assert load_for(spec, exact=False) is load_for(load_encoder(tiny).spec, exact=False)


def test_the_same_weights_have_the_same_fingerprint_anywhere(tiny, tmp_path):
    import shutil

    copy = shutil.copytree(tiny, tmp_path / "copy")
    spec = load_encoder(str(copy)).spec
    assert replace(spec, name=tiny) == load_encoder(tiny).spec
    assert spec.fingerprint == load_encoder(tiny).spec.fingerprint
