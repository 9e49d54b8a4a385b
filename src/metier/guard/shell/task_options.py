"""The table of the options that rules which name a task cover, read: see `task_table`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from metier.guard.shell.task_table import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

Words = Literal["none", "tasks", "packages", "inside", "names", "remotes", "local", "any"]
Style = Literal["flags", "letters", "names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a program may be given for one task, beside what the rule itself spells out."""

    options: str = ""
    """As the table lists them."""
    words: Words = "inside"
    """Words that are no options: none, further tasks (only where the rule names none, and no variables), names of
    packages, those that stay inside the workspace (`local` where others would be fetched, `names` where they may
    begin with `@` or set a value, `remotes` where they may be addresses too), or any."""
    behind: str = ""
    """The words behind `--`: `any`, a list of the table, the words of another program (`program`), or nothing."""
    rest: str = ""
    """The same for what follows the first word, where options of the program itself end there."""
    style: Style = "letters"
    """Whether a hyphen is followed by letters (`-xvf a`), by a name (`-ntp`), or by one that may have two hyphens."""
    is_local: bool = True
    """Whether what the task does is written down in the folder where it runs."""


def _lines() -> tuple[dict[str, str], dict[str, str]]:
    """The rows by program and task, and the lists by name, each as the table has it."""
    rows: dict[str, str] = {}
    lists: dict[str, str] = {}
    for line in TABLE.replace("\n   ", "").strip().splitlines():
        names, _, text = line.partition(":")
        program, _, tasks = names.rpartition(" ")
        for task in tasks.split("|"):
            if task.startswith("+"):
                lists[task[1:]] = text
            else:
                rows[f"{program} {task}".strip()] = text
    return rows, lists


ROWS, LISTS = _lines()

MERE_NAMES = frozenset(
    f"git {task}" for task in ("add", "checkout", "ls-files", "mv", "reset", "restore", "rm", "status")
)
"""Tasks of which no option leads out: a word that names files (`git add *`) may become one."""

_SAME = {
    "bazelisk": "bazel",
    "docker-compose": "docker compose",
    "gmake": "make",
    "gradlew": "gradle",
    "mvnd": "mvn",
    "mvnw": "mvn",
    "podman": "docker",
    "py.test": "pytest",
    "pytest-3": "pytest",
    "tofu": "terraform",
}


def program_of(name: str) -> str:
    """The program that a row is about, by any of its names.

    >>> program_of("gmake"), program_of("git")
    ('make', 'git')
    """
    return _SAME.get(name, name)


@lru_cache(maxsize=256)
def row_of(key: str) -> Row:
    """The row of a program or a task that is in the table.

    >>> row_of("make").words, row_of("docker ps").is_local
    ('tasks', False)
    """
    fields: dict[str, Any] = {}
    options: list[str] = []
    for token in _spelled_out(ROWS[key]):
        name, _, value = token.partition("=")
        if token.startswith("-"):
            options.append(token)
        elif token == "anywhere":
            fields["is_local"] = False
        else:
            fields[name] = value
    return Row(options=" ".join(options), **fields)


def _spelled_out(text: str) -> list[str]:
    """The tokens of a row, with those of the lists that it names."""
    return [each for token in text.split() for each in (_spelled_out(LISTS[token[1:]]) if token[0] == "+" else [token])]


@lru_cache(maxsize=256)
def options_of(key: str) -> Mapping[str, str]:
    """The options of a task, with those of its program: by name, with the kind of value that each takes.

    >>> options_of("cargo test")["--jobs"], options_of("cargo test")["--quiet"], "-C" in options_of("cargo test")
    ('=#', '', False)
    """
    first, *tasks = key.split()
    keys = [" ".join([first, *tasks[:count]]) for count in range(len(tasks) + 1)]
    return parsed(" ".join(row_of(each).options for each in keys if each in ROWS))


@lru_cache(maxsize=16)
def list_of(name: str) -> Mapping[str, str]:
    """The options of a list, in the same form."""
    return parsed(" ".join(_spelled_out(LISTS[name])))


def parsed(text: str) -> Mapping[str, str]:
    """The options that a text lists: by name, with the kind of value.

    >>> parsed("-v -n= --bail --bail=#")
    {'-v': '', '-n': '=', '--bail': '?#'}
    """
    found: dict[str, str] = {}
    for token in text.split():
        name, kind, rule = token.partition("=")
        if token.endswith("?"):
            name, kind = token[:-1], "?"
        # What is listed with a value and without takes it only where it is a part of the word.
        kind = "?" if found.get(name) == "" and kind else kind
        found[name] = kind + rule
    return found
