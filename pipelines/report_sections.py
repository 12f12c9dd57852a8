"""The sections of a report's page: what each says, its plots and its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stillroom.pipelines.report import FATES, SMALL_FRAGMENT, BuildRow, Report
from stillroom.pipelines.report_plots import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    RED,
    Bar,
    Figure,
    bars,
    histogram,
    in_bytes,
    over_builds,
    stacked_over_builds,
    unit_of,
)

FATE_COLORS = dict(zip(FATES, (GREEN, BLUE, GREY, RED, ORANGE), strict=True))
FATE_WORDS = {
    "published": "new or changed",
    "unchanged": "as before, and carried over",
    "duplicate": "read twice, and used once",
    "rejected": "left out; see Rejects",
    "stale": "not readable now, so an earlier version is kept",
}
# In the order of the flow; what another version recorded comes after.
STAGES = ("read", "shape", "encode", "vocabulary", "write", "publish")
SHORT = 12  # characters of a build's id: enough for every command that takes one
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Table:
    """Rows of cells; all columns after the first `words` ones are numbers."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[str | int]]
    words: int = 1


@dataclass(frozen=True)
class Section:
    """A part of the page that the navigation leads to."""

    id: str
    title: str
    text: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


def sections_of(report: Report) -> list[Section]:
    """All sections, in the order of the page."""
    return [make(report) for make in (accounting, rejects, lengths, sizes, timings, growth, health)]


def accounting(report: Report) -> Section:
    inputs = report.inputs
    shares = [
        (fate, FATE_WORDS[fate], inputs[fate], _share(inputs[fate], inputs["read"]))
        for fate in FATES
    ]
    tables = [
        Table("Inputs", ("input", "", "count", "share"), [
            ("read", "documents, and inputs that never became one", inputs["read"], ""), *shares,
        ], words=2)
    ]  # fmt: skip
    if report.repairs:
        repaired = list(report.repairs.items())
        tables.append(Table("Documents that were repaired", ("repair", "documents"), repaired))
    rows = [Bar(fate, inputs[fate], f"{inputs[fate]:,}", FATE_COLORS[fate]) for fate in FATES]
    return Section(
        "accounting", "Accounting",
        f"Each of the {inputs['read']:,} inputs that were read ended in exactly one of five ways.",
        (Figure("inputs", "Inputs by what became of them", bars(rows, "inputs")),),
        tuple(tables),
    )  # fmt: skip


def rejects(report: Report) -> Section:
    found = report.rejects
    if not found.total:
        return Section("rejects", "Rejects", "Nothing was rejected.")
    kept = found.total - report.inputs["rejected"]
    text = f"{found.total:,} inputs were not used as they are."
    if kept > 0:
        text += f" Of these, {kept:,} were read before, and are kept as they were then (stale)."
    listed = Table(
        f"The first {len(found.shown):,} of {found.total:,} rejects, by address"
        if len(found.shown) < found.total
        else f"All {found.total:,} rejects, by address",
        ("input", "stage", "reason", "detail"),
        [(one["uri"], one["stage"], one["reason"], one["detail"]) for one in found.shown],
        words=4,
    )
    rows = [
        Bar(f"{stage}: {reason}", count, f"{count:,}", RED) for stage, reason, count in found.groups
    ]
    return Section(
        "rejects", "Rejects", text,
        (Figure("reasons", "Rejects by stage and reason", bars(rows, "inputs")),),
        (Table("By stage and reason", ("stage", "reason", "count"), found.groups, 2), listed),
    )  # fmt: skip


def lengths(report: Report) -> Section:
    found, cut, keys = report.lengths, report.counts["truncated"], report.counts["keys"]
    return Section(
        "lengths", "Lengths",
        f"The value of an entry is the text that a reader gets back; here are {found.values:,}.",
        (Figure(
            "values", "Lengths of values in code points; dashed lines at the median and p95",
            histogram(
                found.edges, found.counts, (found.median, found.p95), "code points", "values"
            ),
        ),),
        (
            Table("Lengths of values", ("", "code points"), [
                ("median", found.median), ("95th percentile", found.p95), ("max", found.longest),
            ]),
            Table("Keys that were longer than the encoder reads, and were cut", ("", "keys"), [
                ("cut", cut), ("all keys", keys), ("share", _share(cut, keys)),
            ]),
        ),
    )  # fmt: skip


def sizes(report: Report) -> Section:
    total = sum(part.bytes for part in report.parts)
    order = sorted(report.parts, key=lambda part: (-part.bytes, part.name))
    unit, divisor = unit_of(max(part.bytes for part in report.parts))
    rows = [Bar(part.name, part.bytes / divisor, in_bytes(part.bytes)) for part in order]
    files_, own = sum(part.files for part in order), sum(part.build_bytes for part in order)
    return Section(
        "sizes", "Sizes",
        f"The base takes {in_bytes(total)}. What this build does not need belongs to other kept "
        "builds, to Lance's own records and indexes, or waits for stillroom gc.",
        (Figure("parts", "Bytes by part of the base", bars(rows, unit)),),
        (Table("Parts of the base", ("part", "files", "bytes", "of this build"), [
            *(
                (part.name, part.files, in_bytes(part.bytes), in_bytes(part.build_bytes))
                for part in order
            ),
            ("all", files_, in_bytes(total), in_bytes(own)),
        ]),),
    )  # fmt: skip


