"""The command line. Commands that only read a knowledge base import neither Beam nor torch."""

import json
import logging
import os
import sys
import time
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import stillroom
from stillroom.errors import BadInput, MissingExtra, StillroomError
from stillroom.filters import parse_where
from stillroom.hits import Hit, Hits
from stillroom.schemas.entries import KeyKind
from stillroom.schemas.recipe import KINDS, Recipe, Source, read_recipe
from stillroom.store import current_build, read_manifest

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Distil corpora into versioned knowledge bases, and query them.",
)  # fmt: skip
out = Console()
err = Console(stderr=True)
SNIPPET = 320  # code points of a value that a terminal shows


class Mode(StrEnum):
    hybrid = "hybrid"
    dense = "dense"
    lexical = "lexical"


class By(StrEnum):
    document = "document"
    entry = "entry"
    span = "span"


KB = Annotated[str, typer.Argument(help="Folder of the knowledge base.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


def main() -> None:
    """Entry point: a refusal is one line on standard error and exit code 1, never a traceback."""
    arguments = sys.argv[1:]
    beam_options: list[str] = []
    if arguments[:1] == ["build"] and "--" in arguments:
        cut = arguments.index("--")
        arguments, beam_options = arguments[:cut], arguments[cut + 1 :]
    try:
        app(arguments, obj=beam_options)
    except StillroomError as error:
        err.print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        err.print("interrupted; what was served before still is")
        sys.exit(130)


@app.callback(invoke_without_command=True)
def version_option(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(f"stillroom {stillroom.__version__}")
        raise typer.Exit


@app.command()
def build(
    context: typer.Context,
    what: Annotated[
        list[str], typer.Argument(help=f"RECIPE.toml, or a kind ({', '.join(KINDS)}) and sources.")
    ],
    kb: Annotated[str, typer.Option(help="Folder of the knowledge base.")],
    keys: Annotated[str, typer.Option(help="Key kinds, by commas: text,path,sentence,...")] = "",
    dense_keys: Annotated[str, typer.Option(help="Those of them that get vectors.")] = "",
    segment: Annotated[str, typer.Option(help="Segmenter.")] = "",
    segment_tokens: Annotated[int, typer.Option(help="Token budget of one value.")] = 0,
    compress_rate: Annotated[
        float, typer.Option(help="Share of words that compressing keeps.")
    ] = 0,
    compressor: Annotated[str, typer.Option(help="extractive, or llmlingua2:NAME_OR_PATH.")] = "",
    encoder: Annotated[
        str, typer.Option(help="minilm, or a sentence-transformers name/path.")
    ] = "",
    llm: Annotated[str, typer.Option(help="none, openai:MODEL or a local path.")] = "",
    id_column: Annotated[str, typer.Option(help="Row formats: column of ids.")] = "",
    title_column: Annotated[str, typer.Option(help="Row formats: column of titles.")] = "",
    text_columns: Annotated[
        str, typer.Option(help="Row formats: columns of text, by commas.")
    ] = "",
    created_column: Annotated[str, typer.Option(help="Row formats: column of times.")] = "",
    format_: Annotated[str, typer.Option("--format", help="Format of the sources.")] = "auto",
    workers: Annotated[int, typer.Option(help="Worker processes on this machine.")] = 1,
    max_error_rate: Annotated[
        float | None,
        typer.Option(help="Share of inputs that may fail; over it, nothing is published."),
    ] = None,
    refit: Annotated[bool, typer.Option(help="Fit again what is carried over.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build a knowledge base and publish it. Beam options follow `--`."""
    columns = (id_column, title_column, text_columns, created_column)
    recipe = _recipe(what, format_, columns)
    changes: dict[str, Any] = {
        "segment": segment, "segment_tokens": segment_tokens, "compress_rate": compress_rate,
        "compressor": compressor, "encoder": encoder, "llm": llm, "keys": _listed(keys),
    }  # fmt: skip
    if keys and not dense_keys:
        compressed = KeyKind.COMPRESSED.value in _listed(keys)
        changes["dense_keys"] = (KeyKind.COMPRESSED.value if compressed else KeyKind.TEXT.value,)
    else:
        changes["dense_keys"] = _listed(dense_keys)
    made = {name: value for name, value in changes.items() if value}
    if max_error_rate is not None:
        made["max_error_rate"] = max_error_rate
    try:
        recipe = replace(recipe, **made)
    except ValueError as error:
        raise BadInput(str(error)) from error
    _build(recipe, kb, workers, context.obj or [], refit, dry_run, as_json)


@app.command()
def query(
    kb: KB,
    text: Annotated[str, typer.Argument(help="What to look for.")],
    also: Annotated[list[str] | None, typer.Option(help="Another base to search with it.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many hits.")] = 10,
    where: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE (or >=, <=, >, <, !=).")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Keep entries from this time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Keep entries up to this time.")] = None,
    mode: Annotated[Mode, typer.Option(help="Which legs.")] = Mode.hybrid,
    encoder: Annotated[str | None, typer.Option(help="light or full.")] = None,
    explain: Annotated[bool, typer.Option(help="Show the reasons of each hit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search one or several knowledge bases."""
    base = stillroom.open([kb, *(also or [])])
    hits = base.search(
        text, k=k, where=parse_where(where or []), since=since, until=until, mode=mode.value,
        encoder=encoder,
    )  # fmt: skip
    if as_json:
        plain = [hit.explained() if explain else hit.to_dict() for hit in hits]
        _print_json({"notes": list(hits.notes), "hits": plain})
        return
    for note in hits.notes:
        err.print(f"note: {note}", style="yellow", markup=False)
    _print_hits(hits, explain)


@app.command("eval")
def evaluate_command(
    kb: KB,
    queries: Annotated[Path, typer.Option(help="JSONL with _id and text.")],
    qrels: Annotated[Path, typer.Option(help="TSV: query, document, grade.")],
    by: Annotated[By, typer.Option(help="What the judgements name.")] = By.document,
    mode: Annotated[Mode, typer.Option(help="Which legs.")] = Mode.hybrid,
    encoder: Annotated[str | None, typer.Option(help="light or full.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure retrieval quality on judged queries, with bootstrap intervals."""
    from stillroom.evaluate import evaluate

    measured = evaluate(stillroom.open(kb), queries, qrels, by.value, mode.value, encoder)
    if as_json:
        _print_json({name: asdict(value) for name, value in measured.items()})
        return
    table = Table(title=f"{kb} · {mode.value} · {queries.name}", title_justify="left")
    for name in ("measure", "mean", "95 % interval"):
        table.add_column(name, justify="left" if name == "measure" else "right")
    for name, value in measured.items():
        table.add_row(name, f"{value.mean:.4f}", f"{value.low:.3f} to {value.high:.3f}")
    out.print(table)


@app.command()
def status(kb: KB, as_json: AsJson = False) -> None:
    """What the live build is made of."""
    base = stillroom.open(kb)
    manifest = base.manifests[0]
    data = {
        "build": manifest.build,
        "parent": manifest.parent,
        "content": manifest.content,
        "kind": manifest.recipe.kind,
        "sources": {source.name: source.uri for source in manifest.recipe.sources},
        "accounting": {**asdict(manifest.accounting), "read": manifest.accounting.read},
        "counts": dict(manifest.counts),
        "encoder": asdict(manifest.encoder),
        "plan": asdict(manifest.plan),
        "bytes": _bytes_of(Path(kb)),
    }
    if as_json:
        _print_json(data)
        return
    table = Table(show_header=False, title=f"{kb}", title_justify="left")
    plan = manifest.plan
    rows = {
        "build": manifest.build,
        "parent": manifest.parent or "none",
        "kind": manifest.recipe.kind,
        "sources": ", ".join(f"{s.name} ({s.uri})" for s in manifest.recipe.sources),
        "inputs": ", ".join(
            f"{n} {v:,}" for n, v in data["accounting"].items() if isinstance(v, int)
        ),
        "counts": ", ".join(f"{n} {v:,}" for n, v in manifest.counts.items()),
        "encoder": f"{manifest.encoder.name}, {manifest.encoder.dims} dims, {manifest.encoder.dtype}",
        "dense weight": f"{plan.dense_weight} ({_figures(plan.calibration)})",
        "size": f"{data['bytes'] / 1e6:,.1f} MB",
    }
    for name, value in rows.items():
        table.add_row(name, Text(str(value)))
    out.print(table)


@app.command()
def builds(kb: KB, as_json: AsJson = False) -> None:
    """All builds that are kept, the live one marked."""
    stillroom.open(kb)
    root = Path(kb)
    live = current_build(root)
    made = [
        read_manifest(root, path.parent.name)
        for path in sorted(
            (root / "builds").glob("*/manifest.json"), key=lambda p: p.stat().st_mtime
        )
    ]
    if as_json:
        _print_json(
            [
                {"build": m.build, "parent": m.parent, "live": m.build == live, **m.counts}
                for m in made
            ]
        )
        return
    table = Table()
    for name in ("", "build", "parent", "documents", "entries"):
        table.add_column(name)
    for m in made:
        mark = "live" if m.build == live else ""
        counts = (f"{m.counts.get(n, 0):,}" for n in ("documents", "entries"))
        table.add_row(mark, m.build, m.parent or "none", *counts)
    out.print(table)


def _recipe(what: list[str], format_: str, columns: tuple[str, str, str, str]) -> Recipe:
    if len(what) == 1 and what[0].endswith(".toml"):
        try:
            return read_recipe(what[0])
        except OSError as error:
            raise BadInput(f"{what[0]} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise BadInput(str(error)) from error
    kind, sources = what[0], what[1:]
    if kind not in KINDS:
        raise BadInput(f"{kind!r} is neither a recipe (*.toml) nor one of {', '.join(KINDS)}")
    if not sources:
        raise BadInput(f"build {kind} needs at least one source: a file, folder, glob or URI")
    identifier, title, text, created = columns
    try:
        named = [
            Source(name, uri, format_, identifier, title, _listed(text), created)
            for name, uri in zip(_source_names(sources), sources, strict=True)
        ]
        return Recipe(kind, tuple(named))
    except ValueError as error:
        raise BadInput(str(error)) from error


def _source_names(uris: list[str]) -> list[str]:
    """A name a source: the last fixed part of its address, numbered where two agree."""
    names: list[str] = []
    for uri in uris:
        fixed = uri.split("*", 1)[0].split("?", 1)[0].rstrip("/")
        name = fixed.rsplit("/", 1)[-1]
        base = name if name not in ("", ".", "..") else Path(fixed or ".").resolve().name or "root"
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names


def _build(
    recipe: Recipe, kb: str, workers: int, beam_options: list[str], refit: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    _quiet_libraries()
    try:
        from stillroom.pipelines.build import plan_build, run_build
        from stillroom.pipelines.progress import LiveView, outcome_dict, outcome_table
    except ImportError as error:
        raise MissingExtra(f"building ({error.name} is not installed)", "build") from error
    began = time.monotonic()
    planned = plan_build(recipe, kb, refit)
    if dry_run:
        _print_plan(planned, as_json)
        return
    view = LiveView(err)
    try:
        outcome = run_build(planned, workers, beam_options, view.start)
    finally:
        view.stop()
    seconds = time.monotonic() - began
    if as_json:
        _print_json(outcome_dict(outcome, seconds))
    else:
        words = "published" if outcome.changed else "no change: still"
        out.print(f"{words} build {outcome.build} ({seconds:.1f} s)", highlight=False)
        out.print(outcome_table(outcome, seconds))
    if outcome.accounting.rejected:
        where = Path(kb) / "builds" / outcome.build / "rejects.jsonl"
        err.print(f"{outcome.accounting.rejected} inputs were rejected: {where}", soft_wrap=True)
    if outcome.counts.get("truncated"):
        err.print(
            f"{outcome.counts['truncated']} keys were longer than the encoder reads and were cut",
            style="yellow",
        )


def _quiet_libraries() -> None:
    """Only errors of the libraries below: a build says itself what a person should know."""
    os.environ.setdefault("LANCE_LOG", "error")
    logging.getLogger().setLevel(logging.ERROR)
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # our rejects say it better


def _print_plan(planned: Any, as_json: bool) -> None:
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
        "same_recipe_as_live_build": bool(planned.parent_inputs),
    }
    if as_json:
        _print_json(data)
        return
    table = Table(show_header=False, title="would build", title_justify="left")
    for name, value in data.items():
        table.add_row(name.replace("_", " "), Text(str(value)))
    out.print(table)


def _print_hits(hits: Hits, explain: bool) -> None:
    if not hits:
        out.print("no hits")
    for number, hit in enumerate(hits, 1):
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
                rank = f"rank {reason.rank}" if reason.rank else "not in its list"
                words = f", terms {' '.join(reason.terms)}" if reason.terms else ""
                out.print(
                    Text(
                        f"   {reason.leg}: {rank}, score {reason.score:.3f}, gives "
                        f"{reason.contribution:.3f}, by {reason.key_kind}{words}",
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


def _figures(figures: Any) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in figures.items()) or "not fitted"


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, indent=1, default=str))


if __name__ == "__main__":
    main()
