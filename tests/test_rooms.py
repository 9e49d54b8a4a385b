"""The rooms of the house: which may import which, and what `import metier` costs."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.syntax import PACKAGE as ROOT
from tests.syntax import imports, nodes

import metier

# Room -> the rooms it may import. `skill` <- `source` <- `library` <- `find` <- `session`; `guard` and `run` are used
# by `session` and `tools`; `hub` stands on those, `dialect` on `hub`, `agent` on `dialect`; `serve` and `cli` on all.
_LOW = {"skill", "source", "library"}
_CORE = {*_LOW, "store", "find", "scan", "guard", "run", "tools", "session"}
MAY_IMPORT: dict[str, set[str]] = {
    "skill": set(),
    "source": {"skill"},
    "library": {"skill", "source"},
    "store": {"skill"},
    "find": _LOW,
    "scan": {"skill"},
    "guard": {*_LOW, "scan", "store"},
    "run": {"skill", "library", "scan", "guard"},
    "tools": {*_LOW, "find", "guard", "run", "store"},
    "session": {*_LOW, "find", "guard", "run", "store", "tools"},
    "dialect": {*_CORE, "hub"},
    "agent": {*_CORE, "dialect", "hub"},
    "hub": _CORE,
    "proof": {*_CORE, "dialect", "agent", "hub", "testing"},
    "serve": {*_CORE, "dialect", "agent", "hub", "proof"},
    "cli": {*_CORE, "dialect", "agent", "hub", "proof", "serve"},
}
FOR_ALL = {
    *(
        "errors",
        "hints",
        "_version",
        "_lazy",
        "_telemetry",
        "_otel_setup",
        "_extras",
        "_cache",
        "_aliases",
        "_regex_cache",
        "_write_ahead_log",
    ),
    *("_notifier", "_paths", "_hosts", "_json_object", "_suggest", "_yaml_edit"),
}
"""Modules of the top package that every room may import."""
NO_ROOMS = {"bundled"}
"""Folders with skills in them, which are data."""
DOORS = {"serve", "cli"}
ON_THE_FACE = {"serve", "cli", "agent", "dialect", "proof"}
"""Rooms and modules that stand on what the package offers its users, as their programs do."""


def modules() -> list[tuple[str, Path]]:
    """Every module of the package by its dotted name."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in NO_ROOMS:
            found.append((".".join(part for part in parts if part != "__init__"), path))
    return found


@functools.cache
def imported(name: str, path: Path) -> list[tuple[int, str]]:
    """What of the package a module imports, wherever in it the import stands; "" is the package itself."""
    found = []
    here = ["metier", *name.split(".")] if name else ["metier"]
    package = here if path.name == "__init__.py" else here[:-1]
    for node in imports(path):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        else:
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            wanted = [f"metier.{alias.name}" for alias in node.names] if module == "metier" else [module]
        for module in wanted:
            if module == "metier":
                found.append((node.lineno, ""))
            elif module.startswith("metier."):
                found.append((node.lineno, module.removeprefix("metier.")))
    # Without docstrings, which may show such a name.
    text = re.sub(r'""".*?"""', lambda found: "\n" * found[0].count("\n"), path.read_text("utf-8"), flags=re.DOTALL)
    for match in re.finditer(r"""["']metier\.((\w+)[\w.]*)""", text):
        # A name that is imported later, by a string: `"metier.library.places"`.
        if match[2] in MAY_IMPORT:
            found.append((text.count("\n", 0, match.start()) + 1, match[1]))
    return found


def violations() -> list[str]:
    wrong = []
    for name, path in modules():
        room = name.partition(".")[0]
        if room not in MAY_IMPORT:
            continue
        for line, module in imported(name, path):
            other = module.partition(".")[0]
            if (room in ON_THE_FACE or name in ON_THE_FACE) and module in metier.__all__:
                continue
            if room == "cli" and not module:
                continue  # it may import every room, and takes public names from the package that offers them
            if other != room and other not in FOR_ALL and other not in MAY_IMPORT[room]:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} must not import metier.{module}".rstrip("."))
    return wrong


def test_dependencies_between_rooms_point_one_way() -> None:
    assert violations() == []


def test_the_rules_themselves_have_no_circles() -> None:
    assert circle_in(MAY_IMPORT) == set()


def circle_in(edges: dict[str, set[str]]) -> set[str]:
    """The parts that are left when those that import none of the rest are taken away again and again."""
    left = {part: set(others) for part, others in edges.items()}
    while free := [part for part, others in left.items() if not others & left.keys()]:
        for part in free:
            del left[part]
    return set(left)


