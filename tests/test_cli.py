"""The command line: what it prints, what it exits with, and that a refusal is one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stillroom


def test_query_as_json(run, small_kb, kb):
    code, out, err = run("query", small_kb.path, "Nat.succ_le_of_lt", "-k", 3, "--json")
    assert code == 0
    assert err == ""
    data = json.loads(out)
    expected = kb.search("Nat.succ_le_of_lt", k=3)
    assert [hit["id"] for hit in data["hits"]] == [hit.id for hit in expected]
    assert data["hits"][0]["value"] == expected[0].value
    assert data["hits"][0]["score"] == pytest.approx(expected[0].score)
    assert data["notes"] == []
    assert "reasons" not in data["hits"][0]


def test_query_options_reach_the_search(run, small_kb):
    code, out, _ = run(
        "query", small_kb.path, "class of an element", "--where", "tags=security", "--where",
        "year>=2020", "--until", "2021-12-31", "--mode", "lexical", "--explain", "--json",
    )  # fmt: skip
    assert code == 0
    hits = json.loads(out)["hits"]
    assert {hit["source_key"] for hit in hits} == {"log4shell.md"}
    assert [reason["leg"] for reason in hits[0]["reasons"]] == ["lexical"]


def test_query_for_people(run, small_kb):
    code, out, err = run("query", small_kb.path, "supremum of a lattice", "-k", 1, "--explain")
    assert code == 0
    assert "Orders in Lean" in out
    assert "lean.md" in out
    assert "supremum" in out
    assert "lexical: rank 1" in out
    assert err == ""


@pytest.mark.parametrize("text", ["[bold]whales[/bold]", "[/] whales [red", "--whales-", "世界"])
def test_any_text_is_a_query(run, small_kb, text):
    code, out, _ = run("query", small_kb.path, "--json", "--", text)
    assert code == 0
    assert json.loads(out)["hits"]


def test_values_with_brackets_are_printed_as_they_are(run, small_kb, tmp_path):
    from tests.conftest import build_base

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text(
        "# A [red]title[/red]\n\nUse items[0] and [/x] in [bold]."
    )
    build_base(tmp_path / "in", tmp_path / "k.kb")
    code, out, _ = run("query", tmp_path / "k.kb", "items", "-k", 1)
    assert code == 0
    assert "[red]title[/red]" in out
    assert "items[0]" in out
    assert "[/x] in [bold]" in out


def test_bytes_of_a_shell_that_are_no_utf8(run, small_kb):
    text = b"whales \xff".decode("utf-8", "surrogateescape")
    code, out, _ = run("query", small_kb.path, text, "--json")
    assert code == 0
    assert json.loads(out)["hits"][0]["source_key"] == "sea.txt"


def test_no_hits_is_no_error(run, small_kb):
    code, out, _ = run("query", small_kb.path, "zzzqqq", "--mode", "lexical")
    assert (code, out.strip()) == (0, "no hits")
    code, out, _ = run("query", small_kb.path, "zzzqqq", "--mode", "lexical", "--json")
    assert json.loads(out) == {"notes": [], "hits": []}


def test_status(run, small_kb):
    code, out, _ = run("status", small_kb.path, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["build"] == small_kb.outcome.build
    assert data["accounting"]["read"] == data["accounting"]["published"] + 1
    assert data["accounting"]["reasons"] == {"empty": 1}
    assert data["counts"]["entries"] == small_kb.outcome.counts["entries"]
    assert data["encoder"]["name"] == "minilm"
    assert data["bytes"] > 1000
    code, out, _ = run("status", small_kb.path)
    assert code == 0
    assert small_kb.outcome.build in out.replace("\n", "")
    assert data["elastic"]["128/int8"]["bytes"] == 128
    assert "384 dims, f32" in out
    assert f"{data['elastic']['64/int8']['retention']:.1%} (64)" in out


def test_a_form_of_vectors_by_flags(run, small_kb, tmp_path):
    target = tmp_path / "kb"
    flags = ("--dims", "128", "--dtype", "int8")
    code, out, _ = run("build", "corpus", small_kb.folder, "--kb", target, *flags, "--json")
    assert code == 0
    code, out, _ = run("status", target, "--json")
    assert (json.loads(out)["plan"]["dims"], json.loads(out)["plan"]["dtype"]) == (128, "int8")
    code, out, _ = run("query", target, "whales sing under water", "--mode", "dense", "--json")
    assert json.loads(out)["hits"][0]["source_key"] == "sea.txt"
    for wrong in (("--dims", "100"), ("--dims", "512"), ("--dtype", "fp8")):
        code, _, error = run("build", "corpus", small_kb.folder, "--kb", target, *wrong)
        assert code == 1
        assert wrong[1] in error


def test_builds(run, small_kb):
    code, out, _ = run("builds", small_kb.path, "--json")
    assert code == 0
    (only,) = json.loads(out)
    assert (only["build"], only["live"]) == (small_kb.outcome.build, True)


def test_version(run):
    code, out, _ = run("--version")
    assert (code, out.split()) == (0, ["stillroom", stillroom.__version__])


def test_eval(run, small_kb, tmp_path):
    (tmp_path / "q.jsonl").write_text('{"_id": "1", "text": "whales"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tsea.txt\t1\n")
    arguments = ["--queries", tmp_path / "q.jsonl", "--qrels", tmp_path / "qrels.tsv"]
    code, out, _ = run("eval", small_kb.path, *arguments, "--json")
    assert code == 0
    assert json.loads(out)["nDCG@10"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    code, out, _ = run("eval", small_kb.path, *arguments)
    assert code == 0
    assert "nDCG@10" in out


REFUSALS = [
    (["query", "/no/such.kb", "x"], "is not a folder"),
    (["status", "/no/such.kb"], "is not a folder"),
    (["builds", "/no/such.kb"], "is not a folder"),
    (["report", "/no/such.kb"], "is not a folder"),
    (["report", "KB", "--build", "zz"], "0 builds of"),
    (["report", "KB", "--json", "--out", "page.html"], "--json prints data"),
    (["report", "KB", "--out", "/no/such/page.html"], "/no/such/page.html cannot be written"),
    (["query", "KB", "x", "--where", "year"], "--where takes NAME=VALUE"),
    (["query", "KB", "x", "--where", "nope=1"], "no entry has a facet 'nope'"),
    (["query", "KB", "x", "--since", "soon"], "'soon' is not a time"),
    (["query", "KB", "x", "--encoder", "light"], "light"),
    (["query", "KB", "x", "-k", "0"], "at least 1"),
    (["eval", "KB", "--queries", "/none", "--qrels", "/none"], "cannot be read"),
    (["build", "wiki", "x", "--kb", "NEW"], "'wiki' is neither a recipe"),
    (["build", "corpus", "--kb", "NEW"], "at least one source"),
    (["build", "corpus", "/no/such/folder", "--kb", "NEW"], "no file matches"),
    (["build", "/no/such.toml", "--kb", "NEW"], "cannot be read"),
    (["build", "corpus", "IN", "--kb", "NEW", "--keys", "text,words"], "'words'"),
    (["build", "corpus", "IN", "--kb", "NEW", "--segment", "page"], "'page'"),
    (["build", "corpus", "IN", "--kb", "NEW", "--encoder", "./none"], "no folder is there"),
    (["build", "corpus", "IN", "--kb", "NEW", "--max-error-rate", "2"], "not 2.0"),
    (["build", "corpus", "IN", "--kb", "NEW", "--segment-tokens", "4"], "at least 16, not 4"),
    (["build", "corpus", "IN", "--kb", "NEW", "--workers", "0"], "at least 1, not 0"),
    (
        ["build", "corpus", "IN", "--kb", "NEW", "--", "--runner=DaskRunner"],
        "DaskRunner is refused",
    ),
    (["build", "corpus", "IN", "--kb", "NEW", "--", "--no_such_flag"], "no option --no_such_flag"),
    (["build", "corpus", "IN", "--kb", "NEW", "--llm", "openai:x"], "language model"),
    (
        ["build", "corpus", "IN", "--kb", "ftp://host/x"],
        "ftp://host/x is not the address of an obj",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "message"), REFUSALS, ids=[" ".join(a).replace("/", ".") for a, _ in REFUSALS]
)
def test_a_refusal_is_one_line_and_exit_code_1(
    run, small_kb, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    places = {"KB": small_kb.path, "NEW": tmp_path / "new.kb", "IN": small_kb.folder}
    code, out, err = run(*(places.get(word, word) for word in arguments))
    assert code == 1
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1
    assert message in err
    assert not list(tmp_path.rglob("CURRENT"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "KB", "x", "--wher", "a=b"],
        ["query", "KB", "x", "--mode", "fuzzy"],
        ["query", "KB"],
        ["status", "KB", "--verbose"],
        ["build", "corpus", "IN"],
        ["build", "corpus", "IN", "--kb", "NEW", "--runner=x"],
        ["nonsense"],
    ],
)
def test_unknown_flags_and_commands_are_usage_errors(run, small_kb, tmp_path, arguments):
    places = {"KB": small_kb.path, "NEW": tmp_path / "new.kb", "IN": small_kb.folder}
    code, out, err = run(*(places.get(word, word) for word in arguments))
    assert code == 2
    assert "Traceback" not in out + err
    assert err
    assert not (tmp_path / "new.kb").exists()


def test_a_dry_run_builds_nothing(run, small_kb, tmp_path):
    target = tmp_path / "new.kb"
    code, out, _ = run("build", "corpus", small_kb.folder, "--kb", target, "--dry-run", "--json")
    assert code == 0
    data = json.loads(out)
    assert data["files"] == len(list(small_kb.folder.iterdir()))
    assert data["encoder"].startswith("minilm")
    assert data["documents"] == "all are new"
    assert not target.exists()
    code, out, _ = run("build", "corpus", small_kb.folder, "--kb", target, "--dry-run")
    assert code == 0
    assert "would build" in out
    assert not target.exists()


def test_a_build_and_the_same_again(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("# Owls\n\nOwls hunt at night.")
    (tmp_path / "in" / "bad.txt").write_text(" ")
    arguments = ["build", "corpus", tmp_path / "in", "--kb", tmp_path / "k.kb"]
    code, out, err = run(*arguments, "--json")
    assert code == 0
    first = json.loads(out)
    assert (first["changed"], first["read"], first["published"], first["rejected"]) == (
        True,
        2,
        1,
        1,
    )
    assert first["reasons"] == {"empty": 1}
    (named,) = [word for word in err.split() if word.endswith("rejects.jsonl")]
    (line,) = Path(named).read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["uri"].endswith("bad.txt")
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    again = json.loads(out)
    assert (again["changed"], again["build"]) == (False, first["build"])
    assert (again["published"], again["unchanged"]) == (0, 1)
    code, out, _ = run(*arguments)
    assert code == 0
    assert "no change: still build" in out


def test_over_the_error_budget_nothing_is_published(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("# Owls\n\nOwls hunt at night.")
    (tmp_path / "in" / "bad.txt").write_text(" ")
    code, _, err = run(
        "build", "corpus", tmp_path / "in", "--kb", tmp_path / "k.kb", "--max-error-rate", "0.1"
    )
    assert code == 1
    assert "1 of 2 inputs were rejected (1 empty)" in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "k.kb" / "CURRENT").exists()


def test_a_recipe_file_builds(run, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Owls\n\nOwls hunt at night. They turn their heads.")
    (tmp_path / "base.toml").write_text(
        'kind = "corpus"\nkeys = ["text", "sentence"]\n[[source]]\nname = "d"\nuri = "docs"\n'
    )
    code, out, _ = run("build", tmp_path / "base.toml", "--kb", tmp_path / "k.kb", "--json")
    assert code == 0
    assert json.loads(out)["counts"]["keys"] >= 3
    code, out, _ = run("query", tmp_path / "k.kb", "owls", "--json")
    assert json.loads(out)["hits"][0]["source_key"] == "a.md"


def test_the_installed_command_refuses_without_a_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "stillroom.pipelines.cli", "query", str(tmp_path), "x"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "COLUMNS": "40"},
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "has no published build" in done.stderr
