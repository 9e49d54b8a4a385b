"""Whatever a model sends, it gets a result that says what was wrong; nothing is raised, and nothing leaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Library, Session
from metier.dialect import PROVIDERS, answer, as_text
from metier.guard import Guard, MemoryLog, Policy
from metier.tools import Executor, ToolResult

DIALECTS = ["registry", "tool", "runtime", "sandbox"]
TOOLS = [
    ("registry", "list_skills"),
    ("registry", "read_skill"),
    ("registry", "read_skill_resource"),
    ("tool", "skill"),
    ("runtime", "skills_load"),
    ("runtime", "skills_unload"),
    ("runtime", "skills_read"),
    ("runtime", "skills_run"),
    ("runtime", "skills_search"),
    ("sandbox", "get_skill"),
    ("sandbox", "sandbox_execute"),
]
SECRET = "the-secret-that-nobody-reads"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, write_skill: Callable[..., Path]) -> Path:
    """A folder with skills, and a secret beside them that a link in a skill points to."""
    root = tmp_path_factory.mktemp("place")
    (root / "secret.txt").write_text(SECRET)
    write_skill(root / "skills" / "good", body="Do $ARGUMENTS.")
    (root / "skills" / "good" / "notes.md").write_text("Notes.\n")
    (root / "skills" / "good" / "link.md").symlink_to(root / "secret.txt")
    (root / "skills" / "good" / "folder").symlink_to(root)
    scripts = root / "skills" / "good" / "scripts"
    scripts.mkdir()
    (scripts / "run.py").write_text("print('ran')\n")
    (scripts / "link.py").symlink_to(root / "secret.txt")
    (root / "work").mkdir()
    return root


def begin(place: Path) -> Session:
    """A session in which nothing can run: what is tried here is anything at all."""
    library = Library.from_folder(place / "skills", cache=False)
    return library.session(guard=Guard(Policy(), audit=MemoryLog()), workspace=place / "work", skills=["good"])


@pytest.fixture
def executors(place: Path) -> dict[str, Executor]:
    """An executor for each dialect, with the skill loaded."""
    session = begin(place)
    return {dialect: session.executor(dialect=dialect) for dialect in DIALECTS}  # type: ignore[arg-type]


def check(result: ToolResult) -> None:
    """A result that a model can use, whichever it is."""
    assert isinstance(result, ToolResult)
    if not result.success:
        assert result.code
        assert result.error
        assert result.hint
        assert len(result.error) < 5_000
        assert len(result.hint) < 5_000
    json.dumps(result.result)
    for provider in PROVIDERS:
        text = json.dumps(answer(result, provider, "call-1", "tool"))
        assert SECRET not in text


# What `json.loads` gives has no half characters unless somebody wrote them so.
TEXTS = st.one_of(
    st.sampled_from(
        [
            "good", "GOOD", "good@nowhere", "", " ", ".", "..", "/", "\0", "notes.md", "scripts/run.py", "load", "read",
            "run", "unload", "add", "../../secret.txt", "link.md", "folder/secret.txt", "scripts/link.py", "text",
            "base64", "🦀", "\ud800", "\u202e", "-rf", "$(id)", "a" * 5_000, "NAME=value", "SKILL.md",
        ]
    ),
    st.text(max_size=20),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "skill_name",
        "skill_id",
        "skills",
        "skill",
        "args",
        "action",
        "path",
        "script",
        "mode",
        "all",
        "encoding",
        "start",
        "end",
        "env",
        "folder",
        "seconds",
        "query",
        "k",
        "command",
    ]
)


@pytest.mark.hypothesis
def test_arbitrary_arguments_give_a_result(place: Path) -> None:
    session = begin(place)
    executors = {dialect: session.executor(dialect=dialect) for dialect in DIALECTS}  # type: ignore[arg-type]

    @given(st.one_of(VALUES, st.dictionaries(st.one_of(KEYS, TEXTS), VALUES, max_size=4), st.binary(max_size=20)))
    def run(arguments: Any) -> None:
        async def main() -> list[ToolResult]:
            return [await executors[dialect].execute(tool, arguments) for dialect, tool in TOOLS]

        for result in anyio.run(main):
            check(result)

    run()


@pytest.mark.hypothesis
def test_arguments_that_fit_a_schema_give_a_result(place: Path) -> None:
    session = begin(place)
    executors = {dialect: session.executor(dialect=dialect) for dialect in DIALECTS}  # type: ignore[arg-type]

    def fitting(schema: Any) -> st.SearchStrategy[Any]:
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        return {
            "string": TEXTS,
            "integer": st.integers(min_value=1, max_value=10**30),
            "boolean": st.booleans(),
            "array": st.lists(TEXTS, max_size=3),
        }[schema["type"]]

    def call(dialect: str, tool: str) -> st.SearchStrategy[tuple[str, str, dict[str, Any]]]:
        found = executors[dialect].registry.get(tool)
        assert found is not None
        parameters = found.parameters
        required = {key: fitting(parameters["properties"][key]) for key in parameters["required"]}
        optional = {key: fitting(value) for key, value in parameters["properties"].items() if key not in required}
        return st.fixed_dictionaries(required, optional=optional).map(lambda one: (dialect, tool, one))

    @given(st.lists(st.one_of(*(call(*one) for one in TOOLS)), min_size=1, max_size=8))
    def run(calls: list[tuple[str, str, dict[str, Any]]]) -> None:
        async def main() -> list[ToolResult]:
            return [await executors[dialect].execute(tool, arguments) for dialect, tool, arguments in calls]

        for result in anyio.run(main):
            check(result)

    run()


@pytest.mark.each(("dialect", "tool"), TOOLS)
@pytest.mark.each(
    "arguments",
    [
        "{",
        "[]",
        "1",
        '"good"',
        b"\xff",
        [],
        1,
        {"unknown": 1},
        {"skill_name": None, "skill_id": None, "skills": None, "path": None, "script": None, "query": None},
        {"skill_name": ["good"], "skill_id": {}, "skills": "good", "path": 1, "script": True, "command": []},
        {"skill_name": "good", "skill_id": "good", "skills": ["good"], "path": "x", "script": "x", "extra": 1},
    ],
)
def test_arguments_that_cannot_fit_are_refused(
    executors: dict[str, Executor], dialect: str, tool: str, arguments: Any
) -> None:
    result = executors[dialect].execute_blocking(tool, arguments)
    check(result)
    assert (result.success, result.code) == (False, "invalid-arguments")


@pytest.mark.each(("dialect", "tool"), [one for one in TOOLS if one[1] not in ("list_skills", "skills_unload")])
@pytest.mark.each("arguments", [None, {}, "", "{}"])
def test_missing_arguments_are_named(executors: dict[str, Executor], dialect: str, tool: str, arguments: Any) -> None:
    result = executors[dialect].execute_blocking(tool, arguments)
    check(result)
    assert result.code == "invalid-arguments"
    found = executors[dialect].registry.get(tool)
    assert found is not None
    assert found.parameters["required"][0] in (result.error or "")


def huge() -> Iterator[tuple[str, str, dict[str, Any]]]:
    text = "x" * 2_000_000
    for dialect, tool in TOOLS:
        for key in ("skill_name", "skill_id", "path", "script", "query", "command", "args"):
            yield dialect, tool, {key: text}
        yield dialect, tool, {"skills": [text], "all": True}
        yield dialect, tool, {text: 1}


def test_two_megabytes_are_refused(executors: dict[str, Executor]) -> None:
    for dialect, tool, arguments in huge():
        result = executors[dialect].execute_blocking(tool, arguments)
        check(result)
        assert not result.success


LARGE = "x" * 900_000


# Every second is quick, and is another tool.
@pytest.mark.each(
    ("dialect", "tool", "arguments"),
    [
        ("registry", "list_skills", {"query": LARGE}),
        ("registry", "read_skill", {"skill_id": "good", "args": LARGE}),
        ("registry", "read_skill", {"skill_id": LARGE}),
        ("registry", "read_skill_resource", {"skill_id": LARGE, "path": "notes.md"}),
        ("registry", "read_skill_resource", {"skill_id": "good", "path": LARGE}),
        ("tool", "skill", {"skill_name": LARGE}),
        ("tool", "skill", {"skill_name": "good", "action": "run", "args": LARGE}),
        ("tool", "skill", {"skill_name": "good", "action": "read", "args": LARGE}),
        ("runtime", "skills_load", {"skills": ["good"] * 100_000 + [LARGE[:1_000]]}),
        ("runtime", "skills_load", {"skills": ["good"], "args": LARGE}),
        ("runtime", "skills_unload", {"skills": [LARGE]}),
        ("runtime", "skills_run", {"script": LARGE}),
        ("runtime", "skills_read", {"path": LARGE}),
        ("runtime", "skills_run", {"script": "scripts/run.py", "env": [LARGE]}),
        ("runtime", "skills_run", {"script": "scripts/run.py", "args": [LARGE]}),
        ("runtime", "skills_run", {"script": "scripts/run.py", "folder": LARGE}),
        ("runtime", "skills_search", {"query": LARGE}),
        ("sandbox", "sandbox_execute", {"command": LARGE}),
        ("sandbox", "get_skill", {"skill_name": LARGE}),
    ],
    every=5,
)
def test_what_is_just_small_enough_to_be_looked_at_is_handled(
    executors: dict[str, Executor], dialect: str, tool: str, arguments: dict[str, Any]
) -> None:
    result = executors[dialect].execute_blocking(tool, arguments)
    check(result)
    assert len(as_text(result)) < 20_000


PATHS = [
    "../../secret.txt",
    "../good/../../secret.txt",
    "notes.md/../../../secret.txt",
    "..\\..\\secret.txt",
    "./../../secret.txt",
    "link.md",
    "folder/secret.txt",
    "folder/skills/good/notes.md",
    "/etc/passwd",
    "//etc/passwd",
    "C:\\Windows\\win.ini",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "notes.md\0.txt",
    "\0",
    "",
    " ",
    ".",
    "..",
    "%2e%2e/%2e%2e/secret.txt",
    "SECRET",
]


@pytest.mark.covers("Y-20")
@pytest.mark.each("path", PATHS, every=2)
def test_no_path_leads_out_of_a_skill(executors: dict[str, Executor], place: Path, path: str) -> None:
    path = str(place / "secret.txt") if path == "SECRET" else path
    for dialect, tool, arguments in [
        ("registry", "read_skill_resource", {"skill_id": "good", "path": path}),
        ("tool", "skill", {"skill_name": "good", "action": "read", "args": path}),
        ("runtime", "skills_read", {"path": path}),
        ("runtime", "skills_read", {"path": path, "encoding": "base64"}),
        ("runtime", "skills_run", {"script": path}),
        ("runtime", "skills_run", {"script": f"scripts/{path}"}),
        ("runtime", "skills_run", {"script": "scripts/run.py", "folder": "../.." if path in ("", ".") else path}),
    ]:
        result = executors[dialect].execute_blocking(tool, arguments)
        check(result)
        assert not result.success, (tool, arguments)


def test_a_script_that_is_a_link_is_not_run(executors: dict[str, Executor]) -> None:
    result = executors["runtime"].execute_blocking("skills_run", {"script": "scripts/link.py"})
    check(result)
    assert result.code == "file-refused"


@pytest.mark.each("name", ["nowhere", "..", "../good", "/", "good/../good", "good\0", "\n", "a" * 1_000, "<x>"])
def test_no_skill_answers_to_a_name_that_is_none(executors: dict[str, Executor], name: str) -> None:
    for dialect, tool, arguments in [
        ("registry", "read_skill", {"skill_id": name}),
        ("registry", "read_skill_resource", {"skill_id": name, "path": "notes.md"}),
        ("tool", "skill", {"skill_name": name}),
        ("tool", "skill", {"skill_name": name, "action": "read", "args": "notes.md"}),
        ("tool", "skill", {"skill_name": name, "action": "run", "args": "scripts/run.py"}),
        ("tool", "skill", {"skill_name": name, "action": "unload"}),
        ("runtime", "skills_load", {"skills": [name]}),
        ("runtime", "skills_unload", {"skills": [name]}),
        ("runtime", "skills_read", {"skill": name, "path": "notes.md"}),
        ("runtime", "skills_run", {"skill": name, "script": "scripts/run.py"}),
        ("sandbox", "get_skill", {"skill_name": name}),
    ]:
        result = executors[dialect].execute_blocking(tool, arguments)
        check(result)
        assert not result.success, (tool, arguments)


@pytest.mark.each("dialect", DIALECTS)
@pytest.mark.each("name", ["", "no_such", "SKILL", "skills load", "x" * 100_000, "\0", "../skill", None, 1, []])
def test_a_tool_that_is_none_is_not_found(executors: dict[str, Executor], dialect: str, name: Any) -> None:
    result = executors[dialect].execute_blocking(name, {})
    check(result)
    assert result.code == "tool-not-found"


@pytest.mark.each(("dialect", "tool"), TOOLS)
def test_a_tool_that_is_called_by_itself_raises_only_errors_of_ours(place: Path, dialect: Any, tool: str) -> None:
    found = begin(place).executor(dialect=dialect).registry.get(tool)
    assert found is not None
    types = {key: found.parameters["properties"][key]["type"] for key in found.parameters["required"]}
    filled: dict[str, Any] = {key: [] if kind == "array" else "" for key, kind in types.items()}
    result = Executor(begin(place).executor(dialect=dialect).registry).execute_blocking(tool, filled)
    check(result)
    assert result.code != "tool-failed"
