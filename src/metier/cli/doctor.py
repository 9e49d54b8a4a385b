"""`metier doctor`."""

from __future__ import annotations

import os
import platform
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import metier
import metier.agent
import metier.skill
import metier.source
from metier._lazy import asdict
from metier._paths import default_cache_folder
from metier._version import __version__
from metier.cli.agents import agents_in_need
from metier.cli.identity import store_url
from metier.cli.output import Style, plural, print_diagnostics, print_json, short_path, table
from metier.cli.packages import package_state
from metier.cli.parser import Parser, library_of
from metier.cli.policy_view import PolicyView, out_of_scope, unknown_tool_warnings
from metier.cli.sandbox_report import KEEPS_FROM, runners
from metier.errors import MetierError
from metier.hints import for_person

if TYPE_CHECKING:
    from metier import Library
    from metier.guard.governance import Governance
    from metier.library import Place
    from metier.source import SourceDiagnostic

_MOST_SHOWN = 10
_MOST_NAMED = 3


def add(parser: Parser) -> None:
    parser.example("metier doctor")
    parser.library()
    parser.json()


def run(options: Namespace) -> int:
    from metier.library.clients import client_of

    library = library_of(options)
    policy = PolicyView(library)
    findings = _findings(library, policy)
    report = _report(library, policy, findings)
    if options.json:
        print_json(report)
        return 0 if report["ok"] else 1
    style = Style(sys.stdout)
    print(f"metier {__version__}, Python {platform.python_version()} on {platform.system()}")
    print(f"index cache: {Style.text(report['cache'])}")
    _print_governance(report)
    # Nobody misses the folders of clients that are not in use.
    shown = [one for one in report["places"] if one["state"] != "missing" or client_of(one["path"]) is None]
    rows = [(place["layer"], place["state"], f"{place['skills']:,}", place["path"]) for place in shown]
    print(table(style, ("LAYER", "STATE", "SKILLS", "PLACE"), rows))
    if len(shown) < len(report["places"]):
        others = plural(len(report["places"]) - len(shown), "folder")
        print(style.dim(f"Searched too, but not there: {others} of other clients (`metier doctor --json`)."))
    _print_enforcement(report["places"])
    counts = ", ".join(f"{report[what]:,} {what}" for what in ("shadowed", "hidden", "broken"))
    print(f"\n{plural(report['active'], 'skill')} to use, {counts}.")
    print(f"{plural(report['agents']['usable'], 'agent')} to ask, {len(report['agents']['failing']):,} with problems.")
    _print_problems(library, style, findings)
    denied = [(f"{one['name']} ({one['layer']})", f"{one['reason']} ({one['rule']})") for one in report["denied"]]
    for head, out_of_use, command in (
        ("CANNOT WORK HERE", list(report["unready"].items()), "metier list"),
        ("DENIED BY POLICY", denied, "metier list --all"),
    ):
        if out_of_use:
            print()
            print(table(style, (head, "WHY"), out_of_use[:_MOST_SHOWN]))
        if len(out_of_use) > _MOST_SHOWN:
            print(f"and {len(out_of_use) - _MOST_SHOWN:,} more; `{command}` shows them")
    _print_runners(style, report["runners"])
    _print_clients(style, report["clients"])
    print()
    for step in report["next"]:
        print(f"→ {step}")
    return 0 if report["ok"] else 1


