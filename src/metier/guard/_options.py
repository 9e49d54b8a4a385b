"""Options of common programs that make them start others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.guard._git import check_git
from metier.guard._starting import Unclear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.scanner import Word

# Program -> (letters, long options) that start a program, or read options that may.
_STARTING: dict[str, tuple[str, tuple[str, ...]]] = {
    "man": ("PH", ("--pager", "--html")),
    "nc": ("ec", ("--exec", "--sh-exec", "--lua-exec")),
    "ncat": ("ec", ("--exec", "--sh-exec", "--lua-exec")),
    "rg": ("", ("--pre", "--hostname-bin")),
    "rsync": ("e", ("--rsh",)),
    "scp": ("FS", ()),
    "sftp": ("FSD", ()),
    "sort": ("", ("--compress-program",)),
    "split": ("", ("--filter",)),
    "ssh": ("F", ()),
    "tar": (
        "IF",
        (
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
        ),
    ),
    "wget": ("e", ("--execute", "--use-askpass", "--config")),
    "zip": ("", ("--unzip-command",)),
}
_SAFE_SSH = re.compile(
    r"(addressfamily|batchmode|connectionattempts|connecttimeout|identitiesonly|identityfile|loglevel|port|"
    r"preferredauthentications|serveralivecountmax|serveraliveinterval|stricthostkeychecking|user|"
    r"userknownhostsfile)[ =].*",
    re.IGNORECASE | re.DOTALL,
)
_SETTERS = frozenset({
    "[", "declare", "export", "getopts", "let", "local", "mapfile", "printf", "read", "readarray", "readonly", "test",
    "typeset", "unset", "wait",
})  # fmt: skip
"""Builtins that evaluate the subscript of a variable that they are given, commands and all."""


def check_options(words: Sequence[Word]) -> None:
    """Raise `Unclear` when an option of a common program makes it start another."""
    name = words[0].text
    if name == "git":
        check_git(words)
    elif name in _STARTING:
        _check_starting(words, *_STARTING[name])
    elif name in _SETTERS:
        _check_setter(words)
    elif name == "socat":
        for i, word in enumerate(words[1:], 1):
            if word.free or re.search(r"exec|system|shell", word.text, re.IGNORECASE):
                raise Unclear("`socat` can start other programs", i)


def _check_starting(words: Sequence[Word], letters: str, options: tuple[str, ...]) -> None:
    name = words[0].text
    for i, word in enumerate(words[1:], 1):
        text = word.text
        if text == "--":
            return
        is_cluster = (text.startswith("-") and not text.startswith("--")) or (name == "tar" and i == 1)
        starts = is_cluster and any(letter in text for letter in letters)
        if text.startswith("--"):
            # Long options may be shortened.
            given = text.partition("=")[0]
            starts = len(given) > 2 and any(option.startswith(given) for option in options)
        if name in ("scp", "sftp", "ssh") and text.startswith("-o"):
            value = text[2:] or (words[i + 1].text if i + 1 < len(words) else "")
            starts = not _SAFE_SSH.fullmatch(value)
        if name == "zip" and text.startswith("-TT"):
            starts = True
        if starts or word.free:
            raise Unclear(f"`{name}` can start other programs by its options", i)


def _check_setter(words: Sequence[Word]) -> None:
    for i, word in enumerate(words[1:], 1):
        if word.free or ("[" in word.text and re.search(r"[$`]", word.text)):
            raise Unclear(f"`{words[0].text}` may evaluate `{word.text}`", i)
        if words[0].text in ("getopts", "read") and re.fullmatch(r"[A-Z_][A-Z0-9_]+", word.text):
            raise Unclear(f"`{words[0].text}` sets {word.text}, which programs may read", i)
        if words[0].text == "printf" and word.text.startswith("-v"):
            raise Unclear("`printf -v` sets a variable", i)
