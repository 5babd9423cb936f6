"""The report: one HTML file that works offline, with every figure interactive and a verdict for each."""

from __future__ import annotations

import json
import math
import os
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import strongticket
from strongticket.report.plot import plot_of, plot_of_masks
from strongticket.report.styles import DARK, LIGHT, PAPER_DARK, PAPER_LIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from strongticket.experiments.view import View
    from strongticket.report.masks import Masks

PAPER = (
    "H. Otsuka, D. Chijiwa, Y. Okoshi, D. Fujiki, S. Takeuchi, M. Motomura: "
    "The Strong Lottery Ticket Hypothesis for Multi-Head Attention Mechanisms"
)
LINK = "https://arxiv.org/abs/2511.04217"
_SCALES = {
    "light": [[0.0, "#a63603"], [0.5, "#dddddd"], [1.0, "#08519c"]],
    "dark": [[0.0, "#fdae6b"], [0.5, "#4a4f57"], [1.0, "#7db8e8"]],
}


def write_report(views: Sequence[View], path: Path, *, masks: Sequence[Masks] = (), ticket: str = "") -> None:
    """Write the page; ``masks`` are the heads of a ticket, ``ticket`` is a sentence about it."""
    text = page(views, masks, ticket)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def page(views: Sequence[View], masks: Sequence[Masks] = (), ticket: str = "") -> str:
    """The page as text."""
    data = {
        "figures": {view.name: plot_of(view) for view in views},
        "masks": [plot_of_masks(head) for head in masks],
        "colours": {
            "light": {"lines": LIGHT, "paper": PAPER_LIGHT, "scale": _SCALES["light"]},
            "dark": {"lines": DARK, "paper": PAPER_DARK, "scale": _SCALES["dark"]},
        },
    }
    links = [(view.name, f"{_number(view)}: {view.title}") for view in views]
    if masks:
        links.append(("masks", "A ticket's masks"))
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        "<link rel='icon' href='data:,'><title>Strong lottery tickets: measured against the paper</title>",
        f"<style>{_asset('page.css')}</style></head><body><a class='skip' href='#overview'>Skip to the verdicts</a>",
        "<header><h1>Strong lottery tickets: measured against the paper</h1>",
        f"<p class='soft'>Figures of <cite><a href='{LINK}'>{escape(PAPER)}</a></cite>, measured again with "
        f"strongticket {strongticket.__version__}. Hover, or focus a figure and use the arrow keys, to read values; "
        "drag to zoom, double-click to zoom out, click the legend to hide a line.</p></header>",
        "<nav aria-label='Figures'><ul>",
        *(f"<li><a href='#{anchor}'>{escape(text.split(':')[0])}</a></li>" for anchor, text in links),
        "</ul></nav><main>",
        _overview(views),
        *(_section(view) for view in views),
        _masks_section(masks, ticket) if masks else "",
        f"</main><footer>Statements such as “Theorem 3” or “§4.2” are those of the paper's <a href='{LINK}'>extended "
        "version</a>, the one with appendices.</footer>",
        f"<script type='application/json' id='data'>{_json(data)}</script>",
        f"<script>{_plotly()}</script><script>{_asset('page.js')}</script></body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _overview(views: Sequence[View]) -> str:
    rows = [
        f"<tr><td><a href='#{view.name}'>{_number(view)}</a></td><td>{escape(check.claim)} "
        f"({_statement(check.where)})</td><td>{escape(check.measured)}</td>"
        f"<td>{_badge(check.verdict)}</td></tr>"
        for view in views
        for check in view.checks
    ]
    return (
        "<section id='overview'><h2>The paper's claims, and what was measured</h2>"
        "<div class='scroll' tabindex='0' role='region' aria-label='Claims and measurements' style='max-height:none'>"
        "<table class='overview'><thead><tr><th>Figure</th><th>Claim</th><th>Measured</th><th>Verdict</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _section(view: View) -> str:
    checks = "".join(
        f"<li><span class='claim'>{escape(check.claim)}</span> {_badge(check.verdict)} "
        f"{_statement(check.where)}<br>{escape(check.measured)}</li>"
        for check in view.checks
    )
    head = "".join(f"<th scope='col'>{escape(column)}</th>" for column in view.columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in view.rows)
    settings = "".join(
        f"<tr><td>{escape(str(key))}</td><td>{_cell(value)}</td></tr>" for key, value in view.settings.items()
    )
    notes = "".join(f"<p class='soft'>{escape(note)}</p>" for note in view.notes)
    return (
        f"<section id='{view.name}' class='figure'>"
        f"<h2>{_number(view)}: {escape(view.title)} {_badge(view.verdict)}</h2>"
        f"<p>{escape(view.about)}</p>"
        f"<div class='plot' id='plot-{view.name}' tabindex='0' role='application' "
        f"aria-label='{escape(view.title)}: {escape(view.y.label)} against {escape(view.x.label)}. "
        "Arrow keys read the points; the table below holds the same numbers.'></div>"
        f"<p class='reading' id='reading-{view.name}' role='status'></p><ul class='checks'>{checks}</ul>"
        f"<details><summary>The table behind it ({len(view.rows)} rows)</summary>"
        f"<div class='scroll' tabindex='0' role='region' aria-label='Table of {view.name}'>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
        f"<details><summary>Settings</summary><div class='scroll' tabindex='0' role='region' "
        f"aria-label='Settings of {view.name}'><table class='settings'><tbody>{settings}</tbody></table></div>"
        "</details>" + (f"<details><summary>Notes</summary>{notes}</details>" if notes else "") + "</section>"
    )


def _masks_section(masks: Sequence[Masks], ticket: str) -> str:
    options = "".join(f"<option value='{place}'>{escape(head.label)}</option>" for place, head in enumerate(masks))
    return (
        f"<section id='masks' class='masks'><h2>A ticket's masks</h2><p>{escape(ticket)}</p>"
        "<p class='soft'>Colours are the random weights that are kept; empty cells are cut. Drag to zoom.</p>"
        f"<label for='head'>Head</label> <select id='head'>{options}</select>"
        "<div class='plot' id='plot-masks' role='img' aria-label='Kept weights of query, key, value and output'></div>"
        "</section>"
    )


def _statement(where: str) -> str:
    return f"<a class='statement' href='{LINK}'>{escape(where)}</a>"


def _badge(verdict: str) -> str:
    return f"<span class='verdict {verdict.replace(' ', '-')}'>{escape(verdict)}</span>"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def _number(view: View) -> str:
    return f"Figure {view.name.removeprefix('fig')}"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")


def _asset(name: str) -> str:
    return files("strongticket.report").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()
