"""The lexical schema: one tantivy field for each key kind, one for identifiers, and filter columns.

Terms reach tantivy already analyzed, joined by single spaces, so its `whitespace` tokenizer (built
in, nothing to register) splits exactly what `stillroom.analyzers` made. One analyzer is then the
truth for indexing, for queries and for highlights.
"""

from collections.abc import Iterable

import tantivy

ROW = "row"  # row number of the entry in serve/entries.arrow
FACET = "facet"  # "name=value" terms, one for each facet value
KIND = "kind"
STARTS_AT, ENDS_AT = "starts_at", "ends_at"  # microseconds since the epoch, UTC
INDEX_FORMAT = "tantivy-0.27/1"  # a reader with another format refuses


def lexical_schema(fields: Iterable[str]) -> tantivy.Schema:
    """The tantivy schema of a base with these text fields (key kinds and `exact`)."""
    builder = tantivy.SchemaBuilder()
    for name in sorted(set(fields)):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    for name in (FACET, KIND):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field(ROW, fast=True, stored=False)
    for name in (STARTS_AT, ENDS_AT):
        builder.add_integer_field(name, indexed=True, fast=True)
    return builder.build()
