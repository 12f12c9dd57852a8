"""The command line. Commands that only read a knowledge base import neither Beam nor torch."""

import logging
import os
import sys
import time
from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import stillroom
from stillroom.errors import BadInput, MissingExtra, StillroomError
from stillroom.filters import parse_where
from stillroom.folders import open_folder
from stillroom.pipelines import show
from stillroom.pipelines.arguments import listed, recipe_from, with_choices
from stillroom.schemas.recipe import KINDS, Recipe
from stillroom.store import build_folder, current_build
from stillroom.versions import find_build, list_builds
from stillroom.versions import rollback as roll_back

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Distil corpora into versioned knowledge bases, and query them.",
)  # fmt: skip
err = Console(stderr=True)


class Mode(StrEnum):
    hybrid = "hybrid"
    dense = "dense"
    lexical = "lexical"


class By(StrEnum):
    document = "document"
    entry = "entry"
    span = "span"


KB = Annotated[str, typer.Argument(help="Folder or URI of the knowledge base.")]
Rerank = Annotated[
    str | None,
    typer.Option(help="Look at the first hits again: maxsim, or a CrossEncoder's name or folder."),
]
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
        show.out.print(f"stillroom {stillroom.__version__}")
        raise typer.Exit


@app.command()
def build(
    context: typer.Context,
    what: Annotated[
        list[str], typer.Argument(help=f"RECIPE.toml, or a kind ({', '.join(KINDS)}) and sources.")
    ],
    kb: Annotated[str, typer.Option(help="Folder or URI of the knowledge base.")],
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
    dims: Annotated[
        int, typer.Option(help="Dimensions that are searched, the others left out: 0 for all.")
    ] = 0,
    dtype: Annotated[str, typer.Option(help="How they are stored: f32, int8 or bit.")] = "",
    backend: Annotated[str, typer.Option(help="What runs it: auto, torch, onnx or openvino.")] = "",
    llm: Annotated[str, typer.Option(help="none, or openai:MODEL.")] = "",
    id_column: Annotated[str, typer.Option(help="Row formats: column of ids.")] = "",
    title_column: Annotated[str, typer.Option(help="Row formats: column of titles.")] = "",
    text_columns: Annotated[
        str, typer.Option(help="Row formats: columns of text, by commas.")
    ] = "",
    created_column: Annotated[str, typer.Option(help="Row formats: column of times.")] = "",
    timezone: Annotated[
        str, typer.Option(help="Chat logs: zone of times without one, such as Europe/Berlin.")
    ] = "",
    surprise_model: Annotated[
        str, typer.Option(help="Causal language model of the segmenter surprise.")
    ] = "",
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
    recipe = recipe_from(what, format_, columns, timezone)
    changes: dict[str, Any] = {
        "segment": segment, "segment_tokens": segment_tokens, "compress_rate": compress_rate,
        "compressor": compressor, "encoder": encoder, "llm": llm, "keys": listed(keys),
        "dense_keys": listed(dense_keys),
        "dims": dims, "dtype": dtype, "backend": backend, "surprise_model": surprise_model,
    }  # fmt: skip
    recipe = with_choices(recipe, changes, max_error_rate)
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
    rerank: Rerank = None,
    budget: Annotated[
        int | None, typer.Option(help="Fill so many tokens instead of taking k hits.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Answer with what had been said by this time.")
    ] = None,
    order: Annotated[
        str, typer.Option(help="score, or time for hits as they were said.")
    ] = "score",
    explain: Annotated[bool, typer.Option(help="Show the reasons of each hit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search one or several knowledge bases."""
    base = stillroom.open([kb, *(also or [])])
    hits = base.search(
        text, k=k, where=parse_where(where or []), since=since, until=until, mode=mode.value,
        encoder=encoder, rerank=rerank, budget=budget, as_of=as_of, order=order,
    )  # fmt: skip
    if as_json:
        plain = [hit.explained() if explain else hit.to_dict() for hit in hits]
        show.as_json({"notes": list(hits.notes), "hits": plain})
        return
    for note in hits.notes:
        err.print(f"note: {note}", style="yellow", markup=False)
    show.hits(hits, explain)


@app.command("eval")
def evaluate_command(
    kb: KB,
    queries: Annotated[Path, typer.Option(help="JSONL with _id and text.")],
    qrels: Annotated[Path, typer.Option(help="TSV: query, document, grade.")],
    by: Annotated[By, typer.Option(help="What the judgements name.")] = By.document,
    mode: Annotated[Mode, typer.Option(help="Which legs.")] = Mode.hybrid,
    encoder: Annotated[str | None, typer.Option(help="light or full.")] = None,
    rerank: Rerank = None,
    as_json: AsJson = False,
) -> None:
    """Measure retrieval quality on judged queries, with bootstrap intervals."""
    from stillroom.evaluate import evaluate

    base = stillroom.open(kb)
    measured = evaluate(base, queries, qrels, by.value, mode.value, encoder, rerank)
    if as_json:
        show.as_json({name: asdict(value) for name, value in measured.items()})
    else:
        show.measures(f"{kb} · {mode.value} · {queries.name}", measured)


@app.command()
def status(kb: KB, as_json: AsJson = False) -> None:
    """What the live build is made of."""
    manifest = stillroom.open(kb).manifests[0]
    if as_json:
        show.as_json(show.state(kb, manifest))
    else:
        show.status(kb, manifest)


@app.command()
def builds(kb: KB, as_json: AsJson = False) -> None:
    """All builds that are kept, the live one marked."""
    stillroom.open(kb)
    made, live = list_builds(kb), current_build(kb)
    if as_json:
        show.as_json(
            [
                {"build": m.build, "parent": m.parent, "live": m.build == live, **m.counts}
                for m in made
            ]
        )
    else:
        show.builds(made, live)


@app.command()
def diff(
    kb: KB,
    first: Annotated[str, typer.Argument(help="A build, by the beginning of its id.")],
    second: Annotated[str, typer.Argument(help="Another build.")],
    as_json: AsJson = False,
) -> None:
    """Documents and entries added, changed and removed from one build to another."""
    maintenance = _maintenance()
    made = maintenance.diff_builds(kb, find_build(kb, first), find_build(kb, second))
    if as_json:
        show.as_json(asdict(made))
    else:
        show.difference(made)


@app.command()
def rollback(
    kb: KB, build: Annotated[str, typer.Argument(help="The build, by the beginning of its id.")]
) -> None:
    """Serve an earlier build again (or a later one): a pointer swap, nothing is rebuilt."""
    show.out.print(f"live: {roll_back(kb, build)}", highlight=False)


@app.command()
def gc(
    kb: KB,
    keep: Annotated[int, typer.Option(help="How many of the newest builds to keep.")] = 3,
    min_age: Annotated[
        float | None,
        typer.Option(
            help="Days that a build is kept after another went live: 0, on object stores 7."
        ),
    ] = None,
) -> None:
    """Remove old builds, never the live one nor one that a reader has open."""
    if keep < 1:
        raise BadInput(f"--keep is at least 1, not {keep}")
    age = None if min_age is None else timedelta(days=min_age)
    for build in _maintenance().collect_garbage(kb, keep, age):
        show.out.print(f"removed {build}", highlight=False)


@app.command()
def verify(
    kb: KB,
    build: Annotated[str, typer.Option(help="The build, by its id's beginning.")] = "",
    as_json: AsJson = False,
) -> None:
    """Check a build: checksums, counts, spans, links, and each index against the tables."""
    stillroom.open(kb)
    name = find_build(kb, build) if build else current_build(kb)
    problems = _maintenance().verify_build(kb, name)
    if as_json:
        show.as_json({"build": name, "problems": problems})
    else:
        show.out.print(f"build {name}", highlight=False)
        for problem in problems:
            err.print(problem, style="red", markup=False, soft_wrap=True)
        show.out.print("no problem found" if not problems else f"{len(problems)} problems")
    if problems:
        raise typer.Exit(1)


@app.command()
def report(
    kb: KB,
    out: Annotated[
        Path | None, typer.Option(help="The page to write: NAME.report.html here, if not given.")
    ] = None,
    build: Annotated[str, typer.Option(help="The build, by its id's beginning.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about a base: accounting, rejects, sizes, timings, growth, health."""
    _quiet_libraries()
    from stillroom.pipelines.report import gather

    name = find_build(kb, build) if build else ""
    if as_json:
        if out is not None:
            raise BadInput("--out names the page, and --json prints data instead of one")
        show.as_json(asdict(gather(kb, name)))
        return
    try:
        from stillroom.pipelines.report_page import render
    except ImportError as error:
        raise MissingExtra(f"the report ({error.name} is not installed)", "report") from error
    made = gather(kb, name)
    path = out or Path(f"{made.name}.report.html")
    try:
        path.write_text(render(made), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    typer.echo(str(path))


def _maintenance() -> Any:
    _quiet_libraries()
    try:
        from stillroom.transforms import maintenance
    except ImportError as error:
        raise MissingExtra(f"this command ({error.name} is not installed)", "build") from error
    return maintenance


def _build(
    recipe: Recipe, kb: str, workers: int, beam_options: list[str], refit: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    _quiet_libraries()
    try:
        from stillroom.pipelines.build import run_build
        from stillroom.pipelines.plan import plan_build
        from stillroom.pipelines.progress import LiveView, outcome_dict, outcome_table
    except ImportError as error:
        raise MissingExtra(f"building ({error.name} is not installed)", "build") from error
    began = time.monotonic()
    planned = plan_build(recipe, kb, refit)
    if dry_run:
        show.plan(planned, as_json)
        return
    view = LiveView(err)
    try:
        outcome = run_build(planned, workers, beam_options, view.start)
    finally:
        view.stop()
    seconds = time.monotonic() - began
    if as_json:
        show.as_json(outcome_dict(outcome, seconds))
    else:
        words = "published" if outcome.changed else "no change: still"
        show.out.print(f"{words} build {outcome.build} ({seconds:.1f} s)", highlight=False)
        show.out.print(outcome_table(outcome, seconds))
    if outcome.accounting.rejected:
        where = f"{open_folder(kb).uri}/{build_folder(outcome.build)}/rejects.jsonl"
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


if __name__ == "__main__":
    main()
