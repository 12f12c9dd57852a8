"""The page of a report: one HTML file that needs no network, whatever is in the base.

The page holds its plots and the library that draws them. Words from outside (addresses, details of
rejects) are escaped where they are put in, characters that cannot be seen are spelled out, and a
content security policy lets the browser run nothing but the two scripts whose digests it names.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from bokeh.resources import Resources
from jinja2 import Environment
from markupsafe import Markup

from stillroom.pipelines.report import Report
from stillroom.pipelines.report_plots import plots_to_json, visible
from stillroom.pipelines.report_sections import sections_of

DRAW = """
const plots = JSON.parse(document.getElementById("plots").textContent);
for (const [place, item] of Object.entries(plots)) Bokeh.embed.embed_item(item, place);
"""


def render(report: Report) -> str:
    """The page. It holds no lone surrogates, and is equal for equal reports."""
    sections = sections_of(report)
    plots = {figure.place: figure.plot for part in sections for figure in part.figures}
    library = "".join(Resources(mode="inline", components=["bokeh"]).js_raw)
    page = Environment(autoescape=True, finalize=_finalize, trim_blocks=True, lstrip_blocks=True)
    template = (files("stillroom.pipelines") / "report_page.html").read_text(encoding="utf-8")
    return page.from_string(template).render(
        report=report,
        facts=facts(report),
        sections=sections,
        plots=Markup(plots_to_json(plots)),
        scripts=[Markup(library), Markup(DRAW)],
        digests=[_policy_digest(script) for script in (library, DRAW)],
    )


def facts(report: Report) -> dict[str, str]:
    """What the build is made of, in words."""
    recipe, encoder = report.recipe, report.encoder
    kept = ", ".join(f"{leg} {share:.1%}" for leg, share in report.light.items())
    return {
        "kind": recipe["kind"],
        "build": report.build,
        "live": "this build" if report.build == report.live else report.live,
        "built on": report.row.parent or "nothing: it is a first build",
        "content digest": report.content,
        "place": report.kb,
        "sources": ", ".join(f"{source['name']} ({source['uri']})" for source in recipe["sources"]),
        "segments": f"{recipe['segment']}, {recipe['segment_tokens']:,} tokens",
        "keys": f"{', '.join(recipe['keys'])}; vectors of {', '.join(recipe['dense_keys'])}",
        "encoder": (
            f"{encoder['name']}, {encoder['dims']:,} dims, {encoder['dtype']}, "
            f"reads {encoder['max_tokens']:,} tokens"
        ),
        "light encoder": f"keeps of the full one's quality: {kept}" if kept else "none",
        "dense weight": f"{report.dense_weight:g}",
        "made by": f"stillroom {report.code_version}",
    }


def _policy_digest(script: str) -> str:
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"


def _finalize(value: Any) -> Any:
    """What the template puts into the page: numbers with commas, texts with nothing hidden."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
