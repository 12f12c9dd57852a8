"""Packing and time in a search: budgets, neighbours, order, and ranges that come first."""

import json
from datetime import UTC, datetime, timedelta

import pytest

import stillroom
from stillroom.errors import BadInput
from stillroom.packing import token_counter

SPEECH = [
    ("Ann", "Have you found a flat in Lisbon yet?"),
    ("Bob", "I signed the lease for a small flat near the river."),
    ("Ann", "Congratulations! When do you move?"),
    ("Bob", "The move is planned for the third week, the van is booked."),
    ("Ann", "What about your old bicycle?"),
    ("Bob", "I sold the red bicycle to a neighbour for forty euros."),
    ("Ann", "And how is your sourdough bread doing?"),
    ("Bob", "The bread has a better crust since I bake it in an iron pot."),
]
SESSIONS = 6


def write_locomo(path, speech=SPEECH, sessions=SESSIONS):
    """One conversation in LoCoMo's format, a session each month from January 2023 on."""
    conversation = {"speaker_a": "Ann", "speaker_b": "Bob"}
    at = datetime(2023, 1, 10, 9, tzinfo=UTC)
    for session in range(1, sessions + 1):
        said = speech[2 * (session - 1) % len(speech) :][:4]
        conversation[f"session_{session}_date_time"] = f"{at:%I:%M %p} on {at.day} {at:%B}, {at:%Y}"
        conversation[f"session_{session}"] = [
            {"speaker": name, "dia_id": f"D{session}:{i}", "text": f"{text} ({session})"}
            for i, (name, text) in enumerate(said, 1)
        ]
        at += timedelta(days=31)
    path.write_text(json.dumps([{"sample_id": "c", "qa": [], "conversation": conversation}]))


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    from stillroom.pipelines.build import run_build
    from stillroom.pipelines.plan import plan_build
    from stillroom.schemas.recipe import Source, make_recipe

    root = tmp_path_factory.mktemp("memory")
    write_locomo(root / "locomo.json")
    recipe = make_recipe(
        "chat", (Source("chat", str(root / "locomo.json")),),
        keys=("text", "path", "turn", "event", "fact"), segment_tokens=32,
    )  # fmt: skip
    outcome = run_build(plan_build(recipe, str(root / "kb")))
    assert outcome.accounting.published == SESSIONS
    return stillroom.open(root / "kb")


def test_a_budget_is_kept_and_mostly_used(memory):
    count = token_counter(memory._builds[0])
    for budget in (1, 20, 60, 200, 5_000):
        hits = memory.search("red bicycle", budget=budget)
        spent = sum(count(hit.value) for hit in hits)
        assert spent <= budget
        spans = [(hit.document_id, hit.span.start) for hit in hits]
        assert len(set(spans)) == len(spans)
    assert spent > 200
    assert not memory.search("red bicycle", budget=1)


def test_neighbours_of_hits_take_a_share(memory):
    hits = memory.search("red bicycle", budget=100)
    beside = [hit for hit in hits if hit.reasons[0].leg == "neighbour"]
    assert beside
    named = {hit.reasons[0].key_text for hit in beside}
    assert named <= {hit.id for hit in hits}


def test_hits_in_the_order_in_which_they_were_said(memory):
    hits = memory.search("red bicycle", k=8, order="time")
    starts = [hit.starts_at for hit in hits]
    assert starts == sorted(starts)
    assert {h.id for h in hits} == {h.id for h in memory.search("red bicycle", k=8)}


def test_a_time_in_the_query_comes_first_and_drops_nothing(memory):
    plain = memory.search("What did Bob say about the bicycle?", k=100, collapse=False)
    asked = "What did Bob say about the bicycle in March 2023?"
    timed = memory.search(asked, k=100, collapse=False)
    first = timed[0]
    assert (first.starts_at.year, first.starts_at.month) == (2023, 3)
    assert any(reason.leg == "time" for reason in first.reasons)
    assert {hit.id for hit in plain} == {hit.id for hit in timed}
    assert any("March 2023" in note for note in timed.notes)


def test_an_event_bounds_what_is_asked_for(memory):
    hits = memory.search("What about the flat before the van is booked?", k=5)
    assert any("before the van is booked" in note for note in hits.notes)


def test_as_of_knows_nothing_later(memory):
    hits = memory.search("red bicycle bread flat", k=50, as_of="2023-03-01")
    assert hits
    assert max(hit.ends_at for hit in hits) < datetime(2023, 3, 2, tzinfo=UTC)
    lexical = memory.search("bicycle", k=50, mode="lexical", as_of="2023-03-01")
    assert all(hit.ends_at < datetime(2023, 3, 2, tzinfo=UTC) for hit in lexical)
    note = memory.search("what happened last month", as_of="2023-03-20").notes
    assert any("2023-02-01 to 2023-03-01" in one for one in note)


def test_speakers_are_facets_and_turns_are_marks(memory):
    hits = memory.search("bicycle", k=3, where={"speaker": "Bob"})
    for hit in hits:
        assert "Bob" in hit.facets["speaker"]
        assert "Bob" in {mark.speaker for mark in hit.marks}
        assert hit.marks[0].source_id.startswith("D")


def test_contributions_add_up_to_the_score(memory):
    for hit in memory.search("the red bicycle in March 2023", k=5):
        assert sum(r.contribution for r in hit.reasons) == pytest.approx(hit.score, abs=1e-5)


@pytest.mark.parametrize("options", [{"budget": 0}, {"order": "rank"}, {"as_of": "soon"}])
def test_what_cannot_be_asked(memory, options):
    with pytest.raises(BadInput):
        memory.search("x", **options)


def test_a_base_of_documents_has_no_neighbours_or_times(kb):
    assert all(
        reason.leg in ("lexical", "dense")
        for hit in kb.search("keys in March 2023", budget=300)
        for reason in hit.reasons
    )
