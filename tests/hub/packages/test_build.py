"""Packages are built once from files with known hashes, and seen read-only by the scripts of an approved skill."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from tests.hub.packages.package_index import PackageIndex, skill_files, source_distribution, wheel, write_files

from metier import Guard, Library, Session
from metier.errors import PackagesMissing, PackagesRefused, Refused
from metier.guard import Action, Decision
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.guard.question import TERMINAL
from metier.hub.packages.build import environments_of, provide, resolve_packages
from metier.hub.packages.plan import PackagePlan
from metier.run import Outcome
from metier.skill.package import Files, digest_of_files
from metier.skill.script_packages import environments_folder, grant_of, package_record
from metier.store import Approval, Store

TINY = skill_files(requirements_txt="tiny\n")


def built(files: Files) -> PackagePlan:
    found = resolve_packages(files)
    provide(files, found)
    return found


def folder_of(plan: PackagePlan) -> Path:
    return Path(environments_folder(), environments_of(plan)["python"])


class Machine:
    """A place with one skill, run as a person does, and a store of approvals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store.open(f"sqlite:///{folder}/data/metier.db")
        self.person: Any = None
        """Whoever is asked."""

    def approve(self, files: Files, *grants: str) -> None:
        """Approve of a content, and of the packages that it has now."""
        resolved = grant_of(package_record(digest_of_files(files)).packages)
        self.store.of().approvals.add(
            Approval(
                digest=digest_of_files(files),
                skill="peek@skills",
                decision="approved",
                grants=grants or ("packages", resolved, "scripts"),
                decided_by="ada",
            )
        )

    @contextlib.contextmanager
    def session(self, files: Files) -> Iterator[Session]:
        write_files(self.folder / "skills/peek", files)
        library = Library.from_folder(self.folder / "skills", cache=False)
        guard = Guard(governance=Governance(Policies(texts=()), store=self.store.url), approve=self.person)
        workspace = self.folder / "work"
        workspace.mkdir(exist_ok=True)
        with library.session(guard=guard, workspace=workspace, user="ada") as session:
            session.load("peek")
            yield session

    def run(self, files: Files, script: str = "scripts/peek.py") -> Outcome:
        with self.session(files) as session:
            return session.runs.script_blocking(script, (), "peek", by="user")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_script_imports_what_its_skill_declares_once_somebody_approved(tiny: PackagePlan, machine: Machine) -> None:
    assert tiny.names == ("tiny==1.0",)
    for _ in range(2):
        with pytest.raises(Refused, match="needs an approval of its content for packages") as refused:
            machine.run(TINY)
        assert refused.value.code == "approval-needed"
    (request,) = machine.store.of().approvals.requests("pending")
    assert "packages" in request.capabilities
    machine.approve(TINY)
    assert machine.run(TINY).stdout == "tiny 1.0\n"
    # A changed requirement is another content, which nobody approved.
    changed = skill_files(requirements_txt="tiny>=1\n")
    provide(changed, tiny)
    with pytest.raises(Refused, match="packages"):
        machine.run(changed)


def test_a_yes_counts_for_the_packages_that_the_question_showed_and_for_no_others(
    index: PackageIndex, tiny: PackagePlan, machine: Machine
) -> None:
    index.add_wheel("extra")
    more = resolve_packages(skill_files(requirements_txt="tiny\nextra\n"))

    class Person:
        source = TERMINAL
        asked: ClassVar[list[str]] = []

        def __call__(self, _: Action, decision: Decision) -> bool:
            self.asked.append(decision.reason)
            if len(self.asked) == 1:  # somebody changes the lock, and has it built, while the person thinks
                provide(TINY, resolve_packages(TINY, locked=more.lines))
            return True

    machine.person = Person()
    with pytest.raises(Refused, match=r"They are extra==1.0, tiny==1.0"):
        machine.run(TINY)
    assert machine.run(TINY).stdout == "tiny 1.0\n"
    assert ["extra" in text for text in Person.asked] == [False, True]


