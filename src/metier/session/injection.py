"""Commands in the instructions of a skill, run before a model sees them: `` !`git status` `` becomes what it prints.

Off unless policy allows it. A command is never given to a shell, is checked whatever the skill's own rules say, and
what it prints is text: it is searched neither for commands nor for placeholders.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from metier._lazy import dataclass, logger, pattern
from metier._paths import is_inside
from metier.guard.audit.redaction import redact
from metier.run import Job, Limits
from metier.session.substitution import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from metier.run import Outcome, Runner
    from metier.skill.tool_rules import ToolRule

SECONDS = 10.0
"""Seconds for one command."""
MAX_SECONDS = 60.0
"""Seconds for all commands of a body together."""
MAX_OUTPUT = 16 * 1024
"""Bytes that are kept of what a command prints."""
MAX_COMMANDS = 128
MAX_COMMAND = 4_096

log = logger("metier.guard")

Result: TypeAlias = Literal["ran", "failed", "timed-out", "blocked", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedCommand:
    """A command that was found in a body, and what became of it."""

    command: str
    result: Result
    text: str
    """The text in its place."""
    duration_ms: float = 0.0
    runner: str = ""
    """The runner."""

    @property
    def is_success(self) -> bool:
        """Whether it ran and ended well."""
        return self.result == "ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A body whose commands were run or refused."""

    segments: tuple[Segment, ...]
    """The body in stretches; what came from commands is literal. Substitution takes these, not the text."""
    commands: tuple[InjectedCommand, ...] = ()
    duration_ms: float = 0.0

    @property
    def text(self) -> str:
        """The body as it reads now."""
        return "".join(segment.text for segment in self.segments)


class Marker(NamedTuple):
    """A place in a body that asks for commands to be run."""

    start: int
    end: int
    commands: tuple[str, ...]


def inject(
    body: str,
    *,
    rules: Sequence[ToolRule] | None,
    enabled: bool,
    because: str = "commands in instructions are not enabled here",
    runner: Runner | None,
    folder: str,
    env: Mapping[str, str] | None = None,
    roots: Sequence[str] = (),
    unlisted: bool = False,
    against: Callable[[list[str]], str | None] | None = None,
    seconds: float = SECONDS,
    max_output: int = MAX_OUTPUT,
) -> Injected:
    """Run the commands of a body in `folder` and put what they print in their place.

    `rules` are what the skill's `allowed-tools` permit; a skill that declares none (None) gets its commands run only
    when `unlisted` says so. `against` says why the words of a command must not be run, if anything else is against it.
    Absolute paths in arguments must lie in `folder` or one of `roots`. Whatever happens is
    text in the result: a command that is refused, fails or takes too long never keeps the others from running.

    >>> inject("Today: !`date`", rules=None, enabled=False, runner=None, folder="/").text
    'Today: [Command blocked by security policy: commands in instructions are not enabled here]'
    """
    markers = list(find_commands(body))
    if not markers:
        return Injected(segments=(Segment(text=body),))
    started = time.monotonic()
    done: list[InjectedCommand] = []
    segments: list[Segment] = []

    def answer(command: str) -> InjectedCommand:
        if not enabled or runner is None:
            return _blocked(command, because.rstrip("."))
        if len(done) >= MAX_COMMANDS:
            return _blocked(command, f"more than {MAX_COMMANDS} commands")
        try:
            reason = refusal(command, roots=(folder, *roots)) or _beyond(rules, command, unlisted)
            if reason is None and against is not None:
                reason = against(list(_words(command)))
            if reason is not None:
                return _blocked(command, reason)
            left = MAX_SECONDS - (time.monotonic() - started)
            limits = Limits(seconds=max(0.0, min(seconds, left)), output_bytes=max_output)
            return _run(command, runner, Job(argv=_words(command), folder=folder, env=env or {}, limits=limits))
        except Exception as error:
            log.warning("SECURITY: command in instructions caused an error: %s", _loggable(command), exc_info=True)
            said = _short(f"{type(error).__name__}: {error}", 500)
            return InjectedCommand(command=command, result="error", text=f"[Execution error: {said}]")

    at = 0
    for marker in markers:
        first = len(done)
        for command in marker.commands:
            done.append(answer(command))
        segments.append(Segment(text=body[at : marker.start]))
        segments.append(Segment(text="\n".join(command.text for command in done[first:]), literal=True))
        at = marker.end
    segments.append(Segment(text=body[at:]))
    return Injected(segments=tuple(segments), commands=tuple(done), duration_ms=(time.monotonic() - started) * 1000)


