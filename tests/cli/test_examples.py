"""Every verb by which skills are governed explains itself, and the example in its help works as it stands."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.cli.commands import COMMANDS
from metier.cli.identity import system_user
from metier.cli.parser import parser_of
from metier.store import Person, Store

Metier = Callable[..., tuple[int, str, str]]

GOVERNING = (
    *("approve", "quarantine", "propose", "history", "rollback", "deploy"),
    *("audit", "store", "policy", "user", "scan", "scan rules"),
)


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Whatever can be called."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for one in action.choices.values():
            yield from leaves(one)


def examples() -> dict[str, str]:
    """The example of each command and verb, by its words."""
    found = {one.prog.removeprefix("metier "): one for name in GOVERNING for one in leaves(parser_of(name))}
    return {words: (one.epilog or "").removeprefix("example:\n  ") for words, one in found.items()}


EXAMPLES = examples()


def test_every_command_and_verb_has_a_sentence_and_an_example() -> None:
    assert {words.split()[0] for words in EXAMPLES} == {words.split()[0] for words in GOVERNING}
    for parser in (one for name in COMMANDS for one in leaves(parser_of(name))):
        told = parser.format_help()
        assert re.search(r"^[A-Z].{8,}\.$", parser.description or "", re.DOTALL), parser.prog
        assert "\nexample:\n  " in told, parser.prog
        if parser.prog.split()[1] in GOVERNING:
            assert f"\nexample:\n  {parser.prog} " in f"{told.rstrip()} ", parser.prog


class World:
    """A folder, a home and a store in which somebody tries what `--help` says."""

    def __init__(self, metier: Metier) -> None:
        self._metier = metier
        self.tried: set[str] = set()

    def try_out(self, words: str, *, id: str = "") -> str:  # noqa: A002
        """Call the example of a command, with an id that exists here; returns what it prints."""
        example = EXAMPLES[words]
        if id:
            example, count = re.subn(rf"\b{id[0]}-[0-9a-z]{{8}}\b", id, example)
            assert count == 1, f"{words} names no {id[0]}-..."
        code, out, err = self._metier(*shlex.split(example)[1:])
        assert code == 0, f"{example}: {code} {out} {err}"
        self.tried.add(words)
        return out

    def found(self, *arguments: str) -> list[dict[str, str]]:
        """What a command lists."""
        code, out, _ = self._metier(*arguments, "--json")
        assert code == 0
        listed: list[dict[str, str]] = json.loads(out)[
            {"approve": "requests", "propose": "proposals", "user": "tokens"}[arguments[0]]
        ]
        return listed

    def needs_approval(self) -> str:
        """The request that a script leads to that policy wants approved."""
        assert self._metier("run", "csv-analyst", "peek_csv.py")[0] == 4
        return next(one["id"] for one in self.found("approve", "list") if one["status"] == "pending")

    def proposed(self, author: Person, body: str) -> str:
        """A proposal that somebody else made."""
        from metier import Library
        from metier.hub.proposals import propose_update
        from metier.skill.package import files_of

        library = Library.discover()
        files = files_of(library.get("deploy").package)
        mode, text = files["SKILL.md"]
        changed = {**files, "SKILL.md": (mode, text.replace(b"Two.", body.encode()))}
        with Store.open() as store:
            return propose_update(library, store.of(), "deploy", changed, "Why.", author=author).id


@pytest.fixture
def world(
    metier: Metier,
    own_home: Path,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    typed: None,
) -> World:
    for variable in ("METIER_STORE", "METIER_DATA", "METIER_API_TOKEN", "METIER_POLICY"):
        monkeypatch.delenv(variable, raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("METIER_ENTERPRISE", str(tmp_path / "enterprise"))
    (tmp_path / "enterprise").mkdir()
    for name in ("deploy", "pdf-forms"):
        write_skill(own_home / ".metier/skills" / name, body="One.\nTwo.\nThree.")
    shutil.copytree(own_home / ".metier/skills/deploy", work / "deploy")
    (work / "deploy/SKILL.md").write_text((work / "deploy/SKILL.md").read_text().replace("Two.", "Two and a half."))
    for name in ("tidy-tables", "data-handling", "skills/notes"):
        write_skill(work / name, description="Tidies tables. Use when a table is a mess.")
    (work / ".metier").mkdir()
    (work / ".metier/policy.yaml").write_text("version: 1\nskill-policy: {require-approval-for: [scripts]}\n")
    (work / "cases.yaml").write_text("- {name: downloads, command: curl x.test, expect: allow}\n")
    return World(metier)


def test_the_examples_of_all_verbs_work(world: World, metier: Metier) -> None:
    # What skills may do.
    first = world.needs_approval()
    world.try_out("approve show", id=first)
    approval = re.search(r"a-[0-9a-z]+", world.try_out("approve grant", id=first))
    assert approval is not None
    world.try_out("approve revoke", id=approval[0])
    world.try_out("approve deny", id=world.needs_approval())
    world.try_out("approve list")
    world.try_out("quarantine add")
    world.try_out("quarantine list")
    world.try_out("quarantine release")
    world.try_out("scan")
    for verb in ("new", "test", "list", "show"):
        world.try_out(f"scan rules {verb}")
    # How skills change.
    world.try_out("propose update")
    world.try_out("propose withdraw", id=world.found("propose", "list")[0]["id"])
    builder = Person(name="builder", kind="agent")
    good, bad = world.proposed(builder, "Two and a bit."), world.proposed(builder, "Two and much.")
    world.try_out("propose reject", id=bad)
    world.try_out("propose list")
    for verb in ("show", "recommend", "approve"):
        world.try_out(f"propose {verb}", id=good)
    world.try_out("propose new")
    world.try_out("history")
    world.try_out("rollback")
    world.try_out("deploy")
    # What holds, and what was kept.
    for words in EXAMPLES:
        if words.startswith(("policy ", "audit ")):
            world.try_out(words)
    for verb in ("migrate", "backup", "restore", "check"):
        world.try_out(f"store {verb}")
    # Who decides.
    assert metier("user", "add", system_user(), "--role", "admin")[0] == 0  # the first must be who adds the others
    world.try_out("user add")
    world.try_out("user list")
    world.try_out("user token")
    world.try_out("user tokens")
    world.try_out("user revoke", id=world.found("user", "tokens")[0]["id"])
    world.try_out("user remove")
    assert world.tried == set(EXAMPLES)
