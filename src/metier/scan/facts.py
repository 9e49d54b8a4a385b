"""Facts about a statement that conditions may name, each a function of the skill's text and the statement's number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from metier._regex_cache import kept_regex
from metier.scan.data_lines import is_lock
from metier.scan.hosts import mailboxes, odd
from metier.scan.judging import doubt, is_real, is_vendors, related
from metier.scan.name_lists import names
from metier.scan.skill_statements import reading
from metier.scan.stance import sets_up, states
from metier.scan.view import once_a_skill

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.scan.text import SkillText
    from metier.scan.view import SkillView

Test: TypeAlias = "Callable[[SkillText, int], bool]"

OF_ADDRESSES = frozenset({"host", "odd-host", "vendor", "own-service", "lone-host", "own-key", "packaged", "real-host"})
"""Facts that hold only for statements that may name an address."""
COSTLY = frozenset({"unrun-test", "wallet-address", "order", "mentioned", "hinted", "warned", "bad-company"})
STRANGER = 2
"""The doubt from which on somebody else answers at an address."""

_LONG = 400
_BUNDLE = 2_000
_SETTINGS = frozenset({"json", "yaml", "toml"})
_PROGRAMS = frozenset("python javascript typescript go rust ruby php java kt swift cs".split())  # noqa: SIM905
_TEMPLATES = (".html", ".htm", ".xhtml", ".svg", ".xml", ".vue", ".svelte")
_SERVICES = ("sink", "tunnel", "paste", "share")
_WALLET = kept_regex(
    r"\b(?:0x[a-fA-F0-9]{40}|bc1[a-z0-9]{25,60}|[13][1-9A-HJ-NP-Za-km-z]{25,34}|T[1-9A-HJ-NP-Za-km-z]{33}"
    r"|[1-9A-HJ-NP-Za-km-z]{43,44}|[A-Z]{2}\d{2}(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){3,7}))\b"
    r"|0x[A-Fa-f0-9]{3,10}(?:…|\.\.\.)[A-Fa-f0-9]{3,10}"
)
_KEY = kept_regex(r"\b(?P<name>[a-z0-9]{2,24})_(?:\w{1,20}_)?(?:key|token|secret)\b")
_TEST = kept_regex(r"(?:^|/)(?:test_[^/]+|[^/]+[._-](?:test|spec)\.\w{1,4}|__tests__/[^/]+)$")
_PACKAGED = kept_regex(
    r"\b(?:brew|apt|apt-get|dnf|yum|pacman|apk|winget|choco|scoop|port|pipx?|pip3|npm|cargo|conda|snap|flatpak|uv tool)"
    r"\s(?:-\S{1,20}\s){0,3}(?:install|add|-s)\s(?P<names>[^\n|;&]{1,200})"
)


def _is_followed(text: SkillText, at: int) -> bool:
    """Whether it is code that the matcher `flow` read by its structure."""
    from metier.scan.flow.matcher import is_followed

    return is_followed(text.read.view, text.statements[at].path, text.statements[at].language)


def _is_own_service(text: SkillText, at: int) -> bool:
    """Whether all addresses of strangers are those of a service for everybody that the skill is called like."""
    doubtful = [place for place in text.statements[at].places if doubt(place, text.read) >= STRANGER]
    return bool(doubtful) and all(
        place.kind in _SERVICES and place.host in names(f"{place.kind}-hosts") and related(place, text.read)
        for place in doubtful
    )


def _is_vendors(text: SkillText, at: int) -> bool:
    """Whether all addresses of strangers are those of the vendor whose tool the skill is about."""
    doubtful = [place for place in text.statements[at].places if doubt(place, text.read) > 0]
    return bool(doubtful) and all(is_vendors(place, text.read) for place in doubtful)


def _is_unrun_test(text: SkillText, at: int) -> bool:
    """Whether its file is called a test, and nothing else in the skill names that."""
    path = text.statements[at].path
    return _TEST.search(path.lower()) is not None and not _is_named_elsewhere(text.read.view, path)


@once_a_skill
def _is_named_elsewhere(view: SkillView, path: str) -> bool:
    read, name = reading(view), path.lower().rpartition("/")[2]
    return read.low.count(name) != sum(one.low.count(name) for one in read.files[path])


def _is_named_once(text: SkillText, at: int) -> bool:
    """Whether it names a stranger's host or mailbox that nothing else in the skill does."""
    one, count = text.statements[at], text.host_counts
    places = (*one.places, *mailboxes(one.text))
    return any(count[place.host] == 1 for place in places if doubt(place, text.read) >= STRANGER)


def _names_key_of_host(text: SkillText, at: int) -> bool:
    """Whether the one key that it names is called like each host that it names."""
    one = text.statements[at]
    keys = {found["name"] for found in _KEY.finditer(one.low)}
    hosts = [place for place in one.places if not place.shady and not odd(place.host)]
    if len(keys) != 1 or not hosts or len(hosts) < len(one.places):
        return False
    return all(name in place.host for name in keys for place in hosts)


def _is_packaged(text: SkillText, at: int) -> bool:
    """Whether an address leads to a project called like its owner, which a package manager has, too.

    Anybody can call an account like a project, but nobody can have it in a package manager for that.
    """
    paths = (place.path.lower().lstrip("/").split("/") for place in text.statements[at].places)
    own = {path[0] for path in paths if len(path) > 1 and path[0] and path[0] == path[1]}
    return bool(own) and any(
        not own.isdisjoint(re.split(r"[\s.,`'\"()/]+", found["names"])) for found in _PACKAGED.finditer(text.read.low)
    )


def _names_skill(text: SkillText, at: int) -> bool:
    name = text.read.view.name.lower()
    return len(name) >= 4 and name in text.statements[at].low


FACTS: dict[str, Test] = {
    "otherwise": lambda text, at: True,
    "security": lambda text, at: text.read.about_security,
    "bundle": lambda text, at: (file := text.file_of(at)).end - file.start > _BUNDLE,
    "lock-file": lambda text, at: is_lock(text.statements[at].path),
    "template": lambda text, at: text.statements[at].path.lower().endswith(_TEMPLATES),
    "long": lambda text, at: len(text.statements[at].text) > _LONG,
    "settings": lambda text, at: text.statements[at].language in _SETTINGS,
    "program": lambda text, at: text.statements[at].language in _PROGRAMS,
    "veiled": lambda text, at: text.statements[at].veiled,
    "hinted": lambda text, at: text.statements[at].hinted,
    "warned": lambda text, at: text.statements[at].warned,
    "bad-company": lambda text, at: text.statements[at].bad_company,
    "order": lambda text, at: text.statements[at].stance == "order" and not states(text.statements[at].low),
    "mentioned": lambda text, at: text.statements[at].stance in ("fixture", "report"),
    "setting-up": lambda text, at: sets_up(text.statements[at].heading),
    "followed": _is_followed,
    "host": lambda text, at: text.doubt(at) >= 0,
    "odd-host": lambda text, at: any(odd(place.host) for place in text.statements[at].places),
    "own-service": _is_own_service,
    "unrun-test": _is_unrun_test,
    "real-host": lambda text, at: is_real(text.statements[at], text.read),
    "vendor": _is_vendors,
    "lone-host": _is_named_once,
    "own-key": _names_key_of_host,
    "packaged": _is_packaged,
    "own-name": _names_skill,
    "wallet-address": lambda text, at: _WALLET.search(text.statements[at].text) is not None,
}
"""Facts besides the bits of statements (see `text`); those of the skill and the file come first."""
