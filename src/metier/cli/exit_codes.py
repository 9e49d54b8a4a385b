"""The exit codes of the command."""

from __future__ import annotations

from metier.errors import (
    IntegrityFailed,
    InvalidArgument,
    ModelMissing,
    PartMissing,
    SourceUnavailable,
    StoreUnavailable,
)

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.errors import MetierError

FINE, PROBLEMS, USAGE, INTEGRITY, APPROVAL = 0, 1, 2, 3, 4
"""All is fine; problems were found; wrong usage; content is not what was recorded; somebody has to approve first."""

_BY_CODE = {
    **dict.fromkeys(("integrity-failed", "signature-mismatch", "unsigned-file"), INTEGRITY),
    **dict.fromkeys(("approval-needed", "approval-pending"), APPROVAL),
}


def exit_code_of(error: MetierError) -> int:
    """Return the exit code for an error.

    >>> exit_code_of(InvalidArgument("There is no layer 'x'."))
    2
    """
    if isinstance(error, IntegrityFailed):
        return INTEGRITY
    if isinstance(error, InvalidArgument | SourceUnavailable | ModelMissing | PartMissing | StoreUnavailable):
        return USAGE
    return exit_code_for(error.code)


def exit_code_of_outcome(outcome: str) -> int:
    """Return the exit code of `--check` for a decision: allowed, denied, or only with an approval.

    >>> exit_code_of_outcome("allow"), exit_code_of_outcome("deny"), exit_code_of_outcome("ask")
    (0, 1, 4)
    """
    return {"allow": FINE, "ask": APPROVAL}.get(outcome, PROBLEMS)


def exit_code_for(code: str) -> int:
    """Return the exit code for the code of an error or of a refusal."""
    return _BY_CODE.get(code, PROBLEMS)
