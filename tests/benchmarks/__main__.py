"""`make bench`, or `python -m tests.benchmarks NAME...` for some of them."""

import importlib
import sys
from pathlib import Path

NAMES = (
    "quality",
    "build_speed",
    "chat",
    "chat_parsing",
    "nightly",
    "growth",
    "query_latency",
    "readers",
    "elastic",
    "scale",
    "light",
    "rerank",
    "backends",
)


def main() -> None:
    data = Path(__file__).resolve().parents[3] / "shared" / "data"
    if not data.is_dir():
        sys.exit(f"benchmarks need the development data at {data}")
    wanted = sys.argv[1:] or list(NAMES)
    for name in wanted:
        if name not in NAMES:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"tests.benchmarks.{name}").main(data)


if __name__ == "__main__":
    main()
