"""The skill under test: its files, its suite, and a copy without its tests in which everything is tried.

The boundary: a skill under test sees no file of its suite, no folder of its user and no network, and nothing that it
writes is read again as a test or as a result.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from metier import Guard, Library, Policy
from metier._lazy import dataclass, field, replace
from metier._paths import safe_rmtree
from metier.guard import MemoryLog
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.hub.skill_files import package_of, without_links
from metier.proof.clock import ClockRunner
from metier.proof.suite import Note
from metier.proof.suite_reader import read_suite
from metier.skill.package import checked_path, files_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier import Entry, Session
    from metier.guard import Action, AuditLog, Decision
    from metier.guard.policy.effective import EffectivePolicy
    from metier.proof.suite import Environment, Suite
    from metier.skill.package import FileMode, Files

TEST_FOLDER = "evals"
"""The folder of a skill that is never shown to it while it is tested."""


@dataclass(slots=True, kw_only=True)
class TestSubject:
    """A skill under test, in folders that are removed at the end."""

    __test__ = False  # pytest would take it for a test

    name: str
    digest: str
    """The digest of the skill with its tests: what is approved, and what results are about."""
    location: str
    files: Files
    """All its files, with its tests."""
    suite: Suite
    root: Path
    """A folder of this subject alone."""
    library: Library
    """The library of the copy, with nothing else in it."""
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    @property
    def folder(self) -> Path:
        """The copy of the skill, without its tests."""
        return self.root / "skills" / self.name

    def workspace(self, files: Mapping[str, bytes] | None = None) -> Path:
        """Make a folder to work in, with these files in it and no others."""
        folder = self.root / f"work-{next(self._numbers)}"
        write_files(folder, {path: ("file", data) for path, data in (files or {}).items()})
        return folder

    def session(
        self, workspace: Path, *, log: AuditLog | None = None, environment: Environment | None = None
    ) -> Session:
        """Begin a session with the skill loaded, in which nothing reaches the network or the user's files.

        With `environment`, it reaches the hosts of that, and what runs in it is told that moment.
        """
        hosts, now = (environment.network, environment.now) if environment is not None else ((), "")
        return self.library.session(
            skills=[self.name],
            workspace=workspace,
            guard=test_guard(workspace, log, hosts),
            runner=ClockRunner(now, self.root / f"clock-{next(self._numbers)}") if now else None,
            user="metier-test",
        )


def test_guard(workspace: Path, log: AuditLog | None = None, hosts: Sequence[str] = ()) -> Guard:
    """The guard of a trial: policy counts as ever, only hosts that are named are reached, and records stay here.

    Who starts a test agrees to what runs in it, in a sandbox and in folders of its own; what policy denies stays so.
    """
    policy = Policy(network="restricted" if hosts else "none", hosts=tuple(hosts), untrusted="allow")
    policies = cast("Policies", _PoliciesOfTests(Policies.discover(None, os.fspath(workspace))))
    log = log if log is not None else MemoryLog()
    return Guard(policy, audit=log, approve=_agree, governance=Governance(policies))


test_guard.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test


class _PoliciesOfTests:
    """The policies here, without those that want tests passed first: nothing could ever pass them."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._seen: tuple[EffectivePolicy, EffectivePolicy] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policies, name)

    def current(self) -> EffectivePolicy:
        return self._without_tests(self._policies.current())

    def found(self) -> EffectivePolicy | None:
        effective = self._policies.found()
        return None if effective is None else self._without_tests(effective)

    def _without_tests(self, effective: EffectivePolicy) -> EffectivePolicy:
        # The same object each time, by which a guard sees that nothing has changed.
        if self._seen is None or self._seen[0] is not effective:
            self._seen = (effective, replace(effective, skills_require_tests=(), skills_require_score=0))
        return self._seen[1]


def _agree(action: Action, decision: Decision) -> bool:
    # Nobody is asked here whether something may run with nothing around it.
    return action.point in ("load", "read") or (action.point == "run" and action.isolated)


@contextlib.contextmanager
def subject_of(entry: Entry, suite: Suite | None = None, *, network: bool = False) -> Iterator[TestSubject]:
    """A skill made ready for tests, from its own files; with `suite`, by that one instead of its own.

    Whoever wrote a suite is not who runs it: cases that name hosts are only there with `network`.
    """
    package = entry.package
    digest = package.digest()
    files = files_of(package, digest)
    # The suite is the one that the digest is about, whatever lies in the folder by now.
    found = read_suite(package_of(without_links(files))) if suite is None else suite
    found = found if network else _without_network(found)
    root = Path(tempfile.mkdtemp(prefix="metier-test-"))
    try:
        write_files(root / "skills" / entry.name, files_without_tests(files, found))
        library = Library.from_folder(root / "skills", cache=False)
        yield TestSubject(
            name=entry.name,
            digest=digest,
            location=entry.location,
            files=files,
            suite=found,
            root=root,
            library=library,
        )
    finally:
        safe_rmtree(os.fspath(root))


def _without_network(suite: Suite) -> Suite:
    """The suite without the cases that name hosts, and with a note about each of those."""
    cases = [("scripts", case) for case in suite.scripts] + [("evals", case) for case in suite.behaviour]
    notes = [
        Note(message=f"It reaches {', '.join(case.environment.network)}, and was left out.", at=f"{part} {case.id}")
        for part, case in cases
        if case.environment.network
    ]
    if not notes:
        return suite
    return replace(
        suite,
        scripts=tuple(case for case in suite.scripts if not case.environment.network),
        behaviour=tuple(case for case in suite.behaviour if not case.environment.network),
        notes=(*suite.notes, *notes),
    )


def files_without_tests(files: Files, suite: Suite) -> dict[str, tuple[FileMode, bytes]]:
    """The files that a skill is without its tests, with a copy in place of each link."""
    return {
        path: file
        for path, file in without_links(files).items()
        if path.partition("/")[0].casefold() != TEST_FOLDER and path not in suite.files
    }


def write_files(folder: Path, files: Files) -> None:
    """Write files into a new folder of ours; raises `FileRefused` for a path that leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, (mode, data) in files.items():
        target = folder.joinpath(*checked_path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if mode == "exec":
            target.chmod(0o755)
