"""Coders: every registered noun keeps its type, and equal nouns are equal bytes."""

from dataclasses import is_dataclass
from datetime import UTC, datetime

import apache_beam as beam
import pytest
from apache_beam.coders.typecoders import registry
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.documents import Derivation, Document, Mark, MarkKind, Span
from stillroom.schemas.entries import Entry, Key, KeyKind, Link, LinkKind
from stillroom.schemas.plan import SearchPlan
from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import Accounting, Reject, RejectReason
from stillroom.transforms import coders
from stillroom.transforms.carry import Fate, OldDocument
from stillroom.transforms.coders import NounCoder, noun_from_bytes, noun_to_bytes
from stillroom.transforms.encode import TextBlock
from stillroom.transforms.files import InputFile
from stillroom.transforms.load import DocumentRef, Shard
from stillroom.transforms.parts import Fragment, Part
from stillroom.transforms.publish import Outcome
from stillroom.transforms.shape import TextRef, VectorRef
from stillroom.transforms.write import KeyVector

AT = datetime(2024, 5, 31, 10, 0, 0, 1, tzinfo=UTC)
SPAN = Span("d", 0, 4)
REF = TextRef("p", 3, 7)
FRAGMENT = Fragment("keys", 2, ('{"a": 1}',))
FILE = InputFile("s", "/a/b\u2028.md", "b.md", 12, "markdown")
NOUNS = [
    FILE,
    Shard(Source("s", "/a", "csv", text_columns=("x", "y")), (FILE, FILE)),
    Shard(Source("s", "/a"), ()),
    DocumentRef("i", "d", "m", "p", 1, "u"),
    Reject("u\ud800", "read", RejectReason.CONFLICTING_ID, "why", "d"),
    REF,
    TextBlock("n", ("d1", "d2"), (REF, REF)),
    VectorRef("", 0),
    KeyVector(2, VectorRef("b", 1)),
    FRAGMENT,
    Part("p", {"documents": 1}, 2, {"nul": 3}, (FRAGMENT, FRAGMENT)),
    OldDocument("d", "m", "s", "u", "p"),
    Fate("stale", "u"),
]
OTHERS = [
    Link("a", "b", LinkKind.NEAR_DUPLICATE, 0.875),
    Document(
        "d", "s", "k", "u", "text", "T", "Text\x00 é 世", (Mark(MarkKind.TURN, 0, 2, at=AT),),
        {"n": 1, "f": 1.5, "b": True, "s": "x", "t": ("a", "b"), "e": ()}, AT, ("nul",),
        Derivation("m", "f", (SPAN,)),
    ),
    Entry(
        "e", "k", "t", "Text", SPAN, (Key("k", "e", KeyKind.EVENT, "x", SPAN, True, AT, AT),),
        ("a",), {"t": ("a",)}, AT, None, 0.5,
    ),
    Outcome("b", True, Accounting(1, rejected=1, reasons={"empty": 1}), {"keys": 2}, {}, SearchPlan()),
]  # fmt: skip


def registered() -> set[type]:
    return {
        made
        for made, coder in registry._coders.items()
        if coder is NounCoder and is_dataclass(made)
    }


def test_the_examples_are_all_registered_nouns():
    import stillroom.pipelines.build  # noqa: F401 - it imports every stage

    made = {noun for noun in registered() if noun.__module__.startswith("stillroom.")}
    assert made == {type(noun) for noun in NOUNS}


@pytest.mark.parametrize("noun", [*NOUNS, *OTHERS], ids=lambda noun: type(noun).__name__)
def test_nouns_come_back_equal_and_of_their_type(noun):
    made = noun_from_bytes(type(noun), noun_to_bytes(noun))
    assert made == noun
    assert type(made) is type(noun)
    for name in getattr(noun, "__dataclass_fields__", ()):
        assert type(getattr(made, name)) is type(getattr(noun, name)), name


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: type(noun).__name__)
def test_beam_infers_a_deterministic_coder(noun):
    coder = registry.get_coder(type(noun))
    assert isinstance(coder, NounCoder)
    assert coder.as_deterministic_coder("key") is coder
    assert coder.decode(coder.encode(noun)) == noun


def test_equal_nouns_are_equal_bytes():
    first = Accounting(rejected=3, reasons={"empty": 1, "binary": 2})
    second = Accounting(rejected=3, reasons={"binary": 2, "empty": 1})
    assert first == second
    assert noun_to_bytes(first) == noun_to_bytes(second)


def test_coders_of_different_nouns_differ():
    assert NounCoder(Link) == NounCoder(Link)
    assert NounCoder(Link) != NounCoder(Reject)
    assert len({NounCoder(Link), NounCoder(Link), NounCoder(Reject)}) == 2


@given(st.builds(Reject, st.text(), st.text(), st.sampled_from(RejectReason), st.text(), st.text()))
def test_any_text_comes_back(reject):
    assert noun_from_bytes(Reject, noun_to_bytes(reject)) == reject


def test_a_number_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        noun_to_bytes(Link("a", "b", LinkKind.NEXT, float("nan")))


def _check(noun):
    """In a worker: the type it has there, and that GroupByKey compares it as the launcher would."""
    return type(noun).__name__, repr(noun)


def _group(element):
    key, values = element
    return type(key).__name__, repr(key), len(list(values))


def test_types_survive_worker_processes():
    options = PipelineOptions(
        [
            "--runner=FnApiRunner",
            "--direct_num_workers=2",
            "--direct_running_mode=multi_processing",
            "--no_save_main_session",
        ]
    )
    refs = [DocumentRef(f"i{n % 4}", "d", "m", "p", 1, "u") for n in range(8)]
    keys = [(ref, TextRef("p", n, 1)) for n, ref in enumerate(refs)]
    expected = sorted(("DocumentRef", repr(ref), 2) for ref in refs[:4])
    with beam.Pipeline(options=options) as pipeline:
        grouped = (
            pipeline
            | beam.Create(keys).with_output_types(tuple[DocumentRef, TextRef])
            | beam.Reshuffle()
            | beam.GroupByKey()
            | beam.Map(_group)
        )
        assert_that(grouped, _equal_to(expected))


def _equal_to(expected):
    def check(found):
        assert sorted(found) == expected, found

    return check


def test_registering_again_changes_nothing():
    coders.register_nouns(Link)
    assert isinstance(registry.get_coder(Link), NounCoder)
