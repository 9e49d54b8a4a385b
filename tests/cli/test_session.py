"""`metier session`: what a person does there is what a model would do."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import thinned

from metier.run import AutoRunner

Write = Callable[..., Path]
Call = Callable[..., tuple[int, str, str]]
Talk = Callable[..., tuple[int, str, str]]


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    write_skill(root / "greet", description="Greets people.", body="Say hello to $ARGUMENTS.")
    write_skill(root / "sums", description="Adds numbers.", more="allowed-tools: Read\n")
    (root / "sums" / "scripts").mkdir()
    (root / "sums" / "scripts" / "add.py").write_text("import sys\nprint(sum(map(int, sys.argv[1:])))\n")
    (root / "sums" / "references").mkdir()
    (root / "sums" / "references" / "rules.md").write_text("carry the one\n")
    return root


@pytest.fixture
def talk(metier: Call, skills: Path, tmp_path: Path) -> Talk:
    """Calls the command with lines on its input."""

    def run(*lines: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        return metier("--skills", skills, "session", "--workspace", tmp_path, *options, given="\n".join(lines))

    return run


def answers(out: str) -> list[Any]:
    return [json.loads(line) for line in out.splitlines()]


def test_the_instructions_of_a_model_are_shown_with_what_they_cost(talk: Talk) -> None:
    code, out, _ = talk("instructions")
    assert code == 0
    assert "<name>greet</name>" in out and "`skills_load`" in out
    assert " bytes, about " in out.splitlines()[-1]


def test_a_skill_is_loaded_read_run_and_unloaded(talk: Talk) -> None:
    code, out, err = talk(
        "load sums",
        "files",
        "read references/rules.md",
        "run scripts/add.py 20 22",
        "unload",
        "active",
        options=("--unsandboxed",),
    )
    assert code == 0, err
    assert '<skill_content name="sums"' in out
    assert "scripts/add.py" in out and "carry the one" in out and "42" in out
    assert out.splitlines()[-1] == "No skill is loaded."
    assert "· loaded sums" in err and "· ran sums" in err and "· unloaded sums" in err


def test_a_skill_is_added_to_those_that_are_loaded_and_loading_replaces_them(talk: Talk) -> None:
    _, out, _ = talk("load sums", "add greet", "active", "load greet", "active", options=("--json",))
    _, _, both, _, one = answers(out)
    assert [[skill["name"] for skill in told["active"]] for told in (both, one)] == [["sums", "greet"], ["greet"]]


def test_scripts_run_in_a_sandbox_or_not_at_all(talk: Talk) -> None:
    code, out, err = talk("load sums", "run scripts/add.py 1 2")
    if AutoRunner().capabilities().isolates_files:
        assert (code, "3" in out.splitlines()) == (0, True)
    else:
        assert code == 1
        assert "isolation-missing" in err and "hint: " in err


def test_without_a_sandbox_is_what_somebody_can_ask_for(
    talk: Talk, skills: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "key"
    outside.write_text("outside of the workspace")
    (skills / "sums" / "scripts" / "look.py").write_text("import sys\nprint(open(sys.argv[1]).read())\n")
    code, out, _ = talk("load sums", f"run scripts/look.py {outside}", options=("--json", "--unsandboxed"))
    assert code == 0
    assert (answers(out)[1]["runner"], answers(out)[1]["stdout"]) == ("plain", "outside of the workspace\n")


def test_a_program_gets_a_line_of_json_for_each_command(talk: Talk) -> None:
    code, out, err = talk(
        "load sums", "active", "read references/rules.md", "instructions", "tools", "save", options=("--json",)
    )
    assert (code, err) == (0, "")
    loaded, active, read, told, tools, saved = answers(out)
    assert loaded["active"][0]["digest"].startswith("sha256:") and "sums" in loaded["content"]
    assert active["active"][0]["name"] == "sums"
    assert read["content"] == "carry the one\n"
    assert told["bytes"] == len(told["instructions"].encode()) and told["tokens"] > 0
    assert {tool["name"] for tool in tools} > {"skills_load", "skills_run"}
    assert saved["active"][0]["name"] == "sums"


def test_calls_are_made_as_a_model_makes_them(talk: Talk) -> None:
    code, out, _ = talk(
        'call skills_load {"skills": ["sums"]}',
        'call skills_read {"path": "../../etc/passwd"}',
        "call nothing",
        'call skills_load {"skills": 3}',
        options=("--json",),
    )
    assert code == 1
    loaded, refused, unknown, wrong = answers(out)
    assert loaded["success"] and "<skill_body>" in loaded["result"]
    assert (refused["code"], unknown["code"], wrong["code"]) == ("file-refused", "tool-not-found", "invalid-arguments")
    assert all(answer["hint"] for answer in (refused, unknown, wrong))


@pytest.mark.covers("O-106")
def test_a_person_invokes_a_skill_with_arguments(talk: Talk) -> None:
    code, out, _ = talk("/greet Ada Lovelace", options=("--json",))
    assert code == 0
    assert "Say hello to Ada Lovelace." in answers(out)[0]["text"]


def test_built_in_tools_hooks_and_injected_commands_can_be_tried(
    talk: Talk, skills: Path, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(
        skills / "whole",
        body="Now: !`echo injected`",
        more="allowed-tools: Read, Bash(echo:*)\nhooks:\n  pre: hooks/pre.sh\n",
    )
    (skills / "whole" / "hooks").mkdir()
    (skills / "whole" / "hooks" / "pre.sh").write_text('touch "$WORKSPACE/prepared"\n')
    code, out, err = talk(
        "load whole",
        'call Bash {"command": "echo hello"}',
        'call Bash {"command": "rm -rf x"}',
        options=("--unsandboxed", "--hooks", "--injection", "--builtin", "Bash", "--json"),
    )
    loaded, said, refused = answers(out)
    assert "Now: injected" in loaded["content"]["whole"]
    assert (tmp_path / "prepared").exists()
    assert (code, said["success"], refused["code"]) == (1, True, "tool-not-allowed"), err


@pytest.mark.parametrize("dialect", ["registry", "tool", "sandbox"])
def test_every_dialect_can_be_looked_at(talk: Talk, dialect: str) -> None:
    code, out, err = talk("tools", "instructions", options=("--dialect", dialect, "--json"))
    assert (code, err) == (0, "")
    tools, told = answers(out)
    assert "greet" in json.dumps([tools, told])


def test_what_goes_wrong_is_said_and_the_next_line_is_read(talk: Talk) -> None:
    code, out, _ = talk(
        "load nope", "read x", "frobnicate", "load 'unclosed", "# a remark", "", "load greet", options=("--json",)
    )
    assert code == 1
    missing, unloaded, unknown, unclosed, loaded = answers(out)
    assert missing["error"]["code"] == "skill-not-found"
    assert unloaded["error"]["code"] == "skill-not-active"
    assert unknown["error"]["code"] == "unknown-command"
    assert unclosed["error"]["code"] == "invalid-argument"
    assert loaded["active"][0]["name"] == "greet"


def test_skills_to_begin_with_are_loaded_first(talk: Talk) -> None:
    code, out, _ = talk("active", options=("greet", "sums", "--json"))
    assert code == 0
    assert [item["name"] for item in answers(out)[-1]["active"]] == ["greet", "sums"]


def test_help_and_search_answer(talk: Talk) -> None:
    code, out, _ = talk("help", "search add numbers", "quit", "load nope")
    assert code == 0
    assert "instructions" in out and "sums" in out


def test_what_a_file_contains_cannot_act_on_the_terminal(talk: Talk, skills: Path) -> None:
    (skills / "greet" / "evil.txt").write_text("a\x1b[2Jb\n")
    _, out, _ = talk("load greet", "read evil.txt")
    assert "\x1b" not in out and "a\\x1b[2Jb" in out


def test_a_person_at_a_terminal_gets_a_prompt_and_events(forked: list[str], skills: Path) -> None:
    if os.name == "nt":
        pytest.skip("there are no pseudo-terminals here")
    import pty

    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*forked, "--skills", str(skills), "session"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, b"load greet\nload nope\nquit\n")
    received = b""
    while True:
        try:
            chunk = os.read(ours, 65_536)
        except OSError:
            break
        if not chunk:
            break
        received += chunk
    os.close(ours)
    assert child.wait(timeout=60) == 0, "what went wrong was said; leaving is fine"
    assert b"2 skills. `help` shows what you can do." in received
    assert b"metier> " in received and b"loaded greet" in received and b"skill-not-found" in received


@pytest.mark.covers("SEC-11")
@thinned("said", ["hooks: allow, unsandboxed: allow", "unchecked: allow", "hooks: deny", ""], one_in=2)
def test_a_policy_file_means_the_same_to_every_command(
    said: str, metier: Call, skills: Path, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(skills / "tea", description="Makes green tea.", body="Boil water.", more="hooks:\n  pre: 'false'\n")
    (skills / "tea" / "scripts").mkdir()
    (skills / "tea" / "scripts" / "x.sh").write_text("echo ran\n")
    (tmp_path / "policy.yaml").write_text(f"run: {{{said}}}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    monkeypatch.chdir(tmp_path)
    told = [
        "\n".join(map(str, metier("--skills", skills, "session", "--workspace", tmp_path, given="load tea"))),
        "\n".join(map(str, metier("ask", "Make green tea.", "--model", "test", "--skills", skills))),
        "\n".join(map(str, metier("--skills", skills, "run", "tea", "scripts/x.sh", "--workspace", tmp_path))),
        "\n".join(map(str, metier("--skills", skills, "shell", "--skill", "tea", "-c", "echo ran"))),
    ]
    for index, text in enumerate(told):
        if said == "unchecked: allow":
            assert "check" not in text.replace("without its check: ", ""), text
        elif said.startswith("hooks: allow") and index < 3:
            assert "its pre hook failed" in text or "exit code 1" in text, text
        else:
            assert "is not used without its check `false`" in text, text
            assert "run: {hooks: allow}" in text or index == 1, text  # an agent's person is told of it in one line


@pytest.mark.covers("ACC-11")
def test_a_person_is_told_that_a_skill_would_have_an_agent_of_its_own(
    talk: Talk, write_skill: Write, skills: Path
) -> None:
    write_skill(skills / "research", more="context: fork\n")
    code, out, err = talk("load research")
    assert code == 0
    assert "noted research: Skill 'research' asks for an agent of its own" in err
    code, out, err = talk("load research", options=("--json",))
    assert answers(out)[0]["inline"] == ["research"]


@pytest.mark.covers("ACC-4")
def test_a_person_is_told_which_skill_made_room(talk: Talk, write_skill: Write, skills: Path) -> None:
    for number in range(9):
        write_skill(skills / f"more-{number}")
    code, _, err = talk(*(f"/more-{number}" for number in range(9)))
    assert code == 0
    assert "Unloaded more-0: removed to make room for more-8, as 8 skills are the most." in " ".join(err.split())
