"""A recipe from what was typed: a file, or a kind with its sources."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stillroom.errors import BadInput
from stillroom.schemas.entries import KeyKind
from stillroom.schemas.recipe import KINDS, Recipe, Source, make_recipe, read_recipe


def recipe_from(
    what: list[str], format_: str, columns: tuple[str, str, str, str], timezone: str = ""
) -> Recipe:
    """The recipe of `stillroom build WHAT...`; `columns` are those of ids, titles, texts and times.
    Raises BadInput."""
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
            Source(name, uri, format_, identifier, title, listed(text), created, timezone)
            for name, uri in zip(_source_names(sources), sources, strict=True)
        ]
        return make_recipe(kind, tuple(named))
    except ValueError as error:
        raise BadInput(str(error)) from error


def with_choices(
    recipe: Recipe, choices: Mapping[str, Any], max_error_rate: float | None
) -> Recipe:
    """The recipe with what flags say in its place; an empty value says nothing. Where keys are named and
    not which of them get vectors, the finest do. Raises BadInput."""
    made = {name: value for name, value in choices.items() if value}
    if "keys" in made and "dense_keys" not in made:
        finer = (KeyKind.COMPRESSED.value, KeyKind.TURN.value)
        some = tuple(kind for kind in made["keys"] if kind in finer)
        made["dense_keys"] = some or (KeyKind.TEXT.value,)
    if max_error_rate is not None:
        made["max_error_rate"] = max_error_rate
    try:
        return replace(recipe, **made)
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


def listed(text: str) -> tuple[str, ...]:
    """Names that are separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
