"""The ways on after a refusal of the guard, each worded for who reads it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from metier.hints import ASK_TO_TRUST, HOW_TO_ISOLATE, TELL_OF_NO_ISOLATION, WITHOUT_IT, Hint, for_people
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.decision import Origin

BLOCKED = for_people("`guard.unblock` takes the block back, unless the policy has it.", model=WITHOUT_IT)
QUARANTINED = for_people(
    "`metier quarantine list` says who took it out of use, and why; `metier quarantine release` ends that.",
    model=WITHOUT_IT,
)
RESTORE_LOCKED = for_people(
    "`metier lock --check` says what differs; `metier install` brings back what the lock file says.", model=WITHOUT_IT
)
STORE = for_people("`metier store check` says what is wrong with it.")
POLICY = for_people("`metier policy check` says what is wrong with it.")
TRUST = for_people(
    "Look at it with `metier show`; then `metier trust DIR` trusts the project that it comes from.",
    # Not the command that does it: a model that may run commands might trust a project by itself.
    model=ASK_TO_TRUST,
)
ISOLATE = Hint(
    "{how} Policy(unsandboxed='allow') does without.",
    person="{how}",
    model=TELL_OF_NO_ISOLATION,
    how=HOW_TO_ISOLATE,
)
HAVE_SIGNED = for_people(
    "Have it signed; who approves of skills can make an exception by `metier add --allow-unsigned REASON`.",
    # Not the exception, which is for a person to think of.
    model=WITHOUT_IT,
)
NAME_SIGNER = for_people("Where you know who it is, put their public key into ~/.metier/keys.", model=WITHOUT_IT)
SCAN = for_people(
    "`metier policy check` says whether all packs of rules can be used; `metier scan --keep` lets the scanners look at "
    "it, and says what went wrong.",
    model=WITHOUT_IT,
)

COMPARE = for_people(
    "`metier propose show` runs the tests of the skill before and after the change, and shows what is worse.",
    model="Ask the user to have the tests compared.",
)


def run_tests(command: str, skill: str) -> Hint:
    """Run the tests of a skill, called `name@source`, or find out its score, and have that recorded."""
    return for_people(
        "`metier {command} {name}` says what is wrong, and records the result, which counts for exactly this content.",
        model=WITHOUT_IT,
        command=command,
        name=shown(skill),
    )


def change_policy(origin: Origin | None, model: str = WITHOUT_IT) -> Hint:
    """Change what the line of a policy file says; where that is an administrators' file, ask one of them."""
    if origin is None:
        return for_people("`metier policy show` says what holds.", model=model)
    if origin.layer == "enterprise":
        return for_people("It is for administrators to change: {origin}.", model=model, origin=origin)
    return for_people(
        "Change `{key}` in line {line} of {path}, if it is to be otherwise.",
        model=model,
        key=origin.key,
        line=origin.line,
        path=origin.path,
    )


def allow_setting(setting: str) -> Hint:
    """Allow something by a setting about which no policy file says anything."""
    return Hint(
        "Policy({setting}='allow') would allow it.",
        person="In a policy file, `run: {{{key}: allow}}` would allow it.",
        model=WITHOUT_IT,
        setting=setting,
        key=setting.replace("_", "-"),
    )


def ask_somebody(origin: Origin | None = None) -> Hint:
    """Let somebody be asked about what is asked about each time, and waits nowhere."""
    return Hint(
        "Guard(approve=...) names who is asked, each time{where}.",
        person="Do it at a terminal, where you are asked each time{where}.",
        model="Ask the user, or do it another way.",
        where="" if origin is None else f": {origin} says so",
    )


def tenant_option(tenant: str | None) -> str:
    """` --tenant NAME` for a command in a hint, or nothing: without it, that command would look elsewhere.

    >>> f"metier approve list{tenant_option('acme')}"
    'metier approve list --tenant acme'
    """
    return f" --tenant {shlex.quote(shown(tenant))}" if tenant else ""


def approve_request(request: str = "", tenant: str = "") -> Hint:
    """Have the content of a skill approved; `request` waits for that, where one was made."""
    if not request:
        return for_people(
            "`metier approve list` shows what waits for an answer.", model="Ask the user to have it approved."
        )
    return for_people(
        "`metier approve show {request}{tenant}` shows what it is about; who may decide agrees with `metier approve "
        "grant {request}{tenant}`.",
        model="Ask the user to have request {request} approved.",
        request=request,
        tenant=tenant_option(tenant),
    )


def take_back(approval: str) -> Hint:
    """Take back somebody's decision against a content."""
    return for_people("`metier approve revoke {approval}` takes that back.", model=WITHOUT_IT, approval=approval)


def restore_or_propose(skill: str) -> Hint:
    """Restore what was recorded of a skill, called `name@source`, or propose what is there instead."""
    return for_people(
        "`metier rollback {name}` restores what was recorded, and `metier propose update {name} --why TEXT` proposes "
        "what is there now.",
        model="Do the task without it, and tell the user.",
        name=shown(skill),
    )
