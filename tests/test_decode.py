"""Bytes to text: what a user's file says must be what is searched."""

import codecs
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.transforms.decode import BinaryContent, clean_text, decode_text

SENTENCE = "Привет, Geschäft, café – 日本語 😀"


@pytest.mark.parametrize(
    ("raw", "text", "repairs"),
    [
        (SENTENCE.encode(), SENTENCE, ()),
        (codecs.BOM_UTF8 + SENTENCE.encode(), SENTENCE, ("bom",)),
        (SENTENCE.encode("utf-16"), SENTENCE, ("bom", "encoding:utf-16-le")),
        (SENTENCE.encode("utf-32"), SENTENCE, ("bom", "encoding:utf-32-le")),
        (b"\xfe\xff" + "hé".encode("utf-16-be"), "hé", ("bom", "encoding:utf-16-be")),
        ("plain words".encode("utf-16-le"), "plain words", ("encoding:utf-16-le",)),
        ("Привет мир".encode("utf-16-be"), "Привет мир", ("encoding:utf-16-be",)),
        ("plain words".encode("utf-32-be"), "plain words", ("encoding:utf-32-be",)),
        ("café".encode("latin-1"), "café", ("encoding:cp1252",)),
        ("“quoted” – naïve".encode("cp1252"), "“quoted” – naïve", ("encoding:cp1252",)),
        ("Das Geschäft hört früh auf".encode("cp1252"), "Das Geschäft hört früh auf", ("encoding:cp1252",)),
        ("Привет мир".encode("cp1251"), "Привет мир", ("encoding:cp1251",)),
        ("日本語のテキストです。".encode("shift_jis"), "日本語のテキストです。", ("encoding:cp932",)),
        (b"a\r\nb\rc\n", "a\nb\nc\n", ("newlines",)),
        (b"no\x00thing odd here", "nothing odd here", ("nul",)),
        (b"ab\x00c\x00de", "abcde", ("nul",)),
        (b"\xed\xa0\xbd\xed\xb8\x80", "😀", ("surrogates",)),
        ("Ã©tÃ© Ã  la plage".encode(), "été à la plage", ("mojibake",)),
        (b"caf\xc3\xa9 caf\xc3\xa9 \xff", "café café \ufffd", ("encoding:utf-8",)),
        (b"", "", ()),
    ],
)  # fmt: skip
def test_decode_text(raw: bytes, text: str, repairs: tuple[str, ...]) -> None:
    assert decode_text(raw) == (text, repairs)


def test_declared_encoding_decides_only_what_is_not_utf8() -> None:
    polish = "kąt"
    assert decode_text(polish.encode("iso8859-2"), "ISO-8859-2")[0] == polish
    assert decode_text(polish.encode(), "ISO-8859-2")[0] == polish
    assert decode_text("日本".encode("iso2022_jp"), "iso-2022-jp")[0] == "日本"
    # the web's rule: Latin-1 means Windows-1252
    assert decode_text(b"\x93quoted\x94", "iso-8859-1")[0] == "“quoted”"


@pytest.mark.parametrize(
    "declared", ["nonsense", "zlib", "rot13", "idna", "undefined", "\0", "hex"]
)
def test_a_hostile_declaration_is_ignored(declared: str) -> None:
    assert decode_text(b"caf\xe9", declared)[0] == "café"


@pytest.mark.parametrize(
    "raw", [bytes(range(256)), random.Random(1).randbytes(5000), b"\x7fELF" + bytes(200)]
)
def test_binary_is_refused(raw: bytes) -> None:
    with pytest.raises(BinaryContent, match="control characters"):
        decode_text(raw)


def test_lone_surrogates_become_replacement_characters_and_pairs_become_one() -> None:
    assert clean_text("a \ud83d b \ud83d\ude00 c \ude00") == (
        "a \ufffd b 😀 c \ufffd",
        ("surrogates",),
    )


@pytest.mark.parametrize("text", ["SÃO PAULO, São João", "the sequence Ã© is a sign of it", "été"])
def test_text_that_is_not_clearly_mojibake_stays(text: str) -> None:
    assert clean_text(text) == (text, ())


@given(st.text(st.characters(exclude_categories=[])))
def test_clean_text_is_encodable_and_settled(text: str) -> None:
    cleaned, repairs = clean_text(text)
    cleaned.encode("utf-8")
    assert "\0" not in cleaned
    assert "\r" not in cleaned
    assert (cleaned != text) == bool(repairs)


@given(st.binary(max_size=300))
def test_decoding_bytes_gives_encodable_text_or_binary(raw: bytes) -> None:
    try:
        text, _ = decode_text(raw)
    except BinaryContent:
        return
    text.encode("utf-8")
