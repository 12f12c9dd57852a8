"""Proposals of a Lance index: rows of the build, whatever addresses their table gave them."""

import lance
import lancedb
import numpy as np
import pyarrow as pa
import pytest

from stillroom.approximate import Proposals
from stillroom.schemas.ids import digest
from stillroom.transforms.vector_index import has_vector_index, index_vectors
from tests.test_dense import clustered

VECTORS = clustered(2000, 64)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    return index_of(tmp_path_factory.mktemp("approximate"), 0)


def index_of(folder, seed):
    """A table in an order of its own, in several files, with rows that have no vector; and the address
    of each of VECTORS."""
    order = np.random.default_rng(seed).permutation(2200)  # from 2000 on: no vector
    padded = np.concatenate((VECTORS, np.zeros((200, 64), np.float32)))[order]
    column = pa.FixedSizeListArray.from_arrays(
        pa.array(padded.reshape(-1)), 64, mask=pa.array(order >= 2000)
    )
    ids = [digest("key", str(row)) for row in order]
    table = pa.table({"row": order, "id": ids, "dense": order < 2000, "vector": column})
    dataset = lance.write_dataset(table, str(folder / "keys.lance"), max_rows_per_file=300 + seed)
    assert not has_vector_index(dataset)
    before = dataset.version
    index_vectors(dataset)
    assert has_vector_index(dataset)
    assert dataset.version == before + 1
    made = dataset.to_table(columns=["row"], with_row_id=True)
    addresses = np.zeros(2200, np.uint64)
    addresses[made.column("row").to_numpy()] = made.column("_rowid").to_numpy()
    return lancedb.connect(str(folder)).open_table("keys"), addresses[:2000]


def test_the_nearest_are_among_what_is_proposed(indexed):
    table, addresses = indexed
    propose = Proposals(table, addresses, 40)
    shares = []
    for row in range(0, 2000, 50):
        found = propose(VECTORS[row], 200)
        assert len(found) == len(set(found.tolist())) == 200
        assert (np.diff(found) > 0).all()
        assert (found < 2000).all()
        best = np.argsort(-(VECTORS @ VECTORS[row]))[:10]
        shares.append(len(set(best) & set(found)) / 10)
    assert np.mean(shares) > 0.95


def test_probes_are_how_much_is_read(indexed):
    table, addresses = indexed
    few, many = (Proposals(table, addresses, n)(VECTORS[3], 2000) for n in (1, 44))
    assert 0 < len(few) < len(many) <= 2000


def test_the_same_vectors_in_another_order_make_the_same_proposals(indexed, tmp_path):
    other = index_of(tmp_path, 1)
    for row in range(0, 2000, 100):
        first, second = (Proposals(*one, 40)(VECTORS[row], 100) for one in (indexed, other))
        assert np.isin(first, second).mean() >= 0.98  # equal bits at the cut come as they lie
