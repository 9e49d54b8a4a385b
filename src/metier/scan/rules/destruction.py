"""What cannot be undone: files deleted or locked, machines brought down."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._judging import weighed
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.view import SkillView

_WIPES = re.compile(
    r"\brm\s+(?:-\w+\s+|--[\w-]+\s+){1,5}[\"']?(?:/|~|\$home|\$\{home\}|/\*|~/\*|/home|/users|/etc|/usr|/var"
    r"|/System)/?\*?[\"']?(?:\s*$|\s*[;&|)\"'`]|\s+\d?>)|--no-preserve-root"
    r"|:\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&?\s*\}\s*;\s*:|%0\|%0"
    r"|\bmkfs(?:\.\w+)?\s+(?:-\w+\s+)*/dev/|\bdd\s+[^\n]{0,80}of=/dev/(?:sd|hd|nvme|disk|vd|mmcblk)"
    r"|>\s*/dev/(?:sd[a-z]|nvme\d|disk\d)|shutil\.rmtree\(\s*(?:os\.path\.expanduser\(\s*[\"']~/?[\"']\s*\)"
    r"|path\.home\(\)|[\"']/[\"']|os\.environ\[[\"']home[\"']\])"
    r"|remove-item\s[^\n]{0,60}(?:c:\\\\?\*?[\"'\s]|\$env:userprofile|\$home)\b[^\n]{0,40}-recurse|\bformat\s+c:"
    r"|del\s+/[fsq]\s[^\n]{0,20}c:\\|\bdiskutil\s+erasedisk|fs\.rm(?:sync)?\(\s*(?:os\.homedir\(\)|[\"']/[\"'])"
    r"|\bfind\s+(?:/|~|\$home)\s[^\n]{0,60}-delete\b|\bshred\s[^\n]{0,60}(?:~|\$home|/home|/dev/)"
    r"|git\s+push\s[^\n]{0,40}--mirror\s+--force|docker\s+volume\s+rm\s+(?:-f\s+)?\$\(\s*docker\s+volume\s+ls"
    r"|rm\s+-\w*[rf]\w*\s+/(?:var/lib/docker|var/backups?|etc/|boot|root)\S*",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"\b(?:delete|erase|wipe|destroy|remove|shred|encrypt|corrupt)\w{0,3}\b[^\n]{0,30}\b(?:all|every|everything"
    r"|entire|the user'?s?|any)\b[^\n]{0,30}\b(?:files?|documents?|data|home directory|backups?|photos"
    r"|repositor(?:y|ies)|databases?|disk|drive|system files|git history|emails?)\b"
    r"|删除(?:所有|全部|用户)[^。\n]{0,8}(?:文件|数据|备份)|удали\w{0,3} (?:все|всё) [^\n]{0,20}(?:файл|данн"
    r"|бэкап)|(?:elimina"
    r"|borra)[^\n]{0,20}todos los (?:archivos|datos|ficheros)"
)
_RANSOM = re.compile(
    r"\b(?:ransom|decrypt(?:ion)? key|pay\b[^\n]{0,40}\b(?:bitcoin|btc|monero|xmr)|send\b[^\n]{0,30}\b(?:btc"
    r"|bitcoin|xmr))\b"
)
_FLOODS = re.compile(
    r"\b(?:loop|repeat|continue|call|spawn|recurs\w{1,5})\w{0,3}\b[^\n]{0,80}\b(?:indefinitely|forever|infinitely"
    r"|without (?:limit|end|stopping)|until (?:the )?(?:quota|credits?|budget|tokens?|rate limit|disk|memory) (?:is"
    r"|are|runs?) (?:exhausted|out|full|used up|depleted))\b|\b(?:exhaust|burn|drain|consume|waste"
    r"|max out)\w{0,3}\b[^\n]{0,40}\b(?:the user'?s?|all|their|api|remaining)\b[^\n]{0,20}\b(?:quota|credits?"
    r"|budget|tokens?|allowance)\b"
)


def _wiped(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told():
        found = _WIPES.search(one.text) if read.sees(one, _MARKS) else None
        if found is not None:
            example = one.kind != "code" or re.search(
                r"\b(?:print|echo|log|deny|block|pattern|test|assert|expect|warn|never)\w{0,3}\b|[\"'][^\"']*\brm\b",
                one.low,
            )
            quiet = (
                re.search(
                    r"\b(?:history|report \"|if the (?:host|user|date|day)|after \d|friday|then remove)\b", one.low
                )
                and one.kind != "code"
            )
            severity: Severity = (
                "high"
                if quiet
                else "critical"
                if not example
                else "low"
                if one.kind != "code" and not re.search(r"\b(?:run|execute|use|perform)\b", one.low)
                else "medium"
                if one.kind != "code"
                else "low"
            )
            yield one.hit(found[0], weighed(severity, one, found, read))
        elif one.kind in ("prose", "comment", "frontmatter") and not one.warned:
            said = _SAID.search(one.low) if read.sees(one, _SAID_MARKS) else None
            if said is not None and not one.warns_of(said):
                words = one.words
                hides = sense.STEALTH.within(one.low, words) or re.search(
                    r"without (?:asking|confirm|warning|prompt)|no confirmation|before (?:exiting|finishing)", one.low
                )
                ransom = _RANSOM.search(one.low)
                if hides or ransom:
                    yield one.hit(one.text, "high")


_MARKS = (
    "rm ",
    "preserve-root",
    ":(",
    ": (",
    "%0|",
    "mkfs",
    "dd ",
    "/dev/",
    "rmtree",
    "remove-item",
    "format c",
    "del /",
    "erasedisk",
    "rmsync",
    "fs.rm",
    "-delete",
    "shred",
    "--mirror",
    "docker volume",
)


def _flooded(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("prose", "comment", "frontmatter"):
        found = _FLOODS.search(one.low) if read.sees(one, _FLOOD_MARKS) else None
        if found is not None and not one.warns_of(found):
            bad = re.search(r"quota|credits?|budget|exhaust|drain|burn|waste|deplet", found[0])
            yield one.hit(
                one.text, "medium" if bad and re.search(r"until|exhaust|drain|burn|waste", found[0]) else "info"
            )


_SAID_MARKS = (
    "delet",
    "eras",
    "wip",
    "destroy",
    "shred",
    "encrypt",
    "corrupt",
    "remov",
    "删除",
    "удали",
    "elimina",
    "borra",
)
_FLOOD_MARKS = (
    "indefinit",
    "forever",
    "infinite",
    "without",
    "until",
    "exhaust",
    "burn",
    "drain",
    "consum",
    "wast",
    "max out",
)


RULES = (
    ScanRule(
        id="DESTRUCTIVE_COMMAND",
        ast="AST01",
        category="resource_availability_abuse",
        severity="critical",
        message="It deletes or overwrites what is not its own.",
        hint="Do not run it. Let a skill work on a copy, or inside one folder.",
        check=_wiped,
    ),
    ScanRule(
        id="ENDLESS_WORK",
        ast="AST01",
        category="resource_availability_abuse",
        severity="medium",
        message="It keeps the agent busy until money or space runs out.",
        hint="Give the agent a limit, or remove the sentence.",
        check=_flooded,
    ),
)
