"""The report: its numbers are the builds' own, its page is harmless, whole and drawn by a browser."""

import json
import os
import shutil
import sys
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stillroom
from stillroom.errors import Damaged, NotAKnowledgeBase
from stillroom.folders import FileState, open_folder
from stillroom.pipelines import report_page
from stillroom.pipelines.report import (
    BINS,
    FATES,
    SHOWN_REJECTS,
    Part,
    bin_width,
    gather,
    measure,
    parts_of,
    table_health,
)
from stillroom.pipelines.report_page import facts, render
from stillroom.pipelines.report_plots import visible
from stillroom.schemas.manifest import TABLES, TIMINGS, DerivedFiles, Light
from stillroom.store import build_folder, read_manifest
from stillroom.transforms.calibrate import MAX_DRIFT
from tests.test_incremental import build, pages, write

SECTIONS = ["accounting", "rejects", "lengths", "sizes", "timings", "growth", "health"]
HOSTILE = [
    "<script>window.harmed = 1</script>",
    "</script><script>window.harmed = 1</script>",
    "</td></table><img src=x onerror='window.harmed = 1'>",
    '" onmouseover="window.harmed = 1" x="',
    "' autofocus onfocus='window.harmed = 1",
    "<!-- <script>",
    "]]></style><link rel=stylesheet href=https://example.org/x.css>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&amp;",
    "lone \udcff\ud800 surrogates",
    "\x00 \x1b[31m \u202e gnp.exe \u2028\r\n\t end",
    "x" * 5000,
    '"id":"p1001"',
]


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A base of three builds, and the ids of these. One input is empty in each; in the last, a page is
    new, one has changed, one has gone."""
    root = tmp_path_factory.mktemp("history")
    corpora = [pages("a"), pages("abc"), pages("bcd", b=1)]
    made = [
        build(write(root / "in", {**corpus, "empty.txt": " \n"}), root / "three.kb").build
        for corpus in corpora
    ]
    return root / "three.kb", made


@pytest.fixture
def copied_history(history, tmp_path):
    """A copy with a name that means something to HTML."""
    kb, made = history
    return Path(shutil.copytree(kb, tmp_path / 'a "quoted" <i>name & more.kb')), made


@pytest.fixture
def run_report(run, monkeypatch, tmp_path):
    """Run `stillroom report ARGUMENTS...` in an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return partial(run, "report")


