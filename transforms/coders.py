"""Beam coders for the nouns: an element keeps its type across processes, and equal ones equal bytes.

Beam's own `register_row` turns a dataclass into a generated tuple on the other side of a process
boundary.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from apache_beam.coders import Coder
from apache_beam.coders.typecoders import registry

from stillroom.schemas.ids import canonical_json


def noun_to_bytes(noun: Any) -> bytes:
    """Canonical JSON of a dataclass of plain values, enums, times and other such dataclasses: the list
    of its fields' values, in order."""
    return canonical_json(_plain(noun)).encode("utf-8", "surrogatepass")


def noun_from_bytes(noun_type: type[Any], raw: bytes) -> Any:
    """The dataclass of `noun_to_bytes`."""
    return _typed(noun_type, json.loads(raw.decode("utf-8", "surrogatepass")))


class NounCoder(Coder):
    """Deterministic coder of one dataclass type."""

    def __init__(self, noun_type: type[Any]) -> None:
        self.noun_type = noun_type

    @classmethod
    def from_type_hint(cls, typehint: Any, registry: Any) -> Any:
        return cls(typehint)

    def encode(self, value: Any) -> bytes:
        return noun_to_bytes(value)

    def decode(self, encoded: bytes) -> Any:
        return noun_from_bytes(self.noun_type, encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return self.noun_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NounCoder) and other.noun_type is self.noun_type

    def __hash__(self) -> int:
        return hash(self.noun_type)


def register_nouns(*noun_types: type[Any]) -> None:
    """Use `NounCoder` for these dataclasses wherever Beam infers a coder."""
    for noun_type in noun_types:
        registry.register_coder(noun_type, NounCoder)


_PLAIN = frozenset((str, int, float, bool, type(None)))


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, name)) for name, _ in _fields(type(value))]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _typed(hint: Any, value: Any) -> Any:
    if hint in _PLAIN:
        return value
    if isinstance(hint, type) and not get_args(hint):
        if is_dataclass(hint):
            named = _fields(hint)
            return hint(*(_typed(one, item) for (_, one), item in zip(named, value, strict=True)))
        if issubclass(hint, Enum):
            return hint(value)
        if issubclass(hint, datetime):
            return datetime.fromisoformat(value)
        return value
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        choices = [one for one in arguments if one is not type(None)]
        if len(choices) == 1:
            return _typed(choices[0], value)
        return tuple(value) if isinstance(value, list) else value
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_typed(arguments[0], item) for item in value)
        return tuple(_typed(one, item) for one, item in zip(arguments, value, strict=True))
    if isinstance(value, dict):
        return {name: _typed(arguments[1], item) for name, item in value.items()}
    return value


@cache
def _fields(noun_type: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Names and types of a dataclass's fields, in the order of its constructor."""
    hints = get_type_hints(noun_type)
    return tuple((field.name, hints[field.name]) for field in fields(noun_type))
