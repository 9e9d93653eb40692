"""One page of HTML: every item of the papers with its verdict, figures and tables.

It stands alone (style and drawings are inside) and needs no script: filters are radio buttons that
page.css acts on. All text from outside is escaped where it is put in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from math import inf
from pathlib import Path
from typing import Any

from papers import charts, verdict
from papers.catalogue import BADGES, KINDS, ROOT, Catalogue, Chart, Item, Paper, Row
from papers.charts import Curve, Panel, short, slug
from papers.expression import Line, Reference, at, written
from papers.results import Judged, Results
from papers.runner import PASSED
from papers.verdict import Verdict

STYLE = Path(__file__).with_name("page.css")
# The most points of a curve over time.
SAMPLES = 160
# In place of a figure.
NONE = "–"
# Headings: of what others or other ways do here, and of what is only told of this machine.
PEERS, HERE = "compared with", "here"
MEANINGS = {
    Verdict.REPRODUCED: "the paper's effect, between half and one and a half times of it on a "
    "logarithmic scale; or what the paper states, as it states it",
    Verdict.HOLDS: "the paper says so without a figure; here it is measured and meets a bound that "
    "we chose, which proves less than a figure beside a figure",
    Verdict.BUILT: "a part of the paper's system, or what the paper left for later: it is there, "
    "and a test or a measurement holds it",
    Verdict.DIRECTION: "the paper's effect, but weaker or stronger than that",
    Verdict.CONTRADICTED: "the effect is absent here (less than a factor of 1.1), or goes the "
    "other way",
    Verdict.HARDWARE: "this machine cannot decide it; where the same work at a small size is "
    "possible, it stands beside the paper's figures",
    Verdict.DESCRIBED: "a machine, a disk or parameters of the paper; those of this run are beside "
    "them, or below",
    Verdict.DIFFERENT: "Oboro does another thing on purpose, and says how",
    Verdict.OPEN: "its step was left out of this run, and says why; or its effect is so small that "
    "runs must be repeated to tell it",
}
GLOSSARY = (
    "Words: the <b>main phase</b> of the papers' job multiplies and adds ciphertexts, after the "
    "<b>initial</b> and before the <b>terminal</b> one; a <b>steady round</b> is a main phase that "
    "repeats one before it. A <b>reserve</b> is memory that fcmalloc touches beforehand, a "
    "<b>plan</b> what an earlier run recorded of each heap's need. A <b>limb</b> is a ciphertext "
    "modulo one prime; a <b>stripe</b> is a number of blocks that lie on one memory node, a "
    "<b>tile</b> a part of them that fits a cache. <b>Streamed</b>: read from disk by the server; "
    "<b>swapped</b>: by the kernel, <b>zram</b> into compressed memory, and <b>null_blk</b> is a "
    "device of the kernel that waits as long as it is told, here from 1us to 1000us."
)
KIND_NAMES = {
    "component": "components",
    "experiment": "experiments",
    "table": "tables",
    "figure": "figures",
    "finding": "findings",
    "future work": "future work",
}


def page(catalogue: Catalogue, results: Results) -> str:
    """The whole document."""
    verdicts = {item.id: results.verdict(item) for item in catalogue.items}
    body = [
        head(catalogue, results),
        overview(catalogue, verdicts),
        contents(catalogue, verdicts),
        filters(catalogue, verdicts),
        *(section(paper, catalogue.of(paper), results) for paper in catalogue.papers),
        environment(results.environment),
        steps(results),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Oboro: the papers, table by table</title><style>{STYLE.read_text()}</style>"
        f"</head><body><main>{''.join(body)}</main></body></html>\n"
    )


def head(catalogue: Catalogue, results: Results) -> str:
    machine = results.environment
    ran = "a quick run, a part of everything" if results.quick else "a full run"
    collected = f"collected at commit {escape(results.commit)}, steps run at those listed"
    cores = machine["cores"]
    return (
        "<header><h1>The papers, table by table</h1>"
        f"<p class=lead>Oboro grows out of five papers. All {len(catalogue.items)} of their "
        "components, experiments, tables, figures and findings are below: what the paper has, what "
        "today's software does with the same work, what Oboro does, and the command that shows it. "
        "A verdict is computed from figures wherever the paper has figures, unless hardware is "
        "missing or Oboro differs on purpose.</p>"
        f"<p class=run>{ran} · {escape(results.date)} UTC · {collected} · "
        f"{escape(machine['processor'])}, {cores} core{'s' * (cores != 1)}, "
        f"{gibibytes(machine['memory_bytes'])}, {len(machine['nodes'])} memory "
        f"node{'s' * (len(machine['nodes']) != 1)} · <a href=#machine>machine</a> · "
        "<a href=#steps>steps</a></p></header>"
    )


def overview(catalogue: Catalogue, verdicts: Mapping[str, Verdict]) -> str:
    """How many of each verdict, for each paper and all."""
    rows = []
    for paper in [*catalogue.papers, None]:
        items = catalogue.items if paper is None else catalogue.of(paper)
        counts = Counter(verdicts[item.id] for item in items)
        name = "all" if paper is None else f"<a href=#{paper.id}>{escape(paper.short)}</a>"
        bar = charts.shares([(each.value, counts[each]) for each in Verdict])
        rows.append(f"<tr><th>{name}</th><td>{bar}</td><td class=n>{len(items)}</td></tr>")
    used = set(verdicts.values())
    meanings = [
        f"<dt>{pill(each)}</dt><dd>{escape(MEANINGS[each])}</dd>"
        for each in Verdict
        if each in used
    ]
    return (
        f"<section class=overview><table>{''.join(rows)}</table><dl>{''.join(meanings)}</dl>"
        "<p class=badges-key>Badges are about Oboro and what stands beside it here, never about "
        "the paper: <span class='badge on'>same work</span> both answer the same question about "
        "the same data. <span class='badge on'>same machine</span> they ran here, one after the "
        "other. <span class='badge on'>same security</span> parameters promise the same. A badge "
        "that is struck out is not earned.</p>"
        f"<p class=badges-key><span class=strip>{charts.strip(4, 2.5, *verdict.band(4))}</span> A "
        "claim's figures on a logarithmic scale of its own: the line is 1, no difference; the "
        "diamond is the paper's ratio, the dot the one here, and what lies in the band reproduces "
        "the paper's.</p>"
        f"<p class=badges-key>{GLOSSARY}</p></section>"
    )


def contents(catalogue: Catalogue, verdicts: Mapping[str, Verdict]) -> str:
    """A chip for each item, coloured by its verdict."""
    parts = []
    for paper in catalogue.papers:
        parts.append(f"<h3><a href=#{paper.id}>{escape(paper.short)}</a></h3><div class=chips>")
        parts += [
            f'<a class="chip {slug(verdicts[item.id].value)}" href=#{item.id} '
            f'title="{escape(item.title)}: {verdicts[item.id].value}">{escape(chip(item))}</a>'
            for item in catalogue.of(paper)
        ]
        parts.append("</div>")
    return f"<nav class=contents><h2>Contents</h2>{''.join(parts)}</nav>"


def chip(item: Item) -> str:
    """A number that a reader knows, or the title."""
    return item.at if item.kind in ("table", "figure") else charts.clipped(item.title, 34)


def filters(catalogue: Catalogue, verdicts: Mapping[str, Verdict]) -> str:
    """Two groups of radio buttons, which page.css reads: by verdict and by kind."""
    by_verdict = Counter(each.value for each in verdicts.values())
    by_kind = Counter(item.kind for item in catalogue.items)
    total = len(catalogue.items)

    def group(name: str, choices: Sequence[tuple[str, str, int]]) -> str:
        buttons = [
            f"<label><input type=radio name={name} id={name}-{slug(key)}"
            f"{' checked' * (key == 'all')}>{escape(text)} <b>{count}</b></label>"
            for key, text, count in choices
            if count
        ]
        return f"<div role=group>{''.join(buttons)}</div>"

    verdict_choices = [(each.value, each.value, by_verdict[each.value]) for each in Verdict]
    kind_choices = [(kind, KIND_NAMES[kind], by_kind[kind]) for kind in KINDS]
    return (
        f"<form class=filters>{group('show', [('all', 'every verdict', total), *verdict_choices])}"
        f"{group('kind', [('all', 'every kind', total), *kind_choices])}</form>"
    )


def section(paper: Paper, items: Sequence[Item], results: Results) -> str:
    cards = "".join(card(item, results) for item in items)
    return (
        f"<section class=paper id={paper.id}><h2>{escape(paper.title)}</h2>"
        f"<p class=by>{escape(paper.authors)}. {escape(paper.venue)}</p>"
        f"<p class=abstract>{escape(paper.abstract)}</p>{cards}</section>"
    )


def card(item: Item, results: Results) -> str:
    """One item with everything that is known of it."""
    verdict, judged = results.verdict(item), results.judged(item)
    shown = pill(verdict, counted(judged, verdict))
    parts = [
        f"<header><span class=at>{escape(item.place)}</span> "
        f"<h3><a href=#{item.id}>{escape(item.title)}</a></h3>{shown}"
        "</header>",
        paragraph("found", "The paper", item.found),
        paragraph("here", "Here", item.here),
        paragraph("why", "It needs", item.needs if results.lacks(item) else ""),
        paragraph("why", "Different on purpose", item.differs),
        paragraph("why", "Not tabulated", item.reason),
        claims(judged),
        drawings(item, results),
        table(item, results),
        missing(item, results),
        foot(item, results),
    ]
    kinds = f"item {slug(verdict.value)} kind-{slug(item.kind)}"
    return f'<article class="{kinds}" id={item.id}>{"".join(parts)}</article>'


def counted(judged: Sequence[Judged], verdict: Verdict) -> str:
    """How many claims a verdict rests on, if not on all."""
    known = [one for one in judged if one.verdict is not Verdict.OPEN]
    if 0 < len(known) < len(judged):
        return f"{len(known)} of {len(judged)} claims measured"
    worst = sum(one.verdict is verdict for one in known)
    return f"{worst} of {len(known)} claims" if 0 < worst < len(known) else ""


def paragraph(kind: str, name: str, text: str) -> str:
    return f"<p class={kind}><b>{name}</b> {prose(text)}</p>" if text else ""


def prose(text: str) -> str:
    """Escaped, with `code` as such."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


