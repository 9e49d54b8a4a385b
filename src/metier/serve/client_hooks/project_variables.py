"""Variables that files of a project set for a client, and so for its hooks: some would let it decide about itself."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from metier._json_object import read_plain
from metier._lazy import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DECIDING = ("HOME", "METIER_", "XDG_")
"""The beginnings of variables that say which policy, approvals and quarantines count, and where records go."""
_FILES = {
    "claude-code": (".claude/settings.json", ".claude/settings.local.json"),
    "gemini": (".env", ".gemini/.env"),
}
_LINE = pattern(r"(?m)^\s*(?:export\s+)?([A-Za-z_]\w*)\s*[=:]")
_MOST_BYTES = 1_000_000


def project_variable(client: str, folders: Iterable[str], environ: Mapping[str, str]) -> tuple[str, str] | None:
    """A variable in force that a project sets and must not, with the file that does so."""
    deciding = {name for name in environ if name.startswith(_DECIDING)}
    if not deciding:
        return None
    home = os.path.expanduser("~")
    for file in dict.fromkeys(os.path.join(folder, name) for folder in folders for name in _FILES.get(client, ())):
        try:
            text = (read_plain(file, most=_MOST_BYTES) or b"").decode(errors="replace")
            names = _names_in_json(text) if file.endswith(".json") else _LINE.findall(text)
        except (ValueError, RecursionError):
            continue  # which the client cannot use, either
        found = deciding.intersection(names)
        # In the home folder, the files are the user's own, unless they say where that is.
        if found and ("HOME" in found or not file.startswith(os.path.join(home, "."))):
            return min(found), file
    return None


def _names_in_json(text: str) -> Iterable[str]:
    data = json.loads(text) if text.strip() else {}
    given = data.get("env") if isinstance(data, dict) else None
    return given if isinstance(given, dict) else ()
