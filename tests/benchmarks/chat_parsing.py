"""Reading chat exports: MB a second and memory, for generated files of 100 MB in several formats; and turns
a second of a whole build against a bare encoder loop over the same turns."""

import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stillroom.models import load_encoder
from stillroom.pipelines.build import run_build
from stillroom.pipelines.plan import plan_build
from stillroom.schemas.documents import Document
from stillroom.schemas.recipe import Source, make_recipe
from stillroom.transforms.exports import plan_exports
from stillroom.transforms.files import list_source
from stillroom.transforms.read_chat import read_chats
from tests.benchmarks.common import read_jsonl

SIZE = 100_000_000
TURNS = 2_000  # of the build
START = datetime(2021, 1, 1, 8, tzinfo=UTC)


def main(data: Path) -> None:
    texts = sentences(data)
    for name, write in WRITERS.items():
        with tempfile.TemporaryDirectory() as scratch:
            path = write(Path(scratch), said(texts))
            size = path.stat().st_size
            source = Source("chat", str(path))
            began = time.process_time()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            turns = rejects = 0
            for shard in plan_exports(source, list_source(source)):
                for made in read_chats(shard.files, source, 1_000_000):
                    turns += len(made.marks) if isinstance(made, Document) else 0
                    rejects += not isinstance(made, Document)
            spent = time.process_time() - began
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            print(
                f"{name:9} {size / 1e6:5.0f} MB, {turns:9,} turns, {rejects} rejects: "
                f"{size / 1e6 / spent:5.1f} MB/s, {turns / spent:9,.0f} turns/s, +{grown:.0f} MB",
                flush=True,
            )
    build_speed(texts)


def build_speed(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = whatsapp(Path(scratch), said(texts), TURNS * 90)
        recipe = make_recipe("chat", (Source("chat", str(path)),))
        encoder = load_encoder("minilm")
        began = time.process_time()
        outcome = run_build(plan_build(recipe, f"{scratch}/kb"))
        whole = time.process_time() - began
        read = list(read_chats(list_source(recipe.sources[0]), recipe.sources[0], 1_000_000))
        turns = [d.text[m.start : m.end] for d in read if isinstance(d, Document) for m in d.marks]
        began = time.process_time()
        encoder.encode_documents(sorted(set(turns)))
        bare = time.process_time() - began
    print(
        f"build: {len(turns) / whole:.0f} turns/s of CPU ({outcome.counts['entries']} entries); bare encoder "
        f"loop {len(turns) / bare:.0f}: {bare / whole:.2f} of it"
    )


def sentences(data: Path) -> list[str]:
    rows = read_jsonl(data / "retrieval" / "scifact" / "corpus" / "corpus.jsonl")
    return [part for row in rows for part in row["text"].split(". ") if 20 < len(part) < 300]


def said(texts: list[str]) -> Iterator[tuple[int, str, str, datetime]]:
    """(number, speaker, text, time), for ever."""
    number = 0
    while True:
        at = START + timedelta(minutes=7 * number + (number // 40) * 600)
        yield number, ("Ann", "Bob")[number % 2], texts[number * 7 % len(texts)], at
        number += 1


def _write(path: Path, turns: Iterator[Any], size: int, line: Callable[..., str], head: str, tail: str, between: str) -> Path:  # fmt: skip
    with path.open("w", encoding="utf-8") as stream:
        written = stream.write(head)
        for index, turn in enumerate(turns):
            if written > size:
                break
            written += stream.write((between if index else "") + line(*turn))
        stream.write(tail)
    return path


def whatsapp(folder: Path, turns: Iterator[Any], size: int = SIZE) -> Path:
    def line(number: int, speaker: str, text: str, at: datetime) -> str:
        return f"{at:%d/%m/%Y, %H:%M} - {speaker}: {text}\n"

    return _write(folder / "WhatsApp Chat with Ann.txt", turns, size, line, "", "", "")


def irc(folder: Path, turns: Iterator[Any], size: int = SIZE) -> Path:
    def line(number: int, speaker: str, text: str, at: datetime) -> str:
        return f"[{at:%H:%M:%S}] <{speaker}> {text}\n"

    return _write(folder / "2021-01-01.log", turns, size, line, "", "", "")


def telegram(folder: Path, turns: Iterator[Any], size: int = SIZE) -> Path:
    def line(number: int, speaker: str, text: str, at: datetime) -> str:
        return json.dumps({
            "id": number, "type": "message", "date": f"{at:%Y-%m-%dT%H:%M:%S}",
            "date_unixtime": str(int(at.timestamp())), "from": speaker, "from_id": f"user{speaker}",
            "text": text, "text_entities": [{"type": "plain", "text": text}],
        })  # fmt: skip

    head = '{"name": "Ann", "type": "personal_chat", "id": 1, "messages": ['
    return _write(folder / "result.json", turns, size, line, head, "]}", ",\n")


def discord(folder: Path, turns: Iterator[Any], size: int = SIZE) -> Path:
    def line(number: int, speaker: str, text: str, at: datetime) -> str:
        return json.dumps({
            "id": str(10**17 + number), "type": "Default", "timestamp": at.isoformat(),
            "timestampEdited": None, "isPinned": False, "content": text, "attachments": [],
            "author": {"id": speaker, "name": speaker, "discriminator": "0000", "isBot": False},
            "embeds": [], "reactions": [], "mentions": [],
        })  # fmt: skip

    head = (
        '{"guild": {"id": "1", "name": "G"}, "channel": {"id": "2", "type": "GuildTextChat", '
        '"name": "general"}, "dateRange": {"after": null, "before": null}, "messages": ['
    )
    return _write(folder / "general.json", turns, size, line, head, "]}", ",\n")


def sharegpt(folder: Path, turns: Iterator[Any], size: int = SIZE) -> Path:
    def line(number: int, speaker: str, text: str, at: datetime) -> str:
        pair = [{"from": "human", "value": text}, {"from": "gpt", "value": text[::-1]}]
        return json.dumps({"id": f"t{number}", "conversations": pair})

    return _write(folder / "sharegpt.json", turns, size, line, "[", "]", ",\n")


def claude(folder: Path, turns: Iterator[Any], size: int = SIZE) -> Path:
    def line(number: int, speaker: str, text: str, at: datetime) -> str:
        messages = [
            {"uuid": f"{number}-{i}", "sender": ("human", "assistant")[i % 2], "text": text,
             "content": [{"type": "text", "text": text}], "created_at": at.isoformat(),
             "attachments": [], "files": []}
            for i in range(6)
        ]  # fmt: skip
        return json.dumps({
            "uuid": f"c{number}", "name": "Talk", "created_at": at.isoformat(),
            "updated_at": at.isoformat(), "account": {"uuid": "a"}, "chat_messages": messages,
        })  # fmt: skip

    return _write(folder / "conversations.json", turns, size, line, "[", "]", ",\n")


WRITERS = {
    "whatsapp": whatsapp, "irc": irc, "telegram": telegram, "discord": discord,
    "sharegpt": sharegpt, "claude": claude,
}  # fmt: skip