def _report(library: Library, policy: PolicyView, findings: list[SourceDiagnostic]) -> dict[str, Any]:
    everything = library.entries(all=True)
    broken = [entry for entry in everything if entry.is_broken]
    errors = [finding for finding in findings if finding.diagnostic.severity == "error"]
    by_code = _names_by_code(library)
    unready = _unready(library)
    agents = _agents(library)
    untrusted = [entry for entry in everything if not entry.trusted]
    statuses = policy.among(everything)
    denied = [
        {"name": entry.name, "layer": entry.layer, "location": entry.location, **status.as_json()}
        for entry, status in statuses.items()
        if status.status == "denied"
    ]
    hidden = out_of_scope(library)
    clients = _clients()
    unprotected = [one for one in clients if one["problem"]]
    advice = (
        (broken or errors, "Mend what is marked as an error above; the other skills work."),
        (
            unready,
            "Some skills cannot work here: install what is missing, or leave them; `metier packages NAME` builds what "
            "its scripts import.",
        ),
        (denied, "Policy denies some skills: `metier policy explain NAME` says why."),
        (policy.governance.effective.problems, "A policy file has problems: `metier policy check` says which."),
        (unprotected, "The protection of a client does not hold: `metier protect` says why, and what to do."),
        (agents["failing"], "Some agents cannot work: `metier agents` says why."),
        (untrusted, "This project's skills are untrusted: look at them, then `metier trust`."),
        (not library.entries() and not hidden, "`metier new NAME --into .agents/skills` writes a first skill."),
        (hidden, "Some are hidden by scope: `metier list --all`, or `--agent NAME` for what an agent sees."),
        (
            by_code.keys() - {"shadowed"},
            "`metier validate PATH` says of each skill what is not quite right, with the line.",
        ),
    )
    steps = [step for applies, step in advice if applies]
    return {
        "ok": not broken and not errors,
        "version": __version__,
        "python": platform.python_version(),
        "cache": default_cache_folder() or "off",
        **_governance(policy.governance),
        "active": len(library),
        "hidden": len(hidden),
        "shadowed": sum(entry.shadowed_by is not None for entry in everything),
        "broken": len(broken),
        "unready": unready,
        "denied": denied,
        "agents": agents,
        "places": [
            _place(library, place) | {"allowed_tools": policy.enforcement_of(place).as_dict()}
            for place in library.places
        ],
        "findings": [{"where": finding.where, **finding.diagnostic.as_json()} for finding in findings],
        "broken_skills": [
            {"location": entry.location, "diagnostics": [found.as_json() for found in entry.diagnostics]}
            for entry in broken
        ],
        "diagnostics": {code: len(names) for code, names in by_code.items()},
        "runners": runners(),
        "clients": clients,
        "next": steps or ["Nothing needs to be done."],
    }


def _governance(governance: Governance) -> dict[str, Any]:
    """Collect the policy files that count here, and the store of approvals and records."""
    effective = governance.effective
    files = [{"layer": one.layer, "path": one.path, "is_broken": one.is_broken} for one in effective.files]
    return {"policy": {"mode": effective.mode, "files": files}, "store": _store()}


def _store() -> dict[str, Any]:
    from metier.store.location import parse_address

    try:
        address = parse_address(store_url())
    except MetierError as error:
        return {"url": None, "exists": None, "problem": f"{error.message} {for_person(error.hint)}"}
    # Whether a database on a server is there, nobody is asked: that may take long.
    exists = os.path.exists(address.target) if address.kind == "sqlite" else None
    return {"url": str(address), "exists": exists, "problem": None}


def _print_governance(report: dict[str, Any]) -> None:
    policy, store = report["policy"], report["store"]
    names = ", ".join(f"{short_path(one['path'])} ({one['layer']})" for one in policy["files"])
    holds = f"{Style.text(names, 4_096)}, mode {policy['mode']}" if names else "no file, the defaults hold"
    print(f"policy: {holds}")
    made = ", not made yet" if store["exists"] is False else ""
    print(f"store: {Style.text(store['problem'] or store['url'], 4_096)}{made}\n")


def _print_enforcement(places: list[dict[str, Any]]) -> None:
    """Print the places whose `allowed-tools` restrict nothing, and the reason."""
    advisory = [one for one in places if one["skills"] and one["allowed_tools"]["enforcement"] == "advisory"]
    for one in advisory[:_MOST_SHOWN]:
        where = Style.text(short_path(one["path"]), 4_096)
        print(f"allowed-tools are advisory in {where}: {Style.text(one['allowed_tools']['because'], 1_000)}")
    print(f"allowed-tools are enforced {'everywhere else' if advisory else 'everywhere'}")


def _names_by_code(library: Library) -> dict[str, list[str]]:
    """Group the names of skills by the codes of their diagnostics, each name once for each diagnostic."""
    everything = library.entries(all=True)
    found: dict[str, list[str]] = {}
    for entry in everything:
        for one in (*entry.diagnostics, *(() if entry.is_broken else unknown_tool_warnings(entry.skill))):
            found.setdefault(one.code, []).append(entry.name or os.path.dirname(entry.location))
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _findings(library: Library, policy: PolicyView) -> list[SourceDiagnostic]:
    """Collect findings about places, and a warning where more skills are listed than models cope with."""
    from metier.library.index_log import many_skills
    from metier.skill.listing import PREFERENCES

    listed = (entry for entry in library.entries() if policy.listing(entry).mode in PREFERENCES)
    return [*library.findings(), *many_skills(listed)]


