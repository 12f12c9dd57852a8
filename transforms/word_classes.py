"""Words that compression never drops, and those that go first.

Protected: numbers, negations, names, identifiers, code, addresses, mathematical signs. First to
go: function words, in three ranks. The lists are English, the negations those of seven languages.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

AROUND = "\"'“”‘’«»()[]{}.,;:!?…*_~#-–—|>"
_CODE = re.compile(r"^(```|~~~)[^\n]*\n(?:.*\n)*?\1[^\n]*$|`[^`\n]+`", re.MULTILINE)
_SIGN = re.compile(r"[=<>+^|\\/@#$%&~{}`]|^--?\w")
_IDENTIFIER = re.compile(r"\w[._:@]+\w|\w\(|[a-z][A-Z]|_")
_GREEK = re.compile("[\u0370-\u03ff\u1d400-\u1d7ff]")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NEGATIONS = _listed(
    "no not never none nor neither without cannot nobody nothing nowhere unless except against non "
    "nicht nie kein keine keinen ohne pas jamais sans ne ni nunca jamás sin não sem mai senza не нет "
    "ни никогда без"
)
_NUMERALS = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion trillion half third quarter double triple twice dozen"
)
# What goes first, in this order: articles and fillers; auxiliaries, pronouns and conjunctions;
# prepositions and the rest. Words that carry a duty (must, should, only, all, before) are not here.
_FUNCTION_WORDS = (
    _listed(
        "a an the very really just quite rather actually basically simply also so too well oh um uh "
        "please thus hence therefore moreover furthermore indeed perhaps"
    ),
    _listed(
        "am is are was were be been being do does did doing done have has had having would could "
        "will shall might i me my mine we us our ours you your yours he him his she her hers it its "
        "they them their theirs this that these those there here who whom whose which what and or "
        "but as if than then such some both each other another own same much many more most i'm "
        "you're he's she's it's we're they're i've you've we've they've i'd you'd i'll you'll that's "
        "there's let's"
    ),
    _listed(
        "of in on at to for with by from into onto about over through during between among within "
        "while upon toward towards per via where when how why because since until although though "
        "however whereas whether can may"
    ),
)
RANKS = {word: rank for rank, words in enumerate(_FUNCTION_WORDS) for word in words}


def protected_words(text: str, words: Sequence[tuple[int, int]]) -> list[bool]:
    """Which of the (start, end) words must stay, whatever they score."""
    code = [match.span() for match in _CODE.finditer(text)]
    at = 0
    found = []
    fresh = True  # at the start of a sentence, a capital letter names nothing
    for start, end in words:
        while at < len(code) and code[at][1] <= start:
            at += 1
        in_code = at < len(code) and code[at][0] < end
        word = text[start:end]
        found.append(in_code or _protected(word, fresh))
        fresh = word.rstrip("\"')]}*_”’»").endswith((".", "!", "?", ":")) or (
            end < len(text) and text[end] == "\n"
        )
    return found


@lru_cache(maxsize=1 << 16)
def _protected(word: str, fresh: bool) -> bool:
    if len(word) > 40:
        return True  # an address, a hash, or a sentence in a script without spaces
    bare = word.strip(AROUND)
    lower = bare.lower().replace("’", "'")
    if not bare or not bare.isascii():
        # Marks that stand alone are structure or mathematics.
        if not bare or any(unicodedata.category(c) in ("Sm", "Sc", "So", "No", "Nl") for c in word):
            return True
        if any(c.isnumeric() for c in bare) or _UNSPACED.search(bare) or _GREEK.search(bare):
            return True
    if _IDENTIFIER.search(bare) or _SIGN.search(word) or any(c.isdigit() for c in bare):
        return True
    if lower in _NEGATIONS or lower in _NUMERALS or lower.endswith("n't"):
        return True
    if any(p in _NEGATIONS or p in _NUMERALS for p in lower.split("-")) or lower.startswith("non-"):
        return True
    if len(bare) == 1 and lower not in ("a", "i"):
        return True  # a variable
    letters = [c for c in bare if c.isalpha()]
    if not letters or any(c.isupper() for c in letters[1:]):
        return True  # acronyms and CamelCase
    return letters[0].isupper() and not (fresh and lower in RANKS)
