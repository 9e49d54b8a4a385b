"""Every error Métier raises, in one tree.

    MetierError                 anything of ours; catch this to catch them all
    ├── InvalidArgument         a call was made with a value that cannot work
    ├── SkillNotFound           no skill answers to that name here
    ├── SkillUnreadable         the skill exists but its file cannot be served
    ├── SkillChanged            the file on disk is no longer the skill that was asked for
    ├── SkillExists             a new skill would overwrite one that is there
    ├── SkillInvalid            a skill to be written breaks the specification
    ├── FileRefused             a path that would leave the skill, or is not a plain file
    ├── ProtectedPlace          a file that other programs act on, and that no policy grants to be written
    ├── FileMissing             no such file in the skill
    ├── FileTooLarge            a file over the limit
    ├── PackageTooLarge         more files or bytes than a package may have
    ├── SourceUnavailable       a place skills come from cannot be read
    ├── ArchiveRefused          an archive that is damaged, too large or hostile
    ├── SearchUnavailable       a part that searching needs is missing here
    ├── Refused                 the guard did not allow it; its code is that of the decision
    ├── ActivationFailed        a skill cannot be activated now: a cycle, too deep, a hook that failed
    ├── SkillNotActive          the session has not loaded that skill
    ├── SessionNotFound         there is no such session, or it was closed
    ├── ScriptUnsupported       a script that nothing here can run
    ├── IsolationMissing        a job must be kept from something, and nothing here can do that
    ├── PackagesMissing         packages that a script imports were not built, or are damaged
    ├── PackagesRefused         packages that a skill declares cannot be resolved, or are not what they should be
    ├── ShellUnavailable        the virtual shell, or a part that it needs, is missing here
    ├── ShellRefused            the virtual shell cannot do that: a path, a limit, or something that is still running
    ├── AuditUnavailable        the audit log that was asked for cannot be written
    ├── AgentNotFound           no agent answers to that id here
    ├── AgentInvalid            the declaration of an agent cannot be used
    ├── AgentFailed             a run of an agent came to no answer
    ├── ModelMissing            no model is configured, or the one that is cannot be used here
    ├── BudgetExceeded          the money or the time for tests is used up, or may be by the next call
    ├── StoreUnavailable        the store cannot be opened, read or written
    ├── PolicyInvalid           a policy file, or a list of suppressions, cannot be used as it is
    ├── PolicyStale             the policy is no longer the one that a change was made of
    ├── RulesInvalid            a pack of rules for the scanner cannot be used
    ├── NotPermitted            whoever asks has not the role for it, or may not decide about their own request
    ├── RequestNotFound         there is no such approval or request for one
    ├── PersonNotFound          nobody of that name, or no such token
    ├── ProposalNotFound        there is no such proposal
    ├── ProposalInvalid         a proposal whose diff does not apply, or that says too little
    ├── ProposalStale           what a proposal would change has changed meanwhile, or it was decided about already
    ├── IntegrityFailed         content is not what was approved or recorded
    ├── RequirementsConflict    skills need others in versions that exclude each other
    ├── LockInvalid             a lock file cannot be used as it is
    ├── SignatureRefused        the signature of a skill does not count here
    │   ├── SignatureMismatch   a file, or the signature itself, is not what was signed
    │   ├── UnsignedFile        a file beside those that were signed
    │   └── SignerChanged       another signer than the one of the content before
    ├── ServerUnreachable       the server that this machine is a node of does not answer
    ├── ServerRefused           that server refuses a request; its code is that of the server's problem
    ├── NodeInvalid             this machine is no node, or what it has of its server cannot be used
    └── PartMissing             an optional part is not installed

Each has a stable `code`, a `message` that says what happened and to what, a `hint` that says what to do next, and a
`context` with the values behind the message. A hint that depends on its reader is a `metier.hints.Hint`.
"""

from __future__ import annotations


