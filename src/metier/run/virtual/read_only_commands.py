"""Read-only commands: command lines that change nothing, found by analysis. This runs in the worker.

Most commands of a model only read. Looking through all files and taking a checkpoint after each such command would cost
more than the commands do. A command line that is not certain to be read-only counts as a change.
"""

from __future__ import annotations

import re

from bashkit import BashError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bashkit import Bash

_READ_ONLY = frozenset(
    """
    : [ basename cat cmp column comm cut date df diff dirname du echo egrep expand expr false fgrep file fmt fold grep
    head hexdump hostname id join jq ls md5sum nl nproc od paste printenv printf pwd readlink realpath rev seq sha1sum
    sha256sum sha512sum sleep stat strings tac tail test tr tree true type uname wc which whoami
    """.split()  # noqa: SIM905  # as text it can be read
)
"""Commands that write no file and set no variable, whatever their arguments; `printf -v` is looked for."""
_REDEFINING = frozenset({"alias", "enable", "trap", "unalias", "shopt", "set"})
_PLAIN_EXPANSION = re.compile(r"\$\{\w+\}")
_DOING_MORE = re.compile(r"\$\{|\(\(|\$\[|\[\[|[<>]\(|(?<!&)&(?!&)|\b(?:for|select|coproc|time)\b")
"""Expansions, arithmetic and loops that may assign, programs that write to one another, what runs in the background."""


class ReadOnlyCommands:
    """Finds the read-only command lines of one shell, as long as its commands are those it began with."""

    def __init__(self, *, is_known: bool) -> None:
        self._is_known = is_known

    def includes(self, bash: Bash, command: str) -> bool:
        """Whether a command line changes nothing. Each is asked about before it is run, as it may define others."""
        if not self._is_known:
            return False
        try:
            found = bash.analyze(command)
        except BashError:
            self._is_known = False
            return False
        names = {step.name for step in found.commands}
        if found.functions or found.is_opaque or None in names or names & _REDEFINING:
            self._is_known = not (found.functions or found.is_opaque or names & _REDEFINING)
            return False
        return (
            names <= _READ_ONLY
            and not any(redirect.is_write for redirect in found.redirects)
            and not any(step.assignments for step in found.commands)
            and not any(step.name == "printf" and _may_assign(step.args) for step in found.commands)
            and not _DOING_MORE.search(_PLAIN_EXPANSION.sub("", command))
        )


def _may_assign(words: list[str | None]) -> bool:
    return not words or words[0] is None or words[0].startswith("-")
