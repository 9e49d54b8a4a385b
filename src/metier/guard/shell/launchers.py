"""Programs that prepare an environment and launch a command in it: `poetry run x`, `docker exec web x`, `python -m x`.

To start things is what they are for, so a rule that names one allows what it starts, and only rules that forbid look
behind it. The number of words that an option takes is not known here: every word is a candidate that may be what is
started, with the options before it taking a value or none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from metier.guard.shell.command import StartedCommand
from metier.guard.shell.lexer import ShellWord
from metier.guard.shell.options import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TABLE = """
asdf bundle devcontainer dotnet fnm gem lerna nx opam pyenv rbenv rvm skaffold tox turbo: exec
austin bdb bpython bunx corepack cprofile cross-env ddtrace-run debugpy env-cmd flatpak-spawn gdb heaptrack ipython
    kernprof lima lldb lxc-attach nix-shell nodemon npx opentelemetry-instrument pdb pkgx pnpx profile pyinstrument
    reflex runpy scalene trace uvx viztracer watchexec wsl:
aws-vault chamber crictl ip lxc multipass nvm: exec:1
buildah: run:1
bun: x
cargo: watch
conda coverage coverage3 dagger devbox doppler dotenvx foreman hatch heroku honcho infisical mamba memray micromamba
    mprof op pdm pipenv pipx pixi poetry rye teller toolbox uv volta: run
