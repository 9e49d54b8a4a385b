"""How skills travel and change: copies for other clients, proposals, versions and the way back, deployment.

What is written somewhere passes the guard first and stays inside the folder that was named. This room imports
everything below it, up to `session`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.hub.comparing import difference
    from metier.hub.deploying import Deployed, deploy
    from metier.hub.diffs import apply_diff
    from metier.hub.history import compare, rollback
    from metier.hub.homes import Home, find_home
    from metier.hub.proposals import propose_new, propose_update
    from metier.hub.reviewing import approve, find_proposal, recommend, reject, withdraw
    from metier.hub.sync import Step, Synced, sync_to

_NAMES = {
    "Deployed": "metier.hub.deploying",
    "Home": "metier.hub.homes",
    "Step": "metier.hub.sync",
    "Synced": "metier.hub.sync",
    "apply_diff": "metier.hub.diffs",
    "approve": "metier.hub.reviewing",
    "compare": "metier.hub.history",
    "deploy": "metier.hub.deploying",
    "difference": "metier.hub.comparing",
    "find_home": "metier.hub.homes",
    "find_proposal": "metier.hub.reviewing",
    "propose_new": "metier.hub.proposals",
    "propose_update": "metier.hub.proposals",
    "recommend": "metier.hub.reviewing",
    "reject": "metier.hub.reviewing",
    "rollback": "metier.hub.history",
    "sync_to": "metier.hub.sync",
    "withdraw": "metier.hub.reviewing",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "Deployed",
    "Home",
    "Step",
    "Synced",
    "apply_diff",
    "approve",
    "compare",
    "deploy",
    "difference",
    "find_home",
    "find_proposal",
    "propose_new",
    "propose_update",
    "recommend",
    "reject",
    "rollback",
    "sync_to",
    "withdraw",
]
