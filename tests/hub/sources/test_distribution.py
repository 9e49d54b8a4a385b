"""Skills of Python distributions that are fetched as wheels."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.hub.sources.loopback import skill_text

from metier import Library
from metier.errors import ArchiveRefused, IntegrityFailed, InvalidArgument, MetierError, SourceUnavailable
from metier.hub.sources.address import parse_address
from metier.hub.sources.distribution import skills_of_wheel
from metier.hub.sources.fetch import Candidate, Transfer, fetch, resolve
from metier.hub.updates import InstalledSkill, locked_candidates
from metier.library.lock_file import LockedSkill, LockFile
from metier.skill.package import Files, digest_of_files
from metier.store import Store

BOOM = b"raise RuntimeError('nothing of a wheel is run')\n"
FILE = "acme_tools-1.2-py3-none-any.whl"
ENTRY_POINTS = "acme_tools-1.2.dist-info/entry_points.txt"
SKILL = "acme/.agents/skills/pdf/SKILL.md"


def wheel(files: dict[str, bytes], name: str = "acme_tools-1.2", record: dict[str, bytes] | None = None) -> bytes:
    """A wheel with files; its list of files may tell something else than what is in it."""
    metadata = {f"{name}.dist-info/METADATA": b"Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.2\n"}
    metadata[f"{name}.dist-info/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = []
    for path, data in (files | metadata if record is None else record).items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    metadata[f"{name}.dist-info/RECORD"] = "".join([*lines, f"{name}.dist-info/RECORD,,\n"]).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in (files | metadata).items():
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def paths(files: dict[str, bytes]) -> list[str]:
    return [one.path for one in skills_of_wheel(FILE, wheel(files), "acme-tools")]


@pytest.mark.covers("A-39")
def test_a_wheel_that_is_locked_is_fetched_again_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: Files = {"SKILL.md": ("file", skill_text("pdf"))}
    asked = []

    def download(requirement: str, _transfer: Transfer) -> tuple[str, bytes]:
        asked.append(requirement)
        return FILE, wheel({SKILL: skill_text("pdf")})

    monkeypatch.setattr("metier.hub.sources.distribution._downloaded", download)
    locked = LockedSkill(
        name="pdf",
        folder=".metier/skills/pdf",
        source="pypi:acme-tools",
        path="acme/.agents/skills/pdf",
        revision=resolve(parse_address("pypi:acme-tools")).revision,
        digest=digest_of_files(files),
    )
    one = InstalledSkill(lock=LockFile(path=str(tmp_path / "metier.lock")), locked=locked)
    with (
        Store.open(f"sqlite:///{tmp_path}/metier.db") as store,
        locked_candidates(store.of(), [one], Transfer()) as ((_, found, _),),
    ):
        assert isinstance(found, Candidate)
        assert found.files() == files
    assert asked == ["acme-tools", "acme-tools==1.2"]


@pytest.mark.slow
@pytest.mark.covers("A-39")
def test_the_wheel_of_an_index_is_read_and_nothing_of_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    data = wheel({"acme/__init__.py": BOOM, "evil.pth": b"import acme\n", SKILL: skill_text("pdf")})
    (links / FILE).write_bytes(data)
    (links / "other-1.0.tar.gz").write_bytes(b"a source distribution")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    resolved = resolve(parse_address("pypi:Acme.Tools==1.2"))
    assert resolved.address.name == "pypi:acme-tools"
    assert (resolved.revision, resolved.is_exact) == ("1.2", True)
    with fetch(resolved) as found:
        (skill,) = found.candidates
        assert (skill.folder, skill.package, skill.version) == ("pdf", "acme-tools", "1.2")
        assert skill.files() == {"SKILL.md": ("file", skill_text("pdf"))}
    for missing in ("pypi:other", "pypi:acme-tools==9.9"):
        with pytest.raises(SourceUnavailable, match="No matching distribution found"):
            resolve(parse_address(missing))
    with pytest.raises(SourceUnavailable, match="in 0 seconds"):
        resolve(parse_address("pypi:acme-tools"), Transfer(seconds=0.01))


@pytest.mark.each("name", ["--index-url", "a/../b", "./here", "a b", "a==1;x", "a==-r", "a[b]", "é", "a==1 --pre"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        resolve(parse_address(f"pypi:{name}"))


@pytest.mark.each(
    ("files", "expected"),
    [
        ({SKILL: b""}, ["acme/.agents/skills/pdf"]),
        (
            {"a/b/.agents/skills/x/SKILL.md": b"", "c/.agents/skills/y/SKILL.md": b""},
            ["a/b/.agents/skills/x", "c/.agents/skills/y"],
        ),
        ({".agents/skills/x/SKILL.md": b"", "acme/skills/y/SKILL.md": b""}, []),
        (
            {
                "acme/skills/y/SKILL.md": b"",
                ENTRY_POINTS: b"[metier.skills]\na = acme:skills\n",
            },
            ["acme/skills/y"],
        ),
        (
            {"acme/x/y/SKILL.md": b"", ENTRY_POINTS: b"[metier.skills]\na = acme.x\n"},
            ["acme/x/y"],
        ),
        (
            {SKILL: b"", ENTRY_POINTS: b"[metier.skills]\na = acme:../../x\nb = :\nc\n"},
            ["acme/.agents/skills/pdf"],
        ),
        ({}, []),
    ],
)
def test_the_skills_of_a_wheel(files: dict[str, bytes], expected: list[str]) -> None:
    assert paths(files) == expected


def bomb() -> bytes:
    return wheel({SKILL: skill_text("pdf"), "acme/.agents/skills/pdf/zeros": b"\0" * 20 * 1024 * 1024})


@pytest.mark.each(
    ("data", "error"),
    [
        (b"", ArchiveRefused),
        (b"no zip", ArchiveRefused),
        (wheel({SKILL: b"x", "../outside": b"x"}), ArchiveRefused),
        (wheel({SKILL: b"x", "/etc/passwd": b"x"}), ArchiveRefused),
        (wheel({SKILL: b"x", "acme/.agents/skills/pdf/skill.md": b"y"}), ArchiveRefused),
        (wheel({SKILL: b"x"}, record={SKILL: b"y"}), IntegrityFailed),
        (wheel({SKILL: b"x"}, record={}), IntegrityFailed),
        (wheel({SKILL: b"x", "acme/.agents/skills/pdf/scripts/run.py": BOOM}, record={SKILL: b"x"}), IntegrityFailed),
        (wheel({SKILL: b"x"}, name="other-1.2"), ArchiveRefused),
        (wheel({SKILL: b"x"}, name="acme_tools-1.3"), ArchiveRefused),
        (wheel({SKILL: b"x", "other-1.dist-info/METADATA": b""}), ArchiveRefused),
        (wheel({f"p{number}/.agents/skills/x/SKILL.md": b"" for number in range(200)}), ArchiveRefused),
        (bomb(), ArchiveRefused),
    ],
)
def test_a_hostile_wheel_is_refused(data: bytes, error: type[MetierError]) -> None:
    with pytest.raises(error):
        skills_of_wheel(FILE, data, "acme-tools")


@pytest.mark.slow
@pytest.mark.covers("A-39")
def test_a_package_that_pip_installs_has_its_skills_in_the_plugin_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).write_bytes(wheel({"acme/__init__.py": BOOM, SKILL: skill_text("pdf")}))
    site = tmp_path / "site"
    words = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-compile", "--target", str(site)]
    subprocess.run([*words, str(tmp_path / FILE)], check=True, capture_output=True)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("METIER_PLUGINS", "acme-tools")
    library = Library.discover(tmp_path, cache=False)
    entry = library.get("pdf@acme-tools")
    assert (entry.layer, entry.status) == ("plugin", "active")
    assert library.document("pdf").body == "Do it."
