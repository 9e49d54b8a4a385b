"""Declarations of packages are hostile input: anything but plain requirements is refused."""

from __future__ import annotations

import json

import pytest
from tests.hub.packages.package_index import skill_files

from metier.errors import PackagesRefused
from metier.hub.packages.build import environments_of, resolve_packages
from metier.hub.packages.plan import NO_PACKAGES
from metier.hub.packages.python import MAX_REQUIREMENTS, read_requirements
from metier.skill.package import Files

HASH = "sha256:" + "ab" * 32
INTEGRITY = "sha512-" + "A" * 86 + "=="


@pytest.mark.each(
    "line",
    [
        "tiny @ https://evil.example/tiny-1.0-py3-none-any.whl",
        "tiny @ file:///etc/passwd",
        "git+https://evil.example/tiny",
        "https://evil.example/tiny.whl",
        "./tiny",
        "/tmp/tiny",
        "../tiny.whl",
        "-e .",
        "-r other.txt",
        "-c constraints.txt",
        "--index-url https://evil.example/simple",
        "--extra-index-url https://evil.example/simple",
        "--find-links https://evil.example",
        "--no-binary :all:",
        "--trusted-host evil.example",
        "tiny --config-settings=x=y",
        "tiny --global-option=x",
        "tiny --hash=md5:00",
        "tiny; import os",
        "tiny ; python_version > ",
        "tiny ; os_name ~= 'x'",
        "tiny ; 'x' in extras",
        r"tiny ; os_name != 'x\x22\n--no-binary :all:\n#'",
        r"tiny ; os_name != '\x22\x27'",
        "tiny ; os_name != 'x\" --hash=sha512:00 #'",
        "tiny ; os_name != 'x\u2028--no-binary :all:\u2028#'",
        "tiny==",
        "$(id)",
        "tiny\x00",
        "tiny one two",
        "[extra]",
        f"tiny; {'(' * 20_000}os_name == 'x'{')' * 20_000}",
    ],
)
def test_what_is_no_plain_requirement_is_refused(line: str) -> None:
    for files in (
        skill_files(requirements_txt=f"{line}\n"),
        skill_files(script=f"# /// script\n# dependencies = [{json.dumps(line)}]\n# ///\n"),
    ):
        with pytest.raises(PackagesRefused, match="cannot be installed"):
            resolve_packages(files)


def test_all_declarations_of_a_skill_are_one_list() -> None:
    files = {
        **skill_files(script="# /// script\n# requires-python = '>=3.11'\n# dependencies = ['Tiny>=1']\n# ///\n"),
        "requirements.txt": ("file", b"other[x]>=2 ; python_version >= '3.8'\n"),
        "scripts/requirements.txt": ("file", f"tiny==1.0 \\\n  --hash={HASH}\n".encode()),
    }
    contents = {path: data for path, (_, data) in files.items()}
    lines = read_requirements(contents, sorted(path for path in files if path != "SKILL.md"))
    assert {str(one.requirement): one.hashes for one in lines} == {
        "Tiny>=1": frozenset(),
        'other[x]>=2; python_version >= "3.8"': frozenset(),
        "tiny==1.0": frozenset({"ab" * 32}),
    }


def test_there_is_a_most_of_requirements() -> None:
    lines = "\n".join(f"p{number}" for number in range(MAX_REQUIREMENTS + 1))
    with pytest.raises(PackagesRefused, match="501 packages"):
        resolve_packages(skill_files(requirements_txt=lines))


@pytest.mark.each(
    ("block", "said"),
    [
        ("# dependencies = 'tiny'\n", "no list"),
        ("# dependencies = [1]\n", "no list"),
        ("# dependencies = [\n", "cannot be read"),
        ("# dependencies = ['tiny']\n# requires-python = 3\n", "no list"),
        ("# dependencies = ['tiny']\n# requires-python = '>=3.99'\n", "3.99"),
        ("# dependencies = ['tiny']\n# requires-python = 'newest'\n", "newest"),
    ],
)
def test_a_block_that_cannot_be_understood_is_refused(block: str, said: str) -> None:
    with pytest.raises(PackagesRefused, match=said):
        resolve_packages(skill_files(script=f"# /// script\n{block}# ///\n"))


def npm(manifest: object = None, lock: object = None, **entry: object) -> Files:
    """A skill with a package.json and its lock, in which one thing may be other than it should be."""
    manifest = {"dependencies": {"ms": "^2"}} if manifest is None else manifest
    one = {"version": "2.1.3", "integrity": INTEGRITY} | entry
    plain = {"lockfileVersion": 3, "packages": {"": manifest, "node_modules/ms": one}}
    texts = {"package.json": manifest, "package-lock.json": plain if lock is None else lock}
    files: Files = {name: ("file", json.dumps(value).encode()) for name, value in texts.items()}
    return {**skill_files(), **files}


