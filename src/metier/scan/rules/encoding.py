"""Commands that are kept from being read: encoded, cut in pieces, escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._judging import weighed
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.view import SkillView

_SHELL = (
    r"(?:sudo\s+)?(?:/(?:usr/)?bin/)?(?:(?:ba|z|da|k|fi)?sh|python[23]?|perl|ruby|node|php|osascript|iex"
    r"|invoke-expression)\b"
)

_DECODER = (
    r"(?:base64(?:\.exe)?\s+(?:-\w+\s+)*(?:-d|-D|--decode|-di|-id)\b|base32\s+(?:-d|--decode)|openssl\s+(?:enc"
    r"|base64)\b[^\n|]{0,80}\s-d\b"
    r"|xxd\s+-r(?:\s+-p)?|gunzip(?:\s+-c)?|gzip\s+-d|zcat|rev\b"
    r"|tr\s+['\"]?[A-Za-z\]\[-]{2,20}['\"]?\s+['\"]?[A-Za-z\]\[-]{2,20}['\"]?|uudecode|certutil\s+-decode)"
)

_DECODED_AND_RUN = re.compile(
    rf"{_DECODER}[^\n|]{{0,100}}(?:\|[^\n|]{{0,60}}){{0,2}}\|\s*{_SHELL}"
    rf"|(?:\beval|\b(?:ba|z)?sh\s+-c|\bsource|\bpython3?\s+-c)\s+[\"'`]?(?:\$\(|<\(|`)[^\n)]{{0,400}}{_DECODER}"
    r"|(?:\bexec|\beval)\s*\(\s*(?:compile\s*\(\s*)?(?:[\w.]{1,40}\(\s*){0,4}(?:base64\.\w{1,12}decode|b64decode"
    r"|b85decode|a85decode|b32decode|unhexlify|bytes\.fromhex|zlib\.decompress|codecs\.decode|marshal\.loads"
    r"|gzip\.decompress|lzma\.decompress|bz2\.decompress)"
    r"|(?:\beval|\bnew\s+function|\bfunction|settimeout|\brequire|\bexec(?:sync)?|vm\.runin\w{1,20})\s*\(\s*(?:atob"
    r"|buffer\.from|unescape|decodeuricomponent|string\.fromcharcode)\s*\("
    r"|\bpowershell(?:\.exe)?\b[^\n]{0,120}\s-e(?:nc|ncodedcommand|c)?\s+[\"']?[a-z0-9+/=]{16,}"
    r"|\bfrombase64string\([^\n]{0,300}(?:iex|invoke-expression|reflection\.assembly|scriptblock)"
    r"|(?:iex|invoke-expression|reflection\.assembly)[^\n]{0,200}frombase64string"
    r"|(?:certutil(?:\.exe)?\s+-decode|base64\s+(?:-d|-D|--decode)|openssl\s+base64\s+-d"
    r"|xxd\s+-r)[^\n]{0,200}(?:chmod\s+\+x|&&\s*(?:sudo\s+)?(?:\./|/tmp/|start\s|(?:ba)?sh\s)|\.exe\b)"
    r"|\beval\s*\(\s*(?:base64_decode|gzinflate|str_rot13|gzuncompress)\s*\("
    r"|(?:os\.system|subprocess\.\w{2,12}|popen|exec(?:sync)?|spawn)\s*\(\s*(?:base64\.b64decode|b64decode|atob"
    r"|buffer\.from|bytes\.fromhex|codecs\.decode)",
    re.IGNORECASE,
)

_SAID = re.compile(
    r"\b(?:decode|decrypt|de-?obfuscate|unpack|reassemble|join|concatenate|reverse)\b[^\n]{0,100}\b(?:and|then"
    r"|to)\b[^\n]{0,40}\b(?:run|execute|eval|follow|obey|source|pipe|act on|perform)\b"
    r"|\b(?:run|execute|follow|eval)\b[^\n]{0,40}\b(?:decoded|decrypted|deobfuscated|reassembled)\b"
    r"|解码[^。\n]{0,30}(?:执行|运行)|decodifica[^\n]{0,60}ejecut|декодир[^\n]{0,60}(?:выполн|запуст)"
)


def _run(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told():
        found = _DECODED_AND_RUN.search(one.text) if read.sees(one, _DECODERS) else None
        if found is not None:
            harmless = re.match(r"gunzip|gzip|zcat|rev\b|tr\b", found[0], re.I) and not re.search(
                r"base64|\becho\b|printf", one.low
            )
            yield one.hit(found[0], weighed("medium" if harmless else "high", one, found, read))
        elif (
            one.kind != "code"
            and (not one.low.isascii() or not one.words.isdisjoint(_UNDOES))
            and (said := _SAID.search(one.low)) is not None
        ):
            coded = re.search(
                r"base64|base85|\bhex|rot13|encoded|obfuscat|编码|codificad|кодир", f"{one.low} {one.lead}"
            )
            if coded is not None:
                yield one.hit(one.text, weighed("high", one, said, read))


_UNDOES = word_set(
    "decode decrypt deobfuscate de-obfuscate unpack reassemble join concatenate reverse decoded "
    "decrypted deobfuscated reassembled decodifica"
)

_DECODES = re.compile(
    r"marshal\.loads|codecs\.decode\([^\n]{0,2000}rot|zlib\.decompress|b64decode\(|b85decode\(|a85decode\("
    r"|bytes\.fromhex|unhexlify\(|\batob\(|buffer\.from\([^\n]{0,2000}(?:base64|hex)|frombase64string|__reduce__"
    r"|fernet\(|aes\.new\(|rot13",
    re.IGNORECASE,
)

_DECODE_MARKS = (
    "marshal",
    "codecs.decode",
    "decompress",
    "b64decode",
    "b85decode",
    "a85decode",
    "fromhex",
    "unhexlify",
    "atob",
    "buffer.from",
    "frombase64",
    "__reduce__",
    "fernet",
    "aes.new",
    "rot13",
)

_EXECUTES = re.compile(
    r"(?:^|[^.\w$])(?:exec|eval)\(\s*(?![\"'])|new function\(|runpy\.|importlib\.util|vm\.runin|types\.functiontype"
    r"|execsync\(\s*(?![\"'`])|os\.system\(\s*(?![\"'f])|\biex\b",
    re.IGNORECASE,
)

_EXECUTE_MARKS = (
    "exec(", "eval(", "function(", "runpy", "importlib", "vm.runin", "functiontype", "execsync(", "os.system", "iex",
)  # fmt: skip


def _unpacked(view: SkillView) -> Iterator[Hit]:
    """A script that makes code out of data and runs it, on different lines."""
    read = reading(view)
    for statements in read.files.values():
        code = [one for one in statements if one.script and not one.warned]
        decodes = next((one for one in code if read.sees(one, _DECODE_MARKS) and _DECODES.search(one.text)), None)
        if decodes is not None:
            executes = next(
                (one for one in code if read.sees(one, _EXECUTE_MARKS) and _EXECUTES.search(one.text)), None
            )
            if executes is not None:
                yield executes.hit(executes.text, "low" if read.about_security else "high")


_DECODERS = (
    "base64",
    "base32",
    "b64",
    "b85",
    "a85",
    "xxd",
    "gunzip",
    "gzip",
    "zcat",
    "rev",
    "tr ",
    "openssl",
    "atob",
    "buffer.from",
    "fromcharcode",
    "-e",
    "frombase64",
    "decode",
    "fromhex",
    "unhexlify",
    "decompress",
    "marshal",
    "unescape",
    "uudecode",
)


def _veiled(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("code"):
        if one.veiled:
            yield one.hit(one.text, weighed("high", one, None, read))


RULES = (
    ScanRule(
        id="ENCODED_SHELL_EXEC",
        ast="AST01",
        category="defense_evasion_obfuscation",
        severity="high",
        message="It decodes something and runs what comes out.",
        hint="Decode it without running it and read what it does; code that is not hidden needs no decoding.",
        check=_run,
    ),
    ScanRule(
        id="UNPACKED_AND_RUN",
        ast="AST05",
        category="defense_evasion_obfuscation",
        severity="high",
        message="A script makes code out of data that nobody can read, and runs it.",
        hint="Unpack it without running it and read what it does.",
        check=_unpacked,
    ),
    ScanRule(
        id="OBFUSCATED_COMMAND",
        ast="AST01",
        category="defense_evasion_obfuscation",
        severity="high",
        message="A command is cut by quotes, escapes or variables so that nobody finds it by its name.",
        hint="Read the command as it is shown here. There is no honest reason to write it so.",
        check=_veiled,
    ),
)
