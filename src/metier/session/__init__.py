"""What a conversation uses: skills loaded and unloaded, their files, their scripts, and what a model is told of them.

This room keeps state and translates nothing. It imports all rooms below it: `skill`, `source`, `library`, `find`,
`guard`, `run` and `tools`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.session.active import ActiveSkill, Receipt, ReceiptItem
    from metier.session.binding import bound_instructions
    from metier.session.content import MARKER
    from metier.session.events import Event
    from metier.session.invocation import Invocation
    from metier.session.lineage import Lineage
    from metier.session.resources import Resource
    from metier.session.secrets import EnvironmentSecrets, GivenSecrets, Secret, SecretProvider
    from metier.session.session import Session
    from metier.session.sessions import Sessions
    from metier.session.settings import Autonomy
    from metier.session.state import Options
    from metier.session.vocabulary import RUNTIME, Vocabulary
    from metier.skill.containment import contained, contained_in

_NAMES = {
    "ActiveSkill": "metier.session.active",
    "Autonomy": "metier.session.settings",
    "EnvironmentSecrets": "metier.session.secrets",
    "Event": "metier.session.events",
    "GivenSecrets": "metier.session.secrets",
    "Invocation": "metier.session.invocation",
    "Lineage": "metier.session.lineage",
    "MARKER": "metier.session.content",
    "Options": "metier.session.state",
    "RUNTIME": "metier.session.vocabulary",
    "Receipt": "metier.session.active",
    "ReceiptItem": "metier.session.active",
    "Resource": "metier.session.resources",
    "Secret": "metier.session.secrets",
    "SecretProvider": "metier.session.secrets",
    "Session": "metier.session.session",
    "Sessions": "metier.session.sessions",
    "Vocabulary": "metier.session.vocabulary",
    "bound_instructions": "metier.session.binding",
    "contained": "metier.skill.containment",
    "contained_in": "metier.skill.containment",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "MARKER",
    "RUNTIME",
    "ActiveSkill",
    "Autonomy",
    "EnvironmentSecrets",
    "Event",
    "GivenSecrets",
    "Invocation",
    "Lineage",
    "Options",
    "Receipt",
    "ReceiptItem",
    "Resource",
    "Secret",
    "SecretProvider",
    "Session",
    "Sessions",
    "Vocabulary",
    "bound_instructions",
    "contained",
    "contained_in",
]