@pytest.mark.each(
    ("files", "said"),
    [
        (npm({"dependencies": {"ms": "git+https://evil.example/ms"}}), "no registry"),
        (npm({"dependencies": {"ms": "file:../ms"}}), "no registry"),
        (npm({"dependencies": {"ms": ".."}}), "no registry"),
        (npm({"dependencies": {"ms": "evil/ms"}}), "no registry"),
        (npm({"dependencies": {"ms": "https://evil.example/ms.tgz"}}), "no registry"),
        (npm({"optionalDependencies": {"ms": "../ms"}}), "no registry"),
        (npm({"dependencies": {"ms": 1}}), "no registry"),
        (npm({"dependencies": ["ms"]}), "no object"),
        (npm({"dependencies": {"ms": "^2"}, "workspaces": ["x"]}), "workspaces"),
        (npm(lock={"lockfileVersion": 1, "packages": {}}), "neither 2 nor 3"),
        (npm(lock={"lockfileVersion": 3, "packages": []}), "no object"),
        (npm(lock={"lockfileVersion": 3, "packages": {"": {}}}), "names no package"),
        (npm(lock=[]), "no JSON object"),
        (npm(link=True), "no package of a registry"),
        (npm(resolved="git+ssh://git@evil.example/ms.git#1"), "not the registry"),
        (npm(resolved="https://evil.example/ms.tgz"), "not the registry"),
        (npm(resolved="file:../ms"), "not the registry"),
        (npm(resolved=1), "not the registry"),
        (npm(resolved="https://[evil"), "not the registry"),
        (npm(version=None), "no version with a hash"),
        (npm(integrity=""), "no version with a hash"),
        (npm(integrity="sha1-" + "A" * 27 + "="), "no version with a hash"),
        (npm(version=["2"]), "no version with a hash"),
        # npm is content with either of them, and only one would be shown.
        (npm(integrity=f"{INTEGRITY} {INTEGRITY[:-6]}BBBB=="), "no version with a hash"),
        (npm(inBundle=True), "bundled with another"),
        (npm(inBundle=True, integrity="", resolved="https://evil.example/ms.tgz"), "bundled with another"),
        (npm(lock={"lockfileVersion": 3, "packages": {f"node_modules/{'a' * 1_000_000}!": {}}}), "no package"),
        (npm(name="../evil"), "no name"),
        (npm(name="ms\n\u202e"), "no name"),
        (npm(name={}), "no name"),
        (npm(lock={"lockfileVersion": 3, "packages": {"../ms": {}}}), "no package of a registry"),
        (npm(lock={"lockfileVersion": 3, "packages": {"node_modules/../../ms": {}}}), "no package of a registry"),
        (npm(lock={"lockfileVersion": 3, "packages": {"node_modules/ms": "2"}}), "no package of a registry"),
        ({**npm(), "scripts/package.json": ("file", b'{"dependencies": {"ms": "2"}}')}, "another package.json"),
        ({path: file for path, file in npm().items() if path != "package-lock.json"}, "no lock"),
        ({**npm(), "package.json": ("file", b"{")}, "no JSON"),
    ],
)
def test_what_the_registry_of_npm_does_not_have_is_refused(files: Files, said: str) -> None:
    with pytest.raises(PackagesRefused, match=said):
        resolve_packages(files)


def test_packages_of_npm_are_what_their_lock_says() -> None:
    found = resolve_packages(npm(resolved="https://registry.npmjs.org/ms/-/ms-2.1.3.tgz", hasInstallScript=True))
    assert (found.python, found.npm) == ((), (f"npm:ms@2.1.3 {INTEGRITY}",))
    assert found.notes == ("ms has an install script, which is not run.",)
    assert environments_of(resolve_packages(npm(), locked=found.lines)) == environments_of(found)
    with pytest.raises(PackagesRefused, match="other packages of npm"):
        resolve_packages(npm(version="2.1.4"), locked=found.lines)


def test_npm_gets_the_package_that_was_shown_and_not_the_file_that_a_lock_names() -> None:
    found = resolve_packages(npm(resolved="https://registry.npmjs.org/evil/-/evil-1.0.0.tgz"))
    assert found.lines == (f"npm:ms@2.1.3 {INTEGRITY}",)
    assert found.npm_files["package-lock.json"]["packages"]["node_modules/ms"] == {
        "version": "2.1.3",
        "integrity": INTEGRITY,
    }


def test_the_same_packages_under_other_names_are_another_environment() -> None:
    """Else the skill that is installed first would choose what the modules of another skill are."""
    manifest = {"dependencies": {"ms": "*", "is-odd": "*"}}
    entries = [{"version": "1.0.0", "integrity": f"{INTEGRITY[:-6]}{end}=="} for end in ("AAAA", "BBBB")]

    def files(*names: str) -> Files:
        packages = {
            f"node_modules/{at}": {**entry, "name": name}
            for at, entry, name in zip(
                ("ms", "is-odd"), entries if names[0] == "ms" else entries[::-1], names, strict=True
            )
        }
        return npm(manifest, {"lockfileVersion": 3, "packages": packages})

    honest, swapped = resolve_packages(files("ms", "is-odd")), resolve_packages(files("is-odd", "ms"))
    assert honest.lines == swapped.lines
    assert environments_of(honest) != environments_of(swapped)


def test_npm_is_given_no_scripts_of_a_skill() -> None:
    manifest = {"dependencies": {"ms": "^2"}, "scripts": {"preinstall": "touch x"}, "bin": "x", "config": {}}
    assert resolve_packages(npm(manifest)).npm_files["package.json"] == {"dependencies": {"ms": "^2"}}


def test_a_skill_without_declarations_needs_nothing() -> None:
    assert resolve_packages(skill_files()) == NO_PACKAGES


@pytest.mark.each(
    ("line", "fits"),
    [
        ("tiny==1.5", True),
        ("Tiny==1.5.0", True),
        ("tiny==0.9", False),
        ("tiny==2.0", False),
        ("evil==1.5", False),
        ("tiny-evil==1.5", False),
    ],
)
def test_a_lock_has_the_packages_that_a_skill_declares_and_no_other_versions_of_them(line: str, fits: bool) -> None:
    """An approval is one of a content of a skill, and lock files can be changed without it."""
    files = skill_files(requirements_txt="tiny>=1,<2\nnever ; python_version < '3'\n")
    locked = [f"{line} --hash={HASH}"]
    if fits:
        assert len(resolve_packages(files, locked=locked).python) == 1
        return
    with pytest.raises(PackagesRefused, match="not those of the skill"):
        resolve_packages(files, locked=locked)
