"""The lexical leg: BM25 (tantivy's k1 1.2, b 0.75) over one field for each key kind.

Queries are built from analyzed terms, never parsed: brackets, quotes and colons in a pasted log
line are only text. A term that no entry has gives no hit.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import tantivy

from stillroom.analyzers import Term, standard_analyzer
from stillroom.filters import Filter
from stillroom.schemas.lexical import ROW
from stillroom.schemas.plan import EXACT_FIELD, SearchPlan
from stillroom.store import Build

MAX_QUERY_TERMS = 4096  # distinct terms of one query; rarer use than a whole pasted file


def query_terms(text: str, fields: Mapping[str, float]) -> dict[str, Counter[str]]:
    """Distinct terms of the query by field, with how often each occurs."""
    analyzer = standard_analyzer()
    words = Counter(term.text for term in analyzer.words(text))
    exact = Counter(term.text for term in analyzer.identifiers(text))
    made = {name: exact if name == EXACT_FIELD else words for name in fields}
    return {name: Counter(dict(terms.most_common(MAX_QUERY_TERMS))) for name, terms in made.items()}


def lexical_leg(
    build: Build, plan: SearchPlan, text: str, allowed: Filter | None
) -> tuple[np.ndarray, np.ndarray]:
    """Entry rows (int64) and BM25 scores (float32) of up to `plan.depth` entries, best first, ties by
    row. `allowed` clauses are constant and score zero, so they change no order."""
    schema, searcher = build.searcher
    fields = {name: weight for name, weight in plan.field_weights.items() if weight > 0}
    parts: list[tuple[tantivy.Occur, tantivy.Query]] = []
    for name, terms in query_terms(text, fields).items():
        for term, count in terms.items():
            query = tantivy.Query.term_query(schema, name, term, "freq")
            parts.append(
                (tantivy.Occur.Should, tantivy.Query.boost_query(query, fields[name] * count))
            )
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    query = tantivy.Query.boolean_query(parts)
    if allowed is not None:
        must = [(tantivy.Occur.Must, query)]
        for clause in allowed.clauses:
            must.append((tantivy.Occur.Must, tantivy.Query.const_score_query(clause, 0.0)))
        query = tantivy.Query.boolean_query(must)
    hits = searcher.search(query, plan.depth, count=False).hits
    if not hits:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    rows = np.array(searcher.fast_field_values(ROW, [address for _, address in hits]), np.int64)
    scores = np.array([score for score, _ in hits], np.float32)
    order = np.lexsort((rows, -scores))
    return rows[order], scores[order]


def matched_ranges(query: str, text: str) -> list[tuple[int, int]]:
    """Ranges of `text`, in code points, whose terms the query has; overlapping ones joined."""
    analyzer = standard_analyzer()
    wanted = {term.text for term in analyzer.words(query)}
    wanted_exact = {term.text for term in analyzer.identifiers(query)}
    found: list[Term] = [term for term in analyzer.words(text) if term.text in wanted]
    if wanted_exact:
        found += [term for term in analyzer.identifiers(text) if term.text in wanted_exact]
    joined: list[tuple[int, int]] = []
    for start, end in sorted((term.start, term.end) for term in found):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
