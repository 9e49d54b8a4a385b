"""The table of commands, with the module, the group and the summary of each; names that other tools have for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class Command:
    """A command; its module has `add(parser)`, which adds options, and `run(options)`, which carries it out."""

    group: str
    summary: str
    module: str = ""
    """The module of this room; empty where it has the name of the command."""
    everyday: bool = False
    """Whether `metier --help` describes it; `metier help --all` describes all."""


GROUPS = {
    "use": "find skills, and let agents use them",
    "write": "write skills, and change those of others",
    "run": "run what skills bring",
    "govern": "decide what skills may do, and see what they did",
    "operate": "look after an installation",
}

COMMANDS = {
    "init": Command(
        "use",
        "find the clients and frameworks of a project; connect, protect and sync them, each after a question",
        everyday=True,
    ),
    "add": Command("use", "install skills from a repository, an archive, a site or a folder", everyday=True),
    "remove": Command("use", "remove skills that were added; their history stays"),
    "outdated": Command("use", "list the skills whose sources have something newer", "update"),
    "update": Command("use", "bring newer versions of skills: the difference first, what they can newly do on top"),
    "install": Command("use", "bring exactly what the lock file says"),
    "lock": Command("use", "list what is installed and locked; say whether it still is as it was"),
    "list": Command("use", "list the skills that are there", everyday=True),
    "search": Command("use", "find the skills that fit, the best first", everyday=True),
    "show": Command("use", "show what a skill says of itself, its instructions or one of its files", everyday=True),
    "catalog": Command("use", "print what a model is shown of the skills, within a budget of bytes"),
    "listing": Command("use", "show or set how much models are shown of a skill", "catalog"),
    "ask": Command("use", "let an agent do a task with the skills that fit, and tell what it does", everyday=True),
    "chat": Command("use", "talk with an agent; /SKILL ARGUMENTS uses a skill by its name", everyday=True),
    "feedback": Command("use", "say whether a skill helped"),
    "agents": Command("use", "list the agents that are declared here"),
    "mcp": Command(
        "use", "serve skills to an MCP client, over stdio or HTTP; or write the client's configuration", everyday=True
    ),
    "sync": Command("use", "write skills as plain folders, for clients that only read disk, and keep them up to date"),
    "new": Command("write", "write a new skill to begin with", everyday=True),
    "validate": Command("write", "say what is wrong with skills", everyday=True),
    "test": Command("write", "test skills: form, routing, scripts, rules and behaviour", everyday=True),
    "score": Command("write", "rate skills from 0 to 100, and say what would raise the score"),
    "pack": Command("write", "make an archive of a skill; the same content always gives the same bytes"),
    "publish": Command("write", "give a version of a skill to others: to a registry's folder, by git, or by OCI"),
    "registry": Command(
        "write", "make a static site of skills for any web server; withdraw versions, deprecate skills"
    ),
    "propose": Command("write", "propose changes to skills, and decide about them"),
    "history": Command("write", "list the versions that a skill had, and what changed between them"),
    "rollback": Command("write", "bring back an earlier version of a skill, exactly", "history"),
    "run": Command("run", "run a script of a skill in a sandbox, and show what it writes as it comes", everyday=True),
    "packages": Command("run", "list the packages that scripts import, and build them"),
    "session": Command("run", "load, read and run skills as a model would, and see what it is told"),
    "shell": Command("run", "open a virtual shell, with skills mounted in it and nothing of this machine"),
    "protect": Command(
        "govern", "have the guard decide about each tool call of Claude Code, Codex and other clients", everyday=True
    ),
    "trust": Command("govern", "trust the skills of a project", everyday=True),
    "untrust": Command("govern", "no longer trust the skills of a project", "trust"),
    "scan": Command("govern", "look for signs of an attack in skills, without running anything", everyday=True),
    "scan rules": Command("govern", "list, show, test and begin rules of the scanner", "scan_rules"),
    "explain": Command("govern", "say whether a tool call is allowed, and by which rule"),
    "policy": Command("govern", "check, show and explain what policy files allow"),
    "approve": Command("govern", "decide what skills may do", everyday=True),
    "waiting": Command(
        "govern", "say what waits for you: requests, proposals, quarantines; ends with 4 if anything does"
    ),
    "quarantine": Command("govern", "take skills out of use everywhere, and let them be used again"),
    "deploy": Command("govern", "put a skill into the folder that everybody's agents read first"),
    "user": Command("govern", "say who may decide, and make the tokens by which they are known"),
    "audit": Command("govern", "read, verify and export what was recorded"),
    "stats": Command("govern", "show who used which skills how much, what that cost, and what nobody uses"),
    "replay": Command(
        "govern", "decide recorded sessions again, and show what another policy or content would have changed"
    ),
    "store": Command("operate", "look after what is kept: approvals, history, the audit log"),
    "serve": Command("operate", "serve skills, policy and approvals to a company: API, registry, nodes"),
    "api": Command("operate", "send one request to the API of a server: whatever can be decided, from a script"),
    "login": Command("operate", "make this machine a node of a server, which says what holds here"),
    "logout": Command("operate", "let this machine be no node of its server any more", "login"),
    "node": Command("operate", "say what this machine has of its server; exchange everything with it"),
    "doctor": Command("operate", "say what is found where, what is wrong and what to do", everyday=True),
    "hook": Command("operate", "answer a hook of a client, which sends its event: clients call it, not people"),
    "demo": Command("operate", "show in a minute what this does, on skills that come with it"),
    "completion": Command("operate", "print the completion script for a shell"),
    "help": Command("operate", "show what a command does, and its options", everyday=True),
}

OTHER_NAMES = {
    "add": "import fetch",
    "remove": "uninstall rm delete",
    "update": "upgrade",
    "install": "ci restore-lock",
    "list": "ls dir skills index",
    "search": "find query grep",
    "show": "info inspect view describe details get cat print open read",
    "validate": "check lint verify",
    "test": "eval evaluate bench",
    "score": "rate grade quality",
    "pack": "package zip bundle archive",
    "init": "setup configure onboard",
    "new": "create generate scaffold template",
    "run": "exec execute start",
    "ask": "prompt do",
    "chat": "talk repl",
    "mcp": "server",
    "serve": "daemon api hub",
    "sync": "export copy link",
    "scan": "security analyze analyse",
    "explain": "why can",
    "approve list": "approvals requests pending",
    "approve grant": "grant allow accept",
    "approve deny": "deny reject",
    "propose new": "submit suggest",
    "quarantine add": "block ban disable revoke",
    "quarantine release": "release unblock enable",
    "rollback": "undo revert restore",
    "history": "versions diff changes",
    "audit tail": "log logs events",
    "user list": "users people whoami",
    "user token": "token login auth",
    "store backup": "backup",
    "login": "enrol enroll connect join bind signin",
    "logout": "leave disconnect unbind signout",
    "node status": "server lease",
    "doctor": "status diagnose health config",
    "--version": "version",
}
"""Names that other tools have for a command, by the command."""


def suggestion(word: str, known: Collection[str], command: str) -> str:
    """Format the error for a word that is no command, or no verb of one, with the one that may have been meant.

    >>> suggestion("lsit", ["list", "show"], "metier")
    "there is no command 'lsit': did you mean `metier list`?"
    """
    from metier.skill.untrusted_text import shown

    if command != "metier":
        problem, otherwise = f"`{command}` has no verb {shown(word)!r}", f"verbs are {', '.join(known)}"
        close = closest(word.lower(), known)
    else:
        problem, otherwise = f"there is no command {shown(word)!r}", "`metier help --all` lists them"
        same = [name for name, words in OTHER_NAMES.items() if word.lower() in words.split()]
        close = same or closest(word.lower(), known)
    if close:
        otherwise = f"did you mean {' or '.join(f'`{command} {one}`' for one in close)}?"
    return f"{problem}: {otherwise}"


def closest(word: str, known: Collection[str]) -> list[str]:
    """List the known words for which another may be a slip, the likeliest first."""
    from metier._suggest import suggestions

    return suggestions(word, known, 2)