class MetierError(Exception):
    """The base of all errors of Métier.

    >>> from metier import Library, MetierError
    >>> try:
    ...     Library.from_folder("no-such-folder")
    ... except MetierError as error:
    ...     print(error.code)
    source-unavailable
    """

    code: str = "error"

    def __init__(self, message: str, *, hint: str = "", **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context
        if hint:
            self.add_note(f"hint: {hint}")  # what a traceback shows below the message

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # The default rebuilds from `args` alone and would lose the hint and context between processes.
        return (_rebuild, (type(self), self.code, self.message, self.hint, self.context))


def _rebuild(kind: type[MetierError], code: str, message: str, hint: str, context: dict[str, object]) -> MetierError:
    error = kind.__new__(kind)
    MetierError.__init__(error, message, hint=hint, **context)
    error.code = code
    return error


class InvalidArgument(MetierError):
    """A call was made with a value that cannot work."""

    code = "invalid-argument"


class SkillNotFound(MetierError):
    """No skill answers to that name, for this caller."""

    code = "skill-not-found"


class SkillUnreadable(MetierError):
    """The skill exists, but its file cannot be served."""

    code = "skill-unreadable"


class SkillChanged(MetierError):
    """The file on disk is no longer the skill that was asked for."""

    code = "skill-changed"


class SkillExists(MetierError):
    """A new skill would overwrite one that is there."""

    code = "skill-exists"


class SkillInvalid(MetierError):
    """A skill to be written breaks the specification."""

    code = "skill-invalid"


class FileRefused(MetierError):
    """A path that would leave the skill, or that is not a plain file."""

    code = "file-refused"


class ProtectedPlace(FileRefused):
    """A file that other programs start something from or that decides about skills, and that nobody granted."""

    code = "protected-place"


class FileMissing(MetierError):
    """The skill has no such file."""

    code = "file-missing"


class FileTooLarge(MetierError):
    """A file is over the limit."""

    code = "file-too-large"


class PackageTooLarge(MetierError):
    """A skill has more files or bytes than a package may have."""

    code = "package-too-large"


class SourceUnavailable(MetierError):
    """A place skills come from cannot be read."""

    code = "source-unavailable"


class ArchiveRefused(MetierError):
    """An archive is damaged, too large, or tries to place files outside the skill."""

    code = "archive-refused"


class SearchUnavailable(MetierError):
    """A part that searching needs is missing here."""

    code = "search-unavailable"


class Refused(MetierError):
    """The guard did not allow it. The code is that of the decision, which `context["decision"]` holds."""

    code = "refused"


class ActivationFailed(MetierError):
    """A skill cannot be activated now: a cycle, too deep, or a hook that failed."""

    code = "activation-failed"


class SkillNotActive(MetierError):
    """The session has not loaded that skill."""

    code = "skill-not-active"


class SessionNotFound(MetierError):
    """There is no such session, or it was closed."""

    code = "session-not-found"


class ScriptUnsupported(MetierError):
    """A script that nothing here can run."""

    code = "script-unsupported"


class IsolationMissing(MetierError):
    """A job must be kept from something, and nothing here can do that. Its context has `missing`, a list."""

    code = "isolation-missing"


class PackagesMissing(MetierError):
    """Packages that a script imports were not built, or are damaged."""

    code = "packages-missing"


class PackagesRefused(MetierError):
    """Packages that a skill declares cannot be resolved, or are not what they should be."""

    code = "packages-refused"


class ShellUnavailable(MetierError):
    """The virtual shell, or a part that it needs, is missing here."""

    code = "shell-unavailable"


class ShellRefused(MetierError):
    """The virtual shell cannot do that: a path, a limit, or something that is still running."""

    code = "shell-refused"


class AuditUnavailable(MetierError):
    """The audit log that was asked for cannot be written."""

    code = "audit-unavailable"


class AgentNotFound(MetierError):
    """No agent answers to that id here."""

    code = "agent-not-found"


class AgentInvalid(MetierError):
    """The declaration of an agent cannot be used."""

    code = "agent-invalid"


class AgentFailed(MetierError):
    """A run of an agent came to no answer: too many turns, or a model that failed."""

    code = "agent-failed"


class ModelMissing(MetierError):
    """No model is configured, or the one that is cannot be used here."""

    code = "model-missing"


class BudgetExceeded(MetierError):
    """The money or the time for tests is used up, or may be by the next call."""

    code = "budget-exceeded"


class ServerUnreachable(MetierError):
    """The server that this machine is a node of does not answer, or not as such a server does."""

    code = "server-unreachable"


class ServerRefused(MetierError):
    """The server refuses a request; its code is that of the server's problem."""

    code = "server-refused"


class NodeInvalid(MetierError):
    """This machine is no node of a server, or what it has of its server cannot be used."""

    code = "node-invalid"


class PartMissing(MetierError, ImportError):
    """An optional part is not installed; the hint has the command that installs it."""

    code = "part-missing"


class StoreUnavailable(MetierError):
    """The store cannot be opened, read or written."""

    code = "store-unavailable"


class PolicyInvalid(MetierError):
    """A policy file, or a list of suppressions, cannot be used as it is; its context has `path` and `line`."""

    code = "policy-invalid"


class PolicyStale(MetierError):
    """The policy is no longer the one that a change was made of."""

    code = "policy-stale"


class RulesInvalid(MetierError):
    """A pack of rules for the scanner cannot be used: a file of it is wrong, or it is not what it is pinned to."""

    code = "rules-invalid"


class NotPermitted(MetierError):
    """The person has not the role for it, or may not decide about their own request."""

    code = "not-permitted"


class RequestNotFound(MetierError):
    """There is no such approval, or no such request for one."""

    code = "request-not-found"


class PersonNotFound(MetierError):
    """Nobody of that name is known, or the token is none."""

    code = "person-not-found"


class ProposalNotFound(MetierError):
    """There is no such proposal."""

    code = "proposal-not-found"


class ProposalInvalid(MetierError):
    """A proposal whose diff does not apply, or that says too little."""

    code = "proposal-invalid"


class ProposalStale(MetierError):
    """The skill that a proposal would change has changed meanwhile, or it was decided about already."""

    code = "proposal-stale"


class IntegrityFailed(MetierError):
    """Content is not what was approved or recorded."""

    code = "integrity-failed"


class RequirementsConflict(MetierError):
    """Skills need others in versions that exclude each other, or that there are not."""

    code = "requirements-conflict"


class LockInvalid(MetierError):
    """A lock file cannot be used as it is, or cannot hold that; nothing overwrites it."""

    code = "lock-invalid"


class SignatureRefused(MetierError):
    """The signature of a skill does not count here."""

    code = "signature-refused"


class SignatureMismatch(SignatureRefused):
    """A file of a signed skill, or the signature itself, is not what was signed."""

    code = "signature-mismatch"


class UnsignedFile(SignatureRefused):
    """A skill has a file beside those that were signed."""

    code = "unsigned-file"


class SignerChanged(SignatureRefused):
    """Another signer than the one of the content before, or none."""

    code = "signer-changed"
