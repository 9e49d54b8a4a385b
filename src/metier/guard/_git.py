"""What makes git start other programs: settings, transports, and the subcommands that run commands for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.guard._starting import Unclear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.scanner import Word

_FLAGS = frozenset({
    "-h", "-p", "-P", "-v", "--bare", "--exec-path", "--glob-pathspecs", "--help", "--html-path", "--icase-pathspecs",
    "--info-path", "--literal-pathspecs", "--man-path", "--no-advice", "--no-lazy-fetch", "--no-optional-locks",
    "--no-pager", "--no-replace-objects", "--noglob-pathspecs", "--paginate", "--version",
})  # fmt: skip
_VALUED = frozenset({"-C", "--git-dir", "--work-tree", "--namespace", "--attr-source"})
_SAFE_SETTING = re.compile(
    r"(advice\.\w+|branch\.[^=\n]+\.(remote|merge|rebase)|color\.[\w.]+|column\.\w+|commit\.gpgsign|"
    r"core\.(abbrev|autocrlf|eol|filemode|ignorecase|longpaths|quotepath|safecrlf|whitespace)|"
    r"diff\.(algorithm|context|mnemonicprefix|noprefix|renames)|fetch\.prune|gc\.auto|http\.version|"
    r"init\.defaultbranch|log\.\w+|merge\.(conflictstyle|ff)|pull\.(ff|rebase)|push\.(autosetupremote|default)|"
    r"rebase\.(autosquash|autostash)|tag\.(gpgsign|sort)|user\.(email|name))",
    re.IGNORECASE,
)
_ALWAYS = frozenset({
    "credential", "daemon", "difftool", "difftool--helper", "filter-branch", "for-each-repo", "gui", "hook",
    "http-backend", "instaweb", "merge-index", "mergetool", "p4", "remote-ext", "remote-fd", "send-email", "shell",
    "submodule--helper", "web--browse",
})  # fmt: skip
_TRANSPORT = frozenset({
    "archive", "clone", "fetch", "fetch-pack", "ls-remote", "pull", "push", "remote", "send-pack", "submodule",
})  # fmt: skip
# Subcommand -> (letters, long options) that start a program, or make git take settings from elsewhere.
_STARTING: dict[str, tuple[str, tuple[str, ...]]] = {
    "archive": ("", ("--exec", "--remote")),
    "clone": ("uc", ("--upload-pack", "--config", "--template")),
    "fetch": ("", ("--upload-pack",)),
    "fetch-pack": ("", ("--upload-pack", "--exec")),
    "grep": ("O", ("--open-files-in-pager",)),
    "init": ("", ("--template",)),
    "ls-remote": ("", ("--upload-pack", "--exec")),
    "pull": ("", ("--upload-pack",)),
    "push": ("", ("--receive-pack", "--exec")),
    "rebase": ("x", ("--exec",)),
    "send-pack": ("", ("--receive-pack", "--exec")),
}
_READS_SETTING = re.compile(r"-l|--list|--get[a-z-]*")
_PLAIN_CONFIG = frozenset({
    "--add", "--all", "--bool", "--global", "--int", "--local", "--replace-all", "--show-origin", "--show-scope",
    "--system", "--unset", "--unset-all", "--worktree",
})  # fmt: skip


def check_git(words: Sequence[Word]) -> None:
    """Raise `Unclear` when the words may make git start another program.

    What a repository's own configuration and hooks start is not seen.
    """
    i = subcommand_index(words)
    if i >= len(words):
        return
    if not words[i].is_known:
        raise Unclear("the subcommand of `git` is not known before it runs", i)
    name, rest = words[i].text, list(enumerate(words))[i + 1 :]
    if name in _ALWAYS:
        raise Unclear(f"`git {name}` starts other programs", i)
    if name == "config":
        _check_config(rest)
    if name == "bisect":
        _refuse_words(rest, frozenset({"run", "visualize", "view"}), name)
    if name == "submodule":
        _refuse_words(rest, frozenset({"foreach"}), name)
    if name in _TRANSPORT:
        for at, word in rest:
            if re.match(r"(.*=)?\w+::", word.text):
                raise Unclear(f"`{word.text}` makes `git` start a program", at)
    if name in _STARTING:
        _check_options(name, rest, *_STARTING[name])


def subcommand_index(words: Sequence[Word]) -> int:
    """Where the subcommand is among the words, or would be."""
    i = 1
    while i < len(words) and words[i].is_known and words[i].text.startswith("-"):
        text, equals, _ = words[i].text.partition("=")
        if text == "-c" and not equals and i + 1 < len(words):
            setting, _, _ = words[i + 1].text.partition("=")
            if not _SAFE_SETTING.fullmatch(setting) or words[i + 1].splits:
                raise Unclear("`git -c` can make git start other programs", i + 1)
            i += 2
        elif text in _VALUED and (text != "-C" or not equals):
            if not equals and (i + 1 >= len(words) or words[i + 1].splits):
                raise Unclear("the options of `git` cannot be read with certainty", i)
            i += 1 if equals else 2
        elif text in _FLAGS and not equals:
            i += 1
        else:
            raise Unclear("the options of `git` cannot be read with certainty", i)
    return i


def _refuse_words(rest: list[tuple[int, Word]], refused: frozenset[str], name: str) -> None:
    for at, word in rest:
        if word.text in refused or word.free:
            raise Unclear(f"`git {name}` can start other programs", at)


def _check_options(name: str, rest: list[tuple[int, Word]], letters: str, options: tuple[str, ...]) -> None:
    for at, word in rest:
        text = word.text
        if text == "--":
            return
        if text.startswith("--"):
            given = text.partition("=")[0]
            starts = any(option.startswith(given) for option in options)
        else:
            starts = text.startswith("-") and any(letter in text for letter in letters)
        if starts or word.free:
            raise Unclear(f"`git {name}` can start other programs by its options", at)


def _check_config(rest: list[tuple[int, Word]]) -> None:
    if any(word.free for _, word in rest):
        raise Unclear("`git config` can make git start other programs", rest[-1][0])
    options = [word.text for _, word in rest if word.text.startswith("-")]
    operands = [word for _, word in rest if not word.text.startswith("-")]
    verb = operands[0].text if operands and operands[0].text in ("edit", "get", "list", "set", "unset") else ""
    if verb in ("get", "list") or any(_READS_SETTING.fullmatch(option) for option in options):
        return
    operands = operands[1:] if verb else operands
    is_plain = verb != "edit" and _PLAIN_CONFIG.issuperset(options)
    is_safe = len(operands) < 2 or (operands[0].is_known and bool(_SAFE_SETTING.fullmatch(operands[0].text)))
    if not is_plain or not is_safe:
        raise Unclear("`git config` can make git start other programs", rest[-1][0])
