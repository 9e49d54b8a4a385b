"""What may happen: policy, tool rules, approvals and the audit trail, behind one decision point.

This room decides and records; it carries nothing out. It imports `skill`, `source`, `library`, `scan` and `store`.

`guard` is the decision point and `governance` what tightens it by `checks` over one `case`. Folders: `policy` (what is
written), `tool_rules` (calls of tools), `shell` (what a command does), `approvals` (what people decide), `audit`
(what is kept of it all).
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.guard.audit.governance_events import governance_record as governance_record
    from metier.guard.audit.log import AuditLog as AuditLog
    from metier.guard.audit.log import AuditRecord as AuditRecord
    from metier.guard.audit.log import FileLog as FileLog
    from metier.guard.audit.log import MemoryLog as MemoryLog
    from metier.guard.audit.redaction import redact as redact
    from metier.guard.audit.store_log import StoreLog as StoreLog
    from metier.guard.audited_action import AuditedAction as AuditedAction
    from metier.guard.audited_action import failure_code as failure_code
    from metier.guard.decision import Action as Action
    from metier.guard.decision import Actor as Actor
    from metier.guard.decision import Ceiling as Ceiling
    from metier.guard.decision import Decision as Decision
    from metier.guard.decision import Origin as Origin
    from metier.guard.decision import Subject as Subject
    from metier.guard.explanation import Explanation as Explanation
    from metier.guard.explanation import explain as explain
    from metier.guard.files.file_access import FileAccess as FileAccess
    from metier.guard.governance import Governance as Governance
    from metier.guard.guard import Guard as Guard
    from metier.guard.guard import current_user as current_user
    from metier.guard.policy.effective import EffectivePolicy as EffectivePolicy
    from metier.guard.policy.file import PolicyFile as PolicyFile
    from metier.guard.policy.file import PolicyProblem as PolicyProblem
    from metier.guard.policy.files import Policies as Policies
    from metier.guard.policy.program import Policy as Policy
    from metier.guard.question import AnswerPending as AnswerPending
    from metier.guard.question import Answers as Answers
    from metier.guard.question import Question as Question
    from metier.guard.question import asking as asking
    from metier.guard.shell.parser import shell_parts as shell_parts
    from metier.guard.tool_rules.matching import forbids as forbids
    from metier.guard.tool_rules.matching import permits as permits
    from metier.guard.tool_rules.patterns import Match as Match
    from metier.skill.tool_rules import ToolRule as ToolRule
    from metier.skill.tool_rules import canonical_tool as canonical_tool
    from metier.skill.tool_rules import parse_rules as parse_rules

__getattr__, __dir__, __all__ = lazy_names(__name__)
