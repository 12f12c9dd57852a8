"""Near-duplicate links over all entries: a star of equal values, and the near ones."""

import json
from pathlib import Path

import apache_beam as beam
import lance
from apache_beam.pvalue import TaggedOutput
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.arrow import LINKS, link_from_row
from stillroom.schemas.entries import Link, LinkKind
from stillroom.schemas.ids import digest
from stillroom.transforms.links import EQUAL, LinkNearDuplicates, link_equal
from stillroom.transforms.near_duplicates import signature
from tests.conftest import COPY, NEAR

IDS = [digest("id", n) for n in range(6)]


@given(st.permutations([(IDS[n], b"s") for n in range(4)]))
def test_equal_values_point_at_the_smallest_id(members):
    smallest = min(IDS[:4])
    first, *others = link_equal(("digest", members))
    assert first == (smallest, b"s")
    assert all(isinstance(one, TaggedOutput) and one.tag == EQUAL for one in others)
    links = [one.value for one in others]
    assert {link.source_id for link in links} == set(IDS[:4]) - {smallest}
    assert all(
        (link.target_id, link.kind, link.weight) == (smallest, LinkKind.NEAR_DUPLICATE, 1.0)
        for link in links
    )


def test_one_value_has_no_link():
    assert list(link_equal(("digest", [(IDS[0], b"s")]))) == [(IDS[0], b"s")]


def linked(texts: list[str], kb: Path, threshold: float) -> list[Link]:
    members = [
        (digest("value", text), (name, signature(text)))
        for name, text in zip(IDS, texts, strict=False)
    ]
    out = kb / "fragments.json"
    kb.mkdir()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = (
            pipeline
            | beam.Create(members).with_output_types(tuple[str, tuple[str, bytes]])
            | LinkNearDuplicates(str(kb), threshold)
            | beam.Map(_files)
            | beam.combiners.ToList()
            | beam.Map(_write, str(out))
        )
    files = [
        lance.fragment.FragmentMetadata.from_json(one)
        for fragment in json.loads(out.read_text())
        for one in fragment
    ]
    if not files:
        return []
    operation = lance.LanceOperation.Overwrite(LINKS, files)
    dataset = lance.LanceDataset.commit(str(kb / "links.lance"), operation)
    return [link_from_row(row) for row in dataset.to_table().to_pylist()]


def test_equal_and_near_values_are_linked_once(tmp_path):
    other = "Whales sing at low frequencies that travel for hundreds of kilometres under water."
    texts = [COPY, other, COPY, NEAR, COPY]
    links = linked(texts, tmp_path / "kb", 0.8)
    copies = sorted([IDS[0], IDS[2], IDS[4]])
    ends = {(link.source_id, link.target_id) for link in links}
    assert len(ends) == len(links) == 3
    assert {(name, copies[0]) for name in copies[1:]} <= ends
    (near,) = [link for link in links if IDS[3] in (link.source_id, link.target_id)]
    assert {near.source_id, near.target_id} == {IDS[3], copies[0]}
    assert 0.8 <= near.weight < 1.0
    assert all(link.kind is LinkKind.NEAR_DUPLICATE for link in links)
    assert IDS[1] not in {end for pair in ends for end in pair}


def test_different_values_have_no_link(tmp_path):
    texts = [
        "Feed the starter in the evening and knead the dough in the morning before you leave.",
        "A mirror of eight metres gathers enough light to see faint galaxies in the winter sky.",
    ]
    assert linked(texts, tmp_path / "kb", 0.8) == []


def _files(fragment):
    return list(fragment.files)


def _write(elements, path):
    Path(path).write_text(json.dumps(elements))
