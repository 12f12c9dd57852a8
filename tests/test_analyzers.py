"""The analyzer: what becomes a term, and where it stands."""

import re
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillroom.analyzers import (
    MAX_TERM,
    Analyzer,
    analyzer_report,
    analyzer_spec,
    fold_width,
    standard_analyzer,
)

A = standard_analyzer()
SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def words(text: str) -> list[str]:
    return [term.text for term in A.words(text)]


def identifiers(text: str) -> list[str]:
    return [term.text for term in A.identifiers(text)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("running runners ran", ["run", "runner", "ran"]),
        ("The cat and the dog", ["cat", "dog"]),
        ("Organizations organized", ["organiz", "organiz"]),
        ("the user's users", ["user", "user"]),
        ("the user’s — users’", ["user", "user"]),
        ("snake_case words", ["snake", "case", "word"]),
        ("", []),
        ("?! -- ...", []),
        ("the of and", []),
        ("ISO 8601, 2.5 GB", ["iso", "8601", "2", "5", "gb"]),
        ("naïve café Ångström", ["naiv", "cafe", "angstrom"]),
        ("Ａｂｃ１２３", ["abc123"]),
        ("世界经济", ["世界", "界经", "经济"]),
        ("在", ["在"]),
        ("使用Python语言", ["使用", "python", "语言"]),
        ("ﾃｽﾄ", ["テス", "スト"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("привет мир", ["привет", "мир"]),
    ],
)
def test_words(text, terms):
    assert words(text) == terms


@given(
    st.sampled_from(["cafés", "Ångström", "ÉTUDES", "naïve", "हिन्दी", "가나다", "Việt Nam", "が"])
)
def test_composed_and_decomposed_text_give_the_same_terms(word):
    composed, decomposed = (unicodedata.normalize(form, word) for form in ("NFC", "NFD"))
    assert words(composed) == words(decomposed) != []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("use Nat.succ_le_of_lt here", ["nat.succ_le_of_lt"]),
        ("CVE-2021-44228 is CWE-502.", ["cve-2021-44228", "cwe-502"]),
        ("see /usr/lib/a.py, or C:\\temp\\x", ["/usr/lib/a.py", "c:\\temp\\x"]),
        (f"sha {SHA256}!", [SHA256]),
        ("C++ and C# and F#", ["c++", "c#", "f#"]),
        ("camelCase PascalCase plain UPPER Title", ["camelcase", "pascalcase"]),
        ("∀ x ≤ y", ["∀", "≤"]),
        ("utf8 x86", ["utf8", "x86"]),
        ("std::vector<int>", ["std::vector"]),
        ("The end. (A sentence) is plain", []),
        ("世界经济", []),
        ("ＣＶＥ-2021-1", ["cve-2021-1"]),
    ],
)
def test_identifiers(text, terms):
    assert identifiers(text) == terms


def test_an_identifier_stands_where_it_is_written():
    text = "Use (`Nat.succ_le_of_lt`), not C++."
    found = {text[t.start : t.end] for t in A.identifiers(text)}
    assert found == {"Nat.succ_le_of_lt", "C++"}


def test_the_words_of_an_identifier_are_found_as_well():
    assert words("Nat.succ_le_of_lt") == ["nat", "succ", "le", "lt"]


PIECES = re.findall(
    r"\S+",
    "running the Cafés cafe\u0301s Ａｂｃ 世界经济 ภาษาไทย हिन्दी C++ C# Nat.succ_le CVE-2021-1 don't it’s "
    "naïve ∀ ≤ x86 ﷺ ß /usr/lib a\\b 😀 İstanbul ǅ 한국어 _ __init__ 𝔸𝔹 http://a.b/c?d=e",
)
MIXED = st.lists(
    st.sampled_from([*PIECES, SHA256]) | st.text("abcXYZ019.-_/:'’ é世", max_size=8), max_size=8
)


@settings(max_examples=150)
@given(MIXED, st.sampled_from(["", " ", "\n", " (", "，"]))
def test_offsets_are_code_points_of_what_gives_the_term(parts, joiner):
    text = joiner.join(parts)
    for analyze in (A.words, A.identifiers):
        terms = analyze(text)
        assert [t.start for t in terms] == sorted(t.start for t in terms)
        for term in terms:
            assert 0 <= term.start < term.end <= len(text)
            again = analyze(text[term.start : term.end])
            assert [t.text for t in again] == [term.text], (term, text[term.start : term.end])
            assert term.text
            assert not any(map(str.isspace, term.text))
            assert len(term.text) <= 4 * MAX_TERM


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_no_text_breaks_it(text):
    for term in (*A.words(text), *A.identifiers(text)):
        assert 0 <= term.start < term.end <= len(text)
        # Terms are joined by spaces for tantivy, which would cut a term that held one.
        assert term.text.split() == [term.text]


@pytest.mark.parametrize(
    "text",
    [
        '2024-05-31T10:00:00Z ERROR [pool-1] (x.y.Z:42) user="ann" failed: {"code": [500, ("a")]}',
        "https://example.org/a/b%20c?q=1&r=(2)#frag",
        "[[[ ((( unbalanced \"quotes' +must -not AND OR NOT title:foo^2 ~ *wild? \\",
        "key=value;other='x y' && ls -la | grep foo > /dev/null 2>&1",
    ],
)
def test_pasted_lines_lose_no_word(text):
    stop = {"not", "and", "or", "a", "no", "x", "s", "t"}
    found = words(text)
    for word in re.findall(r"[A-Za-z0-9]+", text):
        if word.lower() not in stop:
            (term,) = words(word)
            assert term in found


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "世" * 1_000_000,
        "a\u0301" * 500_000,
        "a.b_" * 250_000,
        "\u0301" * 1_000_000,
    ],
    ids=["latin", "cjk", "marks", "identifier", "only-marks"],
)
def test_a_million_characters_without_a_space_take_no_quadratic_time(text):
    began = time.monotonic()
    terms = Analyzer().words(text)
    exact = Analyzer().identifiers(text)
    assert time.monotonic() - began < 20  # a quadratic scan takes hours
    assert all(len(term.text) <= MAX_TERM for term in exact)
    assert len(terms) <= 1_000_000


def test_long_words_are_cut_alike_in_documents_and_queries():
    assert words("a" * 200) == words("a" * 300) != words("a" * 20)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=30))
def test_folding_width_keeps_the_length(text):
    assert len(fold_width(text)) == len(text)


def test_the_spec_is_the_same_in_every_process():
    code = "from stillroom.analyzers import analyzer_spec; print(analyzer_spec().probe)"
    made = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    )
    assert made.stdout.strip() == analyzer_spec().probe
    assert analyzer_spec().probe[:8] in analyzer_report()


def test_the_probe_sees_a_changed_term(monkeypatch):
    before = analyzer_spec()
    monkeypatch.setattr(Analyzer, "identifiers", lambda self, text: [])
    analyzer_spec.cache_clear()
    try:
        assert analyzer_spec() != before
    finally:
        monkeypatch.undo()
        analyzer_spec.cache_clear()
    assert analyzer_spec() == before


def test_a_full_memo_changes_no_term(monkeypatch):
    monkeypatch.setattr("stillroom.analyzers.MEMO_LIMIT", 2)
    text = "running walks quickly through naïve étude houses running"
    assert [t.text for t in Analyzer().words(text)] == words(text)
