"""What runs a transformer's layers: torch, ONNX Runtime or OpenVINO, each a function of padded token ids.

The model is sentence-transformers' in any case, and so are its pooling and what follows. ONNX Runtime
and OpenVINO read the same ONNX export, made in memory. Each runs on one thread and gives equal bits
for equal shapes.
"""

import importlib.util
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from stillroom.errors import MissingExtra

_PACKAGES = {
    "torch": ("sentence_transformers",),
    "onnx": ("onnx", "onnxruntime"),
    "openvino": ("onnx", "openvino"),
}
_OPSET = 17

# int64 ids and mask [rows, length] to the features that pooling takes, torch tensors: among them
# `token_embeddings`, float32 [rows, length, width].
Layers = Callable[[np.ndarray, np.ndarray], dict[str, Any]]


def is_installed(backend: str) -> bool:
    """Whether a backend's packages are here, without importing them."""
    return all(importlib.util.find_spec(name) is not None for name in _PACKAGES[backend])


def libraries(backend: str) -> tuple[str, ...]:
    """The distributions whose versions decide a backend's last bits."""
    own = {"torch": (), "onnx": ("onnxruntime",), "openvino": ("openvino",)}[backend]
    return ("torch", "transformers", "sentence-transformers", *own)


def make_layers(model: Any, backend: str, dtype: str) -> Layers:
    """The layers of a sentence-transformers model's first module. Raises MissingExtra."""
    if backend == "torch":
        return _torch(model)
    if not is_installed(backend):
        if backend == "onnx":
            raise MissingExtra("encoding with onnx", "onnx")
        raise MissingExtra("encoding with openvino", "openvino")
    return (_onnx if backend == "onnx" else _openvino)(_export(model[0].auto_model), dtype)


def _torch(model: Any) -> Layers:
    import torch

    def run(ids: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        features = {
            "input_ids": torch.from_numpy(ids).to(model.device),
            "attention_mask": torch.from_numpy(mask).to(model.device),
        }
        made: dict[str, Any] = model[0](features)
        # Pooled in float32: bf16 sums lose what the layers kept.
        made["token_embeddings"] = made["token_embeddings"].float()
        return made

    return run


def _onnx(exported: bytes, dtype: str) -> Layers:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(exported, options, ["CPUExecutionProvider"])

    def run(ids: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        (tokens,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
        return _features(tokens, mask)

    return run


def _openvino(exported: bytes, dtype: str) -> Layers:
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bfloat16" else "f32",
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,  # two workers would be pinned to one core
    }
    compiled = core.compile_model(core.read_model(exported), "CPU", settings)

    def run(ids: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        # A request of its own: threads may encode at the same time.
        made = compiled.create_infer_request().infer({"input_ids": ids, "attention_mask": mask})
        return _features(np.array(made["tokens"], np.float32), mask)

    return run


def _features(tokens: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
    import torch

    return {
        "token_embeddings": torch.from_numpy(tokens),
        "attention_mask": torch.from_numpy(mask),
    }


def _export(transformer: Any) -> bytes:
    """A transformers model as ONNX, its weights inside, for any number of rows and any length."""
    import torch

    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = transformer

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    example = torch.ones((2, 16), dtype=torch.long)
    axes = {name: {0: "rows", 1: "length"} for name in ("input_ids", "attention_mask", "tokens")}
    with (
        tempfile.TemporaryDirectory() as scratch,
        warnings.catch_warnings(),
        torch.inference_mode(),
    ):
        made = Path(scratch) / "model.onnx"
        warnings.simplefilter("ignore")  # the tracer warns of each branch on a shape
        torch.onnx.export(
            Tokens().eval(), (example, example), made, opset_version=_OPSET, dynamo=False,
            input_names=["input_ids", "attention_mask"], output_names=["tokens"],
            dynamic_axes=axes,
        )  # fmt: skip
        return made.read_bytes()
