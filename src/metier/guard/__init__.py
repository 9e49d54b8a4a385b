"""Guard: policy, tool rules, approvals and the audit log, behind one decision point.

This room decides and records; it carries nothing out. It imports `skill`, `source`, `library`, `scan` and `store`.

`guard` is the decision point, `governance` the policy files and the store as they hold now. Each check in `checks` and
`run_checks` is a function of one `decision_context`. Parts, of which each imports only those before it: `decision` (the
vocabulary), `shell` (command lines), `policy` (policy files), `tool_rules` and `files` (tool calls), `audit` (records),
`approvals` (decisions of people), and the modules beside them (the engine). These are the names that a program needs;
all others are imported from their modules.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.guard.audit.log import AuditLog as AuditLog
    from metier.guard.audit.log import AuditRecord as AuditRecord
    from metier.guard.audit.log import FileLog as FileLog
    from metier.guard.audit.log import MemoryLog as MemoryLog
    from metier.guard.decision import Action as Action
    from metier.guard.decision import Actor as Actor
    from metier.guard.decision import Decision as Decision
    from metier.guard.decision import Subject as Subject
    from metier.guard.governance import InForce as InForce
    from metier.guard.guard import Guard as Guard
    from metier.guard.policy.program import Policy as Policy
    from metier.guard.question import Answers as Answers
    from metier.guard.question import Question as Question
    from metier.guard.question import consent_from as consent_from

__getattr__, __dir__, __all__ = lazy_names(__name__)
