"""The matcher `package-names`: packages that are called almost like the ones that are meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier._regex_cache import kept_regex
from metier.scan.judging import weighed
from metier.scan.masks import places_in
from metier.scan.name_lists import names, sense

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.scan.rule import Hit
    from metier.scan.rule_book import Rule
    from metier.scan.text import SkillText

_NAME = kept_regex(r"[=<>!~\[]|(?<=.)@|[^\x00-\x7f]")
_PLAIN = kept_regex(r"[@\w][\w./-]{1,80}")
_PYTHON = ("pip", "uv", "poetry", "pdm")
_SCOPE = kept_regex(r"@([A-Za-z0-9_-]{4,40})/")
_SERVER = kept_regex(r"[\"'](mcp-server-[\w-]{3,40})")


def match_package_names(text: SkillText, rule: Rule) -> Iterable[Hit]:
    """What is installed and is one slip of the keyboard away from what many install."""
    for at in places_in(text.may.get(rule.terms["installs"], 0)):
        one = text.statements[at]
        for sign, name, popular in _named(one.text) if one.kind != "row" else ():
            if (meant := nearly(name, popular)) is not None:
                message = f"'{sign}{name[:60]}' is one letter away from '{sign}{meant}'."
                yield one.hit(sign + name, weighed(rule.severity, one, None, text.read), message)


def _named(text: str) -> Iterator[tuple[str, str, str]]:
    """Scopes, servers, images and packages: the sign before a name, the name, and the list of those that many use."""
    yield from (("@", name, "popular-scopes") for name in _SCOPE.findall(text))
    yield from (("", name, "popular-servers") for name in _SERVER.findall(text))
    for said in sense("commands-that-get-images").findall(text):
        words = [word.partition(":")[0] for word in said.split() if not word.startswith("-")]
        yield from (("", image, "popular-images") for image in dict.fromkeys((*words[:1], *words[-1:])))
    for tool, packages, runner, run in sense("commands-that-install").findall(text):
        popular = "popular-python" if (tool or runner).lower().startswith(_PYTHON) else "popular-node"
        yield from (("", name, popular) for name in _installed(packages or run, only_first=not packages))


def _installed(words: str, *, only_first: bool) -> Iterator[str]:
    """The names that a command installs, up to where prose goes on."""
    for word in words.split():
        if word.startswith("-"):
            continue
        plain = word.strip("\"'`,.()")
        name = _NAME.split(plain)[0].rstrip(".")
        if plain.lower() in names("words-behind-packages") or _PLAIN.fullmatch(name) is None:
            return
        yield name
        # Text in other scripts goes on behind a name without a blank; a full stop ends the sentence.
        if only_first or not plain.isascii() or word.endswith((".", ":", ")")):
            return


def nearly(name: str, popular: str) -> str | None:
    """Which name of a list one slip of the keyboard, or a look-alike letter, makes of this one.

    A slip swaps two letters, doubles one or leaves one of a pair out, or hits the key beside it. Letters that are
    missing or added otherwise count in longer names only, as short ones are often real and near each other by chance.
    A name that is itself a package people use is honest, and so is one with another ending: a plural, a number.

    >>> [nearly(name, "popular-python") for name in ("reqeusts", "requests", "markdown2", "scapy")]
    ['requests', None, None, None]
    """
    low = name.lower()
    if popular == "popular-python":
        low = re.sub(r"[-_.]+", "-", low)  # to its package managers these are all the same
    known = names(popular)
    if len(name) < _SHORTEST or low in known or low in names("real-packages"):
        return None
    looks = name.replace("I", "l").replace("0", "o").replace("1", "l").replace("rn", "m").lower()
    for meant in sorted(known):
        is_near = len(meant) >= _SHORTEST and abs(len(low) - len(meant)) <= 1
        if is_near and (looks == meant or (_is_slip(low, meant) and not _is_ending(low, meant))):
            return meant
    return None


_SHORTEST, _LONG = 5, 6
_KEYS = {
    key: (row, at)
    for row, keys in enumerate(("1234567890-", "qwertyuiop", "asdfghjkl", "zxcvbnm"))
    for at, key in enumerate(keys)
}
"""Where each key lies."""
_VOWELS = frozenset("aeiouy")


def _is_ending(name: str, meant: str) -> bool:
    """Whether one of two names is the other with an `s`, an `x` or a number at its end."""
    shorter, longer = sorted((name, meant), key=len)
    return longer[:-1] == shorter and (longer[-1] in "sx" or longer[-1].isdigit())


def _is_slip(name: str, meant: str) -> bool:
    at = next((at for at, (a, b) in enumerate(zip(name, meant, strict=False)) if a != b), min(len(name), len(meant)))
    after, expected, before = name[at:], meant[at:], name[max(0, at - 1) : at]
    if len(after) == len(expected):
        swapped = after[1::-1] + after[2:] == expected
        return swapped or (after[1:] == expected[1:] and len(meant) >= _LONG and _is_likely(after[0], expected[0]))
    longer, shorter = (after, expected) if len(after) > len(expected) else (expected, after)
    return longer[1:] == shorter and (longer[0] == before or len(meant) >= _LONG)


def _is_likely(one: str, other: str) -> bool:
    """Whether a letter easily stands for another: both are vowels, or their keys lie next to each other."""
    if {one, other} <= _VOWELS or not {one, other} <= _KEYS.keys():
        return {one, other} <= _VOWELS
    (upper, left), (lower, right) = sorted((_KEYS[one], _KEYS[other]))
    return (lower - upper, right - left) in ((0, 1), (1, 0), (1, -1))