distrobox: enter:1
docker docker-compose nerdctl podman podman-compose: exec:1 run:1
dotenv: run *
fly flyctl: console
just: -c --command
kubectl: debug:1 exec:1 run:1
limactl: shell:1
mise npm rtx: exec x
newrelic-admin: run-program
nix: develop:9 run shell:9
oc: debug:1 exec:1 rsh:1 run:1
pnpm: dlx exec
py-spy: record top
rr: record
sops: exec-env:1 exec-file:1
ssh: :1
vagrant: ssh
yarn: dlx exec run
"""
"""For each program the words after which the command follows, with the number of operands that come first; none where
it follows at once, and `*` where it may follow at once or after a word. Some are modules of Python that run another."""
_LAUNCHERS = {name: words for names, words in read_table(_TABLE) for name in names}
_GROUPS = frozenset({"compose", "container", "env", "foreach", "netns", "ssh", "tool", "workspace", "workspaces"})
"""Words that may stand before one of these words."""
_SCRIPTS = frozenset({"-C", "-c", "-s", "-x", "--call", "--cmd", "--command", "--exec", "--run", "--shell"})
"""Options whose value may be a command line."""
_VARIABLE = re.compile(r"\w+=(?!=)")
_VERSION = re.compile(r"[@=<>~!\[]")
_PYTHON = re.compile(r"(graalpy|jython|micropython|python|pypy|py)[0-9.]*[tw]?")


def launched_commands(words: Sequence[ShellWord]) -> Iterator[StartedCommand]:
    """The programs that the words of a launcher may start; none for other programs."""
    if words[0].text not in _LAUNCHERS:
        return
    waiting = [(at, operands, True, False) for at, operands in _beginnings(words)]
    if waiting and (behind := next((i for i, word in enumerate(words) if word.text == "--"), 0)):
        waiting.append((behind + 1, 0, True, False))
    seen: set[tuple[int, int]] = set()
    while waiting:
        i, operands, is_certain, has_variables = waiting.pop()
        if i >= len(words) or (i, operands) in seen:
            continue
        seen.add((i, operands))
        text = words[i].text
        if text == "--":
            waiting.append((i + 1, operands, is_certain, has_variables))
        elif text.startswith("-"):
            option, equals, value = text.partition("=")
            waiting += [(i + 1 + each, operands, False, has_variables) for each in range(1 if equals else 2)]
            if option in _SCRIPTS and (equals or i + 1 < len(words)):
                line = words[i]._replace(text=value) if equals else words[i + 1]
                yield _command_line(i + (not equals), line, is_guess=not is_certain)
        elif _VARIABLE.match(text):
            waiting.append((i + 1, operands, is_certain, True))
        elif operands:
            waiting.append((i + 1, operands - 1, is_certain, has_variables))
        elif " " in text or "\n" in text:
            yield _command_line(i, words[i], is_guess=not is_certain)
        elif text:
            inner = StartedCommand(i, tuple(words[i:]), is_own_matter=True, sets_variables=has_variables)
            yield inner._replace(is_guess=not is_certain)
            if (plain := _program(words[0].text, text)) != text:
                yield inner._replace(words=(words[i]._replace(text=plain), *words[i + 1 :]), is_guess=True)


def _beginnings(words: Sequence[ShellWord]) -> Iterator[tuple[int, int]]:
    """The positions at which a started program may begin, each with the number of operands before it."""
    verbs = dict(verb.partition(":")[::2] for verb in _LAUNCHERS[words[0].text] or [""])
    if "" in verbs or "*" in verbs:
        yield 1, int(verbs.get("") or 0)
    previous = "-"
    for i, word in enumerate(words[1:], 1):
        if word.text in verbs:
            yield i + 1, int(verbs[word.text] or 0)
        may_be_value = previous == "workspace" or (previous.startswith("-") and i > 1)
        if not word.text.startswith("-") and not may_be_value and word.text not in _GROUPS:
            break
        previous = word.text


def _command_line(at: int, word: ShellWord, *, is_guess: bool) -> StartedCommand:
    """A command line, or a word that is not known before it runs."""
    inner = StartedCommand(at, is_own_matter=True, is_guess=is_guess)
    return inner._replace(script=word.text) if word.is_known else inner._replace(words=(word,))


def _program(launcher: str, text: str) -> str:
    """The program that a word names: without the version, the package, and the environment of hatch."""
    text = text.rpartition("#")[2]
    if launcher == "hatch":
        text = text.rpartition(":")[2]
    scope, slash, name = text.rpartition("/")
    name = next(filter(None, _VERSION.split(name)), name)
    return f"{scope}{slash}{name}"


class PythonTarget(NamedTuple):
    """The module or file that Python runs."""

    name: str
    at: int
    """The word that names it."""
    is_module: bool


def is_python(name: str) -> bool:
    """Whether a program is Python.

    >>> is_python("python3.12"), is_python("pythonic")
    (True, False)
    """
    return _PYTHON.fullmatch(name) is not None


def python_target(words: Sequence[ShellWord]) -> PythonTarget | None:
    """The module or file that Python runs; None for code in the command itself, and what is not known."""
    i = 1
    while i < len(words) and words[i].is_known:
        text = words[i].text
        if text == "--" or not text.startswith("-") or text == "-":
            i += text == "--"
            return PythonTarget(words[i].text, i, is_module=False) if i < len(words) else None
        letters = "" if text.startswith("--") else text[1:]
        valued = re.search("[cmWX]", letters)
        value = letters[valued.end() :] if valued else ""
        if valued and valued[0] == "c":
            return None
        if valued and valued[0] == "m":
            at = i if value else i + 1
            return PythonTarget(value or words[at].text, at, is_module=True) if at < len(words) else None
        i += 2 if (valued and not value) or text == "--check-hash-based-pycs" else 1
    return None


def python_commands(words: Sequence[ShellWord]) -> Iterator[StartedCommand]:
    """The programs that Python is made to be."""
    target = python_target(words)
    if target is None:
        return
    rest = tuple(words[target.at + 1 :])
    yield _python_command(target.at, target.name, rest)
    name, dot, _ = target.name.partition(".")
    if target.is_module and dot:
        yield _python_command(target.at, name, rest)


def _python_command(at: int, name: str, rest: tuple[ShellWord, ...]) -> StartedCommand:
    # A folder with this file in it goes by its own name.
    program = name.removesuffix("/__main__.py") or name
    return StartedCommand(at, (ShellWord(program), *rest), is_own_matter=True, is_guess=True)
