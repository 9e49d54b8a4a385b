"""The summary of an effective policy: the value of each key, the lines that set it, and all problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.errors import RulesInvalid
from metier.guard.policy.file import PolicyProblem
from metier.guard.policy.schema import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.guard.policy.effective import EffectivePolicy

_APPROVAL = "skill-policy.require-approval-for"


def summarise(effective: EffectivePolicy, keys: Iterable[str]) -> dict[str, Any]:
    """The files, these keys and the problems of a policy, as JSON has them."""
    return {
        "digest": effective.digest,
        "files": [
            {"layer": file.layer, "path": file.path, "digest": file.digest, "is_broken": file.is_broken}
            for file in effective.files
        ],
        "values": {
            key: {
                "value": value_of(effective, key),
                "set_by": [str(one) for one in effective.origins.get(key, ())],
            }
            for key in keys
        },
        "problems": [problem.as_dict() for problem in (*effective.problems, *effective.ignored)],
    }


def value_of(effective: EffectivePolicy, key: str) -> object:
    """The effective value of a key, as JSON has it."""
    if key == _APPROVAL and effective.required_of_plugins.keys() != effective.required.keys():
        return {"all layers": sorted(effective.required), "plugin": sorted(effective.required_of_plugins)}
    if key in ("tools.network", "tools.write"):
        return list(effective.network_tools if key == "tools.network" else effective.write_tools)
    value = effective.values.get(key, KEYS[key].default)
    return None if value is None else KEYS[key].type.shown(value)


def problems_of_packs(effective: EffectivePolicy) -> Iterator[PolicyProblem]:
    """The packs of rules that are not there, or are not those that the policy pins."""
    origin = effective.origin("scan.packs")
    for pack in effective.scan.packs:
        try:
            pack.files()
        except RulesInvalid as error:
            if origin is not None:
                yield PolicyProblem(origin=origin, severity="error", message=error.message, hint=error.hint or "")
