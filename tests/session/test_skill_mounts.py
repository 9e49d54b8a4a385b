"""Skills in the virtual shell: all of them from the beginning, to be read as far as they might be loaded, none run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import thinned

from metier import Guard, Library, Policy, Session
from metier.dialect import as_text
from metier.guard import MemoryLog

pytest.importorskip("bashkit", reason="the extra `shell` is not installed")

Begin = Callable[..., Session]
Files = Callable[..., dict[str, str]]
Write = Callable[..., Path]

AT = "/.sandbox/skills"


class Model:
    """A model of the sandbox dialect, which has two tools."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._executor = session.executor(dialect="sandbox")

    def run(self, command: str) -> str:
        result = self._executor.execute_blocking("sandbox_execute", {"command": command})
        assert result.result is not None, as_text(result)
        return f"{result.result['output']}{result.result['error'] or ''}"

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(as_text(self._executor.execute_blocking("get_skill", {"skill_name": name})))
        return found

    @property
    def description(self) -> str:
        return next(tool.description for tool in self.session.tools("sandbox") if tool.name == "get_skill")


@pytest.fixture
def model(tmp_path: Path, write_skill: Write, log: MemoryLog) -> Callable[..., Model]:
    """A model that has the skills of a folder, each with a script and a page to read."""

    def model(*names: str, policy: Policy | None = None, more: str = "", **options: Any) -> Model:
        for name in names:
            folder = tmp_path / "host" / name
            write_skill(folder, description=f"Does {name}.", body=f"Body of {name}.", more=more)
            for path, text in {
                "scripts/run.sh": f"echo ran {name} $1\n",
                "references/page.md": f"Page of {name}.\n",
                "tools/helper": "#!/bin/sh\necho helped\n",
            }.items():
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_text(text)
        library = Library.from_folder(tmp_path / "host", cache=False)
        return Model(library.session(guard=Guard(policy, audit=log), workspace=tmp_path / "work", **options))

    return model


@pytest.mark.covers("ACC-2")
def test_every_skill_is_there_before_any_is_loaded_and_stays_when_it_is_unloaded(model: Callable[..., Model]) -> None:
    it = model("a", "b", "c")
    assert it.run(f"ls {AT}") == "a\nb\nc\n"
    it.get("b")
    it.session.unload("b")
    assert it.run(f"ls {AT}; cat {AT}/b/references/page.md") == "a\nb\nc\nPage of b.\n"


@pytest.mark.covers("ACC-2")
def test_locations_are_where_the_shell_has_the_skills_and_no_text_names_a_place_of_the_host(
    model: Callable[..., Model], tmp_path: Path
) -> None:
    it = model("a", "b", mount="/skills")
    assert "<location>/skills/a</location>" in it.description
    texts = [it.description, json.dumps(it.get("a")), it.run("cat /skills/*/SKILL.md; sh /skills/b/scripts/run.sh")]
    texts.append(it.run(f"cat {tmp_path}/host/a/SKILL.md"))
    assert not [text for text in texts[:3] if str(tmp_path) in text or "skill-copy-" in text]
    assert "No such file" in texts[3]
    assert "skill-copy-" not in texts[3], "the copy on disk is nowhere for a model that has only the shell"


@pytest.mark.covers("ACC-2")
def test_skills_in_memory_are_told_of_by_their_place_in_the_shell(begin: Begin, skill: Files) -> None:
    description = Model(begin(skill("a"))).description
    assert f"<location>{AT}/a</location>" in description
    assert "memory:" not in description