def test_other_packages_for_the_same_content_are_asked_about_again(
    index: PackageIndex, tiny: PackagePlan, machine: Machine
) -> None:
    """A lock that somebody changed may name other packages, and more of them, than those that were approved."""
    machine.approve(TINY)
    index.add_wheel("extra")
    more = resolve_packages(skill_files(requirements_txt="tiny\nextra\n"))
    provide(TINY, resolve_packages(TINY, locked=more.lines))
    with pytest.raises(Refused, match=r"approval of its content for packages. They are extra==1.0, tiny==1.0"):
        machine.run(TINY)
    (request,) = machine.store.of().approvals.requests("pending")
    assert grant_of(more.lines) in request.capabilities
    assert "extra==1.0" in request.reason
    # The list that was approved needs no second word, and the request for the other one no longer stands alone.
    provide(TINY, tiny)
    assert machine.run(TINY).stdout == "tiny 1.0\n"


def test_an_approval_of_scripts_alone_is_none_of_packages(tiny: PackagePlan, machine: Machine) -> None:
    machine.approve(TINY, "scripts")
    with pytest.raises(Refused, match="packages"):
        machine.run(TINY)


def test_a_command_that_runs_a_script_of_the_skill_has_its_packages_too(tiny: PackagePlan, machine: Machine) -> None:
    machine.approve(TINY)
    with machine.session(TINY) as session:
        root = session.loaded.one().root
        outcome = anyio.run(session.runs.command, f"python3 {root}/scripts/peek.py")
        assert outcome.stdout == "tiny 1.0\n"
        # A command that has nothing to do with it has not.
        outcome = anyio.run(session.runs.command, "python3 -c 'import tiny'")
        assert "No module named 'tiny'" in outcome.stderr


