"""Near-duplicate links over all entries: MinHash bands, grouped by Beam (GLOBAL).

Equal values are linked first, in a star around the smallest id, and only that one is banded: a
thousand copies are a thousand elements of one group once, not of every band.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput

from stillroom.schemas.arrow import links_to_table
from stillroom.schemas.entries import Link, LinkKind
from stillroom.transforms.coders import register_nouns
from stillroom.transforms.near_duplicates import band_hashes, link_group
from stillroom.transforms.write import Fragment, write_fragment

EQUAL = "equal"
FRAGMENTS = 8  # files of near-duplicate links

register_nouns(Link)


@dataclass
class LinkNearDuplicates(beam.PTransform[Any, Any]):
    """(value digest, (entry id, MinHash)) to Fragment of `links`. `threshold` is a Jaccard."""

    kb: str
    threshold: float

    def expand(self, signatures: PCollection[Any]) -> PCollection[Any]:
        first = (
            signatures
            | "EqualValues" >> beam.GroupByKey()
            | "Star" >> beam.FlatMap(link_equal).with_outputs(EQUAL, main="first")
        )
        equal = first[EQUAL] | "TypedEqual" >> beam.Map(_same).with_output_types(Link)
        near = (
            first.first
            | "Bands"
            >> beam.FlatMap(_bands, threshold=self.threshold).with_output_types(
                tuple[str, tuple[str, bytes]]
            )
            | "Band" >> beam.GroupByKey()
            | "Verify" >> beam.FlatMap(_verified, threshold=self.threshold).with_output_types(Link)
        )
        return (
            (equal, near)
            | "AllLinks" >> beam.Flatten()
            | "Ends" >> beam.Map(_by_ends).with_output_types(tuple[str, Link])
            | "OnceEach" >> beam.CombinePerKey(_strongest)
            | "Files" >> beam.Map(_by_file).with_output_types(tuple[int, Link])
            | "File" >> beam.GroupByKey()
            | "WriteLinks" >> beam.Map(_write, kb=self.kb).with_output_types(Fragment)
        )


def link_equal(group: tuple[str, Iterable[tuple[str, bytes]]]) -> Iterator[Any]:
    """The smallest id of equal values (main), and links to it from the others (EQUAL)."""
    members = sorted(group[1])
    yield members[0]
    for other, _ in members[1:]:
        yield TaggedOutput(EQUAL, Link(other, members[0][0], LinkKind.NEAR_DUPLICATE, 1.0))


def _bands(member: tuple[str, bytes], threshold: float) -> Iterator[tuple[str, tuple[str, bytes]]]:
    for band in band_hashes(member[1], threshold):
        yield band, member


def _verified(group: tuple[str, Iterable[tuple[str, bytes]]], threshold: float) -> list[Link]:
    return link_group(sorted(group[1]), threshold)


def _by_ends(link: Link) -> tuple[str, Link]:
    return f"{link.source_id}/{link.target_id}", link


def _strongest(links: Iterable[Link]) -> Link:
    return max(links, key=lambda link: link.weight)


def _by_file(element: tuple[str, Link]) -> tuple[int, Link]:
    return int(element[1].source_id[:8], 16) % FRAGMENTS, element[1]


def _write(group: tuple[int, Iterable[Link]], kb: str) -> Fragment:
    links = sorted(group[1], key=lambda link: (link.source_id, link.target_id))
    return write_fragment(kb, "links", links_to_table(links))


def _same(element: Any) -> Any:
    return element
