"""Attacks by names: what docs/how-to/layers.md and docs/explanation/governance.md promise, tried from outside.

- A name that the enterprise layer has is reserved: no other skill of that name, or of one that looks like it, is shown
  to a model, loaded, read, run or copied, by whatever name it is called.
- Where administrators say in which environment a machine is, no caller is in another one.
- Nobody is added under a name that could be taken for another.

The impostor has a text, a file and a script that say EVIL: a case is lost if that ever comes back.
"""

# ruff: noqa: RUF001  (letters that look like others are what the attacks are made of)

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from metier import Guard, Library, Policy, Session
from metier.agent import Agent, Agents
from metier.cli import main
from metier.errors import MetierError, Refused
from metier.guard import Action, Actor
from metier.guard.guard import current_user

pytestmark = pytest.mark.covers("SEC-7", "SEC-13")

WriteSkill = Callable[..., Path]

# What the name and the folder of an impostor may be; the real ones are deploy, data-handling and format.
IMPOSTORS = [
    *(("deploy", "deploy"), ("deploy", "other"), ("Deploy", "x"), ("DEPLOY", "x"), ("dеploy", "x"), ("deрloу", "x")),
    *(("ԁeploy", "x"), ("ｄｅｐｌｏｙ", "x"), ("deploy\u200b", "x"), ("deploy\u0307", "x"), ("déploy", "x")),
    *(("𝐝𝐞𝐩𝐥𝐨𝐲", "x"), ("ⅾeploy", "x"), ("depⅼoy", "x"), ("deρloy", "x"), ("deploy ", "x"), (" deploy", "x")),
    *(("deploy.", "x"), ("deploy-", "x"), ("-deploy", "x"), ("deploy_", "x"), ("deploy/", "x"), ("./deploy", "x")),
    *(("/deploy", "x"), ("deploy:", "x"), ("[deploy]", "x"), ("'deploy'", "x"), ("!!str deploy", "x")),
    *(("&a deploy", "x"), ("deploy # c", "x"), ("|\n  deploy", "x"), (">-\n  deploy", "x"), ("dеploy", "deploy")),
    *(("data_handling", "x"), ("data handling", "x"), ("Data Handling", "x"), ("data‑handling", "x")),
    *(("data–handling", "x"), ("data−handling", "x"), ("data--handling", "x"), ("data.handling", "x")),
    *(("data/handling", "x"), ("dаta-handling", "x"), ("format\u202e", "x"), ("\u202aformat", "x")),
    *(("forｍat", "x"), ("fοrmat", "x"), ("FORMAT", "x"), ("formаt", "x"), ("ƒormat", "x"), ("forᴍat", "x")),
    *(("ꜰormat", "x"), ("f0rmat", "x"), ("forrnat", "x"), ("dep1oy", "x"), ("depӏoy", "x"), ("ᴅeploy", "x")),
    *(("đeploy", "x"), ("ɗeplőy", "x"), ("data-hand1ing", "x")),
    *(("ԁаtа-һаոԁӏіոց", "x"), ("dep1oу", "x")),
]

# What one asks for.
CALLED = [
    *(
        "deploy",
        "deploy@project",
        "deploy@skills",
        "Deploy",
        "DEPLOY@PROJECT",
        "dерloy",
        "dерloy@project",
        "dерloy@skills",
    ),
    *("deploy ", "/deploy", "ｄeploy", "deploy\u200b", "deploy@skills@project", "deploy@", "deploy@project@enterprise"),
]

TOOLS: dict[Literal["runtime", "registry", "tool", "sandbox"], Callable[[str], list[tuple[str, dict[str, Any]]]]] = {
    "runtime": lambda name: [
        ("skills_load", {"skills": [name]}),
        ("skills_read", {"path": "references/r.md", "skill": name}),
        ("skills_run", {"script": "s.sh", "skill": name}),
        ("skills_search", {"query": name}),
    ],
    "registry": lambda name: [
        ("list_skills", {}),
        ("read_skill", {"skill_id": name}),
        ("read_skill_resource", {"skill_id": name, "resource_name": "references/r.md"}),
    ],
    "tool": lambda name: [("skill", {"skill_name": name}), ("skill", {"skill_name": name, "action": "load"})],
    "sandbox": lambda name: [("get_skill", {"name": name}), ("get_skill", {"skill_name": name})],
}

