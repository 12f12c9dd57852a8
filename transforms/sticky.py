"""The STICKY parts of a build: fitted once, then carried over with what they were fitted on.

They are the fusion weight, the light query encoder, and what each form of the vectors keeps. All are carried while the sample of entries that
they were fitted on is mostly still there; `--refit`, another encoder or other key kinds fit them again.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from stillroom.encoders import Encoder
from stillroom.folders import Folder
from stillroom.light import LightEncoder
from stillroom.models import load_for
from stillroom.schemas.manifest import Fit, Light, Manifest
from stillroom.store import Build
from stillroom.transforms.calibrate import (
    MAX_DRIFT,
    Calibration,
    ask,
    calibrate,
    drift_between,
    in_two_threads,
    sample_of,
)
from stillroom.transforms.light import (
    MIN_KEYS,
    LightTable,
    fit_table,
    pieces,
    sample_rows,
    token_weights,
    write_light,
)
from stillroom.transforms.retention import measure_forms
from stillroom.transforms.serving import described

Vocabulary = Callable[[Encoder], np.ndarray]


def carried(manifest: Manifest, parent: Manifest, sample: tuple[str, ...]) -> Manifest | None:
    """The manifest with its parent's fits, or None where they do not fit it any more."""
    drift = drift_between(parent.fit.sample, sample)
    same = (
        parent.encoder == manifest.encoder
        and parent.plan.field_weights == manifest.plan.field_weights
        and parent.plan.dense_kinds == manifest.plan.dense_kinds
    )
    if not same or drift > MAX_DRIFT:
        return None
    plan = replace(
        manifest.plan, dense_weight=parent.plan.dense_weight, calibration=parent.plan.calibration
    )
    fit = replace(parent.fit, drift=drift)
    return replace(manifest, plan=plan, fit=fit, light=parent.light, elastic=parent.elastic)


def fitted(
    manifest: Manifest, folder: Folder, parent: Manifest | None, keys: Any, vocabulary: Vocabulary
) -> Manifest:
    """The manifest with its fits: its `parent`'s where they still hold (None: fit again), else new
    ones; files of a light encoder are placed in the folder. `keys` is the build's open Lance dataset."""
    build = Build(folder.uri, manifest)
    sample = sample_of(build)
    if parent is not None and (kept := carried(manifest, parent, sample)) is not None:
        return kept
    encoder = load_for(manifest.encoder, exact=True)
    measured = calibrate(build, ask(build, encoder.encode_queries, encoder.encode_documents))
    return replace(
        manifest,
        plan=measured.plan,
        fit=Fit(manifest.build, sample),
        light=_light(build, folder, encoder, measured, keys, vocabulary),
        elastic=measure_forms(build, keys, measured.asked),
    )


def _light(
    build: Build, folder: Folder, encoder: Encoder, measured: Calibration, keys: Any,
    vocabulary: Vocabulary,
) -> Light | None:  # fmt: skip
    """A light encoder fitted on the build, its retention measured without what it is asked for; None
    for a build that is too small, or an encoder whose tokens cannot be run one by one."""
    if not encoder.spec.lengths or len(build.dense) < MIN_KEYS or not measured.asked.queries:
        return None
    tokenizer = encoder.tokens.tokenizer
    tokens = vocabulary(encoder)
    weights, seen = token_weights(build, encoder.tokens)
    # In batches, where a query is encoded as a document is.
    alike = encoder.spec.query_prefix == encoder.spec.document_prefix
    encode = encoder.encode_documents if alike else encoder.encode_queries
    rows = sample_rows(build, keys, lambda texts: in_two_threads(encode, texts))
    with folder.scratch() as scratch:
        # As if what is asked for had never been said: its entries without it.
        asked = measured.asked
        owners = np.array([query.row for query in asked.queries])
        apart = rows.without(owners.tolist()) + pieces(asked.texts, asked.rest, owners)
        table = fit_table(tokens, apart, weights, tokenizer)
        write_light(scratch / "apart", LightTable(table, weights, seen), tokenizer)
        files = {path.name: path for path in (scratch / "apart").iterdir()}
        retention = measured.retention(LightEncoder(files).encode)
        table = fit_table(tokens, rows, weights, tokenizer)
        write_light(scratch / "light", LightTable(table, weights, seen), tokenizer)
        made = described(scratch / "light")
        folder.place(scratch / "light", f"encoders/{made.digest}")
    return Light(made, retention, len(rows.texts))