def _unready(library: Library) -> dict[str, str]:
    machine = metier.Machine()
    found = {entry.name: [str(state)] for entry in library.entries() if not (state := entry.readiness(machine))}
    guard = metier.Guard()
    for entry in library.entries():
        packages = package_state(entry, guard)
        if packages is not None and packages.problem:
            found.setdefault(entry.name, []).append(f"packages of its scripts: {packages.problem}")
    return {name: "; ".join(why) for name, why in found.items()}


def _agents(library: Library) -> dict[str, Any]:
    """Count the agents that can be asked, and list the ids of those that cannot."""
    agents = metier.agent.Agents.discover(library)
    failing = sorted({*agents.failures, *agents_in_need(agents)})
    return {"usable": sum(one.id not in failing for one in agents), "failing": failing}


def _place(library: Library, place: Place) -> dict[str, Any]:
    path = place.source.root if isinstance(place.source, metier.source.FolderSource) else place.source.location("")
    exists = not isinstance(place.source, metier.source.FolderSource) or os.path.isdir(place.source.root)
    state = "missing" if not exists else "trusted" if place.trusted else "untrusted"
    return {
        "layer": place.layer,
        "source": place.source.name,
        "path": path,
        "state": state,
        "skills": _count(library, place),
    }


def _count(library: Library, place: Place) -> int:
    return len(library.snapshot.rows[library.places.index(place)])


def _print_runners(style: Style, found: list[dict[str, Any]]) -> None:
    """Print the runners, the limits that each enforces, and the steps to more."""
    print()
    rows = [
        (runner["name"], "isolates" if runner["isolates"] else "isolates nothing", runner["how"]) for runner in found
    ]
    print(table(style, ("RUNNER", "STATE", "HOW"), rows))
    print()
    marks = [
        (need, *("✓" if runner["enforces"][need] else "-" for runner in found), about)
        for need, (_, about) in KEEPS_FROM.items()
    ]
    heads = [runner["name"].upper() for runner in found]
    print(table(style, ("LIMIT", *heads, "KEEPS A SCRIPT FROM"), marks))
    for runner in found:
        for step in runner["next"]:
            print(f"{style.dim(runner['name'])}: {Style.text(step, 1_000)}")


def _clients() -> list[dict[str, Any]]:
    """List the clients that `metier protect` wrote something for, and what each of them cannot do."""
    from metier.cli.client_protection import client_protections
    from metier.cli.hook_files import HOOK_FILES

    found = (one for one in client_protections() if one.state != "off")
    return [asdict(one) | {"limits": list(HOOK_FILES[one.client].limits)} for one in found]


def _print_clients(style: Style, found: list[dict[str, Any]]) -> None:
    if not found:
        return
    print()
    rows = [(one["client"], one["scope"], one["state"], one["problem"] or "; ".join(one["files"])) for one in found]
    print(table(style, ("PROTECTED", "SCOPE", "STATE", "FILES, OR WHAT IS WRONG"), rows))
    limits = {one["client"]: one["limits"] for one in found}
    print()
    print(table(style, ("CLIENT", "LIMIT"), [(client, limit) for client, said in limits.items() for limit in said]))


def _print_problems(library: Library, style: Style, findings: list[SourceDiagnostic]) -> None:
    for finding in findings:
        print(f"\n{Style.text(finding.where)}")
        print_diagnostics(style, [finding.diagnostic])
    everything = library.entries(all=True)
    for entry in [entry for entry in everything if entry.is_broken][:_MOST_SHOWN]:
        print(f"\n{Style.text(entry.location)}")
        print_diagnostics(style, [found for found in entry.diagnostics if found.severity == "error"])
    by_code, kinds = _names_by_code(library), metier.skill.DIAGNOSTIC_KINDS
    if by_code:
        print()
        rows = [
            (kinds[code].severity, code, _few(names), kinds[code].hint.format(*"…" * 4))
            for code, names in list(by_code.items())[:_MOST_SHOWN]
        ]
        print(table(style, ("SEVERITY", "WHAT", "SKILLS", "WHAT TO DO"), rows, paint={0: style.outcome}))


def _few(names: list[str]) -> str:
    """Join the first of some names, and the count of the others."""
    different = list(dict.fromkeys(names))
    more = len(different) - _MOST_NAMED
    return ", ".join(different[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