def timings(report: Report) -> Section:
    figures = []
    seconds = report.row.seconds
    if seconds:
        rows = [
            Bar(name, seconds[name], f"{seconds[name]:,.2f} s", _color(name))
            for name in _ordered(seconds)
        ]
        caption = f"Work of build {report.build[:SHORT]} by stage"
        figures.append(Figure("stages", caption, bars(rows, "seconds")))
    recorded = [row.seconds or {} for row in report.builds]
    if len(recorded) > 1 and any(recorded):
        grouped = [_grouped(made) for made in recorded]
        parts = _ordered({name: 0.0 for made in grouped for name in made})
        legend = {part: _color(part) for part in parts}
        plot = stacked_over_builds(
            {part: [made.get(part, 0.0) for made in grouped] for part in parts},
            list(legend.values()), [row.build[:SHORT] for row in report.builds], "seconds",
        )  # fmt: skip
        figures.append(Figure("work", "Work of each kept build by stage", plot, legend))
    stages = _ordered({name: 0.0 for made in recorded for name in made})
    table = Table(
        "Seconds of work by kept build", ("", "build", *stages, "all"),
        [(number, _named(row, report), *_cells(row, stages)) for number, row in _numbered(report)],
        words=2,
    )  # fmt: skip
    return Section(
        "timings", "Timings",
        "Seconds of work, summed over all workers: with several, more than passes on the clock. "
        "Stages whose names begin with publish are the steps of publishing."
        + ("" if seconds else f" The timings of build {report.build[:SHORT]} were not recorded."),
        tuple(figures), (table,),
    )  # fmt: skip


def growth(report: Report) -> Section:
    names = [row.build[:SHORT] for row in report.builds]
    counted = ("documents", "entries", "vectors")
    figures = [
        Figure(name, name.capitalize(), over_builds(
            [row.counts.get(name, 0) for row in report.builds], names, name
        ))
        for name in counted
    ]  # fmt: skip
    fates = {fate: [row.inputs[fate] for row in report.builds] for fate in FATES}
    plot = stacked_over_builds(fates, list(FATE_COLORS.values()), names, "inputs")
    figures.append(Figure("fates", "Inputs by what became of them", plot, FATE_COLORS))
    rows: list[tuple[str | int, ...]] = [
        (
            number, _named(row, report), *(row.counts.get(name, 0) for name in counted),
            *(row.inputs[fate] for fate in FATES), row.counts.get("removed", 0),
        )
        for number, row in _numbered(report)
    ]  # fmt: skip
    return Section(
        "growth",
        "Growth",
        f"The {len(rows):,} builds that are kept, in the order in which they were made. Published "
        "are documents that were new or had changed; removed are those that were there no longer.",
        tuple(figures),
        (Table("Kept builds", ("", "build", *counted, *FATES, "removed"), rows, words=2),),
    )


def health(report: Report) -> Section:
    drift = report.row.drift
    rows = [
        (
            table.name, table.rows, in_bytes(table.bytes), table.fragments, table.small_fragments,
            table.version, table.versions, len(table.tagged),
            ", ".join(table.unindexed) or "none", sum(table.unindexed.values()),
        )
        for table in report.tables
    ]  # fmt: skip
    fitted = [
        (number, _named(row, report), row.fitted_on[:SHORT], f"{row.drift:.0%}")
        for number, row in _numbered(report)
    ]
    lexical = report.lexical
    return Section(
        "health", "Index health",
        f"What was fitted has drifted by {drift:.0%} since, and is fitted again over "
        f"{report.max_drift:.0%}. Small fragments have fewer than {SMALL_FRAGMENT:,} rows. Rows "
        "that an index misses are found all the same, but slowly.",
        (Figure(
            "drift", f"Drift since the fit; dashed line at {report.max_drift:.0%}",
            over_builds(
                [row.drift for row in report.builds], [row.build[:SHORT] for row in report.builds],
                "drift", report.max_drift,
            ),
        ),),
        (
            Table("Tables at this build's version", (
                "table", "rows", "bytes", "fragments", "small ones", "version", "versions",
                "tagged ones", "indexed columns", "rows not indexed",
            ), rows),
            Table("Lexical index", ("", ""), [
                ("files", lexical.files), ("bytes", in_bytes(lexical.bytes)), ("docs", lexical.docs),
            ]),
            Table("Drift of what is fitted", ("", "build", "fitted on", "drift"), fitted, words=3),
        ),
    )  # fmt: skip


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _numbered(report: Report) -> list[tuple[str, BuildRow]]:
    return [(str(number), row) for number, row in enumerate(report.builds, 1)]


def _named(row: BuildRow, report: Report) -> str:
    return f"{row.build[:SHORT]} (live)" if row.build == report.live else row.build[:SHORT]


def _grouped(seconds: Mapping[str, float]) -> Mapping[str, float]:
    """Seconds by stage, the steps of publishing as one."""
    made: dict[str, float] = {}
    for name, spent in seconds.items():
        stage = name.partition(":")[0]
        made[stage] = made.get(stage, 0.0) + spent
    return made


def _ordered(seconds: Mapping[str, float]) -> list[str]:
    """Names of stages in the order of the flow."""

    def place(name: str) -> tuple[int, str]:
        stage = name.partition(":")[0]
        return (STAGES.index(stage) if stage in STAGES else len(STAGES), name)

    return sorted(seconds, key=place)


def _color(stage: str) -> str:
    place = stage.partition(":")[0]
    return PALETTE[STAGES.index(place)] if place in STAGES else GREY


def _cells(row: BuildRow, stages: Sequence[str]) -> list[str]:
    if row.seconds is None:
        return [*("" for _ in stages), NOT_RECORDED]
    found = [f"{row.seconds[stage]:,.2f}" if stage in row.seconds else "" for stage in stages]
    return [*found, f"{sum(row.seconds.values()):,.2f}"]
