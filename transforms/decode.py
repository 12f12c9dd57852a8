"""Bytes to text: find the encoding, mend what is broken, and say what was mended.

UTF-8 first, because text that decodes as UTF-8 by accident is rare; then byte-order marks, UTF-16 and
UTF-32 without one, the declared encoding, and a guess. Whatever comes out can be encoded as UTF-8:
lone surrogates break Beam's coders and Arrow (apache/beam coders raise UnicodeEncodeError).
"""

import codecs
import re
import unicodedata

SAMPLE_BYTES = 1 << 16
# Shares of control characters from which data is called binary: random bytes have 10 %.
BINARY_IF_UTF8 = 0.30
BINARY_IF_NOT = 0.04

_BOMS = (  # UTF-32 before UTF-16: the mark of UTF-16-LE is a prefix of that of UTF-32-LE
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NOT_LATIN = (
    "cp1251", "koi8_r", "cp1253", "cp1255", "cp1256", "cp874",
    "cp932", "euc_jp", "gb18030", "big5", "cp949",
)  # fmt: skip
_LATIN = ("cp1252", "cp1250", "cp1254", "cp1257", "mac_roman")
# The web's rule (WHATWG): what is declared as ISO 8859-1 or ASCII is in fact Windows-1252.
_ALIASES = {"iso8859-1": "cp1252", "ascii": "cp1252", "latin_1": "cp1252"}
_STATEFUL = ("iso2022", "hz")  # seven-bit encodings: valid UTF-8, and yet something else
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
# UTF-8 read as Windows-1252: a lead byte's character followed by a continuation byte's.
_MOJIBAKE = re.compile(
    "[ÂÃÐÑÎÏ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€[\x80-\xbf™œ˜¦“”\x9d]|ðŸ[\x80-\xbf‘’“”˜™š›œžŸ]"
)
# A symbol where only a letter can be: Windows-1252 is the wrong code page.
_SYMBOL_IN_WORD = re.compile(r"(?<=[^\W\d_])[¡¢£¥¦¬±²³¶¹»¿¼½¾†‡‰‹›](?=[^\W\d_])")


class BinaryContent(ValueError):
    """The bytes are not text; the message says what shows it."""


def decode_text(raw: bytes, declared: str | None = None) -> tuple[str, tuple[str, ...]]:
    """The text of `raw`, and the names of what was mended, in the order it was done.

    Repairs are `bom`, `encoding:NAME` (anything but clean UTF-8), `surrogates`, `nul`, `newlines`
    and `mojibake`. `declared` is what the file or its protocol claims; it is believed only when the
    bytes are not UTF-8. Raises BinaryContent.
    """
    encoding, mark = sniff_encoding(raw, declared)
    repairs = ["bom"] if mark else []
    body = raw[mark:]
    if encoding == "utf-8":
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            try:
                text = body.decode("utf-8", "surrogatepass")  # mended, and named, by clean_text
            except UnicodeDecodeError:
                text = body.decode("utf-8", "replace")
                repairs.append("encoding:utf-8")
    else:
        errors = "surrogatepass" if encoding.startswith("utf-") else "replace"
        try:
            text = body.decode(encoding, errors)
        except UnicodeDecodeError:
            text = body.decode(encoding, "replace")
        repairs.append(f"encoding:{encoding}")
    text, more = clean_text(text)
    return text, (*repairs, *more)


def clean_text(text: str) -> tuple[str, tuple[str, ...]]:
    """What can be mended in a string: surrogates, NULs, newlines, mojibake. See `decode_text`.

    Two surrogates that make a pair become their character, a lone one U+FFFD. Afterwards
    `text.encode("utf-8")` never fails.
    """
    repairs = []
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        repairs.append("surrogates")
    if text.startswith("\ufeff"):
        text = text[1:]
        repairs.append("bom")
    if "\0" in text:
        text = text.replace("\0", "")
        repairs.append("nul")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        repairs.append("newlines")
    if _is_mojibake(text):
        fixed = _fix_mojibake(text)
        if fixed != text:
            text = fixed
            repairs.append("mojibake")
    return text, tuple(repairs)


def sniff_encoding(
    head: bytes, declared: str | None = None, partial: bool = False
) -> tuple[str, int]:
    """The codec of text that begins with `head`, and the length of its byte-order mark.

    `partial` says that more follows, so that a character cut at the end of `head` is no error.
    Raises BinaryContent.
    """
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            if encoding != "utf-8" and not _plausible(head[len(mark) :], encoding):
                raise BinaryContent(f"a {encoding} mark, but not {encoding} text")
            return encoding, len(mark)
    wide = _wide_encoding(head)
    if wide:
        return wide, 0
    stateful = _codec(declared)
    if stateful and stateful.startswith(_STATEFUL) and _decodes(head, stateful, partial):
        return stateful, 0
    utf8 = _mostly_utf8(head, partial)
    _refuse_binary(head, BINARY_IF_UTF8 if utf8 else BINARY_IF_NOT)
    if utf8:
        return "utf-8", 0
    named = _codec(declared)
    if named and named != "utf-8" and _decodes(head, named, partial):
        return named, 0
    return _guess(head), 0


def _refuse_binary(head: bytes, limit: float) -> None:
    sample = head[:SAMPLE_BYTES]
    controls = len(_CONTROL.findall(sample))
    # One stray NUL in a short note is dirt, not a sign.
    if controls > 1 and controls > limit * len(sample):
        share = 100 * controls / len(sample)
        raise BinaryContent(f"{share:.0f} % of its first bytes are control characters")


def _mostly_utf8(head: bytes, partial: bool) -> bool:
    """Whether this is UTF-8, perhaps with surrogates, a cut end or a few damaged bytes."""
    if _decodes(head, "utf-8", partial):
        return True
    escaped = head.decode("utf-8", "surrogateescape")
    bad = len(re.findall("[\udc80-\udcff]", escaped))
    # UTF-8's multi-byte sequences do not arise by accident: a few outweigh as many bad bytes.
    good = sum(1 for _ in re.finditer("[^\x00-\x7f\udc80-\udcff]", escaped))
    cesu = len(re.findall("\udced[\udca0-\udcbf][\udc80-\udcbf]", escaped))
    return good + 4 * cesu >= bad > 0 and good + cesu > 0


def _decodes(head: bytes, encoding: str, partial: bool) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)("strict").decode(head, final=not partial)
    except (UnicodeDecodeError, LookupError):
        return False
    return True


