"""What a memory must answer that no public set covers: what the assistant said, what was known at a
time, and which of two statements holds. The conversations are written for this test."""

import json
from datetime import UTC, datetime

import pytest

import stillroom

# (day, title, turns); a turn is (who, text).
TALKS = [
    ("2023-01-10", "Getting to know", [
        ("human", "I live in Berlin, in a small flat near the canal."),
        ("assistant", "Berlin has a lot of canals. The Landwehr canal is about eleven kilometres long."),
        ("human", "My favourite colour is green, by the way."),
        ("assistant", "Noted. Green it is."),
        ("human", "I work as a nurse at the city hospital."),
        ("assistant", "Night shifts must be hard. A nap of twenty minutes before the shift helps."),
    ]),
    ("2023-02-03", "Bread", [
        ("human", "How do I keep a sourdough starter alive?"),
        ("assistant", "Feed the starter with rye flour and water once a week, in the fridge."),
        ("human", "And when is it ready for baking?"),
        ("assistant", "When a spoonful floats in a glass of water."),
    ]),
    ("2023-03-05", "Phone", [
        ("human", "My phone number is 555-1234, in case you need it."),
        ("assistant", "I will remember 555-1234."),
        ("human", "My budget for the trip to Norway is 800 euros."),
        ("assistant", "For 800 euros I suggest the Bergen railway and the hostel Marken."),
    ]),
    ("2023-04-12", "Car", [
        ("human", "Which oil does my old Volvo need?"),
        ("assistant", "The Volvo 240 takes 10W-40 oil, about four litres."),
        ("human", "I take my coffee with milk while I work on it."),
        ("assistant", "Enjoy your coffee."),
    ]),
    ("2023-06-20", "Changes", [
        ("human", "I have a new phone number, it is 555-9876."),
        ("assistant", "Thank you, 555-9876 it is."),
        ("human", "I changed my mind, my favourite colour is blue these days."),
        ("assistant", "Blue suits you."),
        ("human", "Let's raise the budget for the trip to Norway to 1200 euros."),
        ("assistant", "With 1200 euros, the Hurtigruten ship from Bergen to Trondheim is possible."),
    ]),
    ("2023-08-01", "Work", [
        ("human", "I quit nursing at the hospital, I work as a baker now."),
        ("assistant", "Congratulations. A baker starts at two in the morning, so mind your sleep."),
        ("human", "I drink my coffee black now, without milk."),
        ("assistant", "Black coffee has almost no calories."),
    ]),
    ("2023-10-15", "Python", [
        ("human", "How do I read a large file line by line in Python?"),
        ("assistant", "Iterate over the open file: for line in handle, with a with statement around."),
        ("human", "And how do I count words?"),
        ("assistant", "collections.Counter counts the words of line.split()."),
    ]),
    ("2023-11-02", "Film night", [
        ("human", "Recommend a film about chess."),
        ("assistant", "Searching for Bobby Fischer from 1993 is a fine film about chess."),
        ("human", "And a novel about the sea?"),
        ("assistant", "The Old Man and the Sea by Hemingway is short and good."),
    ]),
]  # fmt: skip

