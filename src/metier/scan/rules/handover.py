"""Code that hands a secret over: what is taken from where keys lie goes into a request, whoever's host it is.

A host can be called like the skill, since the author names both. So it does not matter here whether a host looks like
the skill's own: no service needs the key to a wallet, the cookies of a browser or the whole environment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._flows import carried
from metier.scan.rules._judging import farthest, nearby, weighed
from metier.scan.rules._loot import finds_keys, is_clipboard, is_dotenv, is_for, is_its_own, is_memory, is_prize
from metier.scan.rules._names import span
from metier.scan.rules._prizes import BRAND_KEY, STORE, WALLET_NAME
from metier.scan.rules._programs import with_imports
from metier.scan.rules._reach import into_account, reach
from metier.scan.rules._reading import reading
from metier.scan.rules._sending import sends_off
from metier.scan.rules.exfiltration import is_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_MARKS = (
    "key", "seed", "mnemonic", "phrase", "secret", ".ssh", "id_rsa", ".aws", ".env", "environ", "process.env", "env:",
    "printenv", "env ", "env)", "cookie", "login data", "wallet", "token", "password", "credential", "keychain",
    ".netrc",
    "history", "openclaw", "clawdbot", "moltbot", ".claude", ".codex", "kube", "gcloud", "1password",
    "bitwarden", "storage", "sk-", "ghp_", "akia", "xox", "gnupg", "npmrc", "pypirc", ".docker", "logins.json",
    "local state", "electrum", "metamask", "exodus", "phantom", "op item", "op read", "bw get", "bw list", "pass show",
    "169.254", "metadata.google", "vaultcli", "tdata", "/proc/", "user data", "shadow", "lastpass", "solana/id",
    "memory", "soul.md", "user.md", "sessions", "workspace", "pbpaste", "wl-paste", "xclip", "xsel", "clipboard",
)  # fmt: skip
_FIELD = re.compile(
    rf"(?<![\w$])[\"']?(?:{WALLET_NAME})[\"']?\s*(?:[:=]|%3d)\s*(?!\s*(?:none|null|false|undefined)\b)|(?<=[{{,\s])"
    rf"(?:{WALLET_NAME})\s*[,}}]",
    re.IGNORECASE,
)
_FILLED_IN = re.compile(rf"[:=]\s*[\"']?[<$\[{{]{{1,2}}\s*\w{{0,20}}(?:{WALLET_NAME})\b", re.IGNORECASE)
_DROPS = re.compile(
    r"\bgh\s+(?:gist|issue|release|pr)\s+(?:create|upload|comment|edit)\b|://[^\s/@:]{1,60}:[^\s/@$]{8,100}@(?:github"
    r"|gitlab)\.com"
    r"|\baws\s+s3\s+(?:cp|sync|mv)\b[^\n]{0,120}\ss3://[\w-]{3,}|\bgsutil\s+cp\b[^\n]{0,120}\sgs://[\w-]{3,}"
    r"|\b(?:mail|mutt|sendmail|swaks)\b[^\n]{0,120}\s[\w.+-]{2,40}@[\w-]{2,60}\.\w{2,8}"
)
"""Where anybody leaves something for somebody in particular, without an address of the web."""
_SIGNS_IN = re.compile(r"authorization|bearer|x-api-key|api-key|auth=|\s-u\s|cookies=|--header|\s-H\s", re.IGNORECASE)
_PAYLOAD = re.compile(
    r"\bdata=|\bjson=|\bfiles=|\bbody\b|\bparams=|--data|\s-d\b|\s-F\b|\s-T\b|--form|--upload|--json|@-|@/|@\$|-body\b"
    r"|-infile\b|\.post\(|\.put\(|request\(|sendbeacon|\.send\(|\.write\(|sendall|\?\S{0,60}=|urlencode|sendmail|upload"
    r"|\bnc\b|/dev/tcp|\bscp\b|\brsync\b|sendmessage",
    re.IGNORECASE,
)


def _handed_over(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has(*_MARKS):
        return
    for code in with_imports(read):
        if any(sends_off(one, read) for one in code):
            yield from _in(code, read)
        dropped = next((one for one in code if read.sees(one, _DROP_MARKS) and _DROPS.search(one.text)), None)
        if dropped is not None and any(read.sees(one, _MARKS) and read.holds(is_prize, one) for one in code):
            yield dropped.hit(dropped.text, weighed("high", dropped, None, read))
    if read.has(*_SEED_MARKS):
        yield from _asked_for(read)


def _asked_for(read: SkillStatements) -> Iterator[Hit]:
    """A command that sends what the sentence before it is about: the words that are somebody's money."""
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if one.kind != "code" or one.script or not sends_off(one, read) or not _FILLED.search(one.text):
                continue
            near = [other for other in nearby(statements, index, 4, 0, 8) if other.kind in ("prose", "row")]
            said = any(
                (found := _SEED.search(other.low)) is not None and not _NEVER.search(other.low[: found.start()])
                for other in near
                if not other.warned
            )
            if said and farthest((one,), read, none=-1) >= 1 and _PAYLOAD.search(one.text):
                yield one.hit(one.text, weighed("high", one, None, read))


