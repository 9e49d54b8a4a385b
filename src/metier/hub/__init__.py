"""Skills that travel and change: copies for other clients, proposals, versions and rollback, deployment.

What is written somewhere passes the guard first and stays inside the folder that was named. This room imports
everything below it, up to `session`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.hub.deployment import Deployed as Deployed
    from metier.hub.deployment import deploy as deploy
    from metier.hub.diff import difference as difference
    from metier.hub.diff_apply import apply_diff as apply_diff
    from metier.hub.feedback import give_feedback as give_feedback
    from metier.hub.history import compare as compare
    from metier.hub.history import rollback as rollback
    from metier.hub.proposals import propose_new as propose_new
    from metier.hub.proposals import propose_update as propose_update
    from metier.hub.review import approve as approve
    from metier.hub.review import find_proposal as find_proposal
    from metier.hub.review import recommend as recommend
    from metier.hub.review import reject as reject
    from metier.hub.review import withdraw as withdraw
    from metier.hub.skill_location import SkillLocation as SkillLocation
    from metier.hub.skill_location import find_location as find_location
    from metier.hub.sync import Step as Step
    from metier.hub.sync import Synced as Synced
    from metier.hub.sync import sync_to as sync_to

__getattr__, __dir__, __all__ = lazy_names(__name__)
