"""Packages that come from somewhere else than their name says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.autorun import keeps_house
from metier.scan.rule import ScanRule
from metier.scan.rules._hosts import addresses
from metier.scan.rules._judging import doubt, farthest, related, weighed
from metier.scan.rules._kinds import odd
from metier.scan.rules._locks import is_lock
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.view import SkillView

_REGISTRY = re.compile(
    r"(?:--(?:extra-)?index-url|--registry|--trusted-host|--find-links|--default-index|--index)(?:[= ]|\s+)|(?:^"
    r"|[\s@\"']|\\n)(?:registry|index-url|extra-index-url|\"registry\"|npm_config_registry|pip_(?:extra_)?index_url"
    r"|uv_(?:default_|extra_)?index(?:_url)?|goproxy|yarn_npm_registry_server|npmregistryserver)\s*[:=]"
    r"|(?:npm|pnpm|yarn|bun)\s+(?:config\s+)?set\s+(?:\S+:)?(?:registry|npmregistryserver)"
    r"|pip3?\s+config\s+set\s+\S*index-url|gem\s+sources\s+(?:-a|--add)|go\s+env\s+-w\s+goproxy"
    r"|cargo\s[^\n]{0,40}replace-with|replace-with\s*=|conda\s+config\s[^\n]{0,40}channels|apt-add-repository"
    r"|add-apt-repository|/etc/apt/sources\.list",
    re.IGNORECASE,
)

_SAID = re.compile(
    r"\b(?:registry|package index|mirror|npmrc|pip\.conf|index url)\b[^\n]{0,100}\b(?:set|point|configur|switch"
    r"|change|redirect|use|install)|\b(?:set|point|configure|switch|change|redirect|use)\b[^\n]{0,60}\b(?:registry"
    r"|package index|mirror|npmrc|pip\.conf|index)\b"
)

_MIRRORS = re.compile(
    r"pytorch\.org/|nvidia\.com|pkg\.dev|codeartifact|azure|gitlab|jfrog|artifactory|nexus|cloudsmith|gemfury"
    r"|yarnpkg\.com|npmmirror|taobao|tuna\.|ustc\.edu|aliyun|tencent|huaweicloud|proxy\.golang|goproxy\.(?:io|cn)"
    r"|ppa:|debian\.org|ubuntu\.com|verdaccio|conda-forge",
    re.I,
)

_URL_PACKAGE = re.compile(
    r"\b(?:pip3?|uv|pipx|npm|pnpm|yarn|bun|npx|gem|cargo|uvx)\b[^\n|;&]{0,60}\s(?:git\+)?(?P<url>https?://\S{4,300})",
    re.IGNORECASE,
)

_HOSTS_FILE = re.compile(
    r"\b(?:\d{1,3}\.){3}\d{1,3}\s+[^\n]{0,60}\b(?:registry\.npmjs\.org|pypi\.org|files\.pythonhosted\.org"
    r"|github\.com|raw\.githubusercontent\.com|crates\.io|rubygems\.org|proxy\.golang\.org|api\.anthropic\.com"
    r"|api\.openai\.com|hub\.docker\.com)\b|--add-host[= ](?:registry\.npmjs\.org|pypi\.org|github\.com)\S*",
    re.IGNORECASE,
)

_UNVERIFIED = re.compile(
    r"--allow-unauthenticated|\[\s*trusted\s*=\s*yes\s*\]|gpgcheck\s*=\s*0|--nogpgcheck|--no-gpg-check"
    r"|--no-check-signature|git_ssl_no_verify\s*=\s*(?:1|true)|http\.sslverify\s+false|strict-ssl[= ]+false"
    r"|node_tls_reject_unauthorized\s*=\s*[\"']?0|--no-verify-ssl|--disable-signature|--skip-verify|--insecure-skip"
    r"|homebrew_no_\w*verif\w*=1|--force-yes\b",
    re.IGNORECASE,
)

_HOST_MOUNT = re.compile(
    r"\b(?:docker|podman|nerdctl)\s+run\b[^\n]{0,300}(?:--privileged|-v\s+/:/|--volume[= ]/:/|--pid[= ]host"
    r"|-v\s+[\"']?(?:~|\$home|\$\{home\})/?(?:\.ssh|\.aws|\.config|\.gnupg|:)|type=bind,source=/,)",
    re.IGNORECASE,
)

_SCRIPT = re.compile(
    r"\"(?:pre|post)?(?:install|prepare|prepublish)\"\s*:\s*\"(?P<does>(?:[^\"\\\n]|\\.){1,600})", re.IGNORECASE
)

_DOES = re.compile(
    r"\bcurl\b|\bwget\b|node\s+-e|python3?\s+-c|base64|\|\s*(?:ba)?sh\b|https?://|powershell|eval|/dev/tcp|\.ssh"
    r"|\benv\b|printenv|nc\s",
    re.IGNORECASE,
)


def _redirected(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    yield from _locked(read)
    if not read.has(
        "registry",
        "index",
        "trusted-host",
        "find-links",
        "goproxy",
        "gem sources",
        "replace-with",
        "apt",
        "channels",
        "mirror",
        "npmrc",
        "pip.conf",
    ):
        return
    for one in read.told():
        if not one.places:
            continue
        found = (
            _REGISTRY.search(one.text) if one.kind != "prose" else _REGISTRY.search(one.text) or _SAID.search(one.low)
        )
        if found is None:
            continue
        places = list(addresses(one.text[found.start() :], bare=True) or ())
        if not places and one.kind == "prose":
            places = list(one.places)
        for address in places:
            value = doubt(address, read)
            if value >= 1 and address.kind == "unknown" and "trusted-host" in one.low and not _MIRRORS.search(one.text):
                # No certificate is asked for, so whoever stands between can be the registry, its own or not.
                yield one.hit(one.text, weighed("high", one, found, read))
                break
            if value <= 1 or _MIRRORS.search(address.url) or (related(address, read) and address.kind == "unknown"):
                continue
            docker = re.search(r"docker|image|container|helm|oci", one.low)
            severity: Severity = "low" if docker else "high" if value >= 3 or one.kind == "code" else "medium"
            yield one.hit(one.text, weighed(severity, one, found, read))
            break


_CHOSEN = re.compile(
    r"\b(?:resolved|tarball|url|source|remote)\b[\"']?\s*[:= ][^\n]{0,40}://[^\s\"']{4,300}\.(?:tgz|tar\.gz|whl|zip|gem|crate)\b",
    re.IGNORECASE,
)
"""Where a lock file has a package taken from."""


def _locked(read: SkillStatements) -> Iterator[Hit]:
    """Packages that a lock file takes from somewhere else, whatever the registry is that one has set."""
    for path, statements in read.files.items():
        for one in statements if is_lock(path) else ():
            found = _CHOSEN.search(one.text) if one.places else None
            value = farthest((one,), read)
            if found is not None and value >= 2 and not _MIRRORS.search(one.text):
                yield one.hit(one.text, "high" if value >= 3 else "medium")


def _from_address(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told():
        if "://" not in one.text:
            continue
        found = _URL_PACKAGE.search(one.text)
        if found is None or _REGISTRY.search(one.text):
            continue
        value = max((doubt(address, read) for address in addresses(found["url"])), default=0)
        if value >= 2:
            package = re.search(r"\.(?:whl|tgz|tar\.gz|zip|gem)\b|git\+", found[0])
            strange = value >= 3 or any(odd(address.host) for address in addresses(found["url"]))
            severity: Severity = "high" if strange and package else "medium" if package else "low"
            yield one.hit(found[0], weighed(severity, one, found, read))


def _unverified(view: SkillView) -> Iterator[Hit]:
    """What proves that a package is its maker's is switched off or led elsewhere."""
    read = reading(view)
    for one in read.told():
        if read.sees(one, _PROOFS):
            led = _HOSTS_FILE.search(one.text)
            if led is not None:
                yield one.hit(led[0], weighed("high", one, led, read))
                continue
            found = _UNVERIFIED.search(one.text)
            if found is not None:
                value = farthest((one,), read)
                yield one.hit(
                    found[0], weighed("high" if value >= 2 else "medium" if one.script else "low", one, found, read)
                )
                continue
        if read.sees(one, _CONTAINERS) and (mounted := _HOST_MOUNT.search(one.text)) is not None:
            everything = re.search(
                r"-v\s+/:/|volume[= ]/:/|\.ssh|\.aws|\.gnupg|home\}?/?:|~/?:|source=/,", mounted[0], re.IGNORECASE
            )
            yield one.hit(mounted[0], weighed("medium" if everything else "low", one, mounted, read))


