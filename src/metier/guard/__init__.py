"""What may happen: policy, tool rules and the audit trail, behind one decision point.

This room decides and records; it carries nothing out. It imports `skill`, `source` and `library`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.guard.approval import AnswerPending, Answers, Question, asking
    from metier.guard.audit import AuditLog, AuditRecord, FileLog, MemoryLog, default_audit_file
    from metier.guard.ceiling import Ceiling
    from metier.guard.decision import Action, Actor, Decision, Subject
    from metier.guard.guard import Guard, current_user
    from metier.guard.matching import Match, forbids, permits
    from metier.guard.names import canonical_tool
    from metier.guard.passage import Passage, failure_code, refused
    from metier.guard.policy import Policy
    from metier.guard.redaction import redact
    from metier.guard.rules import Rule, parse_rules
    from metier.guard.shell.reading import shell_parts

_NAMES = {
    "Action": "metier.guard.decision",
    "Actor": "metier.guard.decision",
    "AnswerPending": "metier.guard.approval",
    "Answers": "metier.guard.approval",
    "AuditLog": "metier.guard.audit",
    "AuditRecord": "metier.guard.audit",
    "Ceiling": "metier.guard.ceiling",
    "Decision": "metier.guard.decision",
    "FileLog": "metier.guard.audit",
    "Guard": "metier.guard.guard",
    "Match": "metier.guard.matching",
    "MemoryLog": "metier.guard.audit",
    "Passage": "metier.guard.passage",
    "Policy": "metier.guard.policy",
    "Question": "metier.guard.approval",
    "Rule": "metier.guard.rules",
    "Subject": "metier.guard.decision",
    "asking": "metier.guard.approval",
    "canonical_tool": "metier.guard.names",
    "current_user": "metier.guard.guard",
    "default_audit_file": "metier.guard.audit",
    "failure_code": "metier.guard.passage",
    "forbids": "metier.guard.matching",
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
    "Decision",
    "FileLog",
    "Guard",
    "Match",
    "MemoryLog",
    "Passage",
    "Policy",
    "Question",
    "Rule",
    "Subject",
    "asking",
    "canonical_tool",
    "current_user",
    "default_audit_file",
    "failure_code",
    "forbids",
    "parse_rules",
    "permits",
    "redact",
    "refused",
    "shell_parts",
]
