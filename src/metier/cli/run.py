"""`metier run`."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, NoReturn

import metier
import metier.run
from metier._lazy import asdict
from metier.cli.identity import user_name
from metier.cli.json_shapes import outcome_shape
from metier.cli.output import Style, print_json
from metier.cli.parser import Parser, library_of, seconds
from metier.cli.terminal import LiveOutput, at_terminal
from metier.errors import InvalidArgument, MetierError
from metier.hints import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier import Policy
    from metier.run import Limits, Outcome, Runner
    from metier.session.active_skills import ActiveSkill
    from metier.skill import Execution

_WITHOUT = (
    "`--runner plain` runs it with nothing between it and this machine: only do that with a script that you know."
)
_ONCE = "`--untrusted` does without, for this one time."
_ENDED = {
    "timeout": ("It took longer than {seconds:g} seconds, and was ended.", "`--timeout S` gives it more, up to 600."),
    "output": ("It wrote far more than is kept, and was ended.", "Let it write to a file in the workspace."),
    "memory": ("It used more than {memory_bytes:,} bytes of memory, and was ended.", "Give it less to do at once."),
    "disk": ("It wrote more than {disk_bytes:,} bytes to disk, and was ended.", "Give it less to do at once."),
    "processes": ("It started more than {processes:,} processes, and was ended.", "Give it less to do at once."),
    "file": ("It wrote a file of more than {file_bytes:,} bytes, and was ended.", "Let it write several."),
    "crash": ("It crashed the shell's interpreter.", "`--runner native` runs it in a real shell."),
    "signal": ("A signal ended it.", ""),
}
"""The reasons for which a script was ended, each with advice; a limit is named by its key below `run.limits`."""
_TOO_LARGE = 128 + 25
"""The exit code of what the system ends for a file that is too large."""


def add(parser: Parser) -> None:
    parser.example("metier run csv-analyst peek_csv.py --timeout 10 -- data.csv")
    parser.set_defaults(is_exact=True)
    parser.library()
    parser.skill()
    parser.option("script", "SCRIPT", "scripts/x.sh, or x.sh where no other has the same name", complete="scripts")
    parser.option(
        "arguments", "ARG", "what the script gets; behind `--` it may begin with a dash", nargs="*", default=[]
    )
    parser.passed_on = "arguments"
    parser.option(
        "--runner",
        None,
        "auto: the strongest sandbox here (default); native: one of the operating system; virtual: a shell over "
        "files in memory; plain: none at all",
        choices=("auto", "native", "virtual", "plain"),
        default="auto",
    )
    parser.option(
        "--network",
        None,
        "what it reaches: nothing (default), the hosts of --host, or all that this machine reaches",
        choices=("none", "restricted", "host"),
    )
    parser.option("--host", "HOST", "a host that it reaches: api.example.com (repeatable)", action="append")
    parser.option("--timeout", "S", "seconds that it has (default: 30, at most 600)", type=seconds)
    parser.option("--workspace", "DIR", "where it works, and may write (default: here)")
    parser.option("--env", "NAME=VALUE", "a variable for it (repeatable)", action="append")
    parser.flag("--stdin", "let it read what this command is given to read")
    parser.flag("--untrusted", "also if nobody vouches for where the skill is from")
    parser.json()


def run(options: Namespace) -> int:
    # Whoever ends this program ends the script too, and leaves nothing lying about.
    with contextlib.suppress(ValueError):  # which only the first thread can be told
        signal.signal(signal.SIGTERM, _end)
    try:
        outcome, execution, limits = _ran(options)
    except MetierError as error:
        _say_how_to_get_more(error, options)
        raise
    if options.json:
        print_json(outcome_shape(outcome))
    else:
        _print_notes(outcome, execution, limits, options)
    return outcome.exit_code or int(not outcome.is_success)


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def _ran(options: Namespace) -> tuple[Outcome, Execution | None, Limits]:
    from metier.session.resource_grants import limits_under
    from metier.session.runs import MAX_STDIN_BYTES

    policy, runner = _policy(options), _runner(options.runner)
    env = _variables(options.env or ())
    guard = metier.Guard(policy, approve=at_terminal())
    with library_of(options).session(
        guard=guard, runner=runner, workspace=options.workspace, user=user_name()
    ) as session:
        session.load(options.name)
        active = session.loaded.one()
        script = script_named(active, options.script)
        screen = LiveOutput(script, is_silent=options.json)
        stdin = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1) if options.stdin else b""

        def run_script() -> Outcome:
            return session.runs.script_blocking(
                script,
                options.arguments,
                active.name,
                env=env,
                seconds=options.timeout,
                stdin=stdin,
                by="user",
                on_output=screen.take,
                should_stop=screen.should_stop,
            )

        outcome = screen.show(run_script)
        limits = limits_under(guard.policy, metier.run.Limits(seconds=options.timeout or metier.run.Limits().seconds))
        return outcome, active.skill.execution, limits


def script_named(active: ActiveSkill, script: str) -> str:
    """Return the path of a script that was named by path, or by name where no other has the same."""
    paths = [file.path for file in active.listing.scripts()]
    if script in paths or "/" in script:
        return script
    found = [path for path in paths if path.rpartition("/")[2] == script]
    if len(found) > 1:
        raise InvalidArgument(
            f"Skill {active.name!r} has {len(found)} scripts of the name {script!r}.",
            hint=f"Name one of {', '.join(found[:10])}.",
        )
    return found[0] if found else f"scripts/{script}"


def _policy(options: Namespace) -> Policy:
    """Return the policy that the options of the command state."""
    network, hosts = options.network, options.host or []
    if options.runner == "plain" and (hosts or network in ("none", "restricted")):
        raise InvalidArgument(
            "The plain runner keeps nothing from the network.", hint="Take another runner, or `--network host`."
        )
    if options.runner == "virtual" and (hosts or network in ("restricted", "host")):
        raise InvalidArgument("The virtual shell has no network.", hint="Take `--runner native`, or leave it out.")
    if hosts and network not in (None, "restricted"):
        raise InvalidArgument(
            f"With `--network {network}` a list of hosts means nothing.", hint="Write `--network restricted`."
        )
    return metier.Policy(
        unsandboxed="allow" if options.runner == "plain" else "deny",
        untrusted="allow" if options.untrusted else "deny",
        # Where nobody says anything, the policy files do.
        network=network or ("restricted" if hosts else None),
        hosts=hosts,
    )


def _runner(name: str) -> Runner | None:
    from metier.run.selection import native_runner

    if name == "plain":
        return metier.run.PlainRunner()
    if name == "native":
        return native_runner()
    if name == "virtual":
        metier.run.VirtualShell().close()  # raises where it is not installed
        return metier.run.VirtualRunner(native=native_runner())
    return None


def _variables(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidArgument(f"--env has {pair!r:.80}, which sets nothing.", hint="Write --env NAME=VALUE.")
        found[name] = value
    return found


def _say_how_to_get_more(error: MetierError, options: Namespace) -> None:
    """Name the option that allows what a command denies by itself: none of them lifts what a policy file says."""
    from metier.guard.governance import Governance

    said = Governance.default().effective.run
    if error.code == "isolation-missing" and options.runner != "plain" and said.unsandboxed in (None, "allow"):
        error.hint = joined(error.hint, _WITHOUT)
    elif error.code == "skill-untrusted" and said.untrusted in (None, "allow"):
        error.hint = joined(error.hint, _ONCE)


def _print_notes(outcome: Outcome, execution: Execution | None, limits: Limits, options: Namespace) -> None:
    """Print notes, truncation and the reason of an early end beside the output of the script."""
    style = Style(sys.stderr)
    for note in outcome.notes:
        print(f"{style.warn('note')}: {Style.text(note, 1_000)}", file=sys.stderr)
    if outcome.notes and execution is not None and execution.network not in (None, "none") and not options.network:
        words = ["--network", execution.network, *(f"--host {host}" for host in execution.hosts or ())]
        print(f"{style.dim('hint')}: `{Style.text(' '.join(words))}` gives it the network.", file=sys.stderr)
    if outcome.is_truncated:
        said = f"The output is not complete: {metier.run.Limits().output_bytes:,} bytes of each stream are kept."
        print(f"{style.warn('note')}: {said}", file=sys.stderr)
    cause = "file" if outcome.killed_by == "signal" and outcome.exit_code == _TOO_LARGE else outcome.killed_by
    if cause in _ENDED:
        message, hint = _ENDED[cause]
        print(f"{style.bad('ended')}: {message.format(**asdict(limits))}", file=sys.stderr)
        limit = re.search(r"\{(\w+)", message)
        if cause == "timeout" and limits.seconds < (options.timeout or metier.run.Limits().seconds):
            hint = ""  # which would change nothing
        if limit and not (cause == "timeout" and hint):
            who = f"The limit is `run.limits.{limit[1]}`: `metier policy show run.limits` says who set it."
            hint = f"{hint} {who}".strip()
        if hint:
            print(f"{style.dim('hint')}: {hint}", file=sys.stderr)
