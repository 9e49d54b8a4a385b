"""Keys that go where nobody needs them: a maker's key to another host, a wallet's own key to any."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._judging import doubt, nearby, weighed
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._hosts import HostAddress
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_MAKERS = {
    "openai": ("openai", "chatgpt"), "anthropic": ("anthropic", "claude"), "claude": ("anthropic", "claude"),
    "gemini": ("google",), "groq": ("groq",), "mistral": ("mistral",), "deepseek": ("deepseek",),
    "openrouter": ("openrouter",), "aws": ("amazon", "aws"), "github": ("github",), "gh": ("github",),
    "gitlab": ("gitlab",), "stripe": ("stripe",), "slack": ("slack",), "huggingface": ("huggingface", "hf."),
    "hf": ("huggingface", "hf."), "cloudflare": ("cloudflare",), "vercel": ("vercel",), "npm": ("npm",),
    "binance": ("binance",), "coinbase": ("coinbase",), "xai": ("x.ai",), "azure": ("azure", "microsoft"),
}  # fmt: skip
"""What settings that hold a key begin with, and what the hosts of its maker are called."""
_OF_MAKER = re.compile(
    rf"(?<![A-Za-z0-9])(?P<maker>{'|'.join(map(str.upper, _MAKERS))})_(?:\w{{1,20}}_)?"
    r"(?:API_?KEY|KEY|TOKEN|SECRET(?:_ACCESS_KEY)?|PAT)\b"
)
_WALLET = re.compile(
    r"\.secretkey\b|\bsecret_?key\b|\bprivate_?key\b|\bmnemonic\b|\bseed_?phrase\b|\b\w{1,20}\.key\.hex\(\)"
    r"|\bexportprivatekey\b|\bto_?wif\b",
    re.IGNORECASE,
)
_WALLETS = (
    "secretkey",
    "secret_key",
    "privatekey",
    "private_key",
    "mnemonic",
    "seedphrase",
    "seed_phrase",
    ".key.hex",
    "wif",
)
_COINS = ("solana", "web3", "ethers", "wallet", "bitcoin", "evm", "keypair", "eth_account", "bip39", "tron")
_POSTS = re.compile(
    r"(?<![.\w])fetch\(|axios(?:\.(?:post|put|request))?\(|(?:requests|httpx|session|client)\.(?:post|put|request)\("
    r"|urlopen\(|request\.request\(|https?\.request\(|\bcurl\b[^\n]{0,300}\s(?:-d|--data\S{0,12}|-F|--json|-X ?POST)",
    re.IGNORECASE,
)
_POST_MARKS = ("fetch(", "axios", "post(", "put(", "request(", "urlopen(", "curl")


def _abroad(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    coins = read.has(*_COINS)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if one.warned or one.kind != "code" or not read.sees(one, _POST_MARKS):
                continue
            sent = _POSTS.search(one.text)
            if sent is None:
                continue
            near = nearby(statements, index, 0, 6, 8)
            place = _stranger(one, near, read)
            if place is None:
                continue
            if _key_of_another(near, place) or (coins and any(map(_is_wallet, near))):
                yield one.hit(one.text, weighed("high", one, sent, read))


def _stranger(one: Statement, near: list[Statement], read: SkillStatements) -> HostAddress | None:
    """Where the request goes, if nobody knows who is there; what stands below may be another request."""
    for other in near:
        if other is not one and _POSTS.search(other.text):
            return None
        for place in other.places:
            return place if doubt(place, read) >= 1 else None
    return None


def _key_of_another(near: list[Statement], place: HostAddress) -> bool:
    """Whether a maker's key is in the request, and the host is not called like the maker."""
    return any(
        not any(name in place.host for name in _MAKERS[found["maker"].lower()])
        for other in near
        for found in _OF_MAKER.finditer(other.text)
    )


def _is_wallet(one: Statement) -> bool:
    return any(mark in one.low for mark in _WALLETS) and _WALLET.search(one.text) is not None


RULES = (
    ScanRule(
        id="KEY_SENT_ABROAD",
        ast="AST01",
        category="credential_access",
        severity="high",
        message="A key goes to a host that is not its maker's, or the key of a wallet to any host.",
        hint="Keys belong to the service that gave them, and a wallet's own key to nobody. Change it if it was sent.",
        check=_abroad,
    ),
)