_CONTAINERS = ("docker", "podman", "nerdctl")

_PROOFS = (
    "unauthenticated", "trusted", "gpg", "ssl", "verif", "signature", "insecure", "force-yes", "npmjs.org",
    "pypi.org", "pythonhosted", "github", "crates.io", "rubygems", "golang.org", "anthropic.com", "openai.com",
    "docker.com", "reject_unauthorized",
)  # fmt: skip


def _hooked(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("code"):
        found = _SCRIPT.search(one.text) if "install" in one.low or "prepare" in one.low else None
        if found is not None and _DOES.search(found["does"]) and not keeps_house(found["does"]):
            value = max((doubt(address, read) for address in addresses(found["does"], bare=True)), default=1)
            yield one.hit(found[0], weighed("high" if value != 0 else "low", one, found, read))


RULES = (
    ScanRule(
        id="REGISTRY_REDIRECT",
        ast="AST02",
        category="dependency_supply_chain",
        severity="high",
        message="It has packages installed from a registry that is not their own.",
        hint="Install from the official registry, or from a mirror that your organisation names.",
        check=_redirected,
    ),
    ScanRule(
        id="PACKAGE_FROM_ADDRESS",
        ast="AST02",
        category="dependency_supply_chain",
        severity="medium",
        message="It installs a package straight from an address.",
        hint="Install a version from the official registry, with its hash.",
        check=_from_address,
    ),
    ScanRule(
        id="VERIFICATION_OFF",
        ast="AST02",
        category="dependency_supply_chain",
        severity="high",
        message="It switches off what proves that a package comes from its maker, or opens the machine to a container.",
        hint="Leave signatures and certificates on, and give a container only the folder that it needs.",
        check=_unverified,
    ),
    ScanRule(
        id="INSTALL_HOOK",
        ast="AST02",
        category="dependency_supply_chain",
        severity="high",
        message="Installing the package runs commands that load or decode code.",
        hint="Install with scripts switched off, and read what they would do.",
        check=_hooked,
    ),
)
