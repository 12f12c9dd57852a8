"""A folder of every kind of broken input, the same on each run, for tests from reading to publishing."""

import gzip
import io
import json
import os
import zipfile
from pathlib import Path

LIMIT_CHARS = 200_000  # read the folder with this `max_chars`: `huge.txt` is above it

PROSE = "The still separates spirit from water by their different boiling points.\n"


def pdf_bytes(pages: list[str], extra: str = "", trailer: str = "") -> bytes:
    """A small valid PDF, one line of ASCII a page. `extra` is the body of one more object."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(pages):
        shown = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        content = f"BT /F1 12 Tf 72 720 Td ({shown}) Tj ET" if text else ""
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * i} 0 R >>"
        )
        bodies.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    if extra:
        bodies.append(extra)
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    start = len(out)
    out += f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets)
    trailer = trailer.replace("EXTRA", f"{len(bodies)} 0 R")
    out += f"trailer << /Size {len(bodies) + 1} /Root 1 0 R {trailer} >>\n".encode("latin-1")
    return out + f"startxref\n{start}\n%%EOF\n".encode()


def encrypted_pdf_bytes() -> bytes:
    """A PDF whose password nobody knows: its check value fits none."""
    secret = "41" * 32
    encrypt = f"<< /Filter /Standard /V 1 /R 2 /O <{secret}> /U <{secret}> /P -4 >>"
    ident = "/ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>]"
    return pdf_bytes(["secret"], encrypt, f"/Encrypt EXTRA {ident}")


def zip_bytes(members: dict[str, bytes]) -> bytes:
    """A zip with fixed times, so that it is the same bytes on each run."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


def encrypted_zip_bytes(members: dict[str, bytes]) -> bytes:
    """The same with the flag of an encrypted member set in both of its headers."""
    data = bytearray(zip_bytes(members))
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(magic)
        while at >= 0:
            data[at + offset] |= 1
            at = data.find(magic, at + 4)
    return bytes(data)


def docx_bytes(paragraphs: list[str]) -> bytes:
    """A minimal Word document; a paragraph that begins with `# ` is a heading."""
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    package = "http://schemas.openxmlformats.org/package/2006"
    body = ""
    for text in paragraphs:
        style = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>' if text.startswith("# ") else ""
        body += f"<w:p>{style}<w:r><w:t>{text.removeprefix('# ')}</w:t></w:r></w:p>"
    types = (
        f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.wordprocessingml.document.main+xml"/></Types>'
    )
    rels = (
        f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" Type="http://'
        'schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    styles = (
        f'<w:styles xmlns:w="{word}"><w:style w:type="paragraph" w:styleId="Heading1">'
        '<w:name w:val="heading 1"/></w:style></w:styles>'
    )
    links = (
        f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" Type="http://'
        'schemas.openxmlformats.org/officeDocument/2006/relationships/styles" '
        'Target="styles.xml"/></Relationships>'
    )
    return zip_bytes(
        {
            "[Content_Types].xml": types.encode(),
            "_rels/.rels": rels.encode(),
            "word/document.xml": (
                f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>'
            ).encode(),
            "word/styles.xml": styles.encode(),
            "word/_rels/document.xml.rels": links.encode(),
        }
    )


