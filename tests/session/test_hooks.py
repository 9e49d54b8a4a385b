"""Hooks of skills, run by a real runner: around loading, around tool calls, and only where policy lets them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.tables import thinned

from metier import Event, FunctionTool, Guard, Policy, Session, ToolResult
from metier.errors import ActivationFailed, InvalidArgument, MetierError, Refused
from metier.guard import Action, Decision, MemoryLog
from metier.hints import for_person
from metier.run import PlainRunner

Begin = Callable[..., Session]
Write = Callable[..., Path]

HOOKS = Policy(hooks="allow", unsandboxed="allow")


class Place:
    """A folder of skills whose hooks write down that they ran, and a session on it."""

    def __init__(self, folder: Path, begin_in: Begin, write_skill: Write) -> None:
        self.folder = folder
        self._begin = begin_in
        self._write = write_skill

    def skill(self, name: str, hooks: str, body: str = "Do it.", **scripts: str) -> None:
        """Write a skill; every script leaves a line in the trace, and does what it is to do beside that."""
        root = self._write(self.folder / "s" / name, more=f"hooks:\n{hooks}", body=body).parent
        (root / "hooks").mkdir(exist_ok=True)
        for script, does in scripts.items():
            text = f'echo "{name} {script}" >> "$WORKSPACE/trace"\n{does}\n'
            (root / "hooks" / f"{script}.sh").write_text(text)

    def session(self, policy: Policy = HOOKS, **options: Any) -> Session:
        (self.folder / "workspace").mkdir(exist_ok=True)
        return self._begin(self.folder / "s", policy=policy, **options)

    @property
    def trace(self) -> list[str]:
        file = self.folder / "workspace" / "trace"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def place(tmp_path: Path, begin_in: Begin, write_skill: Write) -> Place:
    """A place without skills."""
    (tmp_path / "s").mkdir()
    return Place(tmp_path, begin_in, write_skill)


AROUND = "  pre: hooks/pre.sh\n  post: hooks/post.sh\n"


def on_tools(event: str, script: str, **more: str) -> str:
    options = "".join(f"          {key}: {value}\n" for key, value in more.items() if key != "matcher")
    matcher = f"    - matcher: '{more['matcher']}'\n      hooks:\n" if "matcher" in more else "    - hooks:\n"
    return f"  {event}:\n{matcher}        - command: hooks/{script}.sh\n{options}"


def call(session: Session, tool: str = "write", **arguments: Any) -> ToolResult:
    def write(text: str = "") -> str:
        Path(session.context.workspace, "written").write_text(text)
        return "written"

    def fail() -> str:
        raise RuntimeError("no")

    def run_shell(command: str = "") -> str:
        return "ran"

    executor = session.executor([FunctionTool(function) for function in (write, fail, run_shell)])
    return anyio.run(lambda: executor.execute(tool, arguments))


@pytest.mark.covers("O-101")
def test_pre_runs_before_and_post_after(place: Place, log: MemoryLog) -> None:
    place.skill("a", AROUND, pre="", post="")
    session = place.session()
    session.load("a")
    assert place.trace == ["a pre"]
    session.unload("a")
    assert place.trace == ["a pre", "a post"]
    hooks = [(one.tool, one.command, one.success, one.exit_code) for one in log.records if one.event == "hook"]
    assert hooks == [("pre", "hooks/pre.sh", True, 0), ("post", "hooks/post.sh", True, 0)]


@pytest.mark.covers("O-101")
def test_a_failing_pre_aborts_the_load_changes_nothing_and_post_tidies_up(place: Place, log: MemoryLog) -> None:
    place.skill("a", AROUND, pre="echo not today >&2; exit 3", post="")
    place.skill("b", AROUND, pre="", post="")
    place.skill("c", "  Stop: []\n")
    session = place.session(skills=["c"])
    version = session.loaded.version
    with pytest.raises(ActivationFailed, match="exit code 3: not today"):
        session.load(["b", "a"])
    assert ([one.name for one in session.active], session.loaded.version) == (["c"], version)
    assert place.trace == ["b pre", "a pre", "b post", "a post"]
    loads = [(one.skill, one.success, one.code) for one in log.records if one.event == "load"]
    assert loads == [("c", True, ""), ("b", False, "activation-failed"), ("a", False, "activation-failed")]


@pytest.mark.covers("O-101")
@thinned("how", ["unload all", "replace", "close", "task", "failed task", "block", "remove", "activation"], one_in=2)
def test_post_runs_however_a_skill_ends(place: Place, how: str) -> None:
    place.skill("a", AROUND, pre="", post="")
    place.skill("b", "  Stop: []\n")
    session = place.session()
    match how:
        case "unload all":
            session.load("a")
            session.unload(all=True)
        case "replace":
            session.load("a")
            session.load("b")
        case "close":
            session.load("a")
            session.close()
        case "task":
            with session.task():
                session.load("a")
        case "failed task":
            with pytest.raises(ValueError, match="no"), session.task():
                session.load("a")
                raise ValueError("no")
        case "block":
            session.load("a")
            session.guard.block("a")
            assert session.active == ()
        case "remove":
            session.load("a")
            (place.folder / "s" / "a" / "SKILL.md").unlink()
            session.library.refresh()
            assert session.active == ()
        case _:
            with session.parts.loader.activation("a"):
                pass
    # A blocked skill runs nothing any more, not even what would tidy up.
    assert place.trace == (["a pre"] if how == "block" else ["a pre", "a post"])


def test_a_failing_post_fails_nothing(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.skill("a", AROUND, pre="", post="exit 1")
    session = place.session(skills=["a"])
    session.unload("a")
    assert session.active == ()
    assert "the post hook of a failed" in caplog.text


def test_loading_again_what_is_loaded_runs_pre_once_and_post_once(place: Place) -> None:
    place.skill("a", AROUND, body="For $ARGUMENTS.", pre="", post="")
    session = place.session()
    session.load("a", args="x")
    session.load("a", args="x")
    session.load("a", args="y")
    assert session.loaded.one().body.strip() == "For y."
    assert place.trace == ["a pre"]
    session.unload("a")
    assert place.trace == ["a pre", "a post"]


def test_a_changed_skill_runs_its_own_hooks(place: Place, log: MemoryLog) -> None:
    place.skill("a", AROUND, pre="", post="")
    session = place.session(skills=["a"])
    place.skill("a", AROUND, body="Changed, and longer.", pre="", post="")
    session.load("a")
    assert place.trace == ["a pre", "a pre", "a post"]
    session.unload("a")
    assert place.trace.count("a pre") == place.trace.count("a post") == 2
    assert [one.event for one in log.records if one.event != "hook"] == ["load", "load", "unload", "unload"]


def test_a_load_that_fails_late_runs_post_for_every_pre(place: Place) -> None:
    place.skill("a", AROUND, pre="", post="")
    place.skill("b", AROUND, pre="", post="")
    session = place.session(skills=["a"], max_active=1)
    with pytest.raises(InvalidArgument):
        session.load("b", "add")
    assert place.trace == ["a pre", "b pre", "b post"]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Policy(), "Hooks are not allowed here"),
        (Policy(hooks="deny", unsandboxed="allow"), "Hooks are not allowed here"),
        (Policy(hooks="allow"), "nothing between it and this machine"),
        (Policy(hooks="ask", unsandboxed="allow"), "Hooks run only after somebody agreed"),
    ],
)
def test_where_policy_lets_skills_do_without_no_hook_runs(
    place: Place, log: MemoryLog, caplog: pytest.LogCaptureFixture, policy: Policy, reason: str
) -> None:
    place.skill("a", AROUND, pre="exit 3", post="")
    session = place.session(replace(policy, unchecked="allow"), skills=["a"], runner=PlainRunner())
    assert [one.name for one in session.active] == ["a"]
    assert "loading a without its check" in caplog.text
    assert reason in caplog.text
    session.close()
    assert place.trace == []
    hooks = [one for one in log.records if one.event == "hook"]
    assert [(one.tool, one.success) for one in hooks] == [("pre", False), ("post", False)]
    assert all(one.decision != "allow" and reason in one.reason for one in hooks)


@pytest.mark.covers("SEC-11")
@pytest.mark.parametrize(
    ("policy", "code", "reason"),
    [
        (Policy(), "hooks-denied", "Hooks are not allowed here"),
        (Policy(hooks="deny", unchecked="deny", unsandboxed="allow"), "hooks-denied", "Hooks are not allowed here"),
        (Policy(hooks="allow"), "isolation-missing", "nothing between it and this machine"),
        (Policy(hooks="ask", unsandboxed="allow"), "approval-needed", "Hooks run only after somebody agreed"),
    ],
)
def test_a_skill_is_not_used_without_its_check(
    place: Place, log: MemoryLog, policy: Policy, code: str, reason: str
) -> None:
    place.skill("a", AROUND, pre="exit 3", post="")
    place.skill("b", "  post: hooks/post.sh\n", post="")
    session = place.session(policy, runner=PlainRunner())
    told: list[Event] = []
    session.listen(told.append)
    for use in (
        lambda: session.load("a"),
        lambda: session.load(["b", "a"]),
        lambda: session.parts.loader.activate("a"),
        lambda: session.invoke("/a"),
        lambda: place.session(policy, runner=PlainRunner(), skills=["a"]),
        lambda: place.session(policy, runner=PlainRunner(), bound=["a"]),
    ):
        with pytest.raises(Refused, match=re.escape("is not used without its check `hooks/pre.sh`")) as caught:
            use()
        assert (caught.value.code, reason in str(caught.value)) == (code, True)
        assert "run: {hooks: allow}" in for_person(caught.value.hint)
        assert "run: {unchecked: allow}" in for_person(caught.value.hint)
    assert (session.active, place.trace) == ((), [])
    assert {(one.kind, one.skill) for one in told} >= {("refused", "a")}, "the person sees it"
    assert any(one.code == code and reason in one.message for one in told)
    assert not [one for one in log.records if (one.event, one.skill, one.tool) == ("hook", "a", "post")], "nor ended"
    assert {one.success for one in log.records if one.event == "load" and one.skill == "a"} == {False}


@pytest.mark.covers("SEC-11")
@pytest.mark.parametrize(
    "hooks", ["  post: hooks/x.sh\n", on_tools("PreToolUse", "x"), on_tools("PostToolUse", "x"), "  Stop: []\n"]
)
def test_hooks_that_are_no_check_of_the_skill_are_left_out(place: Place, hooks: str) -> None:
    place.skill("a", hooks, x="exit 3")
    session = place.session(Policy(), skills=["a"])
    assert [one.name for one in session.active] == ["a"]
    assert "It declares hooks, which are not run here." in session.prompt.content("a")
    assert call(session).success
    session.close()
    assert place.trace == []


@pytest.mark.covers("SEC-11")
def test_a_message_of_the_users_is_not_made_without_its_check(place: Place) -> None:
    place.skill("a", "  pre: hooks/pre.sh\n  post: hooks/post.sh\ninsert: user-message\n", pre="exit 3", post="")
    with pytest.raises(Refused, match="not used without its check"):
        place.session(Policy()).invoke("/a")
    with pytest.raises(ActivationFailed, match="exit code 3"):
        place.session().invoke("/a")
    assert place.trace == ["a pre", "a post"]


@pytest.mark.covers("SEC-11")
def test_a_saved_session_brings_no_skill_back_without_its_check(place: Place) -> None:
    place.skill("a", AROUND, pre='test ! -e "$WORKSPACE/closed"', post="")
    place.skill("b", "  Stop: []\n")
    state = place.session(skills=["a", "b"]).save()

    def resumed(policy: Policy) -> list[str]:
        guard = Guard(policy, audit=MemoryLog())
        session = Session.resume(
            place.session().library, state, guard=guard, runner=PlainRunner(), workspace=place.folder / "workspace"
        )
        return [one.name for one in session.active]

    assert resumed(Policy()) == ["b"]
    assert resumed(Policy(unchecked="allow")) == ["a", "b"]
    assert resumed(HOOKS) == ["a", "b"]
    (place.folder / "workspace" / "closed").touch()
    assert resumed(HOOKS) == ["b"], "what says that a check was made may come from anywhere"


@pytest.mark.covers("SEC-11")
def test_a_person_who_says_no_to_a_check_says_no_to_the_skill(place: Place) -> None:
    place.skill("a", AROUND, pre="", post="")
    asked: list[str] = []

    def approve(action: Action, decision: Decision) -> bool:
        asked.append(action.tool)
        return False

    with pytest.raises(Refused, match="not used without its check"):
        place.session(Policy(hooks="ask", unsandboxed="allow"), approve=approve).load("a")
    assert (asked, place.trace) == (["pre"], [])


@pytest.mark.parametrize(
    "command", ["echo a >> f; cat f", "true && false", "cat | sh", "echo $(id)", "echo `id`", "(id)"]
)
def test_a_hook_that_is_written_for_a_shell_is_refused_and_not_run_as_words(place: Place, command: str) -> None:
    place.skill("a", f"  pre: '{command}'\n")
    with pytest.raises(ActivationFailed, match="no shell runs it"):
        place.session(Policy(hooks="allow", unsandboxed="allow"), skills=["a"])


@pytest.mark.covers("O-101")
def test_a_hook_before_a_call_can_refuse_it(place: Place, log: MemoryLog) -> None:
    place.skill(
        "a", on_tools("PreToolUse", "check"), check='grep -q secret && { echo "no secrets" >&2; exit 2; }; exit 0'
    )
    session = place.session(skills=["a"])
    result = call(session, text="a secret")
    assert (result.success, result.code) == (False, "hook-refused")
    assert result.error is not None
    assert "no secrets" in result.error
    assert not Path(session.context.workspace, "written").exists()
    record = log.records[-1]
    assert (record.event, record.success, record.code) == ("call", False, "hook-refused")
    assert (record.decision, record.rule) == ("deny", "hook PreToolUse")
    assert call(session, text="fine").success
    assert Path(session.context.workspace, "written").read_text() == "fine"


def test_a_hook_is_told_what_is_called_and_what_came_of_it(place: Place) -> None:
    keep = 'cat > "$WORKSPACE/{}.json"'
    hooks = on_tools("PreToolUse", "before") + on_tools("PostToolUse", "after")
    place.skill("a", hooks, before=keep.format("before"), after=keep.format("after"))
    session = place.session(skills=["a"], id="s-1")
    call(session, text="x")
    before = json.loads(Path(session.context.workspace, "before.json").read_text())
    after = json.loads(Path(session.context.workspace, "after.json").read_text())
    assert before == {
        "hook_event_name": "PreToolUse",
        "session_id": "s-1",
        "tool_name": "write",
        "tool_input": {"text": "x"},
    }
    assert after["tool_response"] == {"success": True, "result": "written", "error": None}


@pytest.mark.covers("O-101")
def test_a_hook_after_a_call_runs_also_when_the_call_failed_and_changes_nothing(place: Place) -> None:
    place.skill("a", on_tools("PostToolUse", "after"), after="exit 1")
    session = place.session(skills=["a"])
    assert call(session, "fail").code != "hook-refused"
    assert call(session).success
    assert place.trace == ["a after", "a after"]


def test_a_result_that_is_no_json_does_not_disturb_a_hook(place: Place) -> None:
    place.skill("a", on_tools("PostToolUse", "after"), after="")
    session = place.session(skills=["a"])
    admission = session.calls.admit("odd", {})

    async def main() -> None:
        await admission.after(ToolResult(success=True, result={(1, 2): {3}}))

    anyio.run(main)
    assert place.trace == ["a after"]


@thinned(
    ("matcher", "tools"),
    [
        ("write", ["write"]),
        ("Write", ["write"]),
        ("Write|Fail", ["write", "fail"]),
        ("Write | Fail", ["write", "fail"]),
        ("*", ["write", "fail", "run_shell"]),
        ("", ["write", "fail", "run_shell"]),
        ("wr*", ["write"]),
        ("wr.*", ["write"]),
        (".*", ["write", "fail", "run_shell"]),
        # Another name of the same tool must not lead around a hook.
        ("Bash", ["run_shell"]),
        ("Read", []),
    ],
    one_in=2,
)
def test_a_matcher_says_for_which_tools(place: Place, matcher: str, tools: list[str]) -> None:
    place.skill("a", on_tools("PreToolUse", "check", matcher=matcher), check="")
    session = place.session(skills=["a"])
    hooked = []
    for tool in ("write", "fail", "run_shell"):
        before = len(place.trace)
        call(session, tool)
        if len(place.trace) > before:
            hooked.append(tool)
    assert hooked == tools


def test_once_is_once_in_a_session(place: Place) -> None:
    place.skill("a", on_tools("PreToolUse", "check", once="true"), check="")
    session = place.session(skills=["a"])
    call(session)
    call(session)
    assert place.trace == ["a check"]
    other = place.session(skills=["a"])
    call(other)
    assert place.trace == ["a check", "a check"]


def test_once_is_not_done_by_a_refusal(place: Place) -> None:
    place.skill("a", on_tools("PreToolUse", "check", once="true"), check='test -f "$WORKSPACE/ready"')
    session = place.session(skills=["a"])
    assert not call(session).success
    assert not call(session).success
    Path(session.context.workspace, "ready").touch()
    assert call(session).success
    assert call(session).success
    assert place.trace == ["a check"] * 3


def test_once_is_once_for_calls_at_the_same_time(place: Place) -> None:
    place.skill("a", on_tools("PreToolUse", "check", once="true"), check="")
    session = place.session(skills=["a"])
    start = threading.Barrier(4)
    results: list[bool] = []

    def work() -> None:
        start.wait()
        results.append(call(session).success)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4
    assert place.trace == ["a check"]


@pytest.mark.parametrize("timeout", ["200ms", "0.2s", "0.2"])
def test_a_hook_that_takes_too_long_counts_as_failed(place: Place, timeout: str) -> None:
    place.skill("a", on_tools("PreToolUse", "check", timeout=timeout), check="sleep 60")
    result = call(place.session(skills=["a"]))
    assert result.code == "hook-refused"
    assert result.error is not None
    assert "timed out" in result.error


def test_hooks_do_not_stand_around_the_tools_that_control_skills(place: Place) -> None:
    place.skill("a", on_tools("PreToolUse", "check"), check="exit 1")
    session = place.session(skills=["a"])
    assert call(session, "skills_unload", all=True).success
    assert place.trace == []


def test_hooks_of_every_active_skill_run_and_end_with_it(place: Place) -> None:
    for name in "ab":
        place.skill(name, on_tools("PreToolUse", "check"), check="")
    session = place.session(skills=["a", "b"])
    call(session)
    session.unload("a")
    call(session)
    assert place.trace == ["a check", "b check", "b check"]


def test_an_old_pre_is_no_hook_around_calls(place: Place) -> None:
    place.skill("a", "  pre: hooks/pre.sh\n", pre="")
    session = place.session(skills=["a"])
    call(session)
    assert place.trace == ["a pre"]


def test_a_hook_may_be_a_program_with_arguments_and_no_shell_takes_it_apart(place: Place) -> None:
    place.skill("a", """  pre: 'touch "$WORKSPACE/made; touch x"'\n""")
    session = place.session(skills=["a"])
    assert sorted(path.name for path in Path(session.context.workspace).iterdir()) == ["made; touch x"]


@pytest.mark.parametrize("command", ["'\"unclosed'", "'  '", "no-such-program-anywhere", "hooks/gone.sh"])
def test_a_hook_that_is_no_command_fails_the_load(place: Place, command: str) -> None:
    place.skill("a", f"  pre: {command}\n")
    place.skill("b", "  Stop: []\n")
    session = place.session()
    if session.library.get("a").skill.hooks.pre:  # type: ignore[union-attr]
        with pytest.raises(MetierError):
            session.load("a")
        assert session.active == ()


def test_hooks_see_no_secrets_of_the_program_around_them(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_KEY", "s3cret")
    place.skill("a", "  pre: hooks/pre.sh\n", pre='env > "$WORKSPACE/env"')
    session = place.session(skills=["a"])
    told = Path(session.context.workspace, "env").read_text()
    assert "s3cret" not in told
    (folder,) = [line.removeprefix("SKILL_DIR=") for line in told.splitlines() if line.startswith("SKILL_DIR=")]
    assert Path(folder, "hooks", "pre.sh").read_text() == (place.folder / "s" / "a" / "hooks" / "pre.sh").read_text()
