"""The checks of policy files, store and approvals, and how their decisions are combined.

A check is a function of a `DecisionContext` that yields a decision for each reason that it finds. The strictest one
counts. To add a check, write such a function here and put it into `CHECKS`, with the points at which it is asked.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeAlias, cast, get_args

from metier.errors import MetierError
from metier.guard.decision import INTEGRITY, STRICTNESS, Point, allow, amend, ask, issue, refuse
from metier.guard.decision_context import NotExamined
from metier.guard.node.node_checks import node_standing, undeployed
from metier.guard.policy.files import refuse_environment
from metier.guard.policy.source_patterns import allows_source, denies_source
from metier.guard.remedies import (
    HAVE_SIGNED,
    NAME_SIGNER,
    POLICY,
    QUARANTINED,
    SCAN,
    STORE,
    approve_request,
    change_policy,
    restore_or_propose,
    take_back,
)
from metier.guard.required_tests import compared_tests, required_tests
from metier.guard.run_checks import file_settings
from metier.guard.signers import is_signer
from metier.skill import shown
from metier.skill.names import may_name, names_skill, readings
from metier.skill.script_packages import grant_of, package_names, package_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from metier.guard.decision import Action, Decision, Origin, Subject
    from metier.guard.decision_context import DecisionContext
    from metier.hints import Hint

Check: TypeAlias = "Callable[[DecisionContext], Iterable[Decision]]"
"""The signature of a check: a decision for each reason that it finds."""
_USES: tuple[Point, ...] = ("load", "read", "run", "hook", "inject")
_INSTALLS: tuple[Point, ...] = ("install", "update")
_ARRIVALS: tuple[Point, ...] = (*_INSTALLS, "apply", "deploy")
"""Points at which content comes to a place, which is how the record of an installation comes about."""
_SIGHTS: tuple[Point, ...] = ("discover", *_USES, *_ARRIVALS)
"""Points at which a skill is seen, used or brought: whatever is against the skill is against them."""
_STARTS = tuple(point for point in (*_USES, *_ARRIVALS, "publish") if point != "read")
"""Points at which something begins: none of them passes a policy that cannot be read."""
_ALL: tuple[Point, ...] = get_args(Point)
_BUT_UNLOAD = tuple(point for point in _ALL if point != "unload")
_GRANTED_FOR = {"run": "scripts", "hook": "hooks", "inject": "inline-exec"}
"""The capability that an approval must grant, by the point of decision."""
_NOT_AS_RECORDED = ": its content is not what was recorded when it was put there."


def quarantine(context: DecisionContext) -> Iterator[Decision]:
    """Deny skills that are in quarantine, by name, content or source."""
    subject = context.subject
    for state in context.states:
        if subject is None or not state.blocked:
            continue
        names = (("name", one) for one in readings(subject.name))
        for kind, value in (("digest", subject.digest), *names, ("source", subject.source)):
            if not value or (kind, value) not in state.blocked:
                continue
            is_changed = state.blocked_by.get((kind, value)) == INTEGRITY
            if is_changed and _is_for_a_person(context.action):
                continue
            yield refuse(
                check=f"quarantine of {kind} {shown(value)}",
                reason=f"Skill {subject.name!r} is in quarantine{_NOT_AS_RECORDED if is_changed else '.'}",
                code="integrity-failed" if is_changed else "skill-quarantined",
                hint=restore_or_propose(subject.ref) if is_changed else QUARANTINED,
                holds_always=True,
            )


def _is_for_a_person(action: Action) -> bool:
    """Whether a person is to record content that was changed by hand."""
    return action.point == "propose" or (action.point in ("apply", "deploy") and action.by == "user")


def unreadable_store(context: DecisionContext) -> Iterator[Decision]:
    """Deny every start while the store cannot be used, as nobody knows the quarantines then."""
    for state in context.states:
        if not state.is_readable:
            yield refuse(
                check="store",
                reason="The store, which has approvals and quarantines, cannot be used.",
                code="store-unavailable",
                hint=STORE,
                holds_always=True,
            )
            return


def broken_policy(context: DecisionContext) -> Iterator[Decision]:
    """Deny every start, or ask, while a policy file cannot be read."""
    outcome = context.effective.on_error
    for problem in context.effective.errors if outcome != "allow" else ():
        yield issue(
            check=f"on-error: {outcome}",
            outcome=outcome,
            reason=f"A policy file cannot be used. {problem.message}",
            code="policy-unreadable" if outcome == "deny" else "approval-needed",
            hint=POLICY,
            origin=problem.origin,
        )


def environment(context: DecisionContext) -> Iterator[Decision]:
    """Deny callers in another environment than the one that administrators put this machine in.

    It holds in every mode: the environment decides which skills there are, and is not for a caller to choose.
    """
    actor, fixed = context.actor, context.effective.environment
    if fixed is None or actor.environment == fixed:
        return
    # An actor without a session that names none is in the machine's; the skills of a session were found in its own.
    if actor.environment is not None or actor.session is not None:
        yield refuse_environment(actor.environment, context.effective)


def skill_lists(context: DecisionContext) -> Iterator[Decision]:
    """Deny skills by the lists, reserved names, listing modes and pins of policy files."""
    subject, effective, action = context.subject, context.effective, context.action
    if subject is None:
        return
    name, source = subject.name, subject.source
    for pattern, origin in effective.skills_deny:
        if may_name(pattern, name, source):
            yield _against(subject, f"Policy denies {shown(pattern)!r}.", "skills.deny", "skill-denied", origin)
    for patterns, listed in effective.skills_allow:
        if not any(names_skill(pattern, name, source) for pattern in patterns):
            why = "It is not among the skills that policy allows."
            yield _against(subject, why, "skills.allow", "skill-denied", listed)
    if subject.layer != "enterprise":
        for reserved, origin in effective.reserved.items():
            if may_name(reserved, name, source):
                which = "The name" if names_skill(reserved, name, source) else f"It looks like {reserved!r}, which"
                why = f"{which} is reserved for skills that administrators deploy."
                yield _against(subject, why, "skills.reserved", "name-reserved", origin)
    rule = effective.listing.rule_for(name, source) if effective.listing else None
    if rule is not None:
        set_by = cast("Origin | None", rule.origin)
        if rule.mode == "off":
            yield _against(subject, "Policy turned it off.", "skills.listing", "skill-denied", set_by)
        elif rule.mode == "manual" and action.by == "model" and action.point in ("load", "discover"):
            why = "Policy leaves it to people to start it."
            yield _against(subject, why, "skills.listing", "not-for-models", set_by)
    for pinned, pinned_by in effective.pins_of(name, source) if effective.pins else ():
        if subject.digest and subject.digest != pinned:
            why = f"Its content is {subject.digest[:19]}…, and policy pins {pinned[:19]}…"
            yield _against(subject, why, "skills.pins", "digest-mismatch", pinned_by)


def enterprise_names(context: DecisionContext) -> Iterator[Decision]:
    """Deny a skill that has, or imitates, the name of a skill of the enterprise layer.

    It holds in every mode and without any policy file: it is for administrators alone to say otherwise.
    """
    subject = context.subject
    owner = subject.reserved_by if subject is not None else None
    if subject is None or owner is None:
        return
    if context.effective.enterprise_names == "reserve":
        which = "Its name" if owner.name == subject.name else f"Its name is taken for {owner.name!r}, which"
        why = f"{which} is that of a skill that administrators deployed."
        origin = context.effective.origin("skills.enterprise-names")
        decision = _against(subject, why, "skills.enterprise-names: reserve", "name-reserved", origin)
        yield amend(decision, holds_always=True)


def _against(subject: Subject, why: str, check: str, code: str, origin: Origin | None) -> Decision:
    return refuse(
        check=check,
        reason=f"Skill {subject.name!r} cannot be used here. {why}",
        code=code,
        hint=change_policy(origin),
        origin=origin,
    )


def integrity(context: DecisionContext) -> Iterator[Decision]:
    """Deny skills whose content is not the recorded one of their folder."""
    subject, install = context.subject, context.install
    if subject is None or install is None or not subject.digest:
        return
    if install.state == "disabled":
        why = "It is disabled in its place."
        yield _against(subject, why, "installs", "skill-disabled", None)
    elif not context.is_as_recorded:
        yield refuse(
            check="integrity",
            reason=f"The content of skill {subject.name!r} is not what was recorded when it was put there.",
            code="integrity-failed",
            hint=restore_or_propose(subject.ref),
            holds_always=True,
        )


def sources(context: DecisionContext) -> Iterator[Decision]:
    """Deny installations from sources that policy files do not allow."""
    action, effective = context.action, context.effective
    if not action.source:
        return
    for pattern, origin in effective.sources_deny:
        if denies_source(pattern, action.source):
            why = f"Policy denies the source {shown(action.source, 300)!r}: {shown(pattern)}."
            yield _from(why, "sources.deny", origin)
    for patterns, origin in effective.sources_allow:
        if not any(allows_source(pattern, action.source) for pattern in patterns):
            listed = shown(", ".join(patterns), 300) or "none"
            why = f"The source {shown(action.source, 300)!r} is not among those that policy allows: {listed}."
            yield _from(why, "sources.allow", origin)


def required_of_sources(context: DecisionContext) -> Iterator[Decision]:
    """Deny installations without the digest, pin or signature that policy files require, and publishing without one."""
    action, subject, effective = context.action, context.subject, context.effective
    if not action.source:
        return
    terms = effective.sources_require
    has_digest = subject is not None and subject.digest != ""
    is_exact = action.pinned or action.point == "publish"
    for name, is_lacking, what in (
        ("digest", terms.digest and not has_digest, "what is installed to name its content by a digest"),
        ("pinned", terms.pinned and not is_exact, "what is installed to name an exact version or commit"),
    ):
        if is_lacking:
            key = f"sources.require.{name}"
            yield _from(f"Policy wants {what}.", key, effective.origin(key))
    code, found, hint = _UNSIGNED.get(action.signature, ("", "", None))
    if code and action.unsigned_because:
        return  # somebody who may decide about skills answers for it, which is recorded
    key = "sources.require.signature"
    if ("none" if code else action.signature) not in terms.signature:
        yield _from(
            f"Policy wants a signature ({', '.join(terms.signature)}){found}.", key, effective.origin(key), code, hint
        )
    for pattern, signers in effective.sources_signers.items():
        if denies_source(pattern, action.source) and not is_signer(action.signer, (one.text for one in signers)):
            wanted = shown(", ".join(one.text for one in signers), 300) or "nobody"
            why = f"Policy wants what comes from {shown(pattern)!r} to be signed by {wanted}{found}."
            yield _from(why, "sources.signers", effective.origin("sources.signers"), code, hint)


_UNSIGNED = {
    "none": ("signature-missing", ", and there is none", HAVE_SIGNED),
    "unknown": ("signer-unknown", ", and it is by somebody whom nobody here has named", NAME_SIGNER),
}
"""Codes, words and hints where no signature counts."""


def _from(why: str, check: str, origin: Origin | None, code: str = "", hint: Hint | None = None) -> Decision:
    return refuse(
        check=check, reason=why, code=code or "source-denied", hint=hint or change_policy(origin), origin=origin
    )


def rules(context: DecisionContext) -> Iterator[Decision]:
    """The rules of the policy files. One that asks about a skill is answered by an approval of its content."""
    subject = context.subject
    for rule in context.effective.strict_rules.about(context):
        try:
            holds = rule.holds(context)
            why = rule.because(context) if holds else ""
        except MetierError as error:
            yield from cannot_tell(context, f"whether rule {shown(rule.id)} holds", error)
            continue
        if not holds:
            if rule.scan and context.scanned.problem:
                yield from _on_error(context, context.scanned.problem, SCAN)
            continue
        asks = rule.effect == "ask"
        is_of_content = subject is not None and context.action.point in ("load", *_INSTALLS, *_GRANTED_FOR)
        if asks and is_of_content and context.approval_status.is_approved:
            ids = ", ".join(context.approval_status.ids)
            reason = f"Rule {shown(rule.id)} asks{why}, and its content was approved."
            yield allow(check=f"approval {ids}", reason=reason, origin=rule.origin)
            continue
        what = f"Skill {subject.name!r}" if subject is not None else "It"
        is_unknown = bool(rule.scan) and context.scanned.is_unknown(rule.scan)
        yield issue(
            check=f"rule {shown(rule.id)}",
            outcome=rule.effect,
            reason=f"{what} falls under rule {shown(rule.id)}{why}.",
            code="approval-needed" if asks else "rule-denied",
            hint=approve_request() if asks else SCAN if is_unknown else change_policy(rule.origin),
            origin=rule.origin,
            needs_grant=asks and context.action.point in ("load", *_INSTALLS),
        )


def scanners(context: DecisionContext) -> Iterator[Decision]:
    """Apply `on-error` to skills that a scanner or a pack of rules named by policy has not looked at."""
    settings = context.effective.scan
    if context.subject is None or not (settings.commands or settings.packs):
        return
    try:
        problem = context.scanned.problem
    except MetierError as error:
        yield from cannot_tell(context, "what scanners say to it", error)
        return
    if problem:
        yield from _on_error(context, problem, SCAN)


def refusal(context: DecisionContext) -> Iterator[Decision]:
    """Deny content that a person decided against."""
    subject = context.subject
    if subject is None or context.denied is None:
        return
    yield refuse(
        check=f"approval {context.denied.id}",
        reason=f"{shown(context.denied.decided_by)} decided against skill {subject.name!r}.",
        code="approval-denied",
        hint=take_back(context.denied.id),
    )


def approval(context: DecisionContext) -> Iterator[Decision]:
    """Ask for an approval of the capabilities that exactly this content needs one for."""
    subject = context.subject
    if subject is None or not context.required or context.denied is not None:
        return
    found = context.approval_status
    needed = _GRANTED_FOR.get(context.action.point)
    if needed is not None:
        if needed in context.required and needed not in found.grants:
            yield _wanting(context, (needed,))
        return
    try:
        lacking = context.lacking
    except MetierError as error:
        yield from cannot_tell(context, f"what skill {subject.name!r} can do", error)
        return
    if lacking:
        yield _wanting(context, lacking)
    elif found.grants:
        yield _granted(found.ids, found.grants)


def script_packages(context: DecisionContext) -> Iterator[Decision]:
    """Ask for an approval of the packages that the scripts of exactly this content declare, and of their resolution.

    It holds in every mode, in every layer and without any policy file: they are the code of strangers. Whoever changes
    a lock changes what is built, and nothing of that reaches a script before a person approved of exactly this list.
    """
    subject = context.subject
    if subject is None or context.denied is not None:
        return
    grants = context.approval_status.grants
    try:
        if "packages" not in grants and not context.declares_packages:
            return
    except MetierError as error:
        yield from cannot_tell(context, f"which packages skill {subject.name!r} needs", error)
        return
    wanted = grant_of(package_record(subject.digest).packages)
    if "packages" in grants and wanted in ("", *grants):
        return
    decision = _wanting(context, ("packages",))
    yield amend(decision, check=wanted or "packages", holds_always=True)


@functools.lru_cache(1_024)
def _granted(ids: tuple[str, ...], grants: frozenset[str]) -> Decision:
    return allow(check=f"approval {', '.join(ids)}", reason=f"It was granted {', '.join(sorted(grants))}.")


def _wanting(context: DecisionContext, lacking: tuple[str, ...]) -> Decision:
    subject = context.subject
    assert subject is not None
    wanted = context.required
    origin = next((wanted[one] for one in lacking if wanted.get(one) is not None), None)
    told = ""
    if context.action.point == "load":
        try:
            rule = context.automatic
        except MetierError:
            rule = None
        if rule is not None:
            reason = f"Policy approves of this content of skill {subject.name!r}."
            return allow(check=rule, reason=reason, is_automatic=True)
        new = [one for one in lacking if one in context.new] if context.has_earlier else []
        told = f" (new: {', '.join(new)})" if new else "" if context.has_earlier else ", all of it new here"
    resolved = package_record(subject.digest).packages if "packages" in lacking else ()
    listed = f" They are {shown(', '.join(package_names(resolved)), 2_000)}." if resolved else ""
    return ask(
        check=grant_of(resolved) or "require-approval-for",
        reason=f"Skill {subject.name!r} needs an approval of its content for {', '.join(lacking)}{told}.{listed}",
        code="approval-needed",
        hint=approve_request(),
        origin=origin,
        needs_grant=True,
    )


def cannot_tell(context: DecisionContext, what: str, error: MetierError) -> Iterator[Decision]:
    """Apply `on-error` to a fact that cannot be found out: it is never taken for harmless."""
    if error.code == "skill-changed":
        yield refuse(check="integrity", reason=error.message, code=error.code, hint=error.hint)
        return
    if error.code == NotExamined.code and not context.effective.files:
        return  # nobody wrote down that skills which are nowhere have to be looked into
    yield from _on_error(context, f"It cannot be told {what}: {error.message}")


def _on_error(context: DecisionContext, why: str, hint: str = "") -> Iterator[Decision]:
    outcome, origin = context.effective.on_error, context.effective.origin("on-error")
    if outcome != "allow":
        yield issue(
            check=f"on-error: {outcome}",
            outcome=outcome,
            reason=why,
            code="not-examined" if outcome == "deny" else "approval-needed",
            hint=hint or change_policy(origin),
            origin=origin,
        )


def tool_rules(context: DecisionContext) -> Iterable[Decision]:
    """The tool rules of each policy file; a call must be inside all of them."""
    if not context.effective.tool_layers:
        return ()
    from metier.guard.layered_rules import decide_by_files

    return decide_by_files(context)


CHECKS: Mapping[Check, tuple[Point, ...]] = {
    unreadable_store: _STARTS,
    node_standing: tuple(point for point in _BUT_UNLOAD if point not in ("discover", "answer", "propose")),
    quarantine: _BUT_UNLOAD,
    broken_policy: _STARTS,
    environment: _BUT_UNLOAD,
    skill_lists: _SIGHTS,
    enterprise_names: _SIGHTS,
    integrity: ("discover", *_USES),
    undeployed: ("discover", *_USES),
    sources: _INSTALLS,
    required_of_sources: (*_INSTALLS, "publish"),
    file_settings: _USES,
    rules: _ALL,
    scanners: ("load",),
    refusal: _SIGHTS,
    required_tests: _USES,
    compared_tests: ("apply",),
    approval: _USES,
    script_packages: ("run", "hook"),
    tool_rules: ("call",),
}
"""All of them with the points at which they are asked, in the order in which they are explained."""
_AT = {point: tuple(check for check, points in CHECKS.items() if point in points) for point in _ALL}
VISIBILITY_CHECKS: tuple[Check, ...] = (quarantine, skill_lists, enterprise_names, integrity, undeployed, refusal)
"""The checks that keep a skill from being listed at all."""


def consider(context: DecisionContext) -> list[Decision]:
    """The decisions of all checks that have something to say."""
    return [decision for check in _AT[context.action.point] for decision in check(context)]


def strictest(decisions: list[Decision]) -> Decision | None:
    """The decision that counts: the strictest, of several one that holds in every mode, and of those the first."""
    return max(decisions, key=lambda one: (STRICTNESS[one.outcome], one.holds_always), default=None)


def combine(own: Decision, decisions: list[Decision], mode: str) -> Decision:
    """The decision of the program's layer, or a stricter one of the checks; where both ask, one question is about both.

    In the mode `audit` a decision stays as it is, and says what an enforced policy would have decided.
    """
    worst = strictest(decisions)
    if worst is None:
        return own
    if worst.is_automatic and own.outcome == "allow":
        return worst
    if worst.outcome == "allow":
        return own
    if mode != "enforce" and not worst.holds_always:
        return _watched(own, worst) if mode == "audit" else own
    if STRICTNESS[worst.outcome] < STRICTNESS[own.outcome]:
        return own
    found = _joint_question(decisions) if worst.outcome == "ask" else worst
    if own.outcome == "ask" and own.rule != found.rule:
        found = amend(found, reason=f"{own.reason} {found.reason}")
    return found


def _joint_question(decisions: list[Decision]) -> Decision:
    """One question about everything that has to be asked; an approval is needed for it if it is for any of it."""
    # One that names packages goes first: the answer counts for the list that was shown.
    asked = sorted(
        (one for one in decisions if one.outcome == "ask"), key=lambda one: (not one.needs_grant, not one.holds_always)
    )
    return amend(asked[0], reason=" ".join(dict.fromkeys(one.reason for one in asked)))


def _watched(own: Decision, worst: Decision) -> Decision:
    would = "be denied" if worst.outcome == "deny" else "have to be asked about"
    reason = f"Policy only watches. If it were enforced, this would {would}: {worst.reason}"
    if own.outcome == "ask":
        return amend(own, would=worst.outcome, reason=f"{own.reason} {reason}")
    return amend(own, would=worst.outcome, reason=reason, check=worst.check, origin=worst.origin)