def refusal(command: str, *, roots: Sequence[str] = ()) -> str | None:
    """Return the reason against running a command, whatever any rule allows; None when there is none.

    Most of this means something to a shell only, and there is none. It is refused all the same: who writes it
    expects a shell, and would get something else.

    >>> refusal("git log | sh")
    'it contains |'
    >>> refusal("git log -1") is None
    True
    """
    if len(command) > MAX_COMMAND:
        return f"it is longer than {MAX_COMMAND:,} characters"
    if not command.isprintable():
        return "it contains a line break or another control character"
    shell = _SHELL.search(command)
    if shell is not None:
        return f"it contains {shell[0]}"
    try:
        words = shlex.split(command)
    except ValueError:
        return "its quotes are not closed"
    if not words or not words[0]:
        return "it names no program"
    if _ABSOLUTE.match(words[0]):
        return "its program is an absolute path"
    outside = next((path for word in words[1:] for path in _absolute_paths(word) if not _inside(path, roots)), None)
    return None if outside is None else f"{outside[:200]} is outside of the folders it may use"


_SHELL = pattern(r"&&|\|\||\$\(|\.\.|[;&|<>`$~*?\[]")
_ABSOLUTE = pattern(r"[/\\]|[A-Za-z]:")
_WEB = pattern(r"\bhttps?://[^\s'\",@]*", re.IGNORECASE)
# An absolute path as a word, after `--file=`, `@` or a blank inside quotes, or right after an option's letter.
_PATH = pattern(r"(?:^-{1,2}[A-Za-z0-9-]*|^|[\s=:,@'\"({])([/\\][^\s'\",)}]*)")
_DRIVE = pattern(r"(?<![A-Za-z0-9])[A-Za-z]:[/\\]")


def _absolute_paths(word: str) -> Iterator[str]:
    plain = _WEB.sub("", word)
    if os.name == "nt" and _DRIVE.search(plain):
        yield os.path.abspath(os.sep)  # on whichever drive: the root is in no folder
    for found in _PATH.finditer(plain):
        yield found[1]


