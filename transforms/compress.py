"""Compression of a text to its informative words: what a `compressed` key is made with.

SeCom (Pan et al., ICLR 2025) denoises memory segments with LLMLingua-2 before they are indexed, and
still returns the original. Two compressors stand behind one interface here:

- `ExtractiveCompressor`, the default, approximates that without a model. LLMLingua-2 learned from
  GPT-4 which words can go; this one uses what such labels mostly come down to: function words and
  what was said before. No published figure of SeCom or LLMLingua-2 applies to it.
- `TokenClassifierCompressor` is the method of LLMLingua-2 (Pan et al., ACL Findings 2024): a token
  classifier gives each token a probability to be kept, a word has the mean of its tokens', and the
  words above the quantile for the rate stay. It differs in keeping the protected words always.

Both keep whole words of the source, in their order, and always keep numbers, negations, names,
identifiers, code, addresses and mathematical signs: what token-level compression is known to spoil
(LLMLingua#144, #149). Scripts without spaces are kept whole. rate is the share of words kept, at
least.
"""

import hashlib
import math
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from stillroom.schemas.ids import digest
from stillroom.transforms.word_classes import AROUND, RANKS, protected_words

MIN_WORDS = 12  # a shorter text has nothing to spare
_ONE_AT_A_TIME = threading.Lock()  # torch's number of threads belongs to the whole process
SPECS = "'extractive' or 'llmlingua2:NAME_OR_PATH'"


class Compressor(Protocol):
    """Takes words out of a text. Compressors of equal `fingerprint` give equal results."""

    @property
    def fingerprint(self) -> str: ...

    def compress(self, text: str, rate: float) -> str:
        """The text with at least about `rate` (over 0, at most 1) of its words."""


def make_compressor(spec: str) -> Compressor:
    """The compressor of a recipe's `compressor`. ValueError for an unknown one."""
    name, _, model = spec.partition(":")
    if spec == "extractive":
        return ExtractiveCompressor()
    if name == "llmlingua2" and model:
        return TokenClassifierCompressor(model)
    raise ValueError(f"a compressor is {SPECS}, not {spec!r}")


class ExtractiveCompressor:
    """Drops articles, auxiliaries and fillers first, then other function words, then repetitions."""

    @property
    def fingerprint(self) -> str:
        return digest("compressor", "extractive", 1)

    def compress(self, text: str, rate: float) -> str:
        """See `Compressor.compress`. Linear in the text but for one sort."""
        words = _words_to_compress(text, rate)
        if words is None:
            return text
        scores = _informativeness(text, words)
        spare = [i for i, kept in enumerate(protected_words(text, words)) if not kept]
        spare.sort(key=lambda i: (scores[i], -i))  # of equals, the later word goes first
        gone = set(spare[: len(words) - math.ceil(rate * len(words))])
        return _join(text, [word for i, word in enumerate(words) if i not in gone])


class TokenClassifierCompressor:
    """LLMLingua-2's classifier: any token-classification model with a label for "keep".

    `name_or_path` is a Hugging Face name or a local folder. The label is the one called `keep` or
    `preserve`, else number 1, as in the published models. torch and transformers are imported at
    first use; the model runs in float32 on one thread, so that results are repeatable.
    """

    def __init__(self, name_or_path: str) -> None:
        self.name_or_path = name_or_path
        self._loaded: tuple[Any, Any, int, str] | None = None

    @property
    def fingerprint(self) -> str:
        """Names the weights: the files' content for a folder, the revision for a hub's name."""
        return digest("compressor", "llmlingua2", self._load()[3])

    def compress(self, text: str, rate: float) -> str:
        """See `Compressor.compress`. Words that the tokenizer drops altogether are kept."""
        words = _words_to_compress(text, rate)
        if words is None:
            return text
        import numpy as np

        scores = self.word_probabilities(text, words)
        threshold = float(np.quantile(scores, 1.0 - rate))
        kept = [
            word
            for word, score, always in zip(words, scores, protected_words(text, words), strict=True)
            if always or score >= threshold
        ]
        return _join(text, kept)

    def word_probabilities(self, text: str, words: Sequence[tuple[int, int]]) -> list[float]:
        """The mean probability to be kept of each word's tokens; 1 for a word without tokens."""
        import torch

        model, tokenizer, label, _ = self._load()
        encoded = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, truncation=False
        )
        ids, owners = _owned(encoded["input_ids"], encoded["offset_mapping"], words)
        sums, counts = [0.0] * len(words), [0] * len(words)
        threads = torch.get_num_threads()
        with _ONE_AT_A_TIME, torch.inference_mode():
            torch.set_num_threads(1)  # the order of additions, and so the result, is then fixed
            try:
                for start, end in _token_windows(owners, _max_tokens(model, tokenizer) - 2):
                    window = [tokenizer.cls_token_id, *ids[start:end], tokenizer.sep_token_id]
                    logits = model(input_ids=torch.tensor([window])).logits[0, 1:-1]
                    for owner, p in zip(
                        owners[start:end], logits.softmax(-1)[:, label].tolist(), strict=True
                    ):
                        sums[owner] += p
                        counts[owner] += 1
            finally:
                torch.set_num_threads(threads)
        return [total / n if n else 1.0 for total, n in zip(sums, counts, strict=True)]

    def _load(self) -> tuple[Any, Any, int, str]:
        with _ONE_AT_A_TIME:
            if self._loaded is None:
                import torch
                from transformers import AutoModelForTokenClassification, AutoTokenizer

                model = AutoModelForTokenClassification.from_pretrained(
                    self.name_or_path, dtype=torch.float32
                ).eval()
                tokenizer = AutoTokenizer.from_pretrained(self.name_or_path, use_fast=True)
                if not tokenizer.is_fast:
                    raise ValueError(f"{self.name_or_path} has no fast tokenizer (tokenizer.json)")
                labels = {str(k).lower(): int(v) for k, v in model.config.label2id.items()}
                label = labels.get("keep", labels.get("preserve", 1))
                if model.config.num_labels < 2:
                    raise ValueError(f"{self.name_or_path} has one label: 'drop' and 'keep' needed")
                self._loaded = (model, tokenizer, label, _weights(self.name_or_path, model))
            return self._loaded