def imports_between(parts: dict[str, str]) -> dict[str, set[str]]:
    """Which parts of a room import which others, themselves or through modules of the room that are in no part.

    Each part has a name and a prefix of modules. Imports inside of functions count as any other.
    """
    rooms = {prefix.partition(".")[0] for prefix in parts.values()}
    direct: dict[str, set[str]] = {}
    for name, path in modules():
        if name.partition(".")[0] in rooms:
            direct[name] = {module for _, module in imported(name, path)} - {name}

    def part_of(name: str) -> str:
        return next((part for part, at in parts.items() if name == at or name.startswith(f"{at}.")), "")

    found: dict[str, set[str]] = {part: set() for part in parts}
    for name, others in direct.items():
        if not (part := part_of(name)):
            continue
        waiting, seen = list(others), set(others)
        while waiting:
            other = waiting.pop()
            if part_of(other):
                found[part].add(part_of(other))
                continue
            # The package of the room offers all its names, and imports them when they are used.
            more = set() if other in rooms else direct.get(other, set()) - seen
            seen |= more
            waiting.extend(more)
        found[part].discard(part)
    return found


def test_selection_and_the_runners_form_no_circle() -> None:
    edges = imports_between({"selection": "run.selection", "native": "run.native", "virtual": "run.virtual"})
    assert circle_in(edges) == set(), edges
    assert edges == {"selection": {"native", "virtual"}, "native": set(), "virtual": {"native"}}


def test_no_module_has_the_name_of_something_that_its_package_offers() -> None:
    """Importing `metier.hub.deploy` would replace the function `deploy` of `metier.hub`."""
    wrong = []
    for name, path in modules():
        if path.name == "__init__.py" and path != ROOT / "cli/__init__.py":
            offered = {
                alias.asname or alias.name: f"{node.module}.{alias.name}"
                for node in imports(path)
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            below = {other.stem for other in path.parent.iterdir()}
            package = f"metier.{name}".rstrip(".")
            wrong += [f"{package}.{one}" for one in offered.keys() & below if offered[one] != f"{package}.{one}"]
    assert wrong == []


def test_no_public_class_name_stands_in_two_modules() -> None:
    """Only the adapters of frameworks have one name for all: `Skills`."""
    places: dict[str, list[str]] = {}
    for name, path in modules():
        for found in re.findall(r"^class ([A-Za-z]\w*)", path.read_text("utf-8"), re.MULTILINE):
            if found != "Skills":
                places.setdefault(found, []).append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_room_is_known() -> None:
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= MAY_IMPORT.keys() | NO_ROOMS


def test_nothing_imports_the_doors_but_the_command_itself() -> None:
    for name, path in modules():
        if name.partition(".")[0] in DOORS or name == "__main__":
            continue
        assert not [module for _, module in imported(name, path) if module.partition(".")[0] in DOORS], name


@pytest.mark.each("name", sorted(FOR_ALL))
def test_what_all_may_import_imports_no_room(name: str) -> None:
    for _, module in imported(name, ROOT / f"{name}.py"):
        assert module.partition(".")[0] not in MAY_IMPORT


def test_every_room_that_is_here_says_what_it_is_for() -> None:
    for room in MAY_IMPORT:
        path = ROOT / room / "__init__.py"
        if path.exists():
            assert ast.get_docstring(ast.parse(path.read_bytes())), room


STARTS_PROCESSES = re.compile(
    r"subprocess|multiprocessing|pty|pexpect|concurrent\.futures\.process"
    r"|(?:os|posix)\.(?:exec[lv]p?e?|spawn[lv]p?e?|fork|forkpty|posix_spawnp?|system|popen|startfile)"
    r"|asyncio(?:\.subprocess)?\.create_subprocess_(?:exec|shell)|asyncio\.subprocess"
    r"|anyio\.(?:run_process|open_process|to_process)|trio\.(?:run_process|lowlevel\.open_process)"
    r"|ctypes\.(?:CDLL|PyDLL|cdll|pydll|WinDLL|OleDLL|windll)|ctypes\.util|_posixsubprocess|_winapi"
)
"""What starts a program, or calls the system past what Python checks, by the names of modules and their members."""
PARTS_OF_THEM = re.compile(
    r"subprocess|multiprocessing|\bpty\b|pexpect|concurrent|_process\b|ctypes|_winapi"
    r"|(?:[.'\"]|import .*|^\s*)(?:exec[lv]|(?:posix_)?spawn|fork|system|popen|startfile)",
    re.MULTILINE,
)
"""Parts of all these names. One stands in every module that uses any of them: no other needs to be parsed."""

MAY_START: dict[str, str] = {
    "hub.sources.git_process": "git fetches repositories with the user's credentials, which no sandbox has",
    "serve.client_hooks.fast_client": "asks the Perl and the Python of a hook whether they start as a hook starts them",
    "serve.client_hooks.resident": "starts the process that outlives a hook, as which nothing of `run` can be",
}
"""Modules outside of `run` that may, each with the reason."""


def names_used(path: Path) -> Iterator[tuple[int, str]]:
    """The dotted names that a module imports or uses, by what they were imported as."""
    known: dict[str, str] = {}
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in nodes(path):
        dotted = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            dotted.append(inner.attr)
            inner = inner.value
        if dotted and isinstance(inner, ast.Name):
            yield getattr(node, "lineno", 0), ".".join((known.get(inner.id, inner.id), *reversed(dotted)))
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("__import__", "getattr")
        ):
            # A name in quotes is as good as one without.
            for word in node.args:
                if isinstance(word, ast.Constant) and isinstance(word.value, str):
                    owner = node.args[0]
                    module = known.get(owner.id, "") if isinstance(owner, ast.Name) else ""
                    yield node.lineno, f"{module}.{word.value}".strip(".")


