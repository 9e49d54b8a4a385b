"""Secrets for scripts: by name, from a provider, when the skill asks for them and policy grants them to it.

They are looked up for each run, right before it, and reach the script as environment variables. Nothing keeps them:
neither the session, nor what it saves, nor any event or record.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from metier._lazy import dataclass, field
from metier.errors import InvalidArgument
from metier.guard.decision import refuse
from metier.run import job_environment
from metier.skill import requirements_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.guard.policy.program import ClosedPolicy
    from metier.session.active_skills import ActiveSkill


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that nobody should see, and until when it counts.

    >>> Secret("hunter2")
    Secret(expires_at=None)
    """

    value: str = field(repr=False)
    expires_at: float | None = None
    """Seconds since 1970, as `time.time()` has them; None is never."""


class SecretProvider(Protocol):
    """A source of secrets: a vault, a key ring, a file that only this program reads."""

    def get(self, name: str) -> Secret | str | None:
        """The secret of a name; None when there is none."""
        ...


class GivenSecrets:
    """Secrets that the program has at hand.

    >>> GivenSecrets({"API_TOKEN": "abc"}).get("API_TOKEN")
    'abc'
    """

    def __init__(self, secrets: Mapping[str, Secret | str]) -> None:
        self._secrets = dict(secrets)

    def __repr__(self) -> str:
        return f"GivenSecrets({', '.join(sorted(self._secrets))})"

    def get(self, name: str) -> Secret | str | None:
        """The secret of a name."""
        return self._secrets.get(name)


class EnvironmentSecrets:
    """Secrets from environment variables of this program, of the given names and no others.

    >>> EnvironmentSecrets(["API_TOKEN"]).get("PATH") is None
    True
    """

    def __init__(self, names: Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
        if isinstance(names, str):
            raise InvalidArgument("names is a list of texts.", hint=f"Write EnvironmentSecrets([{names!r}]).")
        self._names = frozenset(names)
        self._environ = environ

    def __repr__(self) -> str:
        return f"EnvironmentSecrets({sorted(self._names)})"

    def get(self, name: str) -> str | None:
        """The value of the variable, if it is one of those and is set."""
        return self._environ.get(name) or None if name in self._names else None


def secrets_for(
    active: ActiveSkill, policy: ClosedPolicy, provider: SecretProvider | None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The secrets that a skill's scripts get, by name, and what to tell people of those that are not there.

    A skill that nobody vouches for gets none, whatever it is called: names can be taken by anybody.
    """
    by_skill = policy.secrets
    granted = {*by_skill.get(active.name, ()), *by_skill.get(active.digest, ())}
    names = [name for name in requirements_of(active.skill).env if name in granted]
    if not names:
        return {}, ()
    if not active.entry.trusted:
        return {}, (f"It got no secret, as skill {active.name!r} comes from a place that nobody vouches for.",)
    found, notes = {}, []
    for name in names:
        value = _value(name, provider)
        if value is None:
            notes.append(f"The secret {name} is not there.")
        else:
            found[name] = value
    # The checks of every other variable: no secret may be called PATH, or hold a NUL.
    job_environment(found, workspace="/")
    return found, tuple(notes)


def _value(name: str, provider: SecretProvider | None) -> str | None:
    secret = provider.get(name) if provider is not None else None
    if isinstance(secret, Secret):
        if secret.expires_at is not None and secret.expires_at <= time.time():
            reason = f"The secret {name} has expired."
            raise refuse("secret", reason, code="secret-expired", hint="Renew it where it comes from.").as_error()
        secret = secret.value
    if secret is not None and not isinstance(secret, str):
        raise InvalidArgument(f"The secret {name} is no text.", hint="A provider returns text, a Secret or None.")
    return secret or None
