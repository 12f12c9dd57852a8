"""Asking a language model over the OpenAI-compatible protocol: cached, checked, never needed.

Any endpoint that speaks it will do (OPENAI_BASE_URL, OPENAI_API_KEY). An answer is kept only once its
check has passed; a malformed one is asked for again and then given up. An endpoint that refuses or
cannot be reached ends the build: a memory that silently differs from night to night is worse.
"""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from stillroom.errors import BadInput, MissingExtra, StillroomError
from stillroom.folders import cache_folder, replacing
from stillroom.schemas.ids import digest

OPENAI = "openai:"
TRIES = 2  # of one question, where the answer is malformed
TIMEOUT = 120.0  # seconds for one answer
RETRIES = 4  # of a request that the endpoint refused for now (429, 5xx, a broken connection)

Checked = TypeVar("Checked")


class LanguageModelFailed(StillroomError):
    """The endpoint refused, or could not be reached."""


@dataclass(frozen=True)
class LanguageModel:
    """A model behind an endpoint. Pickled to workers; the connection is made where it is asked."""

    model: str

    def ask(
        self, prompt: str, check: Callable[[str], Checked], max_tokens: int = 1024
    ) -> Checked | None:
        """What `check` makes of the model's answer; None where no answer passed it (it raises
        ValueError for a malformed one). Raises LanguageModelFailed."""
        places = [
            _cached(digest("answer", self.model, prompt, max_tokens, i)) for i in range(TRIES)
        ]
        for place in places:
            if place.is_file():
                return check(place.read_text(encoding="utf-8"))
        for attempt, place in enumerate(places):
            answer = self._complete(prompt, max_tokens, attempt)
            try:
                made = check(answer)
            except ValueError:
                continue
            with replacing(place) as aside:
                aside.write_text(answer, encoding="utf-8")
            return made
        return None

    def _complete(self, prompt: str, max_tokens: int, seed: int) -> str:
        import openai

        try:
            answer = _client().chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": prompt}],
                temperature=0.0,
                max_tokens=max_tokens,
                seed=seed,
            )
        except openai.OpenAIError as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise LanguageModelFailed(f"the language model {self.model!r}: {first}") from error
        choices = getattr(answer, "choices", None) or []
        return str(choices[0].message.content or "") if choices else ""


def language_model(spec: str) -> LanguageModel | None:
    """The model of a spec: `none`, or `openai:MODEL`. Raises BadInput, MissingExtra."""
    if spec == "none":
        return None
    if not spec.startswith(OPENAI) or not spec.removeprefix(OPENAI):
        raise BadInput(f"a language model is none or {OPENAI}MODEL, not {spec!r}")
    if importlib.util.find_spec("openai") is None:
        raise MissingExtra(f"the language model {spec!r}", "llm")
    return LanguageModel(spec.removeprefix(OPENAI))


def json_in(answer: str) -> Any:
    """The JSON value in an answer, whatever is said around it. Raises ValueError."""
    starts = [i for i in (answer.find("["), answer.find("{")) if i >= 0]
    if not starts:
        raise ValueError("no JSON in the answer")
    value, _ = json.JSONDecoder().raw_decode(answer[min(starts) :])
    return value


def _client() -> Any:
    import openai

    return openai.OpenAI(timeout=TIMEOUT, max_retries=RETRIES)


def _cached(name: str) -> Path:
    folder = cache_folder() / "answers" / name[:2]
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.txt"
