"""The content of a message to or from a model, as text: a string, or a list of typed blocks.

Follows Anthropic's Messages API, OpenAI's Chat Completions and Responses, and the export of Claude,
whose blocks are those of the first. What is no text leaves its sign, as `[image]`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from stillroom.transforms.chat_values import dict_of, list_of, malformed, text_of
from stillroom.transforms.parsed import Refused

_SIGNS = {
    "image": "[image]",
    "image_url": "[image]",
    "input_image": "[image]",
    "input_audio": "[audio]",
    "audio": "[audio]",
    "video": "[video]",
    "redacted_thinking": "[thinking]",
    "token_budget": "",  # Claude counts for itself
    "flag": "",
}


def content_text(content: Any) -> str:
    """The text of a message's content. Raises Refused(MALFORMED) for what is neither a string, a
    block nor a list of these."""
    if content is None or isinstance(content, str):
        return content or ""
    blocks = content if isinstance(content, list) else [content]
    return "\n\n".join(text for block in blocks if (text := _block_text(block)).strip())


def has_text(content: Any) -> bool:
    """Whether content has what was said, beside tools, thoughts and files."""
    return isinstance(content, str) or any(
        isinstance(block, str) or dict_of(block).get("type") in ("text", "input_text")
        for block in list_of(content)
        if _block_text(block).strip()
    )


def call_text(name: Any, arguments: Any) -> str:
    """A tool's call: its name and what it was given, one argument a line."""
    title = f"[tool: {text_of(name)}]" if text_of(name) else "[tool]"
    return "\n".join(filter(None, (title, _arguments(arguments))))


def file_text(name: Any, text: Any = None) -> str:
    """A file that was attached: its name, and what is known of its text."""
    title = f"[file: {text_of(name)}]" if text_of(name) else "[file]"
    return "\n".join(filter(None, (title, text_of(text))))


def _arguments(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_arguments(given)}" for name, given in value.items())
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _block_text(block: Any) -> str:
    if block is None or isinstance(block, str):
        return block or ""
    if not isinstance(block, dict):
        raise malformed("a block of the content", block, "an object")
    kind = text_of(block.get("type"))
    if kind in _SIGNS:
        return text_of(block.get("transcript")) or _SIGNS[kind]
    if kind in _RENDERED:
        return _RENDERED[kind](block)
    if kind.endswith("tool_use"):
        return call_text(block.get("name"), block.get("input"))
    if kind.endswith("tool_result"):
        return content_text(block.get("content")) or "[tool result]"
    return _any_text(block)


def _any_text(block: Mapping[str, Any]) -> str:
    """A block of another kind: search results and the like have a title, an address and a text."""
    link = " ".join(filter(None, (text_of(block.get("title")), _address(block.get("url")))))
    text = text_of(block.get("text")) or content_text(block.get("content"))
    made = "\n".join(filter(None, (link, text)))
    kind = text_of(block.get("type"))
    return made or (f"[{kind}]" if kind else _arguments(dict(block)))


def _address(url: Any) -> str:
    return f"({url})" if isinstance(url, str) and url else ""


def _thinking(block: Mapping[str, Any]) -> str:
    return " ".join(filter(None, ("[thinking]", text_of(block.get("thinking")))))


def _document(block: Mapping[str, Any]) -> str:
    source = dict_of(block.get("source"))
    text = (
        source.get("data") if source.get("type") == "text" else content_text(source.get("content"))
    )
    return file_text(block.get("title"), text)


def _file(block: Mapping[str, Any]) -> str:
    return file_text(dict_of(block.get("file")).get("filename") or block.get("filename"))


_RENDERED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text": lambda block: text_of(block.get("text")),
    "input_text": lambda block: text_of(block.get("text")),
    "output_text": lambda block: text_of(block.get("text")),
    "refusal": lambda block: text_of(block.get("refusal")),
    "thinking": _thinking,
    "document": _document,
    "file": _file,
    "input_file": _file,
}


def readable(make: Callable[[], Any], key: str) -> Any:
    """What `make` makes of a message, or the Refused that it ends with: never an exception."""
    try:
        return make()
    except Refused as error:
        return Refused(error.reason, error.detail, key)
    except RecursionError:
        return malformed("a message", None, "one nested less deeply", key)
