"""Text to terms: the one analyzer that indexing, querying and highlighting share.

Words: lower-cased, accents folded, English stop words dropped, English (Snowball) stems. Scripts
written without spaces (Chinese, Japanese, Korean, Thai, ...) become overlapping bigrams,
full-width forms folded first. Identifiers (dotted names, paths, CVE and CWE ids, hashes,
camelCase, maths symbols) become terms of their own field, whole, so that they survive beside their
words.

Terms carry offsets in Unicode code points, never bytes. tantivy only receives terms that were made
here (see `stillroom.schemas.lexical`); its stemmer and stop list are used through `TextAnalyzer`.
"""

import re
import sys
import unicodedata
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from typing import NamedTuple

import tantivy

from stillroom.schemas.ids import digest
from stillroom.schemas.specs import AnalyzerSpec

MAX_TERM = 128  # code points; longer runs are cut, alike in documents and in queries
MEMO_LIMIT = 400_000  # distinct words remembered by one process


class Term(NamedTuple):
    """A term and the range of the text that it stands for, in code points."""

    text: str
    start: int
    end: int


# Scripts without spaces between words: kana, CJK ideographs, hangul, Thai to Khmer.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_FULL_WIDTH_SEEN = re.compile("[\uff01-\uff5e\u3000]")
_JOINERS = r".\-_/:\\@+#~?=&%"


def _char_class(categories: frozenset[str], stop: int = 0x10000) -> str:
    """A regular expression class body of all code points of these Unicode categories."""
    ranges: list[list[int]] = []
    for code in range(0x80, stop):
        if unicodedata.category(chr(code)) in categories:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(a)}-{chr(b)}" if a != b else chr(a) for a, b in ranges)


# Combining marks belong to the word they are written on: `re` alone would cut Hindi at each vowel.
_MARKS = _char_class(frozenset(("Mn", "Mc")))
_SYMBOLS = _char_class(frozenset(("Sm",)))
_WORD = re.compile(
    rf"[^\W_][^\W_{_MARKS}]*(?:[{_MARKS}]+[^\W_]*)*(?:['’](?:s|t|re|ve|ll|d|m)\b)?", re.IGNORECASE
)
_ASCII_WORD = re.compile(r"[a-zA-Z0-9]+(?:'(?:s|t|re|ve|ll|d|m)\b)?", re.IGNORECASE)
_RUNS = re.compile(rf"[{_UNSPACED}{_MARKS}]*[{_UNSPACED}][{_UNSPACED}{_MARKS}]*|[^{_UNSPACED}]+")
# One written character: conjoining jamo make one syllable, marks belong to their base.
_UNIT = re.compile(
    rf"(?:[\u1100-\u115f\ua960-\ua97f]+[\u1160-\u11a7\ud7b0-\ud7c6]*[\u11a8-\u11ff\ud7cb-\ud7ff]*|.)"
    rf"[{_MARKS}]*"
)
_UNSPACED_SEEN = re.compile(f"[{_UNSPACED}]")
_CHUNK = re.compile(rf"[\w{_JOINERS}{_MARKS}]+|[{_SYMBOLS}]")
_MARK_SEEN = re.compile(f"[{_MARKS}]")


