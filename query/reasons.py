"""Why a hit was found: one reason for each leg, with the key and the terms that matched."""

import numpy as np

from stillroom.analyzers import standard_analyzer
from stillroom.fusion import Scale
from stillroom.hits import Reason
from stillroom.legs import Legs, Query
from stillroom.lexical import matched_ranges
from stillroom.schemas.documents import Span
from stillroom.schemas.plan import EXACT_FIELD


def reasons_of(legs: Legs, position: int, scale: Scale, query: Query) -> tuple[Reason, ...]:
    """Why the candidate at `position` was found, one reason a leg that was run."""
    build, row = legs.build, int(legs.candidates[position])
    one = slice(position, position + 1)
    weight = legs.plan.dense_weight if len(legs.dense_list) else 0.0
    shares = {"lexical": 1 - weight, "dense": weight} if query.mode == "hybrid" else {}
    made: list[Reason] = []
    value = str(build.entries.column("value")[row].as_py())
    ranges = tuple(matched_ranges(query.text, value))
    if not np.isnan(legs.lexical[position]):
        raw = float(legs.lexical[position])
        share = shares.get("lexical")
        gain = raw if share is None else share * float(scale.lexical(legs.lexical[one])[0])
        kind, text = _lexical_key(legs, row, query.text, value)
        terms = tuple(sorted(_matched_terms(query.text, value + "\n" + text)))
        span = Span(
            build.entries.column("document_id")[row].as_py(),
            build.entries.column("start")[row].as_py(),
            build.entries.column("end")[row].as_py(),
        )
        rank = int(legs.lexical_rank[position])
        made.append(Reason("lexical", rank, raw, gain, kind, text, span, terms, ranges))
    if len(legs.context) and legs.context[position] > 0:
        raw = float(legs.context[position])
        share = shares.get("lexical")
        gain = raw if share is None else share * float(scale.lexical(legs.context[one])[0])
        made.append(Reason("context", None, raw, gain))
    if not np.isnan(legs.dense[position]):
        raw = float(legs.dense[position])
        share = shares.get("dense")
        gain = raw if share is None else share * float(scale.dense(legs.dense[one])[0])
        key = build.keys.slice(int(legs.vector[position]), 1).to_pylist()[0]
        span_or_none = None
        if key["document_id"] is not None:
            span_or_none = Span(key["document_id"], key["start"], key["end"])
        rank_or_none = int(legs.dense_rank[position]) or None
        made.append(
            Reason(
                "dense",
                rank_or_none,
                raw,
                gain,
                key["kind"],
                key["text"],
                span_or_none,
                (),
                ranges,
                legs.encoder,
            )
        )
    return tuple(made)


def _lexical_key(legs: Legs, row: int, query: str, value: str) -> tuple[str, str]:
    """The field with the most matched query terms, and its text as far as a reader can see it."""
    title = str(legs.build.entries.column("title")[row].as_py())
    path = " > ".join([title, *legs.build.entries.column("path")[row].as_py()])
    shown = {"path": path, "text": value, EXACT_FIELD: value}
    best = max(
        (name for name in legs.plan.field_weights if name in shown),
        key=lambda name: (len(_matched_terms(query, shown[name])), name == "text"),
        default="text",
    )
    return ("text", value) if best == EXACT_FIELD else (best, shown[best])


def _matched_terms(query: str, text: str) -> set[str]:
    analyzer = standard_analyzer()
    wanted = {t.text for t in analyzer.words(query)} & {t.text for t in analyzer.words(text)}
    exact = {t.text for t in analyzer.identifiers(query)}
    return wanted | (exact & {t.text for t in analyzer.identifiers(text)})
