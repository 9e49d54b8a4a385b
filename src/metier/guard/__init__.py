"""What may happen: policy, tool rules, approvals and the audit trail, behind one decision point.

This room decides and records; it carries nothing out. It imports `skill`, `source`, `library` and `store`.

`guard` is the decision point and `governance` what tightens it by `checks` over one `case`. Folders: `policy` (what is
written), `tool_rules` (calls of tools), `shell` (what a command does), `approvals` (what people decide), `scan` (what
looks dangerous), `audit` (what is kept of it all).
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.guard.audit.chain import ChainLog
    from metier.guard.audit.records import AuditLog, AuditRecord, FileLog, MemoryLog, governance_record
    from metier.guard.audit.redaction import redact
    from metier.guard.decision import Action, Actor, Decision, Subject
    from metier.guard.explaining import Explanation, explain
    from metier.guard.file_access import FileAccess
    from metier.guard.governance import Governance
    from metier.guard.guard import Guard, current_user
    from metier.guard.passage import Passage, failure_code, refused
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.file import Origin, PolicyFile, PolicyProblem
    from metier.guard.policy.files import Policies
    from metier.guard.policy.program import Policy
    from metier.guard.question import AnswerPending, Answers, Question, asking
    from metier.guard.shell.reading import shell_parts
    from metier.guard.tool_rules.ceiling import Ceiling
    from metier.guard.tool_rules.matching import Match, forbids, permits
    from metier.guard.tool_rules.names import canonical_tool
    from metier.guard.tool_rules.rules import Rule, parse_rules
    from metier.guard.verdict import Verdict

_NAMES = {
    "Action": "metier.guard.decision",
    "Actor": "metier.guard.decision",
    "AnswerPending": "metier.guard.question",
    "Answers": "metier.guard.question",
    "AuditLog": "metier.guard.audit.records",
    "AuditRecord": "metier.guard.audit.records",
    "Ceiling": "metier.guard.tool_rules.ceiling",
    "ChainLog": "metier.guard.audit.chain",
    "Decision": "metier.guard.decision",
    "EffectivePolicy": "metier.guard.policy.effective",
    "Explanation": "metier.guard.explaining",
    "FileAccess": "metier.guard.file_access",
    "FileLog": "metier.guard.audit.records",
    "Governance": "metier.guard.governance",
    "Guard": "metier.guard.guard",
    "Match": "metier.guard.tool_rules.matching",
    "MemoryLog": "metier.guard.audit.records",
    "Origin": "metier.guard.policy.file",
    "Passage": "metier.guard.passage",
    "Policies": "metier.guard.policy.files",
    "Policy": "metier.guard.policy.program",
    "PolicyFile": "metier.guard.policy.file",
    "PolicyProblem": "metier.guard.policy.file",
    "Question": "metier.guard.question",
    "Rule": "metier.guard.tool_rules.rules",
    "Subject": "metier.guard.decision",
    "Verdict": "metier.guard.verdict",
    "asking": "metier.guard.question",
    "canonical_tool": "metier.guard.tool_rules.names",
    "current_user": "metier.guard.guard",
    "explain": "metier.guard.explaining",
    "failure_code": "metier.guard.passage",
    "forbids": "metier.guard.tool_rules.matching",
    "governance_record": "metier.guard.audit.records",
    "parse_rules": "metier.guard.tool_rules.rules",
    "permits": "metier.guard.tool_rules.matching",
    "redact": "metier.guard.audit.redaction",
    "refused": "metier.guard.passage",
    "shell_parts": "metier.guard.shell.reading",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "Action",
    "Actor",
    "AnswerPending",
    "Answers",
    "AuditLog",
    "AuditRecord",
    "Ceiling",
    "ChainLog",
    "Decision",
    "EffectivePolicy",
    "Explanation",
    "FileAccess",
    "FileLog",
    "Governance",
    "Guard",
    "Match",
    "MemoryLog",
    "Origin",
    "Passage",
    "Policies",
    "Policy",
    "PolicyFile",
    "PolicyProblem",
    "Question",
    "Rule",
    "Subject",
    "Verdict",
    "asking",
    "canonical_tool",
    "current_user",
    "explain",
    "failure_code",
    "forbids",
    "governance_record",
    "parse_rules",
    "permits",
    "redact",
    "refused",
    "shell_parts",
]
