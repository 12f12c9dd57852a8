"""What the command line prints: hits, plans, a base's state; as text for people or as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stillroom.evaluate import Measured
from stillroom.folders import open_folder
from stillroom.hits import Hit, Hits
from stillroom.schemas.manifest import Manifest
from stillroom.schemas.plan import DTYPES

out = Console()
SNIPPET = 320  # code points of a value that a terminal shows


def as_json(data: Any) -> None:
    """Readable JSON on standard output. A lone surrogate, which no encoding takes, is escaped."""
    text = json.dumps(data, ensure_ascii=False, indent=1, default=str)
    typer.echo(text.encode("utf-8", "backslashreplace").decode())


def plan(planned: Any, json_too: bool) -> None:
    """What a build would do (`--dry-run`)."""
    recipe = planned.build.recipe
    data = {
        "kb": planned.build.kb,
        "parent": planned.build.parent,
        "files": planned.files,
        "bytes": planned.bytes,
        "shards": len(planned.shards),
        "sources": {source.name: source.uri for source in recipe.sources},
        "segment": f"{recipe.segment}, {recipe.segment_tokens} tokens",
        "keys": list(recipe.keys),
        "dense_keys": list(recipe.dense_keys),
        "encoder": f"{planned.build.encoder.name}, {planned.build.encoder.dtype}",
        "documents": (
            "all are new"
            if planned.live is None
            else "unchanged ones are carried over"
            if planned.rules.same
            else "all are shaped again"
        ),
        "because": list(planned.changes),
        "vectors": "of equal texts are carried over" if planned.vectors_carried else "all are made",
    }
    if json_too:
        as_json(data)
        return
    table = Table(show_header=False, title="would build", title_justify="left")
    for name, value in data.items():
        table.add_row(name.replace("_", " "), Text(str(value)))
    out.print(table)


def measures(title: str, measured: Mapping[str, Measured]) -> None:
    """A table of retrieval measures."""
    table = Table(title=title, title_justify="left")
    for name in ("measure", "mean", "95 % interval"):
        table.add_column(name, justify="left" if name == "measure" else "right")
    for name, value in measured.items():
        table.add_row(name, f"{value.mean:.4f}", f"{value.low:.3f} to {value.high:.3f}")
    out.print(table)


def state(kb: str, manifest: Manifest) -> dict[str, Any]:
    """Plain data of a build and the space that its base takes."""
    return {
        "build": manifest.build,
        "parent": manifest.parent,
        "content": manifest.content,
        "kind": manifest.recipe.kind,
        "sources": {source.name: source.uri for source in manifest.recipe.sources},
        "accounting": {**asdict(manifest.accounting), "read": manifest.accounting.read},
        "counts": dict(manifest.counts),
        "encoder": asdict(manifest.encoder),
        "plan": asdict(manifest.plan),
        "elastic": {name: dict(point) for name, point in manifest.elastic.items()},
        "index": dict(manifest.index),
        "fit": {"build": manifest.fit.build, "drift": manifest.fit.drift},
        "light": light_state(manifest),
        "bytes": sum(file.size for file in open_folder(kb).files()),
    }


def light_state(manifest: Manifest) -> dict[str, Any] | None:
    """Plain data of the light query encoder, or None."""
    if manifest.light is None:
        return None
    return {
        "retention": dict(manifest.light.retention),
        "default": manifest.light_is_default,
        "rows": manifest.light.rows,
        "bytes": sum(size for size, _ in manifest.light.files.files.values()),
    }


def light_words(manifest: Manifest) -> str:
    """The same in words."""
    light = light_state(manifest)
    if light is None:
        return "none"
    kept = ", ".join(f"{leg} {share:.0%}" for leg, share in light["retention"].items())
    use = "the default" if light["default"] else "only where the full model is not installed"
    return f"keeps {kept} of the full model's reciprocal rank; {use}; {light['bytes'] / 1e6:.1f} MB"


def status(kb: str, manifest: Manifest) -> None:
    """`state` for a person."""
    data = state(kb, manifest)
    encoder, search = manifest.encoder, manifest.plan
    fitted = ", ".join(f"{name} {value:g}" for name, value in search.calibration.items())
    index = "".join(f", {name} {value:,g}" for name, value in manifest.index.items())
    inputs = {n: v for n, v in data["accounting"].items() if isinstance(v, int) and v}
    rows = {
        "build": manifest.build,
        "parent": manifest.parent or "none",
        "kind": manifest.recipe.kind,
        "sources": ", ".join(f"{s.name} ({s.uri})" for s in manifest.recipe.sources),
        "inputs": ", ".join(f"{name} {count:,}" for name, count in inputs.items()),
        "counts": ", ".join(f"{name} {n:,}" for name, n in manifest.counts.items() if n),
        "encoder": f"{encoder.name}, {encoder.dims} dims, {encoder.dtype} by {encoder.backend}",
        "light encoder": light_words(manifest),
        "vectors": f"{search.dims or encoder.dims} dims, {search.dtype}, by {search.tier}{index}",
        "dense weight": f"{search.dense_weight} ({fitted or 'not fitted'})",
        "fitted on": f"build {manifest.fit.build}, drifted by {manifest.fit.drift:.0%} since",
        "size": f"{data['bytes'] / 1e6:,.1f} MB",
    }
    table = Table(show_header=False)
    for name, value in rows.items():
        table.add_row(name, Text(value))
    out.print(table)
    forms(manifest)


def forms(manifest: Manifest) -> None:
    """What each form of the vectors keeps of nDCG@10, and its bytes."""
    if not manifest.elastic:
        return
    table = Table(title="nDCG@10 kept, by form of vectors (bytes each)", title_justify="left")
    table.add_column("dims", justify="right")
    for dtype in DTYPES:
        table.add_column(dtype, justify="right")
    by_dims: dict[int, dict[str, str]] = {}
    for name, point in manifest.elastic.items():
        dims, dtype = name.split("/")
        cell = f"{point['retention']:.1%} ({point['bytes']:.0f})"
        by_dims.setdefault(int(dims), {})[dtype] = cell
    for size, cells in sorted(by_dims.items(), reverse=True):
        table.add_row(str(size), *(cells.get(dtype, "") for dtype in DTYPES))
    out.print(table)


def builds(made: Sequence[Manifest], live: str) -> None:
    """A table of kept builds."""
    table = Table()
    for name in ("", "build", "parent", "documents", "entries"):
        table.add_column(name)
    for m in made:
        counts = (f"{m.counts.get(n, 0):,}" for n in ("documents", "entries"))
        table.add_row("live" if m.build == live else "", m.build, m.parent or "none", *counts)
    out.print(table)


def difference(made: Any) -> None:
    """What changed between two builds."""
    for sign, names in (("+", made.added), ("~", made.changed), ("-", made.removed)):
        for name in names:
            out.print(Text(f"{sign} {name}"))
    out.print(
        f"documents: {len(made.added)} added, {len(made.changed)} changed, {len(made.removed)} removed"
        f"; entries: {made.entries_added} added, {made.entries_changed} changed, "
        f"{made.entries_removed} removed",
        highlight=False,
    )


def hits(found: Hits, explain: bool) -> None:
    """Hits for a person, matches in bold."""
    if not found:
        out.print("no hits")
    for number, hit in enumerate(found, 1):
        place = " > ".join(dict.fromkeys([hit.title, *hit.path]))
        head = Text.assemble(
            (f"{number}. ", "bold"),
            (place or hit.source_key, "bold"),
            (f"  {hit.score:.3f}", "dim"),
        )
        out.print(head)
        out.print(Text(f"   {hit.source_key}  {hit.span.start}-{hit.span.end}", "dim"))
        out.print(_snippet(hit), style="default")
        if explain:
            for reason in hit.reasons:
                rank = f"rank {reason.rank}, " if reason.rank else ""
                if not reason.rank and reason.leg in ("lexical", "dense"):
                    rank = "not in its list, "
                key = f", by {reason.key_kind}" if reason.key_kind else ""
                words = f", terms {' '.join(reason.terms)}" if reason.terms else ""
                out.print(
                    Text(
                        f"   {reason.leg}: {rank}score {reason.score:.3f}, gives "
                        f"{reason.contribution:.3f}{key}{words}",
                        "cyan",
                    )
                )


def _snippet(hit: Hit) -> Text:
    """The part of the value around its first matches, matches in bold."""
    ranges = next((r.ranges for r in hit.reasons if r.ranges), ())
    start = max(0, ranges[0][0] - SNIPPET // 4) if ranges else 0
    end = min(len(hit.value), start + SNIPPET)
    text = Text("   ")
    at = start
    for first, last in ranges:
        if last > end:
            break
        text.append(hit.value[at:first])
        text.append(hit.value[first:last], "bold green")
        at = last
    text.append(hit.value[at:end])
    plain = Text(" ").join(text.split("\n"))
    return Text.assemble("… " if start else "", plain, " …" if end < len(hit.value) else "")
