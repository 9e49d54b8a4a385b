"""Secrets reach a script by name, when the skill asks, policy grants and a provider has them; and nobody sees them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Guard, Library, Policy, Session
from metier import Place as LibraryPlace
from metier.errors import InvalidArgument, MetierError, Refused
from metier.guard import MemoryLog
from metier.run import Job, Outcome, RunnerCapabilities
from metier.run.job import OutputLine
from metier.session.secret_scrubbing import MARK
from metier.session.secrets import EnvironmentSecrets, GivenSecrets, Secret
from metier.source import MemorySource

Begin = Callable[..., Session]
Files = Callable[..., dict[str, str]]

VALUE = "correct-horse-battery"
GRANTED = Policy(unsandboxed="allow", secrets={"a": ["API_TOKEN"]})
PROVIDER = GivenSecrets({"API_TOKEN": VALUE, "OTHER": "staple-staple"})
ASKS = "requires: {env: [API_TOKEN, OTHER]}\n"
SHOW = "import json, os, sys\nprint(json.dumps([sorted(os.environ), sys.argv]))\n"
TELL = """\
import base64, os, sys, urllib.parse
value = os.environ["API_TOKEN"]
print("out", value)
print("in base64", base64.b64encode(f"user:{value}".encode()).decode())
print("quoted", urllib.parse.quote(value[:7] + " " + value))
print("err", value, file=sys.stderr)
open("left.txt", "w").write(f"token={value}\\n")
open("mine.txt", "a").write(f"token={value}\\n")
"""


@pytest.fixture
def session(begin: Begin, skill: Files) -> Session:
    """A skill that asks for two secrets, of which it is granted one."""
    files = skill("a", more=ASKS, **{"scripts/show.py": SHOW, "scripts/tell.py": TELL})
    return begin(files, skills=["a"], policy=GRANTED, secrets=PROVIDER)


def names(session: Session) -> set[str]:
    return set(json.loads(session.run_blocking("scripts/show.py").stdout)[0]) & {"API_TOKEN", "OTHER"}


@pytest.mark.covers("S2-10")
def test_a_script_gets_what_its_skill_asks_for_and_policy_grants(session: Session, log: MemoryLog) -> None:
    assert names(session) == {"API_TOKEN"}
    assert log.records[-1].secrets == ("API_TOKEN",)


@pytest.mark.covers("S2-10")
@pytest.mark.each(
    ("more", "secrets", "provider"),
    [
        ("", {"a": ["API_TOKEN"]}, PROVIDER),
        (ASKS, {}, PROVIDER),
        (ASKS, {"b": ["API_TOKEN"]}, PROVIDER),
        (ASKS, {"*": ["API_TOKEN"]}, PROVIDER),
        (ASKS, {"a": ["api_token"]}, PROVIDER),
        (ASKS, {"a": ["API_TOKEN"]}, None),
        (ASKS, {"a": ["API_TOKEN"]}, GivenSecrets({})),
        (ASKS, {"a": ["API_TOKEN"]}, EnvironmentSecrets(["SOMETHING_ELSE"], {"API_TOKEN": VALUE})),
    ],
)
def test_unless_all_agree_it_gets_none(
    begin: Begin, skill: Files, more: str, secrets: dict[str, Any], provider: Any
) -> None:
    policy = Policy(unsandboxed="allow", secrets=secrets)
    session = begin(skill("a", more=more, **{"scripts/show.py": SHOW}), skills=["a"], policy=policy, secrets=provider)
    assert names(session) == set()


def test_a_secret_that_is_not_there_is_said(begin: Begin, skill: Files) -> None:
    files = skill("a", more=ASKS, **{"scripts/show.py": SHOW})
    session = begin(files, skills=["a"], policy=GRANTED, secrets=GivenSecrets({}))
    assert session.run_blocking("scripts/show.py").notes == ("The secret API_TOKEN is not there.",)


def test_a_skill_can_be_granted_secrets_by_its_content(begin: Begin, skill: Files) -> None:
    files = skill("a", more=ASKS, **{"scripts/show.py": SHOW})
    digest = Library.from_files(files).session(skills=["a"]).loaded.one().digest
    policy = Policy(unsandboxed="allow", secrets={digest: ["OTHER"]})
    assert names(begin(files, skills=["a"], policy=policy, secrets=PROVIDER)) == {"OTHER"}


def test_a_skill_that_nobody_vouches_for_gets_none_whatever_it_is_called(skill: Files, tmp_path: Path) -> None:
    source = MemorySource({}).add(skill("a", more=ASKS, **{"scripts/show.py": SHOW}))
    library = Library([LibraryPlace(layer="project", source=source, trusted=False)], cache=False)
    policy = Policy(unsandboxed="allow", untrusted="allow", secrets={"a": ["API_TOKEN"]})
    guard = Guard(policy, audit=MemoryLog())
    session = library.session(guard=guard, workspace=tmp_path / "w", skills=["a"], secrets=PROVIDER)
    outcome = session.run_blocking("scripts/show.py")
    assert "API_TOKEN" not in json.loads(outcome.stdout)[0]
    assert "nobody vouches for" in outcome.notes[0]


def test_a_new_policy_counts_from_the_next_run_on(session: Session) -> None:
    assert names(session) == {"API_TOKEN"}
    session.guard.policy = Policy(unsandboxed="allow")
    assert names(session) == set()


def test_a_secret_is_looked_up_for_every_run_and_kept_nowhere(begin: Begin, skill: Files, log: MemoryLog) -> None:
    asked: list[str] = []

    class Counting:
        def get(self, name: str) -> Secret:
            asked.append(name)
            return Secret(f"{VALUE}-{len(asked)}", expires_at=time.time() + 60)

    files = skill("a", more=ASKS, **{"scripts/tell.py": TELL})
    told: list[Any] = []
    session = begin(files, skills=["a"], policy=GRANTED, secrets=Counting())
    session.listen(told.append)
    for _ in range(2):
        assert session.run_blocking("scripts/tell.py").stdout.startswith(f"out {MARK}\n")
    assert asked == ["API_TOKEN", "API_TOKEN"]
    kept = [json.dumps(session.save()), repr(told), repr(vars(session)), repr(vars(session.parts.sandbox))]
    kept += [record.as_line().decode() for record in log.records]
    assert not any(VALUE in text for text in kept)


@pytest.mark.covers("S2-10")
def test_a_secret_that_has_expired_lets_nothing_run(begin: Begin, skill: Files, log: MemoryLog, tmp_path: Path) -> None:
    files = skill("a", more=ASKS, **{"scripts/x.sh": "touch ran"})
    provider = GivenSecrets({"API_TOKEN": Secret(VALUE, expires_at=time.time() - 1)})
    session = begin(files, skills=["a"], policy=GRANTED, secrets=provider)
    with pytest.raises(Refused) as caught:
        session.run_blocking("scripts/x.sh")
    assert (caught.value.code, bool(caught.value.hint)) == ("secret-expired", True)
    assert (log.records[-1].success, log.records[-1].code) == (False, "secret-expired")
    assert not (tmp_path / "workspace" / "ran").exists()


@pytest.mark.each("name", ["PATH", "LD_PRELOAD", "BASH_ENV"])
def test_a_secret_cannot_steer_programs(begin: Begin, skill: Files, name: str) -> None:
    files = skill("a", more=f"requires: {{env: [{name}]}}\n", **{"scripts/show.py": SHOW})
    policy = Policy(unsandboxed="allow", secrets={"a": [name]})
    session = begin(files, skills=["a"], policy=policy, secrets=GivenSecrets({name: "/tmp/evil"}))
    with pytest.raises(InvalidArgument) as caught:
        session.run_blocking("scripts/show.py")
    assert "/tmp/evil" not in f"{caught.value}{caught.value.hint}"


def test_a_provider_that_gives_something_else_is_told_so(begin: Begin, skill: Files) -> None:
    class Wrong:
        def get(self, name: str) -> Any:
            return b"bytes"

    files = skill("a", more=ASKS, **{"scripts/show.py": SHOW})
    with pytest.raises(InvalidArgument, match="is no text"):
        begin(files, skills=["a"], policy=GRANTED, secrets=Wrong()).run_blocking("scripts/show.py")


def test_a_model_cannot_put_another_value_in_its_place(session: Session) -> None:
    outcome = session.run_blocking("scripts/tell.py", env={"API_TOKEN": "mine"}, by="model")
    assert outcome.stdout.startswith(f"out {MARK}")


@pytest.mark.covers("S2-10")
def test_what_a_script_writes_shows_no_secret(session: Session, log: MemoryLog) -> None:
    workspace = Path(session.context.workspace)
    workspace.mkdir(parents=True)
    (workspace / "mine.txt").write_text("before\n")
    told: list[OutputLine] = []
    outcome = session.run_blocking("scripts/tell.py", [VALUE], on_output=told.append)
    assert outcome.exit_code == 0
    assert outcome.stdout.splitlines()[0] == f"out {MARK}"
    assert outcome.stderr == f"err {MARK}\n"
    for text in (outcome.stdout, "".join(line.text for line in told), log.records[-1].as_line().decode()):
        assert VALUE not in text
        assert base64.b64encode(b"horse-bat").decode() not in text
    assert "".join(line.text for line in told if line.stream == "stdout") == outcome.stdout
    assert (workspace / "left.txt").read_text() == f"token={MARK}\n", "a file that it made"
    assert (workspace / "mine.txt").read_text() == f"before\ntoken={VALUE}\n", "a file that was there is left alone"
    assert "A secret was taken out of left.txt." in outcome.notes


def test_a_long_line_is_hidden_across_its_pieces(begin: Begin, skill: Files) -> None:
    script = "import os\nprint('x' * 65526 + os.environ['API_TOKEN'] + 'y' * 9000)\n"
    session = begin(skill("a", more=ASKS, **{"scripts/x.py": script}), skills=["a"], policy=GRANTED, secrets=PROVIDER)
    told: list[OutputLine] = []
    outcome = anyio.run(lambda: session.run("scripts/x.py", on_output=told.append))
    assert len(told) > 1
    assert "".join(line.text for line in told) == outcome.stdout == "x" * 65526 + MARK + "y" * 9000 + "\n"


class Failing:
    """A runner that tells more than it should when it fails."""

    name = "failing"

    def capabilities(self) -> RunnerCapabilities:
        return RunnerCapabilities(isolates_files=True, isolates_network=True)

    def run_blocking(self, job: Job, **_: Any) -> Outcome:
        raise MetierError(f"cannot start with {job.env}", hint=job.env["API_TOKEN"])

    async def run(self, job: Job, **_: Any) -> Outcome:
        return self.run_blocking(job)


def test_errors_show_no_secret_either(begin: Begin, skill: Files) -> None:
    files = skill("a", more=ASKS, **{"scripts/show.py": SHOW})
    session = begin(files, skills=["a"], policy=GRANTED, secrets=PROVIDER, runner=Failing())
    for in_a_loop in (False, True):
        with pytest.raises(MetierError) as caught:
            if in_a_loop:
                anyio.run(session.run, "scripts/show.py")
            else:
                session.run_blocking("scripts/show.py")
        assert (caught.value.code, caught.value.hint) == ("error", MARK)
        assert VALUE not in str(caught.value)
        assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_hooks_and_arguments_get_no_secret(begin: Begin, skill: Files) -> None:
    hook = "hooks:\n  pre: hooks/x.sh\n"
    policy = Policy(unsandboxed="allow", hooks="allow", secrets={"a": ["API_TOKEN"]})
    files = skill("a", more=ASKS + hook, **{"hooks/x.sh": 'test -z "$API_TOKEN"', "scripts/show.py": SHOW})
    session = begin(files, skills=["a"], policy=policy, secrets=PROVIDER)
    assert VALUE not in json.loads(session.run_blocking("scripts/show.py").stdout)[1]


def test_a_session_for_a_sub_agent_has_the_same_secrets(session: Session) -> None:
    assert names(session.fork("a")) == {"API_TOKEN"}


def test_providers_do_not_show_what_they_have() -> None:
    assert VALUE not in repr(PROVIDER) + repr(Secret(VALUE)) + repr(EnvironmentSecrets(["A"], {"A": VALUE}))
    assert EnvironmentSecrets(["A", "B"], {"A": VALUE, "B": ""}).get("A") == VALUE
    assert EnvironmentSecrets(["A", "B"], {"A": VALUE, "B": ""}).get("B") is None
    with pytest.raises(InvalidArgument):
        EnvironmentSecrets("API_TOKEN")
