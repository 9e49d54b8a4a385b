"""What may happen: policy, tool rules, approvals and the audit trail, behind one decision point.

This room decides and records; it carries nothing out. It imports `skill`, `source`, `library` and `store`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.guard.approval import AnswerPending, Answers, Question, asking
    from metier.guard.audit import AuditLog, AuditRecord, FileLog, MemoryLog, governance_record
    from metier.guard.ceiling import Ceiling
    from metier.guard.chain import ChainLog
    from metier.guard.decision import Action, Actor, Decision, Subject
    from metier.guard.effective import Effective
    from metier.guard.explaining import Explanation, explain
    from metier.guard.governance import Governance
    from metier.guard.guard import Guard, current_user
    from metier.guard.matching import Match, forbids, permits
    from metier.guard.names import canonical_tool
    from metier.guard.passage import Passage, failure_code, refused
    from metier.guard.policies import Policies
    from metier.guard.policy import Policy
    from metier.guard.policy_file import Origin, PolicyFile, PolicyProblem
    from metier.guard.redaction import redact
    from metier.guard.rules import Rule, parse_rules
    from metier.guard.shell.reading import shell_parts
    from metier.guard.verdict import Verdict

_NAMES = {
    "Action": "metier.guard.decision",
    "Actor": "metier.guard.decision",
    "AnswerPending": "metier.guard.approval",
    "Answers": "metier.guard.approval",
    "AuditLog": "metier.guard.audit",
    "AuditRecord": "metier.guard.audit",
    "Ceiling": "metier.guard.ceiling",
    "ChainLog": "metier.guard.chain",
    "Decision": "metier.guard.decision",
    "Effective": "metier.guard.effective",
    "Explanation": "metier.guard.explaining",
    "FileLog": "metier.guard.audit",
    "Governance": "metier.guard.governance",
    "Guard": "metier.guard.guard",
    "Match": "metier.guard.matching",
    "MemoryLog": "metier.guard.audit",
    "Origin": "metier.guard.policy_file",
    "Passage": "metier.guard.passage",
    "Policies": "metier.guard.policies",
    "Policy": "metier.guard.policy",
    "PolicyFile": "metier.guard.policy_file",
    "PolicyProblem": "metier.guard.policy_file",
    "Question": "metier.guard.approval",
    "Rule": "metier.guard.rules",
    "Subject": "metier.guard.decision",
    "Verdict": "metier.guard.verdict",
    "asking": "metier.guard.approval",
    "canonical_tool": "metier.guard.names",
    "current_user": "metier.guard.guard",
    "explain": "metier.guard.explaining",
    "failure_code": "metier.guard.passage",
    "forbids": "metier.guard.matching",
    "governance_record": "metier.guard.audit",
    "parse_rules": "metier.guard.rules",
    "permits": "metier.guard.matching",
    "redact": "metier.guard.redaction",
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
    "Effective",
    "Explanation",
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