def _wide_encoding(head: bytes) -> str:
    """UTF-16 or UTF-32 without a mark: NULs fall on the same byte of each unit, and nowhere else."""
    sample = head[: SAMPLE_BYTES & ~3]
    if b"\0" not in sample or len(sample) < 4:
        return ""
    lanes = [sample[i::4].count(0) / max(1, len(sample[i::4])) for i in range(4)]
    for encoding, high, low in (("utf-32-le", (2, 3), 0), ("utf-32-be", (0, 1), 3)):
        if all(lanes[i] > 0.9 for i in high) and lanes[low] < 0.1 and _plausible(sample, encoding):
            return encoding
    if len(head) % 2 and len(head) < SAMPLE_BYTES:
        return ""
    even, odd = lanes[0] + lanes[2], lanes[1] + lanes[3]
    # A few NULs in what is otherwise ASCII are dirt, even if they all fall on one side.
    ascii_else = sample.isascii() and len(_CONTROL.findall(sample)) == sample.count(0)
    enough = 1.0 if ascii_else else 0.1
    for encoding, high_lane, low_lane in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if high_lane > enough and low_lane < 0.05 * high_lane and _plausible(sample, encoding):
            return encoding
    return ""


def _plausible(raw: bytes, encoding: str) -> bool:
    """Whether a wide encoding gives text: few controls, unassigned and private characters."""
    text = raw[: SAMPLE_BYTES & ~3].decode(encoding, "replace")
    odd = sum(
        1
        for char in text
        if char not in "\t\n\r\f\x1b" and unicodedata.category(char) in ("Cc", "Cn", "Co", "Cs")
    )
    return odd <= max(1, 0.05 * len(text))


def _codec(declared: str | None) -> str:
    """Python's name of a declared encoding, or nothing if it is unknown or no text encoding."""
    if not declared:
        return ""
    try:
        info = codecs.lookup(declared.strip().strip("\"'"))
    except (LookupError, ValueError):
        return ""
    # `_is_text_encoding` keeps out codecs such as zlib and rot13, which a hostile file could name.
    if not getattr(info, "_is_text_encoding", True) or info.name in ("idna", "punycode"):
        return ""
    if "escape" in info.name or info.name in ("utf-7", "undefined", "mbcs", "oem"):
        return ""
    return _ALIASES.get(info.name, info.name)


def _guess(head: bytes) -> str:
    """A legacy code page. Windows-1252 unless its own text speaks against it.

    charset-normalizer cannot tell the Latin pages apart in short texts, and says cp1250 for German;
    it is asked where the letters are mostly not Latin, or where Windows-1252 puts symbols in words.
    """
    high = [i for i, byte in enumerate(head[:SAMPLE_BYTES]) if byte >= 0x80]
    start = max(0, (high[0] if high else 0) - 1000)
    sample = head[start : start + 20_000]
    share = sum(byte >= 0x80 for byte in sample) / max(1, len(re.sub(rb"\s", b"", sample)))
    western = sample.decode("cp1252", "replace")
    symbols = len(_SYMBOL_IN_WORD.findall(western))
    letters = sum(1 for char in western if char >= "\x80" and char.isalpha())
    if (share < 0.4 or len(high) < 4) and symbols <= 0.1 * letters and "\ufffd" not in western:
        return "cp1252"
    from charset_normalizer import from_bytes

    pages = list(_NOT_LATIN if share > 0.5 else (*_NOT_LATIN, *_LATIN))
    best = from_bytes(sample, cp_isolation=pages).best()
    return best.encoding if best else "cp1252"


def _is_mojibake(text: str) -> bool:
    """Clearly so: at least two broken sequences, and more of them than of sound letters."""
    if text.isascii():
        return False
    broken = _MOJIBAKE.findall(text)
    if len(broken) < 2:
        return False
    spent = sum(map(len, broken))
    return sum(1 for char in text if char >= "\x80") - spent < len(broken)


def _fix_mojibake(text: str) -> str:
    """ftfy by the line: one undecodable line must not keep the others broken."""
    import ftfy

    lines = text.split("\n")
    for i, line in enumerate(lines):
        if _MOJIBAKE.search(line):
            fixed = ftfy.fix_encoding(line)
            if "\n" not in fixed and not _SURROGATE.search(fixed) and "\0" not in fixed:
                lines[i] = fixed
    return "\n".join(lines)