def parquet_bytes(rows: list[dict[str, object]]) -> bytes:
    """A Parquet file of these rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def lines(*rows: object) -> bytes:
    """JSONL; a string is a line as it is."""
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows).encode()


def write_broken_folder(folder: Path) -> dict[str, str]:
    """Write the files; returns what becomes of each, by its path relative to `folder`.

    `document`: the file gives documents and no reject. Anything else is a RejectReason's value: the
    file gives at least one Reject for that reason, and documents from whatever is sound in it.
    """
    rows = [{"_id": f"r{i}", "title": f"Row {i}", "text": f"{PROSE}{i}"} for i in range(2000)]
    gz = gzip.compress(lines(*rows), mtime=0)
    parquet = parquet_bytes(rows[:20])
    pdf = pdf_bytes(["A page about stills."])
    docx = docx_bytes(["# Notes", "A paragraph about stills."])
    files: dict[str, tuple[bytes, str]] = {
        # Strange, but sound
        "plain.md": (b"# Stills\n\n" + PROSE.encode(), "document"),
        "front_matter_bad.md": (b"---\ntitle: [unclosed\n---\n" + PROSE.encode(), "document"),
        "latin1.txt": (
            "Gesch\u00e4ft und Gr\u00f6\u00dfe im caf\u00e9".encode("latin-1"),
            "document",
        ),
        "utf16.txt": (PROSE.encode("utf-16"), "document"),
        "utf16_no_mark.txt": (PROSE.encode("utf-16-le"), "document"),
        "bom.txt": (b"\xef\xbb\xbf" + PROSE.encode(), "document"),
        "crlf.txt": (b"first line\r\nsecond line\rthird line\r\n", "document"),
        "nul.txt": (b"a note with a \x00 in it, and more words after it", "document"),
        "mojibake.txt": ("Ã©tÃ© Ã  la plage, trÃ¨s cafÃ©".encode(), "document"),
        "surrogates.jsonl": (
            lines(
                '{"id": "half", "text": "cut in half \\ud83d here"}',
                '{"id": "whole", "text": "a pair \\ud83d\\ude00 here"}',
            ),
            "document",
        ),
        "no_charset.html": ("<p>Привет Geschäft</p>".encode(), "document"),
        "colspan.html": (
            b"<table><tr><td colspan=9007199254740991>hostile</td><td>cell</td></tr></table>",
            "document",
        ),
        "deep.html": (b"<div>" * 10_000 + b"deep words" + b"</div>" * 10_000, "document"),
        "UPPER.TXT": (PROSE.encode(), "document"),
        "no_extension": (PROSE.encode(), "document"),
        "with space & ünï#?%20.txt": (PROSE.encode(), "document"),
        "deep/er/still/note.txt": (PROSE.encode(), "document"),
        "double.txt.gz": (gzip.compress(PROSE.encode(), mtime=0) * 2, "document"),
        "not_really.txt.gz": (PROSE.encode(), "document"),
        "dotdot.zip": (zip_bytes({"../../escape.md": b"# Out\n\nwords"}), "document"),
        "nested.zip": (zip_bytes({"in.zip": zip_bytes({"a.md": PROSE.encode()})}), "document"),
        # Broken
        "empty.txt": (b"", "empty"),
        "empty.pdf": (b"", "empty"),
        "empty.parquet": (b"", "empty"),
        "blank.md": (b" \n\t\r\n  \n", "empty"),
        "front_matter_only.md": (b"---\ntitle: nothing else\n---\n", "empty"),
        "no_words.html": (b"<html><script>var x = 'hidden'</script></html>", "empty"),
        "scanned.pdf": (pdf_bytes(["", ""]), "empty"),
        "empty.zip": (zip_bytes({}), "empty"),
        "header_only.csv": (b"id,text\n", "empty"),
        "binary.txt": (bytes(range(256)) * 20, "binary"),
        "picture.png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, "binary"),
        "binary.jsonl": (bytes(range(256)) * 20, "binary"),
        "truncated.jsonl.gz": (gz[: len(gz) // 2], "corrupt"),
        "truncated.txt.gz": (gzip.compress(PROSE.encode() * 200, mtime=0)[:-20], "corrupt"),
        "truncated.zip": (zip_bytes({"a.txt": PROSE.encode()})[:-30], "corrupt"),
        "truncated.parquet": (parquet[: len(parquet) // 2], "corrupt"),
        "damaged.pdf": (b"%PDF-1.4\n" + pdf[200:230] + bytes(range(200)), "corrupt"),
        "damaged.docx": (docx[: len(docx) // 2], "corrupt"),
        "not_office.docx": (b"just some text", "corrupt"),
        "encrypted.zip": (encrypted_zip_bytes({"secret.txt": PROSE.encode()}), "encrypted"),
        "encrypted.pdf": (encrypted_pdf_bytes(), "encrypted"),
        "encrypted.docx": (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
            + bytes(600)
            + "EncryptedPackage".encode("utf-16-le"),
            "encrypted",
        ),
        "old.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "unsupported"),
        "archive.7z": (b"7z\xbc\xaf\x27\x1c" + bytes(100), "unsupported"),
        "huge.txt": (b"word " * (LIMIT_CHARS // 4), "too_large"),
        "bomb.zip": (zip_bytes({"bomb.txt": b"0" * 4_000_000}), "too_large"),
        "malformed.jsonl": (
            lines(
                {"id": 1, "text": "sound"}, '{"id": 2, "text": ', "[1]", {"id": 4, "text": "too"}
            ),
            "malformed",
        ),
        "ragged.csv": (b"id,text\n1,sound\n2,too,many,fields\n3,sound again\n", "malformed"),
        "blank_rows.jsonl": (lines({"id": 1, "text": " "}, {"id": 2, "text": "sound"}), "empty"),
        "no_text.csv": (b"name,price\nbolt,3\nnut,4\n", "missing_column"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (data, _) in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    expected = {name: outcome for name, (_, outcome) in files.items()}
    os.symlink("nowhere.txt", folder / "broken_link.txt")
    expected["broken_link.txt"] = "unreadable"
    os.symlink("loop.txt", folder / "loop.txt")
    expected["loop.txt"] = "unreadable"
    os.mkfifo(folder / "pipe.txt")
    expected["pipe.txt"] = "unsupported"
    os.symlink(".", folder / "circle")  # never walked twice, and never forever
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".git" / "config").write_text("hidden: not to be read")
    return expected


def duplicate_id_rows() -> bytes:
    """Two rows of one id and different texts, which publishing must tell apart from a repeated row."""
    return lines({"id": "same", "text": "one text"}, {"id": "same", "text": "another text"})
