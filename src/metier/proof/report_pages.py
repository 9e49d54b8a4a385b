"""A report as a page of its own in HTML, and as Markdown for a pull request."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from metier.proof.model_table import HEAD, report_table
from metier.proof.report import MARKS
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.proof.comparison import Comparison
    from metier.proof.report import Report, SkillReport, TierResult, Verdict

_MAX_TEXT = 500
_MOST_CASES = 50
"""The failures of a skill that a Markdown text has room for."""

_STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --dim: #5f6670; --line: #d9dde2; --back: #fff; --soft: #f5f6f8;
  --passed: #1a7f37; --failed: #c1272d; --skipped: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8eb; --dim: #9aa3ad; --line: #32383f; --back: #15181c;
  --soft: #1d2126; --passed: #4cc26b; --failed: #ff7b72; --skipped: #9aa3ad; } }
body { margin: 2rem auto; padding: 0 1rem; max-width: 62rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p.dim, td.dim, .dim { color: var(--dim); }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: 600; padding: .75rem 0 .25rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; } td.number { text-align: right; white-space: nowrap; }
.passed { color: var(--passed); } .failed { color: var(--failed); } .skipped { color: var(--skipped); }
svg { display: block; } code { background: var(--soft); padding: 0 .25em; border-radius: 3px; }
summary { cursor: pointer; }
@media print { details > * { display: block; } }
"""