class Page(HTMLParser):
    """What a browser would make of a page: elements, and the cells of each table by its heading."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tables, self.text, self.plots = [], {}, "", {}
        self._heading, self._in = "", ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._in = tag
        if tag == "h3":
            self._heading = ""
        elif tag == "table":
            self.tables[self._heading] = []
        elif tag == "tr":
            self.tables[self._heading].append([])
        elif tag in ("td", "th"):
            self.tables[self._heading][-1].append("")

    def handle_endtag(self, tag):
        self._in = ""

    def handle_data(self, data):
        if self._in == "h3":
            self._heading += data
        elif self._in in ("td", "th"):
            self.tables[self._heading][-1][-1] += data
        if self._in == "script" and not self.plots:
            self.plots = json.loads(data)  # the first script holds them
        if self._in not in ("script", "style"):
            self.text += data


def write_rejects(kb, build_id, rejects):
    """Surrogates are escaped: in a file of UTF-8 there is no other way to say them."""
    lines = [json.dumps({"document_id": "", **reject}) + "\n" for reject in rejects]
    (kb / build_folder(build_id) / "rejects.jsonl").write_text("".join(lines), encoding="ascii")


def hostile_rejects():
    return [
        {"uri": word, "stage": word, "reason": HOSTILE[-number], "detail": word}
        for number, word in enumerate(HOSTILE)
    ]


def test_numbers_are_the_manifests_own(history):
    kb, made = history
    manifest, report = read_manifest(kb, made[2]), gather(kb)
    assert (report.build, report.live, report.content) == (made[2], made[2], manifest.content)
    assert report.counts == manifest.counts
    assert report.inputs == {
        "read": 4, "published": 2, "unchanged": 1, "duplicate": 0, "rejected": 1, "stale": 0,
    }  # fmt: skip
    assert report.counts["removed"] == 1
    assert sum(report.inputs[fate] for fate in FATES) == manifest.accounting.read
    assert report.repairs == {}
    assert report.encoder["name"] == "minilm"
    assert report.dense_weight == manifest.plan.dense_weight
    assert report.max_drift == MAX_DRIFT


def test_builds_are_told_in_order(history):
    kb, made = history
    rows = gather(kb).builds
    manifests = [read_manifest(kb, name) for name in made]
    assert [row.build for row in rows] == made
    assert [row.parent for row in rows] == ["", *made[:2]]
    assert [row.counts for row in rows] == [m.counts for m in manifests]
    assert [row.counts["documents"] for row in rows] == [1, 3, 3]
    assert [row.inputs["published"] for row in rows] == [1, 2, 2]
    assert [(row.fitted_on, row.drift) for row in rows] == [
        (m.fit.build, m.fit.drift) for m in manifests
    ]
    for row in rows:
        timings = json.loads((kb / build_folder(row.build) / TIMINGS).read_text())
        assert row.seconds == timings
        assert {"read", "encode", "publish: tables"} <= set(row.seconds)


def test_an_earlier_build_is_reported_by_its_own_numbers(history):
    kb, made = history
    report = gather(kb, made[0])
    assert (report.build, report.live) == (made[0], made[2])
    assert report.counts["documents"] == report.tables[0].rows == 1
    assert report.row.build == made[0]
    assert len(report.builds) == 3
    head = render(report).partition("</dl>")[0]
    assert f"<dt>live</dt><dd>{made[2]}</dd>" in head
    assert f"<dt>build</dt><dd>{made[0]}</dd>" in head


def test_repairs_come_from_the_receipt(small_kb):
    assert gather(small_kb.path).repairs == small_kb.outcome.repairs


def test_lengths_are_those_of_all_values(small_kb, build):
    found = gather(small_kb.path).lengths
    expected = sorted(len(text) for text in build.entries.column("value").to_pylist())
    assert found.values == len(expected) == small_kb.outcome.counts["entries"]
    assert found.longest == expected[-1]
    assert found.median == expected[(len(expected) - 1) // 2]
    for low, high, count in zip(found.edges[:-1], found.edges[1:], found.counts, strict=True):
        assert count == sum(low <= length < high for length in expected)


def test_lengths_are_counted_in_code_points_across_chunks():
    values = pa.chunked_array([["", "é" * 3], ["🜲" * 7] * 17 + ["x" * 100]], pa.large_string())
    found = measure(values)
    assert (found.values, found.median, found.p95, found.longest) == (20, 7, 7, 100)
    assert sum(found.counts) == 20
    assert found.edges[:3] == (0, 5, 10)
    assert found.counts[:2] == (2, 17)


@given(st.integers(0, 10**8))
def test_bins_are_round_and_few(longest):
    width = bin_width(longest)
    assert str(width).rstrip("0") in ("1", "2", "5")
    assert longest <= width * BINS
    assert width == 1 or longest > width * BINS / 2.5


def test_sizes_add_up_to_what_is_on_disk(history):
    kb, made = history
    manifest, report = read_manifest(kb, made[2]), gather(kb)
    parts = {part.name: part for part in report.parts}
    files = [path for path in kb.rglob("*") if path.is_file()]
    assert sum(part.bytes for part in report.parts) == sum(path.stat().st_size for path in files)
    assert sum(part.files for part in report.parts) == len(files)
    assert set(parts) == {
        *(f"{name}.lance" for name in TABLES),
        "serve",
        "lexical",
        "builds",
        "other",
    }
    for name, place in (("serve", manifest.serve), ("lexical", manifest.lexical)):
        assert parts[name].build_bytes == sum(size for size, _ in place.files.values())
        assert parts[name].build_bytes < parts[name].bytes  # other builds have theirs
    for name in TABLES:
        data = sum(path.stat().st_size for path in (kb / f"{name}.lance" / "data").rglob("*.lance"))
        assert parts[f"{name}.lance"].build_bytes <= data < parts[f"{name}.lance"].bytes
        assert (parts[f"{name}.lance"].build_bytes > 0) == (manifest.tables[name].rows > 0)
    own = sum(path.stat().st_size for path in (kb / build_folder(made[2])).iterdir())
    assert parts["builds"].build_bytes == own


def test_the_light_encoder_is_told(history):
    kb, made = history
    manifest = read_manifest(kb, made[2])
    light = Light(DerivedFiles("new", "", {}), {"dense": 0.95, "hybrid": 0.981}, 9)
    files = [FileState("encoders/new/a", 7, 0), FileState("encoders/old/a", 5, 0)]
    assert parts_of(files, manifest, {}) == (Part("encoders", 2, 12, 0),)
    assert parts_of(files, replace(manifest, light=light), {}) == (Part("encoders", 2, 12, 7),)
    report = gather(kb)
    assert report.light == {}
    assert facts(report)["light encoder"] == "none"
    told = facts(replace(report, light=light.retention))["light encoder"]
    assert told.endswith(": dense 95.0%, hybrid 98.1%")


def test_tables_are_described_at_their_pinned_versions(history):
    kb, made = history
    manifests = [read_manifest(kb, name) for name in made]
    for table in gather(kb).tables:
        pinned = [manifest.tables[table.name] for manifest in manifests]
        dataset = lance.dataset(kb / f"{table.name}.lance", version=pinned[2].version)
        assert (table.version, table.rows) == (pinned[2].version, pinned[2].rows)
        assert table.tagged == tuple(one.version for one in pinned)
        assert table.versions == len(dataset.versions())
        rows = [fragment.count_rows() for fragment in dataset.get_fragments()]
        assert table.fragments == table.small_fragments == len(rows)
        indexed = table.name in ("documents", "entries")
        assert table.unindexed == ({"id": 0} if indexed else {})


def test_a_table_that_was_added_to_since_it_was_indexed(tmp_path):
    def add(rows, mode):
        table = pa.table({"id": [str(row) for row in range(rows)]})
        return lance.write_dataset(table, tmp_path / "t.lance", mode=mode)

    add(2000, "create")
    dataset = add(10, "append")
    dataset.create_scalar_index("id", "BTREE")
    dataset.tags.create("one", dataset.version)
    add(5, "append")
    found = table_health("t", lance.dataset(tmp_path / "t.lance"))
    assert (found.rows, found.fragments, found.small_fragments) == (2015, 3, 2)
    assert (found.version, found.versions, found.tagged) == (4, 4, (3,))
    assert found.unindexed == {"id": 5}
    assert found.bytes == sum(path.stat().st_size for path in (tmp_path / "t.lance/data").iterdir())


def test_the_lexical_index_is_described(history):
    kb, made = history
    manifest, found = read_manifest(kb, made[2]), gather(kb).lexical
    on_disk = list((kb / "lexical" / manifest.lexical.digest).iterdir())
    assert found.files == len(on_disk)
    assert found.bytes == sum(path.stat().st_size for path in on_disk)
    assert found.docs == manifest.counts["entries"]


def test_tables_of_the_page_say_the_numbers(history):
    kb, made = history
    report = gather(kb)
    tables = Page(render(report)).tables
    counts = {row[0]: row[2] for row in tables["Inputs"][1:]}
    assert counts == {name: f"{count:,}" for name, count in report.inputs.items()}
    kept = tables["Kept builds"]
    assert [row[1] for row in kept[1:]] == [made[0][:12], made[1][:12], f"{made[2][:12]} (live)"]
    assert [row[kept[0].index("entries")] for row in kept[1:]] == [
        f"{row.counts['entries']:,}" for row in report.builds
    ]
    health = tables["Tables at this build's version"]
    assert {row[0]: row[1] for row in health[1:]} == {t.name: f"{t.rows:,}" for t in report.tables}
    lengths = dict(tables["Lengths of values"][1:])
    assert lengths["median"] == f"{report.lengths.median:,}"
    seconds = tables["Seconds of work by kept build"]
    assert seconds[3][seconds[0].index("encode")] == f"{report.row.seconds['encode']:,.2f}"


def columns(item, glyph):
    """The data that the first glyph of this kind draws in a plot."""
    (root,) = item["doc"]["roots"]
    for renderer in root["attributes"]["renderers"]:
        if renderer["attributes"]["glyph"]["name"] == glyph:
            return dict(renderer["attributes"]["data_source"]["attributes"]["data"]["entries"])
    raise AssertionError(f"no {glyph} is drawn")


def test_plots_of_the_page_draw_the_numbers(history):
    report = gather(history[0])
    plots = Page(render(report)).plots
    expected = {
        ("inputs", "HBar"): [report.inputs[fate] for fate in FATES],
        ("reasons", "HBar"): [1],
        ("values", "Quad"): list(report.lengths.counts),
        ("parts", "HBar"): sorted((part.bytes / 1e3 for part in report.parts), reverse=True),
        ("documents", "Line"): [1, 3, 3],
        ("entries", "Line"): [row.counts["entries"] for row in report.builds],
        ("vectors", "Line"): [row.counts["vectors"] for row in report.builds],
        ("drift", "Line"): [row.drift for row in report.builds],
    }
    for (place, glyph), values in expected.items():
        data = columns(plots[place], glyph)
        assert data["count" if glyph == "Quad" else "value"] == values, place
    spent = dict(
        zip(*(columns(plots["stages"], "HBar")[n] for n in ("label", "value")), strict=True)
    )
    assert spent == {f"{name}  {s:,.2f} s": s for name, s in report.row.seconds.items()}
    fates = columns(plots["fates"], "VBar")
    assert [fates[f"s{n}"] for n in range(5)] == [
        [row.inputs[fate] for row in report.builds] for fate in FATES
    ]
    work = columns(plots["work"], "VBar")
    publishing = [
        sum(s for name, s in row.seconds.items() if name.startswith("publish"))
        for row in report.builds
    ]
    assert work[f"s{len(work) - 3}"] == pytest.approx(publishing)  # the last, after x and build


def test_timings_that_were_not_recorded(copied_history):
    kb, made = copied_history
    (kb / build_folder(made[1]) / TIMINGS).unlink()
    report = gather(kb)
    assert [row.seconds is None for row in report.builds] == [False, True, False]
    page = Page(render(report))
    cells = [row[-1] for row in page.tables["Seconds of work by kept build"][1:]]
    first, _, last = (sum((row.seconds or {}).values()) for row in report.builds)
    assert cells == [f"{first:,.2f}", "not recorded", f"{last:,.2f}"]
    work = columns(page.plots["work"], "VBar")
    assert work["x"] == [1, 2, 3]  # as the table numbers them
    assert [work["s0"][number] > 0 for number in range(3)] == [True, False, True]
    assert "were not recorded" not in page.text


def test_no_timings_at_all(copied_kb, small_kb):
    name = small_kb.outcome.build
    (copied_kb / build_folder(name) / TIMINGS).unlink()
    page = Page(render(gather(copied_kb)))
    assert [row[-1] for row in page.tables["Seconds of work by kept build"]] == [
        "all",
        "not recorded",
    ]
    assert f"The timings of build {name[:12]} were not recorded." in page.text
    assert not {"stages", "work"} & set(page.plots)


def test_rejects_are_counted_by_stage_and_reason_and_the_first_are_shown(copied_kb, small_kb):
    assert gather(small_kb.path).rejects.groups == (("read", "empty", 1),)
    reasons = ["corrupt"] * 900 + ["binary"] * 700
    write_rejects(copied_kb, small_kb.outcome.build, [
        {"uri": f"/in/{number:04}", "stage": "read", "reason": reason, "detail": f"d{number}"}
        for number, reason in enumerate(reasons)
    ])  # fmt: skip
    report = gather(copied_kb)
    assert report.rejects.total == 1600
    assert report.rejects.groups == (("read", "corrupt", 900), ("read", "binary", 700))
    tables = Page(render(report)).tables
    shown = tables[f"The first {SHOWN_REJECTS:,} of 1,600 rejects, by address"][1:]
    assert len(shown) == SHOWN_REJECTS
    assert shown[999] == ["/in/0999", "read", "binary", "d999"]


def test_a_base_without_rejects(copied_kb, small_kb):
    write_rejects(copied_kb, small_kb.outcome.build, [])
    assert "Nothing was rejected." in Page(render(gather(copied_kb))).text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rejects.jsonl", None), ("rejects.jsonl", b'{"uri": "a"\n'), ("rejects.jsonl", b"[1]\n"),
        ("rejects.jsonl", b"\xff\n"), ("receipt.json", None), ("receipt.json", b"{"),
        ("timings.json", b"{"),
    ],
)  # fmt: skip
def test_a_damaged_build_is_refused_by_the_file_s_name(copied_kb, small_kb, name, content):
    path = copied_kb / build_folder(small_kb.outcome.build) / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(Damaged, match=name):
        gather(copied_kb)


def test_hostile_text_stays_text(copied_history):
    kb, made = copied_history
    harmless = Page(render(gather(kb)))
    rejects = hostile_rejects()
    write_rejects(kb, made[2], rejects)
    text = render(gather(kb))
    assert text.encode("utf-8")  # no lone surrogate is left
    page = Page(text)
    scripts = [attrs for tag, attrs in page.elements if tag == "script"]
    assert len(scripts) == len([tag for tag, _ in harmless.elements if tag == "script"]) == 3
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in harmless.elements}
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    shown = page.tables[f"All {len(rejects)} rejects, by address"][1:]
    names = ("uri", "stage", "reason", "detail")
    assert shown == [[visible(reject[name]) for name in names] for reject in rejects]
    assert kb.name in page.text


def test_what_cannot_be_seen_is_spelled_out():
    assert visible("a\x00b\u202ec\udcff\n🜲 é") == r"a\x00b\u202ec\udcff\n🜲 é"


def test_a_page_refers_to_nothing_outside(copied_history):
    kb, made = copied_history
    write_rejects(kb, made[2], hostile_rejects())
    text = render(gather(kb))
    page = Page(text)
    for tag, attrs in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base"), tag
        assert not attrs.get("src"), attrs
        assert attrs.get("href", "#").startswith("#"), attrs
    assert {a["href"][1:] for _, a in page.elements if "href" in a} == set(SECTIONS)
    assert set(SECTIONS) <= {attrs.get("id") for _, attrs in page.elements}
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    policy = next(a["content"] for _, a in page.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert "unsafe-inline" not in policy.partition("script-src")[2]


def test_one_base_gives_one_page(history):
    kb, _ = history
    assert render(gather(kb)) == render(gather(kb))


def test_the_command_writes_a_page_and_prints_its_path(run_report, copied_history):
    kb, made = copied_history
    code, out, err = run_report(kb)
    assert (code, err) == (0, "")
    assert out == f"{kb.name}.report.html\n"
    assert Path(out.strip()).read_text(encoding="utf-8") == render(gather(kb))
    code, out, _ = run_report(kb, "--out", "other.html", "--build", made[0][:10])
    assert (code, out) == (0, "other.html\n")
    assert Path(out.strip()).read_text(encoding="utf-8") == render(gather(kb, made[0]))


def test_the_command_prints_data(run_report, copied_history):
    kb, made = copied_history
    write_rejects(kb, made[2], hostile_rejects())
    code, out, _ = run_report(kb, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["build"] == made[2]
    assert data["inputs"] == gather(kb).inputs
    assert [reject["uri"] for reject in data["rejects"]["shown"]] == HOSTILE
    assert os.listdir() == []


@pytest.mark.parametrize(("missing", "extra"), [("bokeh.resources", "report"), ("lance", "build")])
def test_a_missing_extra_is_named(run_report, small_kb, monkeypatch, missing, extra):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, report_page.__name__)
    monkeypatch.delattr(stillroom.pipelines, "report_page")
    code, out, err = run_report(small_kb.path)
    assert (code, out) == (1, "")
    assert f"pip install 'stillroom[{extra}]'" in err
    assert os.listdir() == []


def test_a_folder_that_is_no_base(tmp_path):
    with pytest.raises(NotAKnowledgeBase, match="has no published build"):
        gather(tmp_path)


def test_a_base_on_an_object_store(s3, small_kb, tmp_path, monkeypatch):
    monkeypatch.setenv("STILLROOM_CACHE", str(tmp_path / "cache"))
    uri = f"{s3}/{tmp_path.name}/far.kb"
    for file in open_folder(small_kb.path).files():
        open_folder(uri).write(file.name, open_folder(small_kb.path).read(file.name))
    near, far = gather(small_kb.path), gather(uri)
    assert (far.kb, far.name) == (uri, "far.kb")
    for name in ("content", "inputs", "lengths", "builds", "tables", "lexical", "parts"):
        assert getattr(far, name) == getattr(near, name), name
    assert "<h1>far.kb</h1>" in render(far)


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium that logs its console and what it asks the network for."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no chromium and chromedriver (apt-get install chromium chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield started
    started.quit()


# For each plot of a section: whether a canvas of it has a size, and something drawn on it.
DRAWN = """
const canvases = root => [...root.querySelectorAll("*")].flatMap(element => [
  ...(element.tagName === "CANVAS" ? [element] : []),
  ...(element.shadowRoot ? canvases(element.shadowRoot) : []),
]);
const drawn = canvas => {
  const {width, height} = canvas.getBoundingClientRect();
  if (width < 200 || height < 90) return false;
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Uint32Array(pixels.buffer).some(Boolean);
};
return [...document.getElementById(arguments[0]).querySelectorAll(".plot")].map(
  plot => canvases(plot).some(drawn));
