"""The package indexes that this user has configured for uv, pip and npm: addresses, hosts and folders of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from metier._lazy import dataclass
from metier.run.job import JobPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PYPI, NPM = "https://pypi.org/simple", "https://registry.npmjs.org/"
_FILES_OF = {"pypi.org": "files.pythonhosted.org"}
"""The host that an index has its files on, where that is another."""
_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """The indexes that packages are taken from."""

    default: str
    """The address of the main index."""
    more: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders or pages with files, which are no index (`find-links`)."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that a build has to reach, and no other."""
        found: dict[str, None] = {}
        for address in (self.default, *self.more, *self.folders):
            parts = urlsplit(address.partition("=")[2] if "=" in address.partition(":")[0] else address)
            if parts.scheme in ("http", "https") and parts.hostname:
                host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
                found[f"{host}:{parts.port}" if parts.port else host] = None
                if parts.hostname in _FILES_OF:
                    found[_FILES_OF[parts.hostname]] = None
        return tuple(found)

    @property
    def places(self) -> tuple[JobPath, ...]:
        """The folders of this machine that are indexes."""
        paths = (_path(address) for address in (self.default, *self.more, *self.folders))
        return tuple(JobPath(os.path.realpath(path)) for path in paths if path and os.path.isdir(path))

    def variables(self) -> dict[str, str]:
        """The settings as uv reads them; addresses may hold a password, and so are no arguments."""
        found = {
            "UV_DEFAULT_INDEX": self.default,
            "UV_INDEX": " ".join(self.more),
            "UV_FIND_LINKS": ",".join(self.folders),
            "UV_HTTP_RETRIES": "1",
        }
        return {name: value for name, value in found.items() if value}


def python_indexes() -> IndexSettings:
    """The indexes of Python packages, as the variables and files of uv name them; else the main index of pip."""
    env = os.environ
    files = [settings for path in _files("uv", "uv.toml") if (settings := _toml(path))]
    tables = [one for settings in files for one in settings.get("index", ()) if isinstance(one, dict)]
    defaults = [str(one.get("url", "")) for one in tables if one.get("default") is True]
    default = next(
        filter(
            None,
            (
                env.get("UV_DEFAULT_INDEX"),
                env.get("UV_INDEX_URL"),
                *defaults,
                *(str(one.get("index-url", "")) for one in files),
                env.get("PIP_INDEX_URL"),
                *_pip(),
            ),
        ),
        PYPI,
    )
    named = [env.get("UV_INDEX", ""), env.get("UV_EXTRA_INDEX_URL", "")]
    more = [one for text in named for one in text.split()]
    more += [str(one.get("url", "")) for one in tables if one.get("default") is not True]
    for settings in files:
        more += _texts(settings.get("extra-index-url"))
    folders = [one for one in env.get("UV_FIND_LINKS", "").split(",") if one.strip()]
    for settings in files:
        folders += _texts(settings.get("find-links"))
    return IndexSettings(default=default, more=tuple(filter(None, more)), folders=tuple(folders))


def npm_registry() -> tuple[IndexSettings, str]:
    """The registry of npm, and the lines of the user's settings that say who they are there."""
    lines = list(_npm_lines())
    named = (line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == "registry")
    env = (os.environ.get(name) for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"))
    settings = IndexSettings(default=next(filter(None, (*env, *named)), NPM))
    own = f"//{urlsplit(settings.default).netloc.rpartition('@')[2]}/"
    return settings, "".join(f"{line}\n" for line in lines if line.startswith(own))


def _npm_lines() -> Iterator[str]:
    path = os.environ.get("NPM_CONFIG_USERCONFIG") or os.path.expanduser("~/.npmrc")
    yield from (line.strip() for line in _text(path).splitlines())


def _files(folder: str, name: str) -> Iterator[str]:
    yield os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), folder, name)
    yield os.path.join("/etc", folder, name)


def _pip() -> Iterator[str]:
    import configparser

    own = os.environ.get("PIP_CONFIG_FILE")
    for path in (own,) if own else (*_files("pip", "pip.conf"), os.path.expanduser("~/.pip/pip.conf"), "/etc/pip.conf"):
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(_text(path))
            yield parser.get("global", "index-url", fallback="")
        except configparser.Error:
            continue


def _toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_text(path))
    except (ValueError, RecursionError):
        return {}


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return ""


def _texts(value: object) -> Iterable[str]:
    return [value] if isinstance(value, str) else [str(one) for one in value] if isinstance(value, list) else []


def _path(address: str) -> str:
    """The path of a folder that is named as an index; empty for an address of the network."""
    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme == "file" else address if os.path.isabs(address) else ""
