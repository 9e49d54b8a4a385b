"""Builtins of shells that evaluate what they are given, or change what later commands mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.guard.shell.command import Risk
from metier.guard.shell.lexer import UNKNOWN
from metier.guard.shell.options import beginnings, is_option
from metier.guard.shell.paths import is_repository_file
from metier.guard.shell.variables import is_command, is_evaluated, is_read_by_programs, printf_stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.guard.shell.lexer import ShellWord

SAFE_MODES = frozenset({"errexit", "noclobber", "noglob", "nounset", "pipefail", "verbose", "xtrace"})
"""Modes that `set -o` may switch without changing how a command is read."""
SAFE_LETTERS = frozenset("eufvxC")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SUBSCRIPT = re.compile(r"\[[0-9]+\]")
_NUMBERS = re.compile(r"[0-9+*/() -]+")
_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknprstuwxzGLNOS")
_BINARY = frozenset({"=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"})
_TESTS = frozenset({"[", "test"})
DECLARING = frozenset({"declare", "export", "local", "readonly", "typeset"})
"""Builtins that give variables values by words like assignments."""
_TAKES_TEXT = frozenset({"cd", "printf", "pushd", "set"})
_SAFE_SHOPT = frozenset({"dotglob", "failglob", "globstar", "nullglob"})


def builtin_risks(words: Sequence[ShellWord]) -> Iterator[Risk]:
    """The words of a builtin that may do more than they say."""
    reader = _READERS.get(words[0].text)
    if reader is None:
        return
    for i, word in enumerate(words[1:], 1):
        # The subscript of a variable is evaluated, commands and all, and so are the variables in it. A bracket that
        # is not quoted is unknown with all that follows, because it may be about files.
        is_open = "" in word.variables and ("]" in word.text or word.text.endswith(UNKNOWN))
        is_subscript = is_open or "[" in _SUBSCRIPT.sub("", _evaluated_part(words, i))
        if is_subscript and words[0].text not in _TAKES_TEXT:
            yield Risk(f"`{words[0].text}` may evaluate `{word.text.replace(UNKNOWN, '*')}`", i)
    yield from reader(words)


def _evaluated_part(words: Sequence[ShellWord], index: int) -> str:
    """The part of a word that names a variable; the rest is text."""
    name, text = words[0].text, words[index].text
    if name in _TESTS:
        return text if any(word.text in ("-v", "-R") for word in words) else ""
    if name == "read" and re.fullmatch(r"-\w*[dinNptu]", words[index - 1].text):
        return ""
    return text.partition("=")[0] if name in DECLARING else text


def _setting_risk(words: Sequence[ShellWord], index: int, what: str) -> Risk:
    return Risk(f"`{words[0].text}` {what}", index, is_setting=True)


def _test(words: Sequence[ShellWord]) -> Iterator[Risk]:
    """With `-v`, a test evaluates a name; where that may stand is only certain in short tests."""
    operands = list(words[1:-1] if words[0].text == "[" else words[1:])
    while operands and operands[0].text == "!" and operands[0].is_known:
        del operands[0]
    if not any(word.free for word in operands):
        return
    texts = [word.text for word in operands]
    is_plain = not any(word.free and word.breaks for word in operands) and (
        len(texts) == 1 or (len(texts) == 2 and texts[0] in _UNARY) or (len(texts) == 3 and texts[1] in _BINARY)
    )
    if not is_plain:
        yield Risk(f"`{words[0].text}` may evaluate what is not known before it runs", len(words) - 1)


def _let(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        if not _NUMBERS.fullmatch(word.text):
            yield Risk(f"`let` evaluates `{word.text.replace(UNKNOWN, '*')}`", i)


def _printf(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        if word.text == "--":
            continue
        if word.is_known and word.text.startswith("-v"):
            at = i if word.text[2:] else i + 1
            yield _setting_risk(words, i, "may set a variable")
            if at < len(words):
                yield from _variable_risks(words, at, words[at].text[2:] if at == i else words[at].text)
            return
        if word.free or printf_stores(word.text) or any(is_option(each, word, "v") for each in beginnings(word)):
            # The name of a variable may have a subscript, and that is evaluated.
            yield Risk("`printf` may set a variable that is not known before it runs", i)
        if not word.splits:
            # The format is the first word that is surely there; what follows is text.
            return


def _read(words: Sequence[ShellWord]) -> Iterator[Risk]:
    i = 1
    while i < len(words):
        text = words[i].text
        if words[i].is_known and text.startswith("-") and len(text) > 1 and text != "--":
            valued = re.search(r"[adinNptu]", text)
            if valued and valued[0] == "a" and text[valued.end() :]:
                yield from _variable_risks(words, i, text[valued.end() :])
            elif valued and valued[0] != "a" and valued.end() == len(text):
                i += 1
                if i < len(words) and words[i].splits:
                    yield Risk("`read` cannot be read with certainty", i)
        elif text != "--":
            yield from _variable_risks(words, i, text)
        i += 1


def _getopts(words: Sequence[ShellWord]) -> Iterator[Risk]:
    if len(words) > 2:
        yield from _variable_risks(words, 2, words[2].text)
    if any(word.splits for word in words[1:3]):
        yield Risk("`getopts` cannot be read with certainty", len(words) - 1)


def _unset(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        if word.text != "-v" or not word.is_known:
            yield from _variable_risks(words, i, _SUBSCRIPT.sub("", word.text))


def _declare(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        is_plain = _NAME.fullmatch(word.text) or word.text in ("-p", "-x", "-r", "-rx", "-xr")
        if not is_plain or not word.is_known:
            yield _setting_risk(words, i, "gives a variable a value, or makes it evaluate what it is given")
        # An integer's value is arithmetic, which may run commands, and so may a subscript or what a reference names.
        name, _, value = word.text.partition("=")
        is_list = any(re.match("-[A-Za-z]*[aA]", each.text) for each in words[1:i])
        is_evaluated_text = value.startswith("(") or (is_list and UNKNOWN in value)
        if UNKNOWN in name or is_evaluated_text or (name.startswith(("-", "+")) and re.search("[in]", name)):
            yield Risk(f"`{words[0].text}` may evaluate what it is given", i)


def _mapfile(words: Sequence[ShellWord]) -> Iterator[Risk]:
    name = words[-1] if len(words) > 1 and not words[-1].text.startswith("-") else None
    for i, word in enumerate(words[1 : len(words) - (name is not None)], 1):
        if not word.is_known or word.text != "-t":
            yield Risk(f"the options of `{words[0].text}` may run commands", i)
    yield _setting_risk(words, len(words) - 1, "gives a variable a value")
    if name is not None:
        yield from _variable_risks(words, len(words) - 1, name.text)


def _variable_risks(words: Sequence[ShellWord], index: int, name: str) -> Iterator[Risk]:
    if not words[index].is_known or not _NAME.fullmatch(name) or is_evaluated(name) or is_command(name):
        yield Risk(f"`{words[0].text}` changes {name.replace(UNKNOWN, '*')}, which may start programs", index)
    elif is_read_by_programs(name):
        yield _setting_risk(words, index, f"changes {name}, which programs may read")


def _set(words: Sequence[ShellWord]) -> Iterator[Risk]:
    i = 1
    while i < len(words):
        text = words[i].text
        if not words[i].is_known or text in ("--", "-") or not text.startswith(("-", "+")):
            # Words that become the parameters, unless they become options first.
            if any(each.startswith((UNKNOWN, "-", "+")) for each in beginnings(words[i])) and text not in ("--", "-"):
                yield Risk("`set` may change how later commands are read", i)
            if not words[i].splits:
                return
            i += 1
            continue
        letters = text[1:]
        for _ in range(letters.count("o")):
            i += 1
            if i < len(words) and not (words[i].is_known and words[i].text in SAFE_MODES):
                is_mild = words[i].is_known and words[i].text not in ("histexpand", "history", "keyword")
                yield Risk("`set` may change how later commands are read", i, is_setting=is_mild)
        if not SAFE_LETTERS.issuperset(letters.replace("o", "")):
            is_mild = text.startswith("+") or not set("Hk") & set(letters)
            yield Risk("`set` may change how later commands are read", min(i, len(words) - 1), is_setting=is_mild)
        i += 1


def _shopt(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        if not word.is_known or word.text not in _SAFE_SHOPT | {"-s", "-u", "-q", "-p"}:
            yield _setting_risk(words, i, "may change how later commands are read")


def _wait(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        if any(each.startswith((UNKNOWN, "-")) for each in beginnings(word)) and word.text not in ("-n", "-f", "--"):
            yield _setting_risk(words, i, "may set a variable")


def _jobs(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        if any(is_option(each, word, "x") for each in beginnings(word)):
            yield Risk("`jobs -x` starts a program", i)


def _cd(words: Sequence[ShellWord]) -> Iterator[Risk]:
    for i, word in enumerate(words[1:], 1):
        if is_repository_file(word.text.replace(UNKNOWN, "*")):
            yield _setting_risk(words, i, "leads into the repository's own files")


_READERS: dict[str, Callable[[Sequence[ShellWord]], Iterator[Risk]]] = {
    "[": _test,
    "cd": _cd,
    "declare": _declare,
    "export": _declare,
    "getopts": _getopts,
    "jobs": _jobs,
    "let": _let,
    "local": _declare,
    "mapfile": _mapfile,
    "printf": _printf,
    "pushd": _cd,
    "read": _read,
    "readarray": _mapfile,
    "readonly": _declare,
    "set": _set,
    "shopt": _shopt,
    "test": _test,
    "typeset": _declare,
    "unset": _unset,
    "wait": _wait,
}
