"""The parts of `metier.Session`: skills loaded and unloaded, their files, scripts and hooks, tool calls, the prompt.

This room keeps state and translates nothing. It imports all rooms below it: `skill`, `source`, `library`, `find`,
`guard`, `run` and `tools`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.session.active_skills import ActiveSkill as ActiveSkill
    from metier.session.autonomy import Autonomy as Autonomy
    from metier.session.content import MARKER as MARKER
    from metier.session.events import Event as Event
    from metier.session.files import Resource as Resource
    from metier.session.instruction_binding import bound_instructions as bound_instructions
    from metier.session.lineage import Lineage as Lineage
    from metier.session.loader import Invocation as Invocation
    from metier.session.loader import Receipt as Receipt
    from metier.session.loader import ReceiptItem as ReceiptItem
    from metier.session.prompt import RUNTIME as RUNTIME
    from metier.session.prompt import Vocabulary as Vocabulary
    from metier.session.secrets import EnvironmentSecrets as EnvironmentSecrets
    from metier.session.secrets import GivenSecrets as GivenSecrets
    from metier.session.secrets import Secret as Secret
    from metier.session.secrets import SecretProvider as SecretProvider
    from metier.session.sessions import SessionPool as SessionPool
    from metier.skill.untrusted_text import escape_tags as escape_tags
    from metier.skill.untrusted_text import escape_tags_in as escape_tags_in

__getattr__, __dir__, __all__ = lazy_names(__name__)