_SEED_MARKS = ("seed", "phrase", "mnemonic", "助记词", "фраз", "semilla", "シード", "시드")
_SEED = re.compile(
    r"\b(?:seed|recovery|secret recovery|backup)[ -]?(?:phrase|words)|\bmnemonic|\b(?:12|24)(?: or 24)?[ -]words?\b"
    r"|助记词|(?:сид|seed)[- ]?фраз|frase (?:semilla|de recuperación)|シードフレーズ|시드 ?(?:구문|문구)"
)
_NEVER = re.compile(r"\b(?:never|not|don['’]?t|no|nunca|jamás|никогда|niemals|jamais)\b|不要|绝不|切勿")  # noqa: RUF001
_FILLED = re.compile(
    r"\$\{?(?:\w{0,20}(?:phrase|words?|seed|mnemonic|secret|key|pk)\w{0,12})\}?"
    r"|[<{](?:\w{0,20}[ _-]?)(?:phrase|words?|seed|mnemonic)[ _-]?\w{0,12}[>}]",
    re.IGNORECASE,
)

_DROP_MARKS = ("gh ", "://", "s3://", "gs://", "mail ", "mutt ", "swaks ")


def _in(code: Sequence[Statement], read: SkillStatements) -> Iterator[Hit]:
    around = reach(code, code, read)
    seen: set[int] = set()

    hosts = " ".join(place.host for one in code for place in one.places)

    def spares(source: Statement, key: str) -> bool:
        return is_its_own(source, key) or is_for(key, hosts, source)

    def takes(one: Statement) -> bool:
        return read.sees(one, _MARKS) and read.holds(is_prize, one)

    for source, call in carried(code, takes, lambda other: sends_off(other, read), spares):
        one = call[0]
        # The line of a request that only says who one is names a secret, too.
        bare = "\n".join(other.text for other in call if not _SIGNS_IN.search(other.text))
        if id(one) in seen or not (_PAYLOAD.search(bare) or _is_anothers(source, call)):
            continue
        here = reach(call, code, read) if any(other.places for other in call) else around
        if here in (0, 1) and into_account(call, code, read):
            here = 4
        if here != 0:
            seen.add(id(one))
            yield one.hit(one.text, weighed(_severity(source, here, read, at_once=source is one), one, None, read))
    for index, one in enumerate(code):
        if id(one) in seen or not sends_off(one, read):
            continue
        call = span(code, index)
        text = "\n".join(other.text for other in call)
        here = farthest(call, read, none=around)
        given = _FIELD.search(text) or _FILLED_IN.search(text) or (_PASSWORD.search(text) and _CODES.search(text))
        if here >= 1 and given and _PAYLOAD.search(text):
            yield one.hit(one.text, weighed("high", one, None, read))
        elif here >= 1 and (keys := len(_foreign(text, call))) >= (1 if here >= 2 else 2):
            yield one.hit(one.text, weighed("high" if here >= 3 or keys >= 2 else "medium", one, None, read))


_PASSWORD = re.compile(
    r"(?<![\w$])[\"'\\]{0,2}(?:password|passwd|passwort|contraseña|senha|pwd|pass)[\"'\\]{0,2}\s*[:=]", re.IGNORECASE
)
_CODES = re.compile(
    r"(?<![\w$])[\"'\\]{0,2}(?:backup|recovery|scratch|rescue)(?:[_-]?codes?)?[\"'\\]{0,2}\s*[:=]\s*[\"'\\]{0,3}[$<{\[\w]"
    r"|(?<![\w$])[\"'\\]{0,2}totp[_-]?(?:secret|seed)[\"'\\]{0,2}\s*[:=]",
    re.IGNORECASE,
)
"""What opens an account without the phone: with the password, it is the whole account."""
_OF_A_FORGE = re.compile(r"\bgh\s+auth\s+token|gh[\"'/\s,]{1,5}hosts\.yml|\.git-credentials", re.IGNORECASE)


def _is_anothers(source: Statement, call: Sequence[Statement]) -> bool:
    """Whether the session at a forge is shown to a host that is not the forge's, be it only to say who one is."""
    if not _OF_A_FORGE.search(source.text):
        return False
    hosts = [place.host for one in call for place in one.places if place.kind != "local"]
    return bool(hosts) and not any("github" in host or "gitlab" in host for host in hosts)


def _foreign(text: str, call: list[Statement]) -> set[str]:
    """Keys of one service that go to a host of another."""
    hosts = " ".join(place.host for one in call for place in one.places)
    brands = {found["brand"].lower() for found in BRAND_KEY.finditer(text)}
    return {brand for brand in brands if hosts and brand not in hosts and not (brand == "gh" and "github" in hosts)}


def _severity(source: Statement, here: int, read: SkillStatements, *, at_once: bool) -> Severity:
    if finds_keys(source) and read.about_security:
        return "medium"
    if here < 0:
        # Where it goes is for the one who runs it to say.
        return "medium" if source.script else "low"
    if here <= 2 and not is_store(source) and is_memory(source):
        # There are services that remember for an agent, each with its own host.
        return "low" if here == 1 else "medium"
    if here == 1 and is_clipboard(source):
        return "medium"
    if here == 1 and is_dotenv(source) and not STORE.search(source.text):
        # A file that goes off as it is, in one command, is not what a program is set up with.
        return "high" if source.script or at_once else "medium"
    return "high"


RULES = (
    ScanRule(
        id="SECRET_HANDED_OVER",
        ast="AST01",
        category="credential_access",
        severity="high",
        message="It takes a key, a password or the like from where it lies and puts it into a request.",
        hint="Do not run it. No service needs this to serve; rotate the secret if it ran.",
        check=_handed_over,
    ),
)