def claims(judged: Sequence[Judged]) -> str:
    rows = [
        f"<tr><td>{prose(one.claim.says)}{stated(one)}</td><td class=strip>{gauge(one)}</td>"
        f"<td class=n>{expected(one)}</td><td class=n>{measured(one)}</td>"
        f"<td>{pill(one.verdict)}</td></tr>"
        for one in judged
    ]
    if not rows:
        return ""
    return (
        "<div class=wide><table class=claims><thead><tr><th>claim<th><th class=n>paper, or bound"
        f"<th class=n>here<th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def stated(one: Judged) -> str:
    """The paper's words for a bound."""
    words = one.claim.states
    return f" <small>the paper: {escape(words)}</small>" if words else ""


def gauge(one: Judged) -> str:
    paper = one.claim.paper
    if paper is None or one.here is None or one.here <= 0:
        return ""
    return charts.strip(paper, one.here, *verdict.band(paper))


def expected(one: Judged) -> str:
    claim = one.claim
    if claim.paper is not None:
        return f"{short(claim.paper)}×"
    if claim.equals is not None:
        bound = escape(written(claim.equals))
    else:
        bounds = [
            f"{sign} {short(bound)}"
            for sign, bound in (("≥", claim.at_least), ("≤", claim.at_most))
            if bound is not None
        ]
        bound = ", ".join(bounds)
    return bound if claim.states else f"{bound} <small>ours</small>"


def measured(one: Judged) -> str:
    if one.here is None:
        return NONE
    if one.claim.equals is not None:
        return escape(written(one.here))
    return f"<b>{short(one.here)}{'×' * (one.claim.paper is not None)}</b>"


def drawings(item: Item, results: Results) -> str:
    drawn = "".join(drawing(chart, item, results) for chart in item.charts)
    return f"<div class=charts>{drawn}</div>" if drawn else ""


def drawing(chart: Chart, item: Item, results: Results) -> str:
    if chart.kind == "series":
        return charts.lines(chart.title, series(chart, results), chart.x, chart.y, chart.log)
    if chart.kind == "drawing":
        return charts.figure(chart.title, (ROOT / chart.of).read_text(), "", "full")
    if chart.kind == "areas":
        return charts.areas(chart.title, panels(chart, results), chart.x, chart.mark_name)
    rows = [row for row in item.rows if not chart.only or row.label in chart.only]
    paper = {row.label: numbers(row.paper) for row in rows}
    here = {row.label: figures(row, results) for row in rows}
    ours = {name for row in rows for name in row.oboro} | set(chart.ours)
    compares = any(len(values) > 1 for values in paper.values())
    if not compares:
        here = {
            label: dict.fromkeys(["the paper"] * len(paper[label]), sum(paper[label].values()))
            | values
            for label, values in here.items()
        }
    sides = [(f"{chart.title}: the paper", paper)] if compares else []
    sides.append((f"{chart.title}: here" if compares else chart.title, here))
    if chart.kind == "lines":
        places = {row.label: row.x for row in rows if row.x is not None}
        return "".join(
            charts.lines(title, curves(places, side, ours), chart.x, chart.y, chart.log)
            for title, side in sides
        )
    return "".join(
        charts.bars(title, [(k, v) for k, v in side.items() if v], ours, chart.log)
        for title, side in sides
    )


def curves(
    places: Mapping[str, float], side: Mapping[str, Mapping[str, float]], ours: set[str]
) -> list[Curve]:
    """A curve for each name over the places of the rows."""
    names = dict.fromkeys(name for values in side.values() for name in values)
    return [
        Curve(
            name,
            sorted((places[k], v[name]) for k, v in side.items() if name in v and k in places),
            name in ours,
        )
        for name in names
    ]


def series(chart: Chart, results: Results) -> list[Curve]:
    """A curve for each combination of the fields `by` among a step's lines."""
    reference = Reference.parse(f"{chart.of}.{chart.at_y}")
    found: dict[str, list[tuple[float, float]]] = {}
    for line in results.lines.get(reference.step, ()):
        x, y = at(line, chart.at_x) if chart.at_x else None, at(line, chart.at_y)
        if x is None and isinstance(y, list):
            # Samples at equal distances; some are of what has no such figure.
            y = [sample for sample in y if sample is not None]
            x = list(range(1, len(y) + 1))
        if reference.matches(line) and x is not None and y is not None:
            named = [written(value) for key in chart.by if (value := at(line, key)) is not None]
            name = ", ".join(filter(None, named)) or chart.y
            pairs = steady(line, chart, x, y) if isinstance(x, list) else [(x, y)]
            points = found.setdefault(name, [])
            points += [(float(px), float(py) * chart.scale_y) for px, py in pairs]
    return [
        Curve(name, charts.thinned(sorted(points), SAMPLES), any(o in name for o in chart.ours))
        for name, points in found.items()
    ]


def panels(chart: Chart, results: Results) -> list[Panel]:
    """For each line of a step, the fields `stack` over `at_x`."""
    reference = Reference.parse(f"{chart.of}.{chart.at_x}")
    found = []
    for line in results.lines.get(reference.step, ()):
        times = at(line, chart.at_x)
        if not reference.matches(line) or not times:
            continue
        name = ", ".join(written(at(line, key)) for key in chart.by)
        stack = [
            Curve(part, steady(line, chart, times, at(line, field)))
            for part, field in chart.stack.items()
        ]
        phase = at(line, chart.mark) if chart.mark else None
        marked = [time for time, _ in steady(line, chart, phase, phase)] if phase else []
        found.append(Panel(name, stack, marked))
    return found


def steady(
    line: Line, chart: Chart, times: Sequence[float], values: Sequence[float]
) -> list[tuple[float, float]]:
    """Values over time, the chart's pause taken out."""
    begin, end = (at(line, chart.cut) if chart.cut else None) or (inf, inf)
    return [
        (time if time < begin else time - (end - begin), value)
        for time, value in zip(times, values, strict=True)
        if time <= begin or time >= end
    ]


def numbers(values: Mapping[str, float | str]) -> dict[str, float]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def figures(row: Row, results: Results) -> dict[str, float]:
    """Those of a row that were measured, in its unit."""
    if row.text:
        return {}
    found = {name: each.value(results.lines) for name, each in row.here.items()}
    return {name: value * row.scale for name, value in found.items() if value is not None}


def words(row: Row, results: Results) -> dict[str, str]:
    """What a row has for each name, as it is shown."""
    if not row.text:
        return {name: short(value) for name, value in figures(row, results).items()}
    found = {name: each.fact(results.lines) for name, each in row.here.items()}
    return {
        name: escape(", ".join(map(str, fact)) or "none" if isinstance(fact, list) else str(fact))
        for name, fact in found.items()
        if fact is not None
    }


def table(item: Item, results: Results) -> str:
    rows = [row for row in item.rows if words(row, results) or row.paper]
    if not rows:
        return ""
    is_matrix = any(len(row.paper) > 1 or len(row.here) > 3 for row in rows)
    if is_matrix and len(rows) < 3 and not any(row.paper for row in rows):
        drawn = across(rows, results)
    else:
        drawn = (matrix if is_matrix else simple)(rows, results)
    return f"<div class=wide>{drawn}</div>"


def simple(rows: Sequence[Row], results: Results) -> str:
    """A line for each row: the paper, peers, Oboro, and how many times better it is; without the
    columns that are empty."""
    columns: dict[str, list[str]] = {"paper": [], PEERS: [], "Oboro": [], "better by": []}
    for row in rows:
        found, shown = figures(row, results), words(row, results)
        for column, text in zip(
            columns.values(),
            (
                ", ".join(cell(value) for value in row.paper.values()),
                "<br>".join(named(name, shown.get(name, NONE)) for name in row.peers),
                "<br>".join(named(name, shown.get(name, NONE)) for name in row.oboro),
                "<br>".join(gain for name in row.oboro if (gain := advantage(row, found, name))),
            ),
            strict=True,
        ):
            column.append(text)
    kept = {name: column for name, column in columns.items() if any(column)}
    if all(set(row.peers) <= {HERE} for row in rows):
        kept = {HERE if name == PEERS else name: column for name, column in kept.items()}
    head = "".join(f"<th class=n>{name}" for name in kept)
    body = []
    for number, row in enumerate(rows):
        unit = f" <small>{escape(row.unit)}</small>" if row.unit else ""
        cells = "".join(
            f"<td class='n{' ours' * (name == 'Oboro')}'>{column[number]}</td>"
            for name, column in kept.items()
        )
        body.append(f"<tr><th>{prose(row.label)}{unit}</th>{cells}</tr>")
    return (
        f"<table class=rows><thead><tr><th>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def named(name: str, figure: str) -> str:
    """A figure with the name of what has it, if that is not the column's."""
    return figure if name in ("Oboro", HERE) else f"<small>{escape(name)}</small> {figure}"


def across(rows: Sequence[Row], results: Results) -> str:
    """A line for each of few rows, and a column for each of those compared."""
    known = [words(row, results) for row in rows]
    names = [
        name
        for name in dict.fromkeys([n for row in rows for n in (*row.peers, *row.oboro)])
        if any(name in shown for shown in known)
    ]
    ours = {name for row in rows for name in row.oboro}
    head = "".join(f"<th class='n{' ours' * (name in ours)}'>{escape(name)}</th>" for name in names)
    gains = [
        "<br>".join(
            named(name if len(row.oboro) > 1 else "Oboro", gain)
            for name in row.oboro
            if (gain := advantage(row, figures(row, results), name))
        )
        for row in rows
    ]
    body = []
    for row, shown, gain in zip(rows, known, gains, strict=True):
        cells = "".join(
            f"<td class='n{' ours' * (name in ours)}'>{shown.get(name, NONE)}</td>"
            for name in names
        )
        unit = f" <small>{escape(row.unit)}</small>" if row.unit else ""
        last = f"<td class=n>{gain}</td>" if any(gains) else ""
        body.append(f"<tr><th>{prose(row.label)}{unit}</th>{cells}{last}</tr>")
    better = "<th class=n>better by" if any(gains) else ""
    return (
        f"<table class=across><thead><tr><th></th>{head}{better}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def matrix(rows: Sequence[Row], results: Results) -> str:
    """A column for each row, and a line for each of those compared: the paper's, then ours."""
    found = [figures(row, results) for row in rows]
    shown = [words(row, results) for row in rows]
    lines = []

    def line(name: str, cells: Sequence[str], kind: str = "") -> str:
        row = "".join(f"<td class=n>{text}</td>" for text in cells)
        return f"<tr{f' class={kind}' if kind else ''}><th>{escape(name)}</th>{row}</tr>"

    def heading(text: str) -> str:
        return f"<tr class=part><th colspan={len(rows) + 1}>{text}</th></tr>"

    papers = list(dict.fromkeys(name for row in rows for name in row.paper))
    if papers:
        lines.append(heading("the paper"))
        lines += [
            line(name or "the paper", [cell(row.paper.get(name, "")) for row in rows])
            for name in papers
        ]
    lines.append(heading("here"))
    ours = {name for row in rows for name in row.oboro}
    names = dict.fromkeys(
        [n for row in rows for n in row.peers] + [n for r in rows for n in r.oboro]
    )
    for name in names:
        cells = [
            each.get(name, NONE) if name in row.here else ""
            for row, each in zip(rows, shown, strict=True)
        ]
        lines.append(line(name, cells, "ours" if name in ours else ""))
    for name in names:
        gains = [advantage(row, values, name) for row, values in zip(rows, found, strict=True)]
        if any(gains):
            lines.append(line(f"{name}: better than the best peer by", gains, "gain"))
    head = "".join(
        f"<th class=n>{prose(row.label)} <small>{escape(row.unit)}</small></th>" for row in rows
    )
    return f"<table class=matrix><thead><tr><th></th>{head}</tr></thead>{''.join(lines)}</table>"


def cell(value: float | str) -> str:
    """A paper's figure, with all the digits that it has there."""
    return escape(value) if isinstance(value, str) else f"{value:,}"


def advantage(row: Row, found: Mapping[str, float], name: str) -> str:
    """One of Oboro's figures beside the best peer's; empty where nothing is better or worse."""
    peers = [found[peer] for peer in row.peers if peer in found]
    if not row.better or not peers or name not in row.oboro or name not in found:
        return ""
    best = min(peers) if row.better == "less" else max(peers)
    over, under = (best, found[name]) if row.better == "less" else (found[name], best)
    if under <= 0:
        return ""
    ratio = over / under
    return f"<span class={'ahead' if ratio >= 1 else 'behind'}>{short(ratio)}×</span>"


def missing(item: Item, results: Results) -> str:
    """Why figures are absent."""
    reasons = [
        f"<li><code>{escape(name)}</code> {outcome.status}: {escape(outcome.reason)}</li>"
        for name in item.steps
        if (outcome := results.steps.get(name)) is not None and outcome.status != PASSED
    ]
    return f"<ul class=missing>{''.join(reasons)}</ul>" if reasons else ""


def foot(item: Item, results: Results) -> str:
    parts = []
    if item.badges and any(
        reference.found(results.lines)
        for expression, _ in item.expressions
        for reference in expression.references
    ):
        parts += [
            f"<span class='badge{' on' * (badge in item.badges)}'>{badge}</span>"
            for badge in BADGES
        ]
    commands = dict.fromkeys(results.steps[s].command for s in item.steps if s in results.steps)
    commands[item.command] = None
    parts += [f"<code>{escape(command)}</code>" for command in commands if command]
    parts += [f"<code>{escape(path)}</code>" for path in (*item.code, *item.tests)]
    return f"<footer>{' '.join(parts)}</footer>" if parts else ""


def environment(machine: Mapping[str, Any]) -> str:
    """The machine, as a table."""
    caches = ", ".join(
        f"L{one['level']} {one['type'].lower()} {one['size']}"
        + (f" shared by {one['shared_by']}" if one["shared_by"] > 1 else "")
        for one in machine["caches"]
    )
    nodes = "; ".join(
        f"{node['cores']} cores, {gibibytes(node['memory_bytes'])}, distances "
        f"{' '.join(map(str, node['distances']))}"
        for node in machine["nodes"]
    )
    disks = "; ".join(
        f"{disk['name']} ({disk['model']}), {disk['bytes'] / 1e9:.0f} GB"
        for disk in machine["disks"]
    )
    virtual = " (a virtual machine)" if machine["virtual"] else ""
    rows = {
        "processor": machine["processor"] + virtual,
        "cores": f"{machine['cores']} on {machine['sockets']} socket(s), {machine['vectors']}",
        "caches": caches,
        "memory nodes": nodes,
        "memory": gibibytes(machine["memory_bytes"]),
        "huge pages": machine["huge_pages"],
        "kernel": f"{machine['kernel']}, {machine['libc']}",
        "compilers": ", ".join(machine["compilers"].values()),
        "disks": disks or "none that the kernel shows",
        "temporary files": temporary(machine["temporary_files"] or {}),
        "peers": ", ".join(f"{name} {version}" for name, version in machine["peers"].items()),
    }
    body = "".join(
        f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items() if text
    )
    return f"<section id=machine><h2>The machine</h2><table class=facts>{body}</table></section>"


def temporary(disk: Mapping[str, Any]) -> str:
    """What the disk of temporary files was measured to do."""
    if "left_out" in disk:
        return str(disk["left_out"])
    parts = []
    for key, text in (("write", "written and synced at"), ("read", "read at")):
        rate = disk.get(f"{key}_bytes_per_second")
        parts += [f"{text} {rate / 1e6:,.0f} MB/s"] if rate else []
    if "read_latency_seconds" in disk:
        middle = disk["read_latency_seconds"] * 1e6
        late = disk["read_latency_99_percent_seconds"] * 1e6
        parts.append(f"a 4 KiB read takes {middle:,.0f} µs, 99 of 100 at most {late:,.0f} µs")
    return ", ".join(parts)


def steps(results: Results) -> str:
    body = "".join(
        f"<tr class={slug(outcome.status)}><th>{name}</th><td>{escape(outcome.title)}</td>"
        f"<td><code>{escape(outcome.command)}</code></td><td>{outcome.status}"
        f"{': ' + escape(outcome.reason) if outcome.reason else ''}</td>"
        f"<td class=n>{'' if outcome.seconds is None else f'{outcome.seconds:.0f} s'}</td>"
        f"<td class=n>{len(outcome.runs) or ''}</td><td class=n>{outcome.date}</td>"
        f"<td class=n>{escape(outcome.commit)}</td></tr>"
        for name, outcome in results.steps.items()
    )
    return (
        "<section id=steps><h2>Steps</h2><p>Each runs alone with <code>make papers "
        "PAPERS='--only STEP'</code>; its lines are in <code>results.json</code>.</p>"
        "<div class=wide><table class=rows><thead><tr><th>step<th>what<th>command<th>result"
        "<th class=n>took<th class=n>times<th class=n>on (UTC)<th class=n>commit</tr></thead>"
        f"<tbody>{body}</tbody></table></div></section>"
    )


def pill(verdict: Verdict, note: str = "") -> str:
    more = f": {note}" if note else ""
    return f'<span class="pill {slug(verdict.value)}">{verdict.value}{more}</span>'


def gibibytes(count: int | None) -> str:
    return "unknown memory" if count is None else f"{count / (1 << 30):.0f} GiB"
