"""Variables that shells and programs evaluate, take options from, or start as commands."""

from __future__ import annotations

import re

_LOCAL = re.compile(r"[a-z][a-z0-9_]*|[A-Z]")
_COUNTS = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")
"""The directive by which `printf` stores a number in a variable."""
_EVALUATED = re.compile(
    r"BASH_.*|BASHOPTS|SHELLOPTS|PS[04]|PROMPT_COMMAND|LD_(PRELOAD|AUDIT)|DYLD_INSERT_LIBRARIES|GIT_CONFIG.*|"
    r"GIT_EXEC_PATH|GIT_TEMPLATE_DIR|TAR_OPTIONS|\w*MAKEFLAGS|MAKEFILES|LUA_INIT\w*|VIMINIT|EXINIT|"
    r"npm_config_(script_shell|shell|prefix|userconfig|globalconfig|editor|git|viewer|browser)",
    re.DOTALL | re.IGNORECASE,
)
_TAME = re.compile(
    r"BASH_SILENCE_\w+=.*|GIT_CONFIG_NOSYSTEM=.*|GIT_CONFIG_(GLOBAL|SYSTEM)=/dev/null|\w*MAKEFLAGS=[\w -]*|[^=]*=",
    re.DOTALL,
)
"""Values of such variables that do nothing."""
_COMMAND = re.compile(
    r"\w*(EDITOR|PAGER|_COMMAND|_SSH|_RSH|ASKPASS|BROWSER|EXTERNAL_DIFF|_PROG|_WRAPPER)|LESSOPEN|LESSCLOSE|VISUAL|SHELL|"
    r"FCEDIT|HGMERGE|CC|CXX|LD|AR|CPP|RUSTC"
)


def is_read_by_programs(name: str) -> bool:
    """Whether a variable may mean something to a program.

    >>> is_read_by_programs("PATH"), is_read_by_programs("https_proxy"), is_read_by_programs("file")
    (True, True, False)
    """
    return not _LOCAL.fullmatch(name) or name.startswith("npm_") or name.endswith("_proxy")


def is_evaluated(name: str) -> bool:
    """Whether a shell or a program takes the value of a variable for more than one command, or for its own options.

    >>> is_evaluated("BASH_ENV"), is_evaluated("GIT_CONFIG_COUNT"), is_evaluated("CI")
    (True, True, False)
    """
    return _EVALUATED.fullmatch(name) is not None


def is_tame(assignment: str) -> bool:
    """Whether the value is one that does nothing, although the variable is one that is evaluated.

    >>> is_tame("MAKEFLAGS=-j8"), is_tame("MAKEFLAGS=--eval=x")
    (True, False)
    """
    return _TAME.fullmatch(assignment) is not None


def is_command(name: str) -> bool:
    """Whether a program starts what a variable says.

    >>> is_command("GIT_EDITOR"), is_command("PAGER"), is_command("CI")
    (True, True, False)
    """
    return _COMMAND.fullmatch(name) is not None


def printf_stores(form: str) -> bool:
    """Whether a text that `printf` is given makes it store a number in a variable.

    >>> printf_stores("%5n"), printf_stores("%s\\n")
    (True, False)
    """
    return _COUNTS.search(form) is not None