ASSISTANT = [
    ("How long is the Landwehr canal?", "eleven kilometres"),
    ("What did you suggest against tiredness on night shifts?", "twenty minutes"),
    ("How often should the starter be fed?", "once a week"),
    ("Which flour did you recommend for the starter?", "rye flour"),
    ("How can I tell that the sourdough starter is ready?", "floats"),
    ("Which hostel did you suggest for Norway?", "Marken"),
    ("Which oil did you say the Volvo takes?", "10W-40"),
    ("Which ship goes from Bergen to Trondheim?", "Hurtigruten"),
    ("When does a baker start work?", "two in the morning"),
    ("How does one iterate over a file in Python?", "for line in handle"),
    ("What counts words in Python?", "collections.Counter"),
    ("Which chess film did you recommend?", "Bobby Fischer"),
    ("Who wrote the novel about the sea that you named?", "Hemingway"),
]
AS_OF = [
    ("What is my phone number?", "2023-04-01", "555-1234", "555-9876"),
    ("What is my favourite colour?", "2023-05-01", "green", "blue"),
    ("What is my budget for the trip to Norway?", "2023-06-01", "800 euros", "1200 euros"),
    ("Where do I work?", "2023-07-01", "city hospital", "baker"),
    ("How do I drink my coffee?", "2023-07-31", "with milk", "black"),
    ("What do you know of Python?", "2023-10-01", "", "Counter"),
    ("Which film did you recommend?", "2023-11-01", "", "Bobby Fischer"),
    ("Which novel about the sea did you name?", "2023-11-01", "", "Hemingway"),
]
LATEST = [
    ("What is my phone number?", "555-9876", "555-1234"),
    ("Tell me my number, the one of my phone.", "555-9876", "555-1234"),
    ("What is my favourite colour?", "blue", "green"),
    ("Which colour do I like best?", "blue", "green"),
    ("What is my budget for the trip to Norway?", "1200 euros", "800 euros"),
    ("How many euros are planned for the trip?", "1200 euros", "800 euros"),
    ("Where do I work, at the hospital?", "baker", "city hospital"),
    ("What work do I do?", "baker", "city hospital"),
    ("How do I take my coffee?", "black now", "with milk"),
    ("Do I take milk with my coffee?", "black now", "with milk"),
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    from stillroom.pipelines.build import run_build
    from stillroom.pipelines.plan import plan_build
    from stillroom.schemas.recipe import Source, make_recipe

    root = tmp_path_factory.mktemp("memory")
    rows = []
    for number, (day, title, turns) in enumerate(TALKS):
        messages = [
            {
                "uuid": f"{number}-{i}", "sender": who, "text": text,
                "created_at": f"{day}T10:{i:02}:00.000000Z", "attachments": [], "files": [],
            }
            for i, (who, text) in enumerate(turns)
        ]  # fmt: skip
        rows.append({
            "uuid": f"talk-{number}", "name": title, "created_at": f"{day}T10:00:00.000000Z",
            "updated_at": f"{day}T10:09:00.000000Z", "account": {"uuid": "a"},
            "chat_messages": messages,
        })  # fmt: skip
    (root / "conversations.json").write_text(json.dumps(rows), encoding="utf-8")
    recipe = make_recipe(
        "chat", (Source("claude", str(root / "conversations.json")),), segment="round"
    )
    outcome = run_build(plan_build(recipe, str(root / "kb")))
    assert outcome.accounting.published == len(TALKS)
    assert outcome.accounting.rejected == 0
    return stillroom.open(root / "kb")


@pytest.mark.parametrize(("question", "answer"), ASSISTANT)
def test_what_the_assistant_said_is_found(memory, question, answer):
    hits = memory.search(question, k=3)
    assert any(answer in hit.value for hit in hits)
    found = next(hit for hit in hits if answer in hit.value)
    said = [mark for mark in found.marks if mark.label.startswith("assistant")]
    assert said
    assert "assistant" in found.facets["role"]


@pytest.mark.parametrize(("question", "day", "known", "later"), AS_OF)
def test_what_was_known_then(memory, question, day, known, later):
    hits = memory.search(question, k=5, as_of=day)
    assert all(later not in hit.value for hit in hits)
    assert all(hit.ends_at < datetime.fromisoformat(f"{day}T23:59:59+00:00") for hit in hits)
    assert any(known in hit.value for hit in hits)
    assert any(later in hit.value for hit in memory.search(question, k=5))


@pytest.mark.parametrize(("question", "newer", "older"), LATEST)
def test_the_latest_statement_leads_and_the_older_stays_in_sight(memory, question, newer, older):
    hits = memory.search(question, k=5)
    values = [hit.value for hit in hits]
    first = next(i for i, value in enumerate(values) if newer in value)
    rest = [i for i, value in enumerate(values) if older in value]
    assert not rest or first < rest[0]
    named = [r.key_text for hit in hits for r in hit.reasons if r.leg == "latest"]
    assert rest or any(older in text for text in named)


def test_a_superseded_statement_is_named(memory):
    hit = memory.search("My phone number is 555-1234, isn't it?", k=3)[0]
    assert "555-9876" in hit.value
    reason = next(r for r in hit.reasons if r.leg == "latest")
    assert "555-1234" in reason.key_text
    assert memory.document(reason.key_span.document_id).created_at < datetime(
        2023, 4, 1, tzinfo=UTC
    )
    assert sum(r.contribution for r in hit.reasons) == pytest.approx(hit.score, abs=1e-5)


def test_roles_and_speakers_can_be_asked_for(memory):
    hits = memory.search("coffee", k=3, where={"role": "assistant"})
    assert hits
    assert all("assistant" in hit.facets["role"] for hit in hits)
