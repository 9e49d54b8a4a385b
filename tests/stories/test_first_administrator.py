"""A tenant's first administrator: from a store that knows nobody to the first approval by a person of the tenant."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.cli.identity import system_user

pytestmark = pytest.mark.covers("ACC-10")

Call = Callable[..., tuple[int, str, str]]
ME = system_user()


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose administrator wants scripts approved, with one skill that has a script."""
    for variable in ("METIER_STORE", "METIER_DATA", "METIER_API_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text("version: 1\nskill-policy: {require-approval-for: [scripts]}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    Path("skills/greet/scripts").mkdir(parents=True)
    Path("skills/greet/SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nRun scripts/hello.sh.\n")
    Path("skills/greet/scripts/hello.sh").write_text("echo hello\n")


def test_headless(metier: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def acts(secret: str) -> None:
        monkeypatch.setenv("METIER_API_TOKEN", secret)

    # A script on a server without a terminal sets up the store, and knows the administrator by a token from then on.
    code, root, err = metier("user", "add", ME, "--role", "admin", "--token")
    assert (code, err) == (0, "")
    acts(root.strip())

    # It adds the first administrator of a tenant, and is told how she gets a token.
    code, out, _ = metier("user", "add", "tia", "--role", "admin", "--tenant", "acme")
    assert code == 0 and "metier user token tia --tenant acme" in out
    code, _, err = metier("user", "token", "tia")
    assert code == 1 and "--tenant acme" in err
    code, tia, _ = metier("user", "token", "tia", "--tenant", "acme")
    assert code == 0

    # She lets a reviewer in. From then on the installation makes nobody's token in her tenant any more.
    acts(tia.strip())
    assert metier("user", "add", "rae", "--role", "reviewer")[0] == 0
    code, rae, _ = metier("user", "token", "rae")
    assert code == 0
    acts(root.strip())
    for name in ("tia", "rae"):
        code, out, err = metier("user", "token", name, "--tenant", "acme")
        assert (code, out) == (1, "") and "not one of the tenant 'acme'" in err

    # What somebody of the tenant asks for, the reviewer of the tenant approves.
    run = ("--skills", "skills", "run", "greet", "hello.sh")
    acts(tia.strip())
    assert metier(*run)[0] != 0
    acts(rae.strip())
    (asked,) = json.loads(metier("approve", "list", "--json")[1])["requests"]
    assert asked["reason"].endswith(" wanted to use it.")
    code, out, _ = metier("approve", "grant", asked["id"], "--reason", "I read it.")
    assert code == 0
    acts(tia.strip())
    code, out, err = metier(*run)
    assert (code, out) == (0, "hello\n"), err


def test_at_a_terminal(terminal: Callable[..., tuple[int, str]], metier: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def secret_in(screen: str) -> str:
        found = re.search(r"mtr_[\w-]+", screen)
        assert found, screen
        return found[0]

    code, screen = terminal("user", "add", ME, "--role", "admin", columns=200)
    assert code == 0 and f"{ME} is admin now" in screen
    code, screen = terminal("user", "add", "tia", "--role", "admin", "--tenant", "acme", columns=200)
    assert code == 0 and "metier user token tia --tenant acme" in screen

    # The token that she was given first got lost before she used it: she is given another.
    assert terminal("user", "token", "tia", "--tenant", "acme", columns=200)[0] == 0
    code, screen = terminal("user", "token", "tia", "--tenant", "acme", columns=200)
    tia = {"METIER_API_TOKEN": secret_in(screen)}
    assert code == 0

    # A program of hers asks, and she answers at the terminal.
    monkeypatch.setenv("METIER_API_TOKEN", tia["METIER_API_TOKEN"])
    assert metier("--skills", "skills", "run", "greet", "hello.sh")[0] != 0
    code, screen = terminal("approve", "grant", "greet", "--reason", "I read it.", columns=200)
    assert code == 0, screen
    assert metier("--skills", "skills", "run", "greet", "hello.sh")[:2] == (0, "hello\n")
    monkeypatch.delenv("METIER_API_TOKEN")

    # She has decided, so she decides about tokens too.
    code, screen = terminal("user", "token", "tia", "--tenant", "acme", columns=200)
    assert code == 1 and "is not known to this store" in screen


def test_a_shell_of_an_ordinary_user_makes_nobody_the_first_administrator(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model's shell has no terminal, and cannot write the administrator's policy."""
    real = os.access
    policy = str(tmp_path / "policy.yaml")
    monkeypatch.setattr(os, "access", lambda path, mode, **more: path != policy and real(path, mode, **more))
    code, out, err = metier("user", "add", ME, "--role", "admin", "--token")
    assert (code, out) == (1, "") and "nobody is at a terminal here" in err


@pytest.mark.parametrize("words", [("eve", "--role", "admin", "--token"), (ME, "--role", "admin")])
def test_nor_does_a_script_make_somebody_else_one_or_anybody_without_a_token(
    metier: Call, words: tuple[str, ...]
) -> None:
    code, out, err = metier("user", "add", *words)
    assert (code, out) == (1, "") and "nobody is at a terminal here" in err


def test_who_is_no_admin_of_the_installation_introduces_nobody(metier: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does somebody who is only called like a person of the tenant."""
    root = metier("user", "add", ME, "--role", "admin", "--token")[1].strip()
    monkeypatch.setenv("METIER_API_TOKEN", root)
    tia = metier("user", "add", "tia", "--role", "viewer", "--token")[1].strip()
    assert metier("user", "add", "tia", "--role", "admin", "--tenant", "acme")[0] == 0
    monkeypatch.setenv("METIER_API_TOKEN", tia)
    for words in (("user", "token", "tia"), ("user", "token")):
        code, out, _ = metier(*words, "--tenant", "acme")
        assert (code, out) == (1, "")