@pytest.mark.covers("ACC-2")
def test_without_the_shell_no_location_is_told_before_a_skill_is_loaded(
    begin: Begin, skill: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bashkit", None)
    assert "<location>" not in Model(begin(skill("a"))).description


@pytest.mark.covers("ACC-2")
@thinned(
    "call",
    [
        "sh {}/scripts/run.sh",
        "bash {}/scripts/run.sh",
        "{}/scripts/run.sh x",
        "cd {} && ./scripts/run.sh",
        "cd {}/scripts; . ./run.sh",
        "cat {}/scripts/run.sh | sh",
        "cp {}/scripts/run.sh /tmp/own.sh; sh /tmp/own.sh",
        "sh {}/tools/helper",
    ],
    one_in=3,
)
def test_a_script_of_a_skill_that_is_not_loaded_says_how_to_load_it(model: Callable[..., Model], call: str) -> None:
    it = model("a", "b")
    said = it.run(call.format(f"{AT}/a"))
    assert "Skill 'a' is not loaded" in said
    assert "get_skill with 'a'" in said
    assert "ran" not in said
    it.get("a")
    assert it.run(f"sh {AT}/a/scripts/run.sh now") == "ran a now\n"


@pytest.mark.covers("ACC-2")
def test_a_python_script_of_a_skill_that_is_not_loaded_says_so_in_its_own_language(begin: Begin, skill: Files) -> None:
    it = Model(begin(skill("a", **{"scripts/x.py": "print('ran')", "scripts/y.js": "console.log('ran')"})))
    page = it.run(f"cat {AT}/a/scripts/x.py {AT}/a/scripts/y.js")
    compile(page.partition("console")[0], "x.py", "exec")
    assert page.count("is not loaded") == 2
    assert "ran" not in page


@pytest.mark.covers("ACC-2")
def test_a_skill_that_might_be_loaded_can_be_read_and_only_what_is_named_is_read(
    model: Callable[..., Model], log: MemoryLog
) -> None:
    it = model("a", "b", "c")
    assert it.run(f"cat {AT}/b/references/page.md {AT}/b/SKILL.md").startswith("Page of b.\n---\nname: b\n")
    assert "Body" not in it.run(f"cat {AT}/*/SKILL.md").replace("Body of b.", "")
    assert "Does c." in it.run(f"cat {AT}/*/SKILL.md"), "what the others are for is known without reading them"
    assert [record.skill for record in log.records if record.event == "read"] == ["b"]


@pytest.mark.covers("ACC-2")
@pytest.mark.parametrize(
    ("more", "policy"),
    [
        ("hooks: {pre: scripts/run.sh}\n", Policy(hooks="allow")),
        ("disable-model-invocation: true\n", Policy()),
        ("scope: {agents: [somebody-else]}\n", Policy()),
        ("", Policy(blocked=("secret",))),
    ],
)
def test_a_skill_that_may_not_be_loaded_is_not_read_by_its_mount(
    model: Callable[..., Model], more: str, policy: Policy
) -> None:
    it = model("secret", more=more, policy=policy)
    said = it.run(
        f"cat {AT}/secret/SKILL.md {AT}/secret/references/page.md; sh {AT}/secret/scripts/run.sh; cd {AT}; ls"
    )
    assert "Body of" not in said
    assert "Page of" not in said
    assert "ran" not in said
    if "hooks" not in more:
        assert "Does secret" not in said, "it is as good as absent"


@pytest.mark.covers("ACC-2")
def test_the_mount_has_the_skills_that_are_listed_for_models(model: Callable[..., Model]) -> None:
    it = model("a", "b", "c", listing={"b": "manual", "c": "off"})
    assert it.run(f"ls {AT}; cat {AT}/b/SKILL.md {AT}/c/SKILL.md").startswith("a\ncat: ")


@pytest.mark.covers("ACC-2")
def test_a_skill_that_has_to_be_asked_about_is_not_read_by_its_mount(tmp_path: Path, write_skill: Write) -> None:
    from metier import Place
    from metier.source import FolderSource

    write_skill(tmp_path / "host" / "a", body="Body of a.")
    place = Place(layer="project", source=FolderSource(tmp_path / "host"), trusted=False)
    session = Library([place], cache=False).session(guard=Guard(Policy(untrusted="ask")), workspace=tmp_path / "work")
    said = Model(session).run(f"cat {AT}/a/SKILL.md")
    assert "Body of a." not in said
    assert "get_skill with 'a'" in said


@pytest.mark.covers("ACC-2")
def test_a_skill_that_is_blocked_is_gone_from_the_mount_at_once(model: Callable[..., Model]) -> None:
    it = model("a", "b")
    assert "Page of a." in it.run(f"cat {AT}/a/references/page.md")
    it.session.guard.block("a")
    assert it.run(f"ls {AT}; cat {AT}/a/references/page.md").startswith("b\n")
    it.session.guard.unblock("a")
    assert it.run(f"ls {AT}") == "a\nb\n"


@pytest.mark.covers("ACC-2")
def test_what_is_read_is_the_verified_copy_and_nothing_beside_it(model: Callable[..., Model], tmp_path: Path) -> None:
    it = model("a")
    extra = tmp_path / "host" / "a" / "node_modules" / "x"
    extra.mkdir(parents=True)
    (extra / "evil.sh").write_text("echo evil\n")
    assert it.run(f"cd {AT}/a; find . -type f | sort") == (
        "./SKILL.md\n./references/page.md\n./scripts/run.sh\n./tools/helper\n"
    )


@pytest.mark.covers("ACC-2")
def test_a_skill_that_had_to_make_room_is_still_there(model: Callable[..., Model]) -> None:
    names = [f"s{number}" for number in range(10)]
    it = model(*names)
    for name in names:
        it.get(name)
    assert it.run(f"ls {AT} | wc -l").strip() == "10"
    assert "get_skill with 's0'" in it.run(f"sh {AT}/s0/scripts/run.sh")
    it.get("s0")
    assert it.run(f"sh {AT}/s0/scripts/run.sh again") == "ran s0 again\n"


@pytest.mark.covers("ACC-2")
@pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=pytest.mark.slow)])
def test_of_many_skills_each_has_its_folder_and_can_be_used(begin: Begin, skill: Files, count: int) -> None:
    it = Model(begin(*(skill(f"s{number}", **{"scripts/x.sh": f"echo {number}"}) for number in range(count))))
    last = count - 1
    assert it.run(f"ls {AT} | wc -l").strip() == str(count)
    assert f"get_skill with 's{last}'" in it.run(f"sh {AT}/s{last}/scripts/x.sh")
    it.get(f"s{last}")
    assert it.run(f"sh {AT}/s{last}/scripts/x.sh") == f"{last}\n"


@pytest.mark.covers("ACC-2")
def test_the_shell_of_a_program_says_it_without_a_tool(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", **{"scripts/x.sh": "echo ran"}))
    outcome = session.runs.shell.execute(f"{AT}/a/scripts/x.sh")
    assert (outcome.exit_code, outcome.stdout) == (126, "")
    assert outcome.stderr == "Skill 'a' is not loaded, so its scripts do not run. Load it first.\n"


@pytest.mark.covers("ACC-2")
@pytest.mark.parametrize(
    "policy",
    [Policy(deny="get_skill"), Policy(deny="get_skill(a)"), Policy(ask="get_skill(a)"), Policy(deny="GetSkill")],
)
def test_a_rule_about_the_tool_that_loads_a_skill_holds_for_its_files(
    model: Callable[..., Model], policy: Policy
) -> None:
    it = model("a", policy=policy)
    found = it.run(f"cat {AT}/a/SKILL.md {AT}/a/references/page.md")
    assert "This skill is not loaded." in found
    assert "Body of a." not in found and "Page of a." not in found