class Analyzer:
    """Text to terms, with offsets. Safe for many threads: its only state is a memo of words."""

    def __init__(self) -> None:
        self._stem = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.ascii_fold())
            .filter(tantivy.Filter.stopword("english"))
            .filter(tantivy.Filter.stemmer("english"))
            .build()
        )
        self._memo: dict[str, str] = {}

    def words(self, text: str) -> list[Term]:
        """Terms for the fields of key kinds, in order. Stop words give none."""
        terms: list[Term] = []
        if text.isascii():
            matches = _ASCII_WORD.finditer(text)
        else:
            matches = _WORD.finditer(fold_width(text))
        remembered = self._memo.get
        for match in matches:
            word = match.group()
            term = remembered(word)
            if term is None:
                if _UNSPACED_SEEN.search(word):
                    terms.extend(self._split_scripts(word, match.start()))
                    continue
                term = self._analyzed(word)
            if term:
                terms.append(Term(term, match.start(), match.end()))
        return terms

    def identifiers(self, text: str) -> list[Term]:
        """Terms for the field `exact`: identifiers and maths symbols, whole and case-folded."""
        terms: list[Term] = []
        for match in _CHUNK.finditer(text if text.isascii() else fold_width(text)):
            chunk = match.group()
            if chunk.isalpha() and (chunk[1:].islower() or len(chunk) == 1 or chunk.isupper()):
                continue  # a plain word: by far the most frequent case
            start = match.start() + len(chunk) - len(chunk.lstrip(".-:+#~?=&%@"))
            core = chunk.strip(".-:+#~?=&%@")
            tail = chunk[start - match.start() + len(core) :]
            if core and tail[:2] == "++":
                core += "++"  # C++
            elif len(core) == 1 and tail[:1] == "#":
                core += "#"  # C#, F#
            if _is_identifier(core):
                terms.append(Term(core.casefold()[:MAX_TERM], start, start + len(core)))
        return terms

    def _analyzed(self, word: str) -> str:
        """The term of one word, or "" for a stop word; remembered."""
        plain = word
        for apostrophe in "'’":
            plain = plain.partition(apostrophe)[0]
        if not plain.isascii():
            plain = unicodedata.normalize("NFKC", plain)
        made = self._stem.analyze(plain[:MAX_TERM])
        term = made[0].replace(" ", "") if made else ""
        if len(self._memo) >= MEMO_LIMIT:
            self._memo.clear()
        self._memo[word] = term
        return term

    def _split_scripts(self, word: str, offset: int) -> list[Term]:
        """Bigrams of the unspaced runs of a word, ordinary terms for its other runs."""
        terms: list[Term] = []
        for run in _RUNS.finditer(word):
            text, start = run.group(), offset + run.start()
            if not _UNSPACED_SEEN.search(text):
                if term := self._memo.get(text) or self._analyzed(text):
                    terms.append(Term(term, start, start + len(text)))
                continue
            units = [m.span() for m in _UNIT.finditer(text)]
            if len(units) == 1:
                terms.append(Term(_folded(text), start, start + len(text)))
            for (a, _), (_, b) in pairwise(units):
                terms.append(Term(_folded(text[a:b]), start + a, start + b))
        return terms


def fold_width(text: str) -> str:
    """Full-width forms to their ordinary ones, one code point each, so that offsets stay true."""
    return text.translate(_FULL_WIDTH) if _FULL_WIDTH_SEEN.search(text) else text


def _folded(bigram: str) -> str:
    return unicodedata.normalize("NFKC", bigram).casefold()


def _is_identifier(core: str) -> bool:
    if not core:
        return False
    if len(core) == 1:
        return not core.isalnum() and not core.isascii()  # a maths symbol
    if core.isalnum():
        if _UNSPACED_SEEN.search(core):
            return False
        digits = sum(map(str.isdigit, core))
        mixed = 0 < digits < len(core)
        camel = not core.islower() and not core[1:].islower() and not core.isupper()
        return mixed or (camel and core.isascii() and digits < len(core))
    return any(map(str.isalnum, core)) and not _UNSPACED_SEEN.search(core)


@cache
def standard_analyzer() -> Analyzer:
    """The process's analyzer: one memo for all."""
    return Analyzer()


_PROBE = (
    "The runners' cafés weren't running: naïve ÉTUDES, Ａｂｃ１２３; 世界经济 今日は 한국어 ภาษาไทย हिन्दी "
    "Nat.succ_le_of_lt CVE-2021-44228 ∀ x ≤ y, std::vector<int> C++ C# /usr/lib/a.py camelCase "
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 generously organizations"
)


@cache
def analyzer_spec() -> AnalyzerSpec:
    """The running analyzer's spec: its probe differs wherever any term would."""
    analyzer = Analyzer()
    made = [*analyzer.words(_PROBE), *analyzer.identifiers(_PROBE)]
    return AnalyzerSpec("standard", digest(*(f"{t.text} {t.start} {t.end}" for t in made)))


def analyzer_report() -> str:
    """Words for an error message: what this process analyzes with."""
    python = ".".join(map(str, sys.version_info[:2]))
    return (
        f"analyzer standard/{analyzer_spec().probe[:8]} (Python {python}, Unicode "
        f"{unicodedata.unidata_version}, tantivy {version('tantivy')})"
    )
