"""`metier show`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import metier
import metier.skill
from metier.cli.json_shapes import digest_of, entry_shape
from metier.cli.lock import locked_shape
from metier.cli.output import Style, plural, print_diagnostics, print_json, table, unwrapped
from metier.cli.packages import package_state
from metier.cli.parser import Parser, library_of
from metier.cli.policy_view import PolicyView, unknown_tool_warnings, warn_of_denied
from metier.errors import InvalidArgument, MetierError
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier import Library
    from metier.library import Entry
    from metier.library.lock_file import LockedSkill
    from metier.scan.capabilities import Capabilities
    from metier.skill import PackageListing, Skill


_SHOWN_APART = {
    "name", "description", "diagnostics", "frontmatter", "extra", "display_name", "declared_name",
    "description_source", "body_lines", "body_tokens",
}  # fmt: skip


def add(parser: Parser) -> None:
    parser.example("metier show csv-analyst scripts/profile_csv.py")
    parser.library()
    parser.skill()
    parser.option("file", "FILE", "a path inside the skill, to print that file", nargs="?", complete="files")
    parser.flag("--capabilities", "also what its files can do, beside what it declares")
    parser.flag("--instructions", "print the instructions, as a model gets them")
    parser.json()


def run(options: Namespace) -> None:
    if (options.file is not None) + options.instructions + options.json > 1:
        raise InvalidArgument("One thing is shown at a time.", hint="Give FILE, --instructions or --json alone.")
    library = library_of(options)
    if options.file is not None or options.instructions:
        _print_content(options, library)
        return
    entry = library.get(options.name)
    listing = _listing(entry)
    policy = PolicyView(library)
    status, mode = policy.of(entry), policy.listing(entry)
    score = policy.scores([entry]).get(entry)
    enforcement = policy.enforcement_of(entry.place, entry.folder)
    others = _others(library, entry)
    locked = _locked(entry)
    capabilities = _capabilities(entry, policy) if options.capabilities else None
    if options.json:
        shape = entry_shape(entry, metier.Machine(), mode, status=status, score=score)
        shape["others"] = [
            {
                "layer": one.layer,
                "source": one.source,
                "reference": one.reference,
                "digest": digest_of(one),
                "location": one.location,
            }
            for one in others
        ]
        shape["diagnostics"] += [found.as_json() for found in unknown_tool_warnings(entry.skill)]
        shape["allowed_tools"] = enforcement.as_dict()
        shape["capabilities"] = None if capabilities is None else capabilities.as_dict()
        shape["fields"] = _fields(entry.skill)
        shape["extra"] = _to_json(entry.skill.extra)
        shape["body_lines"] = entry.skill.body_lines
        shape["body_tokens"] = entry.skill.body_tokens
        shape["files"] = [dataclasses.asdict(file) for file in listing.files]
        shape["files_stopped_at"] = listing.stopped_at
        packages = package_state(entry, metier.Guard())
        shape["packages"] = None if packages is None else packages.as_dict()
        shape["locked"] = None if locked is None else locked_shape(locked)
        print_json(shape)
        return
    style = Style(sys.stdout)
    print(
        style.strong(Style.text(entry.name))
        + style.dim(f"  {entry.layer}, {'trusted' if entry.trusted else 'untrusted'}")
    )
    print(Style.text(" ".join(entry.description.split()), 2_000))
    print()
    rows = [("location", entry.location), ("source", entry.source), ("digest", digest_of(entry) or "not available")]
    if locked is not None:
        at = f" at {locked.revision.removeprefix('sha256:')[:12]}" if locked.revision else ""
        pinned = ", pinned" if locked.pinned else ""
        rows.append(("installed", f"from {locked.source}{at}{pinned}, {style.at(locked.added)} by {locked.by}"))
        if locked.signer:
            rows.append(("signed by", locked.signer))
    rows.append(("instructions", f"{plural(entry.skill.body_lines, 'line')}, about {entry.skill.body_tokens:,} tokens"))
    rows.append(("readiness", _readiness(entry)))
    packages = package_state(entry, metier.Guard())
    if packages is not None:
        rows.append(("packages", f"declared in {', '.join(packages.files)}: {packages.problem or packages}"))
    rows.append(("listing", str(mode)))
    if score is not None:
        rows.append(("score", f"{score} of 100"))
    if status is not None and status.status == "denied":
        rows.append(("policy", f"{status.status}: {status.sentence}"))
    rows.extend((_field_name(key), _short(value)) for key, value in _fields(entry.skill).items())
    if entry.skill.allowed_tools is not None:
        rows.append(("enforcement", str(enforcement)))
    rows.extend((key, _short(value)) for key, value in entry.skill.extra.items())
    print(table(style, ("FIELD", "VALUE"), rows, paint={0: style.dim}))
    print()
    files = [(file.path, f"{file.size:,}", file.kind) for file in listing.files]
    print(table(style, ("FILE", "BYTES", "KIND"), files))
    if listing.stopped_at is not None:
        print(style.warn(f"The list stopped at {listing.stopped_at}."))
    if capabilities is not None:
        print()
        print(table(style, ("CAPABILITY", "FOUND AT", "DECLARED"), [*_compared(capabilities)]))
    if others:
        print()
        same = [(one.reference, one.layer, digest_of(one) or "", one.location) for one in others]
        print(table(style, ("OTHERS OF THE NAME", "LAYER", "DIGEST", "LOCATION"), same))
    diagnostics = [*entry.diagnostics, *unknown_tool_warnings(entry.skill)]
    if diagnostics:
        print()
        print_diagnostics(style, diagnostics, indent="")


def _locked(entry: Entry) -> LockedSkill | None:
    """The entry of the lock file that a skill was installed by, where it was and the file can be read."""
    from metier.library.lock_file import locked_skill

    with contextlib.suppress(MetierError):  # `metier lock` says what is wrong with it
        return locked_skill(os.path.dirname(entry.location))
    return None


def _capabilities(entry: Entry, policy: PolicyView) -> Capabilities | None:
    """The capabilities of a skill and those that it declares; None where its files cannot be read."""
    from metier.scan.capabilities import infer

    effective = policy.governance.effective
    with contextlib.suppress(MetierError):
        return infer(entry.package, network=effective.network_tools, write=effective.write_tools)
    return None


def _compared(capabilities: Capabilities) -> Iterator[tuple[str, str, str]]:
    """Each capability with the first place that shows it, and whether the skill declares it."""
    for name in sorted({*capabilities.names, *capabilities.declared}):
        place = next(iter(capabilities.evidence.get(name, ())), None)
        declared = "yes" if name in capabilities.declared else "no" if name in capabilities.undeclared else ""
        yield name, f"{place.path}:{place.line}" if place is not None else "", declared


def _others(library: Library, entry: Entry) -> list[Entry]:
    """The other skills of the same name, whichever of them answers to it."""
    return [
        one for one in library.entries(all=True) if one.name == entry.name and not one.is_broken and one is not entry
    ]


def _readiness(entry: Entry) -> str:
    state = entry.readiness()
    unknown = [f"{kind} {', '.join(names)}" for kind, names in state.unknown.items()]
    return f"{state}; the agent must have {' and '.join(unknown)}" if unknown else str(state)


def _listing(entry: Entry) -> PackageListing:
    try:
        return entry.package.listing()
    except MetierError:
        return metier.skill.PackageListing(files=())


def _fields(skill: Skill) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(skill):
        value = getattr(skill, field.name)
        default = field.default if field.default is not dataclasses.MISSING else None
        if field.name in _SHOWN_APART or value == default or value in ((), {}):
            continue
        plain = _to_json(value)
        if plain not in ({}, []):
            found[field.name] = plain
    return found


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _to_json(item) for key, item in value.items()}
    return [_to_json(item) for item in value] if isinstance(value, list | tuple) else value


def _field_name(key: str) -> str:
    return key if key == "when_to_use" else key.replace("_", "-")


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)


def _print_content(options: Namespace, library: Library) -> None:
    """Print the instructions of a skill or one of its files, byte by byte unless a person looks."""
    # A person must be able to look at what is denied; a session hands out nothing of it.
    warn_of_denied(PolicyView(library).among([library.get(options.name)]))
    if options.file is None:
        data = (library.document(options.name).body + "\n").encode(errors="surrogateescape")
    else:
        data = library.read(options.name, options.file)
    if sys.stdout.isatty():
        # A person looks: what acts on a terminal is shown instead of sent.
        for line in data.decode(errors="replace").splitlines():
            print("\t".join(shown(part, limit=100_000) for part in line.split("\t")), file=unwrapped(sys.stdout))
    else:
        sys.stdout.buffer.write(data)
