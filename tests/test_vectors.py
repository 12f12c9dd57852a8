"""Vector files: each form has the files it needs and no others, written alike in whatever batches."""

import numpy as np
import pytest

from stillroom import store
from stillroom.dense import sign_bits
from stillroom.elastic import bytes_per_vector, quantise, rotate
from stillroom.schemas.plan import DTYPES
from stillroom.transforms.pca import axes_of, basis_of, moments_of
from stillroom.transforms.vectors import VectorWriter
from tests.test_dense import clustered

VECTORS = clustered(300, 96)
BASIS = basis_of(axes_of(moments_of(VECTORS)), 64)


def write(root, dtype, basis, batch=300, vectors=VECTORS):
    serve = root / "serve"
    serve.mkdir(parents=True)
    writer = VectorWriter(serve, len(vectors), 96, dtype, basis)
    for start in range(0, len(vectors), batch):
        writer.put(start, vectors[start : start + batch])
    writer.close()
    assert [p.name for p in root.iterdir()] == ["serve"]
    return {p.name: np.load(p) for p in serve.iterdir()}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("basis", [None, BASIS], ids=["whole", "rotated"])
def test_the_files_of_each_form(tmp_path, dtype, basis):
    made = write(tmp_path, dtype, basis)
    expected = {store.VECTORS}
    expected |= set() if dtype == "int8" else {store.BITS}
    expected |= set() if dtype == "f32" else {store.SCALE}
    expected |= set() if basis is None else {store.BASIS}
    assert set(made) == expected
    rows = VECTORS if basis is None else rotate(VECTORS, BASIS)
    if dtype == "f32":
        np.testing.assert_array_equal(made[store.VECTORS], rows)
    else:
        np.testing.assert_array_equal(made[store.VECTORS], quantise(rows, made[store.SCALE]))
        np.testing.assert_allclose(made[store.SCALE] * 127, np.abs(rows).max(axis=0), rtol=1e-6)
    if dtype != "int8":
        np.testing.assert_array_equal(made[store.BITS], sign_bits(rows))
    size = sum(made[name].nbytes for name in (store.VECTORS, store.BITS) if name in made)
    assert size == 300 * bytes_per_vector(rows.shape[1], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_do_not_matter(tmp_path, dtype):
    one, many = write(tmp_path / "a", dtype, BASIS), write(tmp_path / "b", dtype, BASIS, 7)
    for name, array in one.items():
        np.testing.assert_array_equal(array, many[name])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_base_without_vectors(tmp_path, dtype):
    made = write(tmp_path, dtype, BASIS, vectors=VECTORS[:0])
    assert made[store.VECTORS].shape == (0, 64)
