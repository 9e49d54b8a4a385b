"""Lock files: thousands of lines that a program wrote, of which few can say anything.

A line is passed over only for what it is, never for the file it stands in alone: a name, a version, a checksum, or an
address at the registry that everybody uses. Whatever else stands in such a file is read like any other.
"""

from __future__ import annotations

import re

from metier.scan.rules._words import word_set

_NAMES = word_set(
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock deno.lock cargo.lock poetry.lock uv.lock "
    "pdm.lock pipfile.lock pixi.lock composer.lock gemfile.lock packages.lock.json podfile.lock pubspec.lock mix.lock "
    "flake.lock go.sum package.resolved conda-lock.yml"
)
_KNOWN = re.compile(
    r"[\s\"'{}\[\](),:=#!]+"
    r"|https://(?:registry\.npmjs\.org|registry\.yarnpkg\.com|files\.pythonhosted\.org|pypi\.org/simple|rubygems\.org"
    r"|pub\.dev|conda\.anaconda\.org|opencollective\.com|github\.com/sponsors)(?:/[\w@.~%+/-]{0,300})?(?![^\s\"',})\]])"
    r"|registry\+https://github\.com/rust-lang/crates\.io-index"
    r"|(?:sha(?:1|256|384|512)[-:]|h1:)[A-Za-z0-9+/]{20,128}={0,2}|\b[0-9a-f]{40,128}\b"
    r"|(?:[<>=^~v*]|\|\|){0,4}\d[\w.+-]{0,40}|(?:[<>=^~*-]|\|\|){1,3}(?=[\s\"'])"
    r"|\b(?:resolution|integrity|resolved|version|checksum|hash|size|upload-time|url|file|name|source|registry|engines"
    r"|node|optional|dev|true|false)\b"
)
"""What lines of lock files are made of, besides the names of packages."""
_WORD = re.compile(r"[\w.+~@/-]{1,120}")
_MAX_WORDS = 2
"""Names on a line: of a package, and of what it is given."""
_MAX = 1_000
_READ = ("script", "install", "//")


def is_lock(path: str) -> bool:
    """Whether a file is one in which a package manager keeps which versions it chose.

    >>> is_lock("app/package-lock.json"), is_lock("lock.py")
    (True, False)
    """
    return path.rsplit("/", 1)[-1].lower() in _NAMES


def says_nothing(line: str) -> bool:
    """Whether a line of a lock file has nothing but names, versions, checksums and the usual registry in it.

    >>> says_nothing('"react": "^18.2.0",'), says_nothing('"resolved": "https://cdn.other.io/react.tgz",')
    (True, False)
    """
    if len(line) > _MAX or not line.isascii():
        return False
    words = _KNOWN.sub(" ", line).split()
    if len(words) > _MAX_WORDS:
        return False
    return all(_WORD.fullmatch(word) and not any(mark in word.lower() for mark in _READ) for word in words)


def without_entries(text: str) -> str:
    """The text of a lock file with empty lines in place of those that say nothing."""
    return "\n".join("" if says_nothing(line) else line for line in text.split("\n"))