def _informativeness(text: str, words: Sequence[tuple[int, int]]) -> list[float]:
    """Low for what a reader misses least: function words, repetitions, short and late words."""
    seen: dict[str, int] = {}
    scores = []
    for place, (start, end) in enumerate(words):
        lower = text[start:end].strip(AROUND).lower()
        rank = RANKS.get(lower)
        if rank is not None:
            scores.append(float(rank))
            continue
        before = seen.get(lower, 0)
        seen[lower] = before + 1
        score = 10.0 + min(len(lower), 12) / 4 - 2.0 * math.log2(1 + before)
        if lower.endswith("ly"):
            score -= 2.0
        scores.append(score + 1.0 - place / len(words))
    return scores


def _words_to_compress(text: str, rate: float) -> list[tuple[int, int]] | None:
    """The words of a text; None where it is to stay as it is."""
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"a rate of compression is over 0 and at most 1, not {rate}")
    if rate == 1.0:
        return None
    words = [match.span() for match in re.finditer(r"\S+", text)]
    return words if len(words) >= MIN_WORDS else None


def _join(text: str, words: Sequence[tuple[int, int]]) -> str:
    """The words with the line ends and spaces between them as simple as they can be."""
    pieces = []
    last = -1
    for start, end in words:
        if last >= 0:
            pieces.append("\n" if text.find("\n", last, start) >= 0 else " ")
        pieces.append(text[start:end])
        last = end
    return "".join(pieces)


def _owned(
    ids: Sequence[int], offsets: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Tokens with the number of the word in which each one ends; tokens of no word are left out."""
    kept, owners = [], []
    at = 0
    for token, (_, end) in zip(ids, offsets, strict=True):
        while at < len(words) and words[at][1] < end:
            at += 1
        if at < len(words) and words[at][0] < end:
            kept.append(token)
            owners.append(at)
    return kept, owners


def _token_windows(owners: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Runs of at most `size` tokens that end where a word does, unless a word is longer than that."""
    runs = []
    start = 0
    while start < len(owners):
        end = min(start + size, len(owners))
        whole = end
        while whole < len(owners) and whole > start and owners[whole] == owners[whole - 1]:
            whole -= 1
        end = whole if whole > start else end
        runs.append((start, end))
        start = end
    return runs


def _max_tokens(model: Any, tokenizer: Any) -> int:
    longest = int(getattr(model.config, "max_position_embeddings", 512))
    # RoBERTa counts positions from 2 on, and a tokenizer without a limit says 10^30.
    return max(8, min(longest - 2, int(tokenizer.model_max_length), 512))


def _weights(name_or_path: str, model: Any) -> str:
    folder = Path(name_or_path)
    if not folder.is_dir():
        return digest(name_or_path, str(getattr(model.config, "_commit_hash", None)))
    parts: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.suffix in (".safetensors", ".bin") or path.name in (
            "config.json",
            "tokenizer.json",
        ):
            with path.open("rb") as stream:
                parts.extend((path.name, hashlib.file_digest(stream, "sha256").hexdigest()))
    return digest(*parts)