def starting(path: Path) -> list[str]:
    return [
        f"line {line}: {name}"
        for line, name in (names_used(path) if PARTS_OF_THEM.search(path.read_text("utf-8")) else ())
        if (found := STARTS_PROCESSES.match(name)) and (found.end() == len(name) or name[found.end()] == ".")
    ]


def test_nothing_but_run_starts_a_process() -> None:
    found = {name: wrong for name, path in modules() if not name.startswith("run.") and (wrong := starting(path))}
    assert found.keys() == MAY_START.keys(), found
    assert all(MAY_START.values()), "each has a reason"


@pytest.mark.each(
    ("text", "is_found"),
    [
        ("import subprocess", True),
        ("import subprocess as s", True),
        ("from subprocess import run", True),
        ("def f():\n    import subprocess", True),
        ("import os\nos.system('x')", True),
        ("import os as o\no.execvp('x', [])", True),
        ("from os import posix_spawn", True),
        ("import os\nstart = os.fork", True),
        ("import os\ngetattr(os, 'popen')('x')", True),
        ("__import__('subprocess')", True),
        ("import asyncio\nasyncio.create_subprocess_exec('x')", True),
        ("import asyncio.subprocess", True),
        ("import anyio\nanyio.run_process(['x'])", True),
        ("from anyio import open_process", True),
        ("import ctypes\nctypes.CDLL(None)", True),
        ("from ctypes import PyDLL", True),
        ("import multiprocessing.pool", True),
        ("import pty", True),
        ("import os\nos.path.join('a', 'b'); os.environ; os.replace('a', 'b')", False),
        ("import ptyprocess_of_ours", False),
        ("import asyncio\nasyncio.run(f())", False),
        ("system = 1", False),
    ],
)
def test_what_starts_a_process_is_seen(tmp_path: Path, text: str, is_found: bool) -> None:
    module = Path(tempfile.mkdtemp(dir=tmp_path), "module.py")
    module.write_text(text)
    assert bool(starting(module)) is is_found


@functools.cache
def loaded_by(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


HEAVY = ("yaml", "pydantic", "argparse", "watchfiles", "importlib.metadata", "asyncio", "sqlite3", "http.client")


@pytest.mark.each("statement", ["import metier", "from metier import Library", "from metier import *"])
def test_importing_the_package_loads_nothing_heavy(statement: str) -> None:
    # What a bare interpreter has loaded here is not ours: an editable install may bring some of it.
    loaded = loaded_by(statement) - loaded_by("pass")
    assert "metier" in loaded
    assert not loaded.intersection(HEAVY)
    assert not [name for name in loaded if name.startswith(("metier.cli", "metier.serve"))], "a door is loaded"


def test_a_library_of_plain_skills_loads_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").write_text("---\nname: a\ndescription: Does it.\n---\nDo it.\n")
    statement = (
        f"from metier import Library\nlibrary = Library.from_folder({str(tmp_path)!r}, cache=False)\n"
        "assert [entry.description for entry in library] == ['Does it.']"
    )
    assert not (loaded_by(statement) - loaded_by("pass")).intersection(HEAVY)


def test_every_public_name_can_be_imported() -> None:
    for name in metier.__all__:
        assert getattr(metier, name) is not None
