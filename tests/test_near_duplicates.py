"""Near-duplicates: estimates against exact Jaccard and datasketch, links whatever the order."""

import random

import numpy as np
import pytest
from datasketch import MinHash
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.entries import LinkKind
from stillroom.transforms.links import buckets
from stillroom.transforms.near_duplicates import (
    band_shape,
    estimated_jaccard,
    link_group,
    shingles,
    signature,
    unique_links,
)

VOCABULARY = [f"word{i}" for i in range(500)]


def text_of(seed: int, words: int = 200) -> str:
    return " ".join(random.Random(seed).choices(VOCABULARY, k=words))


def changed(text: str, share: float, seed: int = 0) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(VOCABULARY) if rng.random() < share else w for w in text.split())


def signed(text: str) -> bytes:
    made = signature(text)
    assert made is not None
    return made


@pytest.mark.parametrize("share", [0.0, 0.01, 0.03, 0.1, 0.3, 1.0])
def test_estimates_are_near_the_exact_similarity_and_datasketch_s(share: float) -> None:
    one = text_of(1, 400)
    two = changed(one, share)
    a, b = set(shingles(one)), set(shingles(two))
    exact = len(a & b) / len(a | b)
    oracles = []
    for parts in (a, b):
        oracle = MinHash(num_perm=128, seed=1)
        oracle.update_batch([part.encode() for part in parts])
        oracles.append(oracle)
    estimate = estimated_jaccard(signed(one), signed(two))
    assert estimate == pytest.approx(exact, abs=0.13)  # three standard errors
    assert estimate == pytest.approx(oracles[0].jaccard(oracles[1]), abs=0.18)


@pytest.mark.parametrize("text", ["", "yes!", "nope", "a b c d e f g h i", "ha " * 500, "!?" * 90])
def test_short_texts_are_like_nothing(text: str) -> None:
    assert signature(text) is None


def test_case_and_marks_do_not_matter_but_words_do() -> None:
    text = text_of(3, 40)
    assert signature(text) == signature(text.upper().replace(" ", ", "))
    assert estimated_jaccard(signed(text), signed(text_of(4, 40))) < 0.2


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    one = "这个函数接受两个参数并返回它们的和，如果参数不是数字则抛出异常。"
    other = "昨天我们去公园看了很多花，天气非常好，孩子们玩得很开心也很累。"
    assert estimated_jaccard(signed(one), signed(one.replace("。", "！"))) == 1.0
    assert 0.5 < estimated_jaccard(signed(one), signed(one.replace("两", "三"))) < 1.0
    assert estimated_jaccard(signed(one), signed(other)) < 0.1


@given(st.text())
def test_any_text_has_a_signature_of_one_size_or_none(text: str) -> None:
    made = signature(text)
    assert made is None or len(made) == 512
    assert made == signature(text)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7, 0.85, 0.95, 1.0])
def test_bands_find_pairs_at_the_threshold(threshold: float) -> None:
    bands, rows = band_shape(threshold)
    assert bands * rows <= 128
    assert 1 - (1 - threshold**rows) ** bands >= 0.99
    far = max(0.0, threshold - 0.5)
    assert 1 - (1 - far**rows) ** bands < 0.2  # few false candidates


def share_a_band(*signatures: bytes) -> bool:
    matrix = np.frombuffer(b"".join(signatures), np.uint32).reshape(len(signatures), -1)
    return bool(list(buckets(matrix, np.arange(len(signatures)), 0.85)))


def test_near_texts_share_a_band_and_far_ones_do_not() -> None:
    found = missed = 0
    for seed in range(60):
        one = signed(text_of(seed))
        two = signed(changed(text_of(seed), 0.01, seed))
        if estimated_jaccard(one, two) >= 0.85:
            found += 1
            missed += not share_a_band(one, two)
        assert not share_a_band(one, signed(text_of(seed + 999)))
    assert found > 40
    assert missed <= 2


def test_a_group_is_a_star_at_the_smallest_id_whatever_the_order() -> None:
    base = text_of(1)
    members = [(f"e{i}", signed(changed(base, 0.005, i))) for i in range(6)]
    members += [("a", signed(text_of(50))), ("z", signed(text_of(50)))]
    links = link_group(members, 0.8)
    assert {(link.source_id, link.target_id) for link in links} == {
        *((f"e{i}", "e0") for i in range(1, 6)),
        ("z", "a"),
    }
    signatures = dict(members)
    for link in links:
        assert link.kind is LinkKind.NEAR_DUPLICATE
        both = signatures[link.source_id], signatures[link.target_id]
        assert link.weight == estimated_jaccard(*both) >= 0.8
    shuffled = members * 2
    random.Random(0).shuffle(shuffled)
    assert link_group(shuffled, 0.8) == links
    assert unique_links(links * 3) == sorted(links, key=lambda link: link.source_id)


def test_a_large_group_takes_linear_work() -> None:
    same = signed(text_of(1))
    assert len(link_group([(f"{i:06}", same) for i in range(20_000)], 0.85)) == 19_999


def test_groups_without_a_pair_and_wrong_arguments() -> None:
    one = signed(text_of(1))
    assert link_group([], 0.85) == link_group([("a", one), ("a", one)], 0.85) == []
    with pytest.raises(ValueError, match="at most 1, not 0"):
        link_group([], 0)
    with pytest.raises(ValueError, match="512 bytes, not 3"):
        estimated_jaccard(one, b"abc")
