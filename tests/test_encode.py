"""Encode: each different text once, blocks of one length, vectors that are the encoder's own."""

from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stillroom.encoders import BATCH_ROWS
from stillroom.schemas.arrow import keys_to_table
from stillroom.schemas.entries import Key, KeyKind
from stillroom.transforms.encode import (
    BLOCK_TOKENS,
    EncodeTexts,
    SentenceEncoderHandler,
    TextBlock,
    VectorRef,
    by_length,
    first_ref,
    make_blocks,
)
from stillroom.transforms.shape import TextRef
from stillroom.transforms.staging import Staging

LENGTHS = (16, 32, 64)
TEXTS = ["Whales sing.", "", "Rotate the keys. " * 30, "世界经济", "Whales sing.", "x"]


def stage_keys(staging, part, texts):
    keys = [Key(f"k{part}{n}", "e", KeyKind.TEXT, text, dense=True) for n, text in enumerate(texts)]
    staging.write("keys", part, keys_to_table(keys))
    return keys


@given(st.permutations([TextRef("b", 0, 1), TextRef("a", 10, 1), TextRef("a", 9, 1)]))
def test_the_first_place_of_a_text_stands_for_it(refs):
    assert first_ref("d", refs) == ("d", TextRef("a", 9, 1))


@given(st.integers(0, 200), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_texts_are_grouped_by_the_length_that_holds_them(tokens, groups, number):
    element = (f"{number:08x}" + "0" * 24, TextRef("p", 0, tokens))
    key, same = by_length(element, LENGTHS, 2, groups)
    length, _, group = key.partition("/")
    assert same == element
    assert int(length) == next((n for n in LENGTHS if n >= tokens + 2), 64)
    assert 0 <= int(group) < groups


def test_a_model_without_shapes_has_one_group():
    keys = {by_length(("0" * 32, TextRef("p", 0, n)), (), 0, 1)[0] for n in (0, 10, 10_000)}
    assert len(keys) == 1


@given(st.integers(0, 700), st.sampled_from([16, 256]), st.randoms())
def test_blocks_hold_each_text_once_in_whole_batches(count, length, random):
    texts = [(f"{n:032x}", TextRef("p", n, 3)) for n in range(count)]
    shuffled = texts[:]
    random.shuffle(shuffled)
    blocks = list(make_blocks((f"{length:06d}/0", shuffled)))
    assert blocks == list(make_blocks((f"{length:06d}/0", texts)))
    assert [d for block in blocks for d in block.digests] == [d for d, _ in texts]
    assert [r for block in blocks for r in block.refs] == [r for _, r in texts]
    for block in blocks[:-1]:
        assert len(block.digests) % BATCH_ROWS == 0
    for block in blocks:
        assert len(block.digests) * length <= max(BLOCK_TOKENS, BATCH_ROWS * length)
    assert len({block.name for block in blocks}) == len(blocks)


def test_the_handler_reads_staged_texts(tmp_path, minilm):
    staging = Staging(str(tmp_path))
    stage_keys(staging, "p", TEXTS[:3])
    stage_keys(staging, "q", TEXTS[3:])
    handler = SentenceEncoderHandler(minilm.spec, staging)
    block = TextBlock("b", ("1", "2"), (TextRef("q", 0, 1), TextRef("p", 2, 1)))
    (made,) = handler.run_inference([block], handler.load_model())
    assert made.example == block
    np.testing.assert_array_equal(made.inference, minilm.encode_documents([TEXTS[3], TEXTS[2]]))


def test_each_different_text_is_encoded_once(tmp_path, minilm):
    staging = Staging(str(tmp_path / "staging"))
    keys = stage_keys(staging, "p", TEXTS)
    refs = [
        (key.text_digest, TextRef("p", row, minilm.tokens.count(key.text)))
        for row, key in enumerate(keys)
    ]
    known = keys[0].text_digest  # a vector of it is carried; "gone" is a text nobody has any more
    carried = [(known, VectorRef("carried/p", 4)), ("gone", VectorRef("carried/p", 5))]
    found = tmp_path / "found"
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        inputs = {
            "texts": pipeline | beam.Create(refs).with_output_types(tuple[str, TextRef]),
            "carried": pipeline
            | "Carried" >> beam.Create(carried).with_output_types(tuple[str, VectorRef]),
        }
        _ = (
            inputs
            | EncodeTexts(staging, minilm.spec, 2)
            | beam.Map(_line)
            | beam.combiners.ToList()
            | beam.Map(_write, str(found))
        )
    lines = [line.split() for line in found.read_text().splitlines()]
    assert sorted(digest for digest, _, _ in lines) == sorted({key.text_digest for key in keys})
    assert [line[1:] for line in lines if line[0] == known] == [["carried/p", "4"]]
    lines = [line for line in lines if line[0] != known]
    by_digest = {key.text_digest: key.text for key in keys}
    for digest, block, row in lines:
        vector = staging.read("vectors", block).column("vector")[int(row)].as_py()
        expected = minilm.encode_documents([by_digest[digest]])[0]
        np.testing.assert_array_equal(np.array(vector, np.float32), expected)
    assert sum(staging.read("vectors", n).num_rows for n in staging.names("vectors")) == len(lines)
    assert isinstance(staging.read("vectors", lines[0][1]), pa.Table)


def _line(element):
    return f"{element[0]} {element[1].block} {element[1].row}"


def _write(lines, path):
    Path(path).write_text("\n".join(lines))