def _inside(path: str, roots: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    return any(is_inside(real, os.path.realpath(root)) for root in roots if root)


def _words(command: str) -> tuple[str, ...]:
    return tuple(shlex.split(command))


def _beyond(rules: Sequence[ToolRule] | None, command: str, unlisted: bool) -> str | None:
    """The reason of the skill's own rules against a command."""
    if rules is None:
        return None if unlisted else "the skill declares no allowed-tools"
    from metier.guard.tool_rules.matching import permits

    # The words that will be run, and not the text: a shell would read some of it otherwise.
    match = permits(rules, "Bash", {"command": list(_words(command))})
    return None if match.allowed else match.reason.rstrip(".") or "the skill's allowed-tools do not allow it"


def _blocked(command: str, reason: str) -> InjectedCommand:
    log.warning("SECURITY: command in instructions blocked (%s): %s", reason, _loggable(command))
    return InjectedCommand(command=command, result="blocked", text=f"[Command blocked by security policy: {reason}]")


def _run(command: str, runner: Runner, job: Job) -> InjectedCommand:
    if not job.limits.seconds:
        text = f"[Command timed out: all commands together took {MAX_SECONDS:g} s]"
        return InjectedCommand(command=command, result="timed-out", text=text)
    outcome = runner.run_blocking(job)
    result, text = _format_outcome(outcome, job.limits)
    write = log.info if result == "ran" else log.warning
    write("SECURITY: command in instructions %s: %s", result, _loggable(command))
    return InjectedCommand(
        command=command, result=result, text=text, duration_ms=outcome.duration_ms, runner=outcome.runner
    )


def _format_outcome(outcome: Outcome, limits: Limits) -> tuple[Result, str]:
    """The result of a command, and its text in the instructions."""
    if outcome.timed_out:
        after = min(limits.seconds, round(outcome.duration_ms / 1000, 1))  # a policy may give less
        return "timed-out", f"[Command timed out after {after:g} s]"
    if outcome.is_success or outcome.killed_by == "output":
        cut = f"\n[Output truncated at {limits.output_bytes:,} bytes]" if outcome.stdout_truncated else ""
        return "ran" if outcome.is_success else "failed", outcome.stdout.removesuffix("\n") + cut
    said = _short(outcome.stderr.strip() or outcome.stdout.strip(), 500)
    return "failed", f"[Command failed: exit code {outcome.exit_code}{': ' if said else ''}{said}]"


def _short(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[:most]}... (truncated)"


def _loggable(command: str) -> str:
    return repr(redact(command[:MAX_COMMAND]))


def find_commands(body: str) -> Iterator[Marker]:
    """The places of a body that ask for commands: `` !`cmd` `` in running text, and blocks fenced as ```` ```! ````.

    A marker stands at the start of a line or after a blank, and never inside other code: what a fence or a longer run
    of backticks encloses is an example. In a block every line is a command, but for comments.

    >>> [marker.commands for marker in find_commands("On !`git branch` or `` !`not this` ``")]
    [('git branch',)]
    """
    if "!" not in body:
        return
    fence: re.Match[str] | None = None
    inside = 0
    for line in _LINE.finditer(body):
        text = line[0]
        if fence is not None:
            if _closes(text, fence):
                if fence["info"].strip() == "!":
                    wanted = (part.strip() for part in re.split(r"[\r\n]+", body[inside : line.start()]))
                    commands = tuple(part for part in wanted if part and not part.startswith("#"))
                    if commands:
                        yield Marker(fence.start("ticks"), line.start() + len(text.rstrip("\r\n")), commands)
                fence = None
            continue
        fence = _FENCE.match(body, line.start(), line.start() + len(text.rstrip("\r\n")))
        inside = line.end()
        if fence is None and "!`" in text:
            yield from _inline(text, line.start())


_LINE = pattern(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_TICKS = pattern("`+")
# Below a list item or in a quotation too; the words after backticks have none, or the line is running text.
_FENCE = pattern(
    r"[ \t]*(?:(?:>|[-*+][ \t]|[0-9]{1,9}[.)][ \t])[ \t]*)*(?P<ticks>`{3,}|~{3,})(?P<info>(?<=`)[^`]*|(?<=~).*)\Z"
)


def _closes(text: str, fence: re.Match[str]) -> bool:
    rest = text.strip().lstrip("> \t")
    return len(rest) >= len(fence["ticks"]) and not rest.strip(fence["ticks"][0])


def _inline(text: str, offset: int) -> Iterator[Marker]:
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(text)]
    # For each run of backticks, the next one as long: it ends the code that the first begins.
    closing: dict[int, int] = {}
    latest: dict[int, int] = {}
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        if length in latest:
            closing[at] = latest[length]
        latest[length] = at
    at = 0
    while at < len(runs):
        start, end = runs[at]
        until = closing.get(at)
        if until is None:
            at += 1
            continue
        stop, past = runs[until]
        is_marked = end - start == 1 and text[start - 1 : start] == "!" and (start == 1 or text[start - 2].isspace())
        if is_marked and text[end:stop].strip():
            yield Marker(offset + start - 1, offset + past, (text[end:stop].strip(),))
        at = until + 1