def html_of(report: Report, comparison: Comparison | None = None) -> str:
    """The report as one file that needs nothing else: no script, no font, no picture from elsewhere."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{report.summary}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        f"<h1>{_mark(report.verdict)} {report.summary}</h1>",
        f'<p class="dim">{_html(report.started_at)} · metier {_html(report.version)} · {report.seconds:.1f} s'
        f" · {report.cost:.2f} USD</p>",
        *_html_overview(report),
        *(_html_changes(comparison) if comparison is not None else ()),
        *_html_models(report),
    ]
    for number, skill in enumerate(report.skills):
        parts += _html_skill(skill, f"skill-{number}")
    return "\n".join([*parts, "</body>\n</html>\n"])


def _html_overview(report: Report) -> Iterator[str]:
    yield "<table><caption>Skills</caption><tr><th>Skill</th><th>Result</th><th>Cases</th><th>Tiers</th></tr>"
    for number, skill in enumerate(report.skills):
        tiers = " ".join(
            f'<span class="{tier.verdict}" title="{_html(tier.reason)}">{MARKS[tier.verdict]} {tier.tier}</span>'
            for tier in skill.tiers
        )
        yield (
            f'<tr><th><a href="#skill-{number}">{_html(skill.name)}</a></th><td>{_mark(skill.verdict)} {skill.verdict}'
            f"</td><td>{_bar(skill)}</td><td>{tiers}</td></tr>"
        )
    yield "</table>"


def _bar(skill: SkillReport) -> str:
    """A bar with the shares of cases that passed, failed and were skipped."""
    counts = {verdict: sum(tier.count(verdict) for tier in skill.tiers) for verdict in MARKS}
    total = sum(counts.values())
    told = _format_counts(counts) or "no cases"
    parts, left = [], 0.0
    for verdict, count in counts.items():
        width = 120 * count / total if total else 0
        parts.append(f'<rect x="{left:.1f}" width="{width:.1f}" height="10" fill="var(--{verdict})"></rect>')
        left += width
    return (
        f'<svg width="120" height="10" role="img" aria-label="{told}"><title>{told}</title>{"".join(parts)}</svg>'
        f'<span class="dim">{told}</span>'
    )


def _html_models(report: Report) -> Iterator[str]:
    """The models beside each other, where any were asked."""
    table = report_table(report)
    if table is not None:
        head = "".join(f"<th>{name.capitalize()}</th>" for name in HEAD)
        yield f"<table><caption>Models with skills (! is beyond a limit)</caption><tr>{head}</tr>"
        for row in table.cells():
            yield f"<tr>{''.join(f'<td>{_html(cell)}</td>' for cell in row)}</tr>"
        yield "</table>"


def _html_changes(comparison: Comparison) -> Iterator[str]:
    yield f"<h2>Changes</h2><p>{comparison.summary}</p><ul>"
    for title, keys in comparison.changes.items():
        yield from (f"<li><strong>{title}</strong>: {_html(str(key))}</li>" for key in keys)
    yield "</ul>"


def _html_skill(skill: SkillReport, id_: str) -> Iterator[str]:
    yield f'<h2 id="{id_}" class="{skill.verdict}">{MARKS[skill.verdict]} {_html(skill.name)}</h2>'
    yield f'<p class="dim"><code>{_html(skill.digest or "no digest")}</code> {_html(skill.location)}</p>'
    for note in skill.notes:
        mark = _mark("failed" if note.is_error else "skipped")
        yield f"<p>{mark} <code>{_html(note.place)}</code> {_html(note.message)}</p>"
    for tier in skill.tiers:
        yield from _html_tier(tier)


def _html_tier(tier: TierResult) -> Iterator[str]:
    spent = f"{tier.seconds:.1f} s" + (f", {tier.cost:.2f} USD" if tier.cost else "")
    counts = _format_counts({verdict: tier.count(verdict) for verdict in MARKS}) or tier.verdict
    title = f"{_mark(tier.verdict)} {tier.tier}: {counts} <span class=dim>({spent})</span>"
    if not tier.cases:
        yield f"<p>{title} <span class=dim>{_html(tier.reason)}</span></p>"
        return
    yield f"<details{' open' if tier.verdict == 'failed' else ''}><summary>{title}</summary><table>"
    for case in sorted(tier.cases, key=lambda case: ("failed", "skipped", "passed").index(case.verdict)):
        hint = f"<br><span class=dim>{_html(case.hint)}</span>" if case.hint else ""
        yield (
            f"<tr><td>{_mark(case.verdict)}</td><th>{_html(case.id)}</th><td>{_html(case.reason)}{hint}</td>"
            f'<td class="number dim">{case.seconds:.2f} s</td></tr>'
        )
    yield "</table></details>"


def _mark(verdict: Verdict) -> str:
    return f'<span class="{verdict}" title="{verdict}">{MARKS[verdict]}</span>'


def _html(text: str) -> str:
    """Words of a stranger inside of an element or an attribute."""
    return html.escape(shown(text, _MAX_TEXT))


def _format_counts(counts: Mapping[Verdict, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def markdown_of(report: Report, comparison: Comparison | None = None) -> str:
    """The report as Markdown, the failures in full."""
    lines = [f"## {MARKS[report.verdict]} Skills: {report.summary}", ""]
    if comparison is not None:
        lines += [comparison.summary, ""]
        for title, keys in comparison.changes.items():
            lines += [f"- {title}: {_markdown(str(key))}" for key in keys[:_MOST_CASES]]
        lines.append("")
    lines += [f"| skill | {' | '.join(report.tiers)} |", "|---" * (len(report.tiers) + 1) + "|"]
    for skill in report.skills:
        cells = [_markdown(skill.name), *(_cell(skill.tier(tier)) for tier in report.tiers)]
        lines.append(f"| {' | '.join(cells)} |")
    table = report_table(report)
    if table is not None:
        lines += ["", table.as_markdown()]
    for skill in report.skills:
        lines += _markdown_failures(skill)
    lines += ["", f"metier {report.version}, {report.seconds:.1f} s, {report.cost:.2f} USD", ""]
    return "\n".join(lines)


def _cell(tier: TierResult | None) -> str:
    if tier is None or not tier.cases:
        return "" if tier is None else MARKS[tier.verdict]
    return f"{MARKS[tier.verdict]} {tier.count('passed')} of {len(tier.cases)}"


def _markdown_failures(skill: SkillReport) -> list[str]:
    failures = [(tier, case) for tier in skill.tiers for case in tier.cases if case.verdict == "failed"]
    lines = [f"- {tier.tier} {_markdown(case.id)}: {_markdown(case.reason)}" for tier, case in failures[:_MOST_CASES]]
    lines += [f"- {_markdown(note.path)} {_markdown(note.message)}" for note in skill.notes if note.is_error]
    if len(failures) > _MOST_CASES:
        lines.append(f"- and {len(failures) - _MOST_CASES} more")
    return ["", f"### {_markdown(skill.name)}", "", *lines] if lines else []


def _markdown(text: str) -> str:
    """Words of a stranger in a list or a cell, where they make no link, no table, no mention and no HTML."""
    escaped = "".join(f"\\{letter}" if letter in "\\`*_{}[]()#+!|~$" else letter for letter in shown(text, _MAX_TEXT))
    for linked in ("@", ":", "www"):  # people and addresses, which become links by themselves
        escaped = escaped.replace(linked, f"{linked}\u200b")
    return html.escape(escaped, quote=False)
