"""How skills travel: from a library to the folders that other clients read.

What is written somewhere passes the guard first and stays inside the folder that was named. This room imports
everything below it, up to `session`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.hub.sync import Step, Synced, sync_to

_NAMES = {
    "Step": "metier.hub.sync",
    "Synced": "metier.hub.sync",
    "sync_to": "metier.hub.sync",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = ["Step", "Synced", "sync_to"]