# How a program may use a skill by its name.
USES: dict[str, Callable[[Session, str], object]] = {
    "load": lambda session, name: session.load(name),
    "load by a model": lambda session, name: session.load(name, by="model"),
    "load beside another": lambda session, name: session.load(["caller", name]),
    "invoke": lambda session, name: session.invoke(f"/{name}"),
    "invoke by a client": lambda session, name: session.invoke(f"/{name}", by="client"),
    "activate": lambda session, name: session.parts.loader.activate(name),
    "bind": lambda session, name: session.parts.loader.bind([name]),
    "fork": lambda session, name: session.fork(name),
    "child": lambda session, name: session.child("helper", bound=[name]),
}


@pytest.fixture
def enterprise(tmp_path: Path, write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What administrators deployed."""
    folder = tmp_path / "enterprise"
    for name in ("deploy", "data-handling", "format"):
        write_skill(folder / name, description="The way of the house.", body="OFFICIAL")
    monkeypatch.setenv("METIER_ENTERPRISE", str(folder))
    monkeypatch.setenv("METIER_CACHE", "off")
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def put(tmp_path: Path, write_skill: WriteSkill) -> Callable[..., Path]:
    """Writes an impostor, or a skill that says something else, into a folder of skills, which it gives back."""

    def put(name: str, folder: str | None = None, more: str = "", within: str = "skills", says: str = "EVIL") -> Path:
        path = tmp_path / within / (folder or name)
        skill = write_skill(path, name=name, description=f"{says}.", body=says, more=more).parent
        for file in ("references/r.md", "scripts/s.sh"):
            (skill / file).parent.mkdir()
            (skill / file).write_text(f"echo {says}\n")
        return tmp_path / within

    return put


@pytest.fixture
def library(enterprise: Path, put: Callable[..., Path]) -> Library:
    put("deploy")
    put("dерloy", "other")
    put("caller", more="requires: [deploy]\n", says="Fine")
    return Library.from_folder(put("second", more="requires: ['dерloy', 'deploy@project']\n", says="Fine"))


def outcome(session: Session, use: Callable[[Session, str], object], name: str) -> str:
    """What comes of an attempt: a code, or the text that a model would have."""
    try:
        given = use(session, name)
    except MetierError as error:
        return error.code
    return f"{given} {[session.prompt.content(one.name) for one in session.active]} {session.instructions()}"


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_no_imitation_is_used_or_shown(enterprise: Path, put: Callable[..., Path], tmp_path: Path, every: int) -> None:
    lost = []
    for number, (name, folder) in enumerate(IMPOSTORS[::every]):
        library = Library.from_folder(put(name, folder, within=f"skills-{number}"))
        (entry,) = library.entries(all=True)
        for called in {entry.name, name, folder, f"{entry.name}@project", "deploy"}:
            with library.session() as session:
                if outcome(session, USES["load"], called) not in ("name-reserved", "skill-not-found"):
                    lost.append((name, folder, called))
        with library.session() as session:
            if "EVIL" in session.instructions() or session.prompt.search("evil") or session.prompt.matching():
                lost.append((name, folder, "shown"))
    assert lost == []


@pytest.mark.each(("use", "name"), [(use, name) for use in USES for name in CALLED])
def test_no_use_by_any_name_gets_past(library: Library, use: str, name: str) -> None:
    with library.session() as session:
        found = outcome(session, USES[use], name)
        assert found in ("name-reserved", "skill-not-found", "invalid-argument") or found.startswith("None []"), found


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.each("dialect", list(TOOLS))
def test_no_tool_of_a_model_gets_past(library: Library, dialect: Literal["runtime"], every: int) -> None:
    async def attempts() -> list[object]:
        lost: list[object] = []
        for name in CALLED[::every]:
            with library.session() as session:
                executor = session.executor(dialect=dialect)
                for tool, arguments in TOOLS[dialect](name):
                    result = await executor.execute(tool, arguments)
                    if "EVIL" in str(result):
                        lost.append((tool, arguments, result))
        return lost

    assert anyio.run(attempts) == []


@pytest.mark.each("name", ["caller", "second"])
def test_no_skill_brings_it_along(library: Library, name: str) -> None:
    with library.session(dependencies="load") as session, pytest.raises(Refused, match="administrators"):
        session.load(name)


@pytest.mark.each("name", CALLED[:8])
def test_no_agent_is_made_of_it(library: Library, tmp_path: Path, name: str) -> None:
    manifest = tmp_path / "agents" / "clerk" / "agent.yaml"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"description": "Works.", "uses_skills": [name]}))
    agents = Agents.from_folder(tmp_path / "agents", library=library)
    with pytest.raises(MetierError) as caught:
        Agent(agents.get("clerk"), agents, model="test").run_blocking("Begin.")
    assert caught.value.code in ("name-reserved", "skill-not-found")


@pytest.mark.each("allowed", [(), ("untrusted",), ("scripts", "unsandboxed", "unchecked", "hooks")])
def test_no_program_lifts_it(library: Library, allowed: tuple[str, ...]) -> None:
    policy = Policy(**dict.fromkeys(allowed, "allow"))  # type: ignore[arg-type]
    guard = Guard(policy, approve=lambda action, decision: True)
    with library.session(guard=guard) as session, pytest.raises(Refused) as caught:
        session.load("deploy")
    assert caught.value.code == "name-reserved"


@pytest.mark.each("text", ["", "---\nname: [\n", "---\nname: rollout\ndescription: Rolls out.\n---\nSteps.\n"])
def test_a_broken_or_renamed_one_keeps_its_name(enterprise: Path, put: Callable[..., Path], text: str) -> None:
    if not (enterprise.parent / "skills").exists():
        put("deploy")
    (enterprise / "deploy" / "SKILL.md").write_text(text)
    with Library.from_folder(enterprise.parent / "skills").session() as session, pytest.raises(Refused) as caught:
        session.load("deploy")
    assert caught.value.code == "name-reserved"


def test_a_saved_session_does_not_bring_it_back(enterprise: Path, put: Callable[..., Path], tmp_path: Path) -> None:
    away = tmp_path / "away"
    (enterprise / "deploy").rename(away)
    skills = put("deploy")
    with Library.from_folder(skills).session() as session:
        session.load("deploy")
        state = session.save()
    away.rename(enterprise / "deploy")
    assert Library.from_folder(skills).resume(state).active == ()


@pytest.mark.parametrize("attempt", ["read", "load", "resume"])
def test_what_is_active_ends_when_it_is_deployed(enterprise: Path, put: Callable[..., Path], attempt: str) -> None:
    shutil.move(enterprise / "deploy", enterprise.parent / "away")
    library = Library.from_folder(put("deploy"))
    with library.session() as session:
        session.load("deploy")
        state = session.save()
        shutil.move(enterprise.parent / "away", enterprise / "deploy")
        if attempt == "resume":
            assert library.resume(state).active == ()
        else:
            with pytest.raises(MetierError):
                session.read("references/r.md") if attempt == "read" else session.load("deploy")


# --- the environment of a machine ------------------------------------------------------------------------------------

OTHERS = [
    "staging",
    "Production",
    "PRODUCTION",
    "production ",
    " production",
    "prоduction",
    "",
    "*",
    "prod",
    "production,x",
]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "machine.yaml"
    path.write_text("version: 1\nmachine: {environment: production}\n")
    monkeypatch.setenv("METIER_POLICY", str(path))
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.each("claimed", OTHERS)
def test_no_caller_is_in_another_environment(machine: Path, tmp_path: Path, claimed: str) -> None:
    (tmp_path / "none").mkdir(exist_ok=True)
    library = Library.from_folder(tmp_path / "none")
    with pytest.raises(Refused) as caught:
        library.as_caller(environment=claimed)
    assert caught.value.code == "environment-denied"
    action = Action(point="call", tool="Read", arguments={"file_path": "x"})
    assert Guard().decide(action, Actor(environment=claimed)).outcome == "deny"
    assert library.as_caller().caller.environment == "production"


@pytest.mark.each("mode", ["off", "audit"])
def test_no_mode_lifts_the_environment(machine: Path, tmp_path: Path, mode: str) -> None:
    machine.write_text(f"version: 1\nmode: {mode}\nmachine: {{environment: production}}\n")
    (tmp_path / "none").mkdir(exist_ok=True)
    with pytest.raises(Refused):
        Library.from_folder(tmp_path / "none").as_caller(environment="staging")


def test_what_began_elsewhere_begins_nothing_more(machine: Path, put: Callable[..., Path]) -> None:
    machine.write_text("version: 1\n")
    put("second")
    with Library.from_folder(put("first")).as_caller(environment="staging").session() as session:
        session.load("first")
        machine.write_text("version: 1\nmachine: {environment: production}\n")
        for attempt in (lambda: session.load("second"), lambda: session.read("references/r.md")):
            with pytest.raises(Refused) as caught:
                attempt()
            assert caught.value.code == "environment-denied"
        assert not session.may_call("Read", {"file_path": "x"})


# --- the names of people ---------------------------------------------------------------------------------------------

PRETENDERS = [
    *(
        "Ada",
        "ADA",
        "аda",
        "adа",
        "аԁа",
        "ɑda",
        "ạda",
        "ada\u200b",
        " ada",
        "ada ",
        "ad\u00ada",
        "a\u030ada",
        "ａｄａ",
        "𝐚𝐝𝐚",
    ),
    *("ada\u202e", "ada/x", "agent:ada", "user:ada", "role:admin", "client:x", "metier", "Metier", "METIER", "métier"),
    *("mеtier", ".metier", "metier ", "policy", "Policy", "system", "Sуstem", "sys\u200btem", "Mu\u0308ller", "müller"),
    *("poIicy", "po1icy", "PO1ICY", "PoIIcy", "rnetier", "ⱥda", "ᴀda", "b0b.smith", "bob.srnith", "sуstеm"),
    *("MÜLLER", "muller", "weiss", "WEISS", "Weiß", "bоb.smith", "bob․smith", "bob.smith ", "bob smith", "BOB.SMITH"),
]


@pytest.fixture
def add(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Adds somebody on the command line, to a store that knows Ada and others."""

    def add(name: str, *more: str) -> int:
        try:
            return main(["user", "add", "--role", "viewer", *more, "--", name])
        except SystemExit as leaving:
            return int(str(leaving.code))

    owner = current_user()
    assert owner is not None
    capsys.readouterr()
    assert main(["user", "add", owner, "--role", "admin", "--token"]) == 0
    monkeypatch.setenv("METIER_API_TOKEN", capsys.readouterr().out.strip())
    assert [add(name) for name in ("ada", "Müller", "weiß", "bob.smith")] == [0, 0, 0, 0]
    return add


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_nobody_is_added_under_a_name_that_imitates_another(add: Callable[..., int], every: int) -> None:
    assert [name for name in PRETENDERS[::every] if add(name) == 0] == []
    kinds = [add(name, "--kind", kind) for name in ("Ada", "аda", "metier") for kind in ("agent", "service")]
    assert 0 not in kinds
    assert [add(name, "--tenant", "other") == 0 for name in ("Ada", "аda", "metier")] == [False] * 3