def test_packages_are_there_also_where_the_cache_lies_in_the_workspace(
    tiny: PackagePlan, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs do not see the cache, and so their packages are seen elsewhere."""
    machine.approve(TINY)
    cache = machine.folder / "work/cache"
    shutil.copytree(environments_folder(), cache / "environments")
    monkeypatch.setenv("METIER_CACHE", str(cache))
    assert machine.run(TINY).stdout == "tiny 1.0\n"


def test_nothing_is_installed_for_a_run(index: PackageIndex, machine: Machine) -> None:
    machine.approve(TINY)
    with pytest.raises(PackagesMissing, match="have not been built") as missing:
        machine.run(TINY)
    assert "metier packages peek" in missing.value.hint
    assert index.requests == []


def test_offline_the_cache_is_enough(tiny: PackagePlan, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    machine.approve(TINY)
    assert machine.run(TINY).stdout == "tiny 1.0\n"
    # Neither does somebody ask who builds the same again.
    provide(TINY, resolve_packages(TINY, locked=tiny.lines))
    with pytest.raises(PackagesRefused, match="failed"):
        resolve_packages(TINY)


def test_dependencies_come_along_and_nothing_executes_when_python_starts(index: PackageIndex, machine: Machine) -> None:
    index.add_wheel("outer", requires="tiny", files={"evil.pth": "import builtins; builtins.evil = 1\n"})
    script = "import builtins, outer, tiny\nprint(outer.WORD, tiny.WORD, hasattr(builtins, 'evil'))\n"
    files = skill_files(script, requirements_txt="outer\n")
    built(files)
    machine.approve(files)
    assert machine.run(files).stdout == "outer 1.0 tiny 1.0 False\n"


def test_a_script_can_write_nothing_among_its_packages(index: PackageIndex, machine: Machine) -> None:
    script = "import os, tiny\nfor at in (tiny.__file__, os.path.dirname(tiny.__file__) + '/new.py'):\n"
    script += "    try:\n        open(at, 'a')\n    except OSError as error:\n        print(error.strerror)\n"
    files = skill_files(script, requirements_txt="tiny\n")
    built(files)
    machine.approve(files)
    assert machine.run(files).stdout == "Read-only file system\n" * 2


def test_the_files_of_a_skill_come_before_packages(index: PackageIndex, machine: Machine) -> None:
    files = {**TINY, "scripts/tiny.py": ("file", b"WORD = 'of the skill'\n")}
    built(files)
    machine.approve(files)
    assert machine.run(files).stdout == "of the skill\n"


def test_a_setup_program_is_never_run(index: PackageIndex, tmp_path: Path) -> None:
    marker = tmp_path / "evil"
    setup = f"open({str(marker)!r}, 'w')\nfrom setuptools import setup\nsetup(name='hostile', version='1.0')\n"
    index.add("hostile", "hostile-1.0.tar.gz", source_distribution("hostile", "1.0", setup))
    with pytest.raises(PackagesRefused, match="hostile"):
        resolve_packages(skill_files(requirements_txt="hostile\n"))
    assert not marker.exists()


def test_a_dependency_that_was_swapped_is_refused(index: PackageIndex) -> None:
    before = resolve_packages(TINY)
    index.swap("tiny", "1.0", wheel("tiny", "1.0", {"tiny.py": "WORD = 'other'\n"}))
    with pytest.raises(PackagesRefused, match=r"(?i)hash"):
        provide(TINY, before)
    assert [path.name for path in Path(environments_folder()).iterdir()] == ["skills"]


def test_an_index_that_lies_about_a_file_is_refused(index: PackageIndex) -> None:
    index.add_wheel("liar", claims=wheel("liar", "1.0", {"liar.py": "WORD = 'good'\n"}))
    with pytest.raises(PackagesRefused, match=r"(?i)hash"):
        built(skill_files(requirements_txt="liar\n"))


def test_hashes_that_an_author_demands_are_required(index: PackageIndex) -> None:
    with pytest.raises(PackagesRefused, match="No file of tiny has a hash"):
        resolve_packages(skill_files(requirements_txt=f"tiny==1.0 --hash=sha256:{'0' * 64}\n"))


@pytest.mark.each("how", ["changed", "added", "removed"])
def test_a_cache_that_was_tampered_with_is_noticed(
    how: str, index: PackageIndex, tiny: PackagePlan, machine: Machine
) -> None:
    machine.approve(TINY)
    module = folder_of(tiny) / "python-packages/tiny.py"
    if how == "removed":
        module.unlink()
    else:
        other = module if how == "changed" else module.with_name("os.py")
        other.unlink(missing_ok=True)
        other.write_text("WORD = 'tiny 6.6'\n")
    with pytest.raises(PackagesMissing, match="not those that were installed"):
        machine.run(TINY)
    provide(TINY, tiny)
    assert machine.run(TINY).stdout == "tiny 1.0\n"


def test_a_cache_that_was_copied_is_read_once_more_and_works(tiny: PackagePlan, machine: Machine) -> None:
    folder = folder_of(tiny)
    machine.approve(TINY)
    os.utime(folder / "python-packages/tiny.py", (1, 1))
    before = (folder / "manifest.json").read_bytes()
    assert machine.run(TINY).stdout == "tiny 1.0\n"
    assert (folder / "manifest.json").read_bytes() != before


def test_of_two_builders_one_waits_for_the_other(index: PackageIndex) -> None:
    plan = resolve_packages(TINY)
    index.requests.clear()
    threads = [threading.Thread(target=provide, args=(TINY, plan)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folder_of(plan).is_dir()
    assert sum(path.endswith(".whl") for path in index.requests) == 1


def test_what_a_build_that_was_killed_has_left_goes_with_the_next_one(index: PackageIndex) -> None:
    left = Path(environments_folder(), ".building-x", "python-packages")
    left.mkdir(parents=True)
    folder = folder_of(built(TINY)).name
    assert sorted(path.name for path in Path(environments_folder()).iterdir()) == sorted([folder, "skills"])


def test_an_environment_for_another_python_is_not_used(
    tiny: PackagePlan, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.approve(TINY)
    monkeypatch.setattr("metier.run.packages.platform_tag", lambda _: "linux-other-python3.99")
    with pytest.raises(PackagesMissing, match="packages are for linux-"):
        machine.run(TINY)


def test_a_build_reaches_the_index_and_nothing_else(index: PackageIndex) -> None:
    index.add("far", "far-1.0-py3-none-any.whl", wheel("far", "1.0", {"far.py": ""}))
    page = index.root / "simple/far/index.html"
    page.write_text(page.read_text().replace('href="', 'href="http://127.0.0.2:9/'))
    with pytest.raises(PackagesRefused) as refused:
        built(skill_files(requirements_txt="far\n"))
    assert "127.0.0.2" in refused.value.hint
