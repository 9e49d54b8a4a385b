"""Sets one listing mode in a policy file, and leaves every other line as it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._paths import write_file
from metier._yaml_edit import set_entry
from metier.errors import InvalidArgument
from metier.guard.policy.reader import parse_policy
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.policy.file import PolicyFile
    from metier.library import Layer
    from metier.skill.listing import ListingMode


def set_listing_mode(path: str, layer: Layer, pattern: str, mode: ListingMode) -> None:
    """Set the mode of a pattern in a policy file, which is made where there is none.

    Raises `InvalidArgument` for a file that is broken, or written in a way that cannot be changed with certainty.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            before = file.read()
    except FileNotFoundError:
        before = ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{shown(path, 500)} cannot be read: {error}.", hint="Mend the file first.") from None
    if all(not line.strip() or line.startswith("#") for line in before.splitlines()):
        before = f"{before}{'' if not before or before.endswith(chr(10)) else chr(10)}version: 1\n"
    old = parse_policy(before, path, layer)
    if old.is_broken:
        raise InvalidArgument(
            f"The policy file {shown(path, 500)} has errors.",
            hint=for_people("`metier policy check` says which; mend them first."),
        )
    try:
        after = set_entry(before, ("skills", "listing", pattern), mode)
    except LookupError:
        after = ""
    new = parse_policy(after, path, layer)
    is_same = not {*old.settings, "skills.listing"} - {*new.settings} and _modes(new) == _modes(old) | {pattern: mode}
    if new.is_broken or not is_same:
        raise InvalidArgument(
            f"{shown(path, 500)} is written in a way that cannot be changed with certainty.",
            hint=f"Write it yourself: skills: {{listing: {{{shown(pattern)}: {mode}}}}}.",
        )
    real = os.path.realpath(path)  # a link stays one
    os.makedirs(os.path.dirname(real), exist_ok=True)
    permissions = os.stat(real).st_mode & 0o777 if os.path.exists(real) else 0o644
    write_file(real, after.encode(), exact_mode=permissions)


def _modes(file: PolicyFile) -> dict[str, str]:
    return {rule.pattern: rule.mode for rules in file.settings.get("skills.listing", ()) for rule in rules}
