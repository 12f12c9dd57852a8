"""The light query encoder: look-up in a table that was fitted to texts whose vectors are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from stillroom.light import LightEncoder
from stillroom.transforms import light
from stillroom.transforms.light import LightTable, Rows, fit_table, pieces, write_light

WORDS = ["[UNK]", "valve", "whale", "bread", "opens", "sings", "rises", "slowly"]
DIMS = 16


@pytest.fixture(scope="module")
def tokenizer():
    made = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    return made


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def random_vectors(count, seed=0):
    return unit(np.random.default_rng(seed).standard_normal((count, DIMS))).astype(np.float32)


@pytest.fixture
def encoder(tmp_path, tokenizer):
    table = random_vectors(len(WORDS))
    table[0] = 0
    weights = np.arange(1, len(WORDS) + 1, dtype=np.float32)
    seen = np.array([False, True, True, True, True, True, True, False])
    write_light(tmp_path / "light", LightTable(table, weights, seen), tokenizer)
    files = {path.name: path for path in (tmp_path / "light").iterdir()}
    return LightEncoder(files), table, weights


def test_a_query_is_the_weighted_mean_of_its_tokens_rows(encoder):
    light_encoder, table, weights = encoder
    made = light_encoder.encode("whale sings sings")
    ids = [2, 5, 5]
    wanted = unit((weights[ids, None] * table[ids].astype(np.float16).astype(np.float32)).sum(0))
    np.testing.assert_allclose(made, wanted, atol=1e-6)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, light_encoder.encode("whale sings sings"))


@pytest.mark.parametrize("text", ["", "   ", "unheard", "\ud800"])
def test_a_text_without_known_tokens_has_no_vector(encoder, text):
    assert encoder[0].encode(text) is None
    assert encoder[0].coverage(text) == 0.0


def test_coverage_is_the_weight_of_what_the_corpus_has(encoder):
    light_encoder, _, weights = encoder
    assert light_encoder.coverage("whale") == 1.0
    assert light_encoder.coverage("whale slowly") == pytest.approx(
        weights[2] / (weights[2] + weights[7])
    )
    assert light_encoder.coverage("whale unheard") == pytest.approx(
        weights[2] / (weights[2] + weights[0])
    )


def test_the_fit_finds_the_table_that_made_the_targets(tokenizer):
    rng = np.random.default_rng(1)
    true = random_vectors(len(WORDS), 2)
    texts = tuple(" ".join(rng.choice(WORDS[1:], 4)) for _ in range(400))
    weights = np.ones(len(WORDS), np.float32)
    ids = [tokenizer.encode(text).ids for text in texts]
    targets = unit(np.array([true[row].sum(0) for row in ids])).astype(np.float32)
    start = true + 0.8 * random_vectors(len(WORDS), 3)
    made = fit_table(start, Rows(texts, targets, np.arange(400)), weights, tokenizer)

    def cosine(table):
        return float((unit(np.array([table[r].sum(0) for r in ids])) * targets).sum(1).mean())

    assert cosine(made) > 0.97 > cosine(start - start.mean(0))
    assert not made[0].any(), "the unknown token says nothing"


def test_the_fit_is_ridge_regression(tokenizer):
    """Against the closed form, solved by numpy."""
    rng = np.random.default_rng(4)
    texts = tuple(" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(60))
    targets, vocabulary = random_vectors(60, 5), random_vectors(len(WORDS), 6)
    weights = rng.uniform(0.5, 3, len(WORDS)).astype(np.float32)
    bags = np.zeros((60, len(WORDS)))
    for row, text in enumerate(texts):
        for token in tokenizer.encode(text).ids:
            bags[row, token] += weights[token]
    bags = unit(bags)
    base = vocabulary - vocabulary.mean(0)
    base[0] = 0
    base *= (bags @ base * targets).sum() / ((bags @ base) ** 2).sum()
    gram = bags @ bags.T + light.RIDGE * np.eye(60)
    wanted = base + bags.T @ np.linalg.solve(gram, targets - bags @ base)
    made = fit_table(vocabulary, Rows(texts, targets, np.arange(60)), weights, tokenizer)
    np.testing.assert_allclose(made, wanted, atol=2e-3)


@given(st.lists(st.text(st.sampled_from("ab. \n\ud800é"), max_size=60), min_size=1, max_size=4))
@settings(max_examples=30)
def test_pieces_of_any_text_keep_its_vector_and_owner(texts):
    vectors = random_vectors(len(texts))
    made = pieces(texts, vectors, np.arange(len(texts)) + 10)
    assert set(made.owners) == set(range(10, 10 + len(texts)))
    for row, owner in enumerate(made.owners):
        np.testing.assert_array_equal(made.targets[row], vectors[owner - 10])
    rest = made.without([10])
    assert 10 not in rest.owners
    assert len(rest.texts) == len(rest.targets) == len(rest.owners)
