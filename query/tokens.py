"""Counting tokens with the encoder's own tokenizer, never cut and never padded."""

import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from stillroom.errors import BadInput

_SURROGATES = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """The text with lone surrogates as U+FFFD: no encoder, tokenizer or index takes them. A command
    line hands them over for arguments that are not UTF-8."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


class TokenCounter:
    """Counts tokens of texts, special tokens apart, and says where each token lies.

    The tokenizer file of many sentence-transformers models pads and truncates (MiniLM's to 128
    tokens): both are switched off here, else every long text counts the same.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer

    @classmethod
    def from_folder(cls, folder: str | Path) -> "TokenCounter":
        """The tokenizer of a model folder. Raises BadInput where it has no tokenizer.json."""
        path = Path(folder) / "tokenizer.json"
        if not path.is_file():
            raise BadInput(
                f"{folder} has no tokenizer.json: a fast tokenizer is needed to count tokens"
            )
        return cls(Tokenizer.from_file(str(path)))

    @property
    def special_tokens(self) -> int:
        """How many tokens the tokenizer adds to every text ([CLS] and [SEP]: 2)."""
        return int(self.tokenizer.num_special_tokens_to_add(False))

    def count(self, text: str) -> int:
        """Tokens of one text, without special tokens."""
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens."""
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding.ids) for encoding in encodings]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each token in code points of `text`, in order."""
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        return [(int(start), int(end)) for start, end in encoding.offsets]