"""
PLOTS = {"timings": 2, "growth": 4}


@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_draws_every_section(copied_history, browser, tmp_path, width):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    kb, made = copied_history
    write_rejects(kb, made[2], hostile_rejects())
    path = tmp_path / "page.html"
    path.write_text(render(gather(kb)), encoding="utf-8")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what came before is not this page's
    browser.get(path.as_uri())
    links = browser.find_elements(By.CSS_SELECTOR, "nav a")
    assert len(links) == len(SECTIONS)
    for link, name in zip(links, SECTIONS, strict=True):
        link.click()
        assert browser.current_url.endswith(f"#{name}")
        top = browser.execute_script(
            "return document.getElementById(arguments[0]).getBoundingClientRect().top", name
        )
        assert -10 <= top < 900, f"{name} is not in sight"
        WebDriverWait(browser, 20).until(
            lambda _, name=name: browser.execute_script(DRAWN, name) == [True] * PLOTS.get(name, 1),
            f"plots of {name} are not drawn",
        )
    rejects = browser.find_element(By.ID, "rejects").text
    assert "<script>window.harmed = 1</script>" in rejects
    assert "{{ 7 * 7 }}" in rejects
    assert browser.execute_script("return window.harmed") is None
    across = browser.execute_script("return document.documentElement.scrollWidth")
    assert across <= width, "the page scrolls sideways"
    assert [e for e in browser.get_log("browser") if e["level"] not in ("INFO", "DEBUG")] == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked == [path.as_uri()]
