"""Sources that mean harm, through the public command: a clear refusal, nothing written, the old version intact."""

from __future__ import annotations

import io
import json
import os
import socket
import stat
import sys
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.hub.conftest import call
from tests.tables import thinned

from metier.guard import Action
from metier.guard.tool_rules.human_only_commands import match_human_only
from metier.skill import is_valid_name

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are made otherwise here")

SKILL = b"---\nname: hello\ndescription: Says hello. Use when greeting.\n---\nNew.\n"
OLD = SKILL.replace(b"New.", b"Old.")
MEBIBYTE = 1024 * 1024


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet_files: None) -> Path:
    return project_in(tmp_path, monkeypatch)


def project_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the old version of the skill, in which everything after that happens."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    source = folder / "source"
    write(source / "hello", OLD)
    code, _, err = call("add", source, "--to", "project", "--yes")
    assert code == 0, err
    return project


def write(folder: Path, skill: bytes = SKILL, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(skill)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def state_of(folder: Path) -> dict[str, object]:
    """All that lies below a folder: kinds, modes and contents."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (stat.S_IFMT(status.st_mode), content)
    return found


def refused(project: Path, *arguments: object, codes: frozenset[str] = frozenset()) -> str:
    """Add something that has to be refused; the code of the refusal."""
    before = state_of(project)
    code, out, err = call("add", *arguments, "--to", "project", "--yes")
    assert code in (1, 2, 3, 4), (code, out, err)
    assert err.startswith("error ["), err
    assert "Traceback" not in err + out
    assert "internal-error" not in err
    assert "hint:" in err
    assert all(character.isprintable() or character == "\n" for character in err + out), ascii(err + out)
    assert state_of(project) == before
    assert (project / ".metier/skills/hello/SKILL.md").read_bytes() == OLD
    found = err.partition("[")[2].partition("]")[0]
    assert not codes or found in codes, err
    return found


# ---- archives: what a member may be called, and be


def zipped(*members: tuple[str, bytes, int]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def tarred(*members: tuple[str, bytes, int], mode: Literal["w:gz", "w:"] = "w:gz") -> bytes:
    kinds = {stat.S_IFLNK: tarfile.SYMTYPE, stat.S_IFIFO: tarfile.FIFOTYPE, stat.S_IFCHR: tarfile.CHRTYPE}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data, bits in members:
            info = tarfile.TarInfo(name)
            info.mode, info.type = bits & 0o7777, kinds.get(stat.S_IFMT(bits), tarfile.REGTYPE)
            if bits == HARD:
                info.type = tarfile.LNKTYPE
            if info.type == tarfile.REGTYPE:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            else:
                info.linkname = data.decode()
                archive.addfile(info)
    return out.getvalue()


FILE, LINK, FIFO, DEVICE = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFCHR | 0o644
HARD = 1
MEMBERS: list[tuple[str, list[tuple[str, bytes, int]]]] = [
    ("climbs out", [("../x", b"x", FILE)]),
    ("climbs out further down", [("scripts/../../x", b"x", FILE)]),
    ("climbs with backslashes", [("..\\x", b"x", FILE)]),
    ("absolute", [("/tmp/x", b"x", FILE)]),
    ("a drive", [("C:\\x", b"x", FILE)]),
    ("a stream of a file", [("SKILL.md:x", b"x", FILE)]),
    ("a link out", [("x", b"/etc/passwd", LINK)]),
    ("a link up", [("x", b"../../x", LINK)]),
    ("a link to a folder, and a file through it", [("x", b"/tmp", LINK), ("x/y", b"y", FILE)]),
    ("a chain of links", [("a", b"b", LINK), ("b", b"../c", LINK)]),
    ("a link over an earlier file", [("a.md", b"a", FILE), ("a.md", b"/etc/passwd", LINK)]),
    ("a file through an earlier link", [("a", b".", LINK), ("a/SKILL.md", b"x", FILE)]),
    ("a hard link out", [("x", b"/etc/passwd", HARD)]),
    ("a pipe", [("x", b"", FIFO)]),
    ("a device", [("x", b"", DEVICE)]),
    ("two of one name", [("a.md", b"a", FILE), ("a.md", b"b", FILE)]),
    ("two cases", [("a.md", b"a", FILE), ("A.md", b"b", FILE)]),
    ("two cases of SKILL.md", [("Skill.md", SKILL, FILE)]),
    ("two forms", [("\u00e9.md", b"a", FILE), ("e\u0301.md", b"b", FILE)]),
    ("a file that is a folder", [("a", b"a", FILE), ("a/b", b"b", FILE)]),
    ("reserved names", [("con.md", b"x", FILE)]),
    ("a name that ends with a dot", [("x.", b"x", FILE)]),
    ("a name that turns text", [("x\u202egpj.exe", b"x", FILE)]),
    ("a name with an escape", [("x\x1b[2J", b"x", FILE)]),
    ("a name with a newline", [("x\ny", b"x", FILE)]),
    ("a long name", [("x" * 2_000, b"x", FILE)]),
    ("deep folders", [("d/" * 40 + "x", b"x", FILE)]),
    ("10,001 files", [(f"f/{number}", b"", FILE) for number in range(10_001)]),
    ("a bomb", [("x", bytes(80 * MEBIBYTE), FILE)]),
]
KINDS: list[tuple[str, Callable[..., bytes]]] = [
    ("hello.zip", zipped),
    ("hello.skill", zipped),
    ("hello.tar.gz", tarred),
    ("hello.tar", lambda *members: tarred(*members, mode="w:")),
]
NOT_IN_ZIP = {"a hard link out", "a name with a newline"}


@pytest.mark.covers("A-34")
@pytest.mark.filterwarnings("ignore:Duplicate name")
@thinned("kind", KINDS, one_in=len(KINDS), ids=[name for name, _ in KINDS])
def test_an_archive_with_a_hostile_member_is_refused_as_a_whole(
    project: Path, tmp_path: Path, kind: tuple[str, Callable[..., bytes]]
) -> None:
    name, pack = kind
    for what, members in MEMBERS:
        if pack is zipped and (what in NOT_IN_ZIP or (name == "hello.skill" and "," in what)):
            continue
        archive = tmp_path / name
        try:
            archive.write_bytes(pack(("SKILL.md", SKILL, FILE), *members))
        except ValueError:
            continue
        found = refused(project, archive, "--all")
        assert found in ("archive-refused", "source-unavailable"), (what, found)
    assert not (tmp_path / "x").exists()
    assert not Path("/tmp/x").exists()


DAMAGED: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("text", b"hello"),
    ("half of a zip", zipped(("SKILL.md", SKILL, FILE))[:60]),
    ("half of a tar", tarred(("SKILL.md", SKILL, FILE))[:60]),
    ("more behind its end", zipped(("SKILL.md", SKILL, FILE)) + b"more"),
    ("no skill", zipped(("README.md", b"x", FILE))),
    ("two ends", zipped(("SKILL.md", SKILL, FILE)) + zipped(("SKILL.md", OLD, FILE))),
]


def test_an_archive_that_is_none_is_refused(project: Path, tmp_path: Path) -> None:
    for what, data in DAMAGED:
        archive = tmp_path / "hello.skill"
        archive.write_bytes(data)
        assert refused(project, archive) in ("archive-refused", "skill-not-found"), what


# ---- folders


def _chain(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("/etc/passwd")


def _link(path: Path) -> Path:
    path.symlink_to("/etc/passwd")
    return path


def _moved(path: Path) -> Path:
    """The path of a file that is gone; beside it is an empty folder."""
    path.unlink()
    path.with_name("f").mkdir()
    return path


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _socket(folder: Path) -> None:
    here = os.getcwd()
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    os.chdir(here)


def _many(folder: Path) -> None:
    (folder / "f").mkdir()
    for number in range(2_001):
        (folder / "f" / str(number)).touch()


def _large(folder: Path) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(300 * MEBIBYTE)


def _bomb(folder: Path) -> None:
    for number in range(20):
        with (folder / str(number)).open("wb") as file:
            file.truncate(15 * MEBIBYTE)


def _winding(folder: Path) -> None:
    """`p/q/x` seems to lead to `p/y`, and leads to what lies beside the skill."""
    (folder / "p/q").mkdir(parents=True)
    (folder / "p/y").write_bytes(b"y")
    (folder / "p/q/d").symlink_to("..")
    (folder / "p/q/x").symlink_to("d/../../y")


FOLDERS: list[tuple[str, Callable[[Path], object]]] = [
    ("a link out", lambda folder: (folder / "x").symlink_to("/etc/passwd")),
    ("a link up", lambda folder: (folder / "x").symlink_to("../../secret")),
    ("a link to a folder outside", lambda folder: (folder / "x").symlink_to("/tmp")),
    ("a link to itself", lambda folder: (folder / "x").symlink_to("x")),
    ("a chain of links that leads out", _chain),
    ("two cases", lambda folder: write(folder, **{"a.md": b"a", "A.md": b"b"})),
    ("two cases of SKILL.md", lambda folder: write(folder, **{"Skill.md": SKILL})),
    ("two forms", lambda f: write(f, **{unicodedata.normalize(form, "\u00e9.md"): b"" for form in ("NFC", "NFD")})),
    ("a link out through a folder of links", _winding),
    ("reserved names", lambda folder: write(folder, **{"con.md": b"x"})),
    ("a name that turns text", lambda folder: write(folder, **{"x\u202egpj.exe": b"x"})),
    ("a name with an escape", lambda folder: write(folder, **{"x\x1b[2J": b"x"})),
    ("a name with a newline", lambda folder: write(folder, **{"x\ny": b"x"})),
    ("a name that is no text", lambda folder: open(os.fsencode(folder) + b"/x\xff", "wb").close()),
    ("SKILL.md is a link", lambda folder: os.replace(_link(folder / "x"), folder / "SKILL.md")),
    ("SKILL.md is a folder", lambda folder: os.rename(_moved(folder / "SKILL.md").parent / "f", folder / "SKILL.md")),
    ("SKILL.md is a pipe", lambda folder: os.mkfifo(_moved(folder / "SKILL.md"))),
    ("SKILL.md of 100 MB", lambda folder: os.truncate(folder / "SKILL.md", 100 * MEBIBYTE)),
    ("2,001 files", _many),
    ("a file of 300 MB", _large),
    ("300 MB of files", _bomb),
    ("a pipe", _fifo),
    ("a socket", _socket),
]


@pytest.mark.covers("A-34")
@thinned("what", [what for what, _ in FOLDERS], one_in=3)
def test_a_folder_with_something_hostile_is_refused_as_a_whole(project: Path, tmp_path: Path, what: str) -> None:
    source = tmp_path / "source"
    write(source / "hello")
    dict(FOLDERS)[what](source / "hello")
    code = refused(project, source, "--all")
    kinds = (
        "file-refused",
        "file-too-large",
        "package-too-large",
        "skill-invalid",
        "skill-not-found",
        "skill-unreadable",
    )
    assert code in kinds, code


# ---- SKILL.md

FRONTMATTERS: list[tuple[str, bytes]] = [
    ("no frontmatter", b"Do it.\n"),
    ("broken", b"---\nname: [\n---\n"),
    ("no description", b"---\nname: hello\n---\n"),
    ("not UTF-8", b"---\nname: hello\ndescription: \xff\xfe\n---\n"),
    *(
        (name, b"---\nname: " + json.dumps(name).encode() + b"\ndescription: Does it.\n---\nDo it.\n")
        for name in (
            *(
                "../x",
                "/x",
                "..",
                ".",
                ".git",
                ".metier-staging",
                "a/b",
                "a\\b",
                "-rf",
                "--yes",
                "x" * 300,
                "hel\u202elo",
            ),
            *(
                "a b",
                "A",
                "\u00e9",
                "\u2025",
                "hello\n",
                "hello\x00",
                "a\x1b[31m",
                " ",
                "",
                "hello.",
                "a--b",
                "-a-",
                "con",
                "nul",
            ),
        )
    ),
]


@thinned("what", [what for what, _ in FRONTMATTERS], one_in=3, ids=lambda name: ascii(name)[:30])
def test_a_name_that_is_no_plain_name_is_no_folder(project: Path, tmp_path: Path, what: str) -> None:
    source = tmp_path / "other"
    write(source / "hello-you", dict(FRONTMATTERS)[what])
    before = state_of(project)
    code, out, err = call("add", source, "--to", "project", "--yes", "--json")
    assert "Traceback" not in err
    if code == 0:
        [skill] = json.loads(out)["skills"]
        assert is_valid_name(skill["name"])
        assert set(os.listdir(project / ".metier/skills")) == {"hello", skill["name"]}
    else:
        assert "error [" in err or '"error"' in out
        assert state_of(project) == before
    assert set(os.listdir(tmp_path)) == {"project", "source", "other"}


# ---- the place that it goes to


def _to_link(project: Path, elsewhere: Path) -> None:
    (project / ".metier").rename(elsewhere)
    (project / ".metier").symlink_to(elsewhere)


def _skills_to_link(project: Path, elsewhere: Path) -> None:
    (project / ".metier/skills").rename(elsewhere)
    (project / ".metier/skills").symlink_to(elsewhere)


def _to_file(project: Path, elsewhere: Path) -> None:
    (project / ".metier").rename(elsewhere)
    (project / ".metier").write_bytes(b"")


def _skill_to_link(project: Path, elsewhere: Path) -> None:
    (project / ".metier/skills/hello").rename(elsewhere)
    (project / ".metier/skills/hello").symlink_to(elsewhere)


def _skill_with_git(project: Path, _: Path) -> None:
    (project / ".metier/skills/hello/.git").mkdir()


def _staging_link(project: Path, elsewhere: Path) -> None:
    elsewhere.mkdir()
    (project / ".metier/skills/.metier-staging").symlink_to(elsewhere)


def _lock(data: bytes) -> Callable[[Path, Path], None]:
    def change(project: Path, _: Path) -> None:
        (project / "metier.lock").write_bytes(data)

    return change


def _lock_link(project: Path, elsewhere: Path) -> None:
    (project / "metier.lock").rename(elsewhere)
    (project / "metier.lock").symlink_to(elsewhere)


def _lock_folder(project: Path, elsewhere: Path) -> None:
    (project / "metier.lock").rename(elsewhere)
    (project / "metier.lock").mkdir()


def _lock_pipe(project: Path, elsewhere: Path) -> None:
    (project / "metier.lock").rename(elsewhere)
    os.mkfifo(project / "metier.lock")


def _huge_lock(project: Path, _: Path) -> None:
    os.truncate(project / "metier.lock", 64 * MEBIBYTE)


def _other_lock(name: str) -> Callable[[Path, Path], None]:
    def change(project: Path, elsewhere: Path) -> None:
        (project / "skills-lock.json").unlink()
        if name == "link":
            elsewhere.write_bytes(b"{}")
            (project / "skills-lock.json").symlink_to(elsewhere)
        elif name == "folder":
            (project / "skills-lock.json").mkdir()
        else:
            (project / "skills-lock.json").write_text(name)

    return change


TARGETS: list[tuple[str, Callable[[Path, Path], None]]] = [
    (".metier is a link", _to_link),
    (".metier/skills is a link", _skills_to_link),
    (".metier is a file", _to_file),
    ("the skill is a link", _skill_to_link),
    ("the skill has a .git", _skill_with_git),
    ("the staging folder is a link", _staging_link),
    ("the lock is a link", _lock_link),
    ("the lock is a folder", _lock_folder),
    ("the lock is a pipe", _lock_pipe),
    ("the lock is huge", _huge_lock),
    ("the lock is empty", _lock(b"")),
    ("the lock is no TOML", _lock(b"version = \x00")),
    ("the lock is of the future", _lock(b"version = 2\n")),
    ("the lock names another folder", _lock(b'version = 1\n[[skill]]\nname = "x"\nfolder = "../x"\ndigest = "y"\n')),
    ("the lock is nested", _lock(b"version = 1\nx = " + b"[" * 5_000)),
    ("the other lock is a link", _other_lock("link")),
    ("the other lock is a folder", _other_lock("folder")),
    ("the other lock is broken", _other_lock("{")),
    ("the other lock is of the future", _other_lock('{"version": 99, "skills": {}}')),
]


@thinned("what", [what for what, _ in TARGETS], one_in=3)
def test_a_hostile_target_is_refused_and_nothing_is_written_elsewhere(project: Path, tmp_path: Path, what: str) -> None:
    dict(TARGETS)[what](project, tmp_path / "elsewhere")
    write(tmp_path / "source/hello")
    before = state_of(tmp_path)
    code, out, err = call("add", tmp_path / "source", "--to", "project", "--yes")
    assert code in (1, 2, 3), out
    assert err.startswith("error ["), err
    assert "hint:" in err
    assert "Traceback" not in err
    assert state_of(tmp_path) == before


@pytest.mark.parametrize("fails", ["mkdir", "open", "fsync"])
def test_a_disk_that_is_full_leaves_the_old_version(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    write(tmp_path / "source/hello")
    real = getattr(os, fails)

    def full(path: Any, *arguments: Any, **more: Any) -> Any:
        writes = fails != "open" or bool(arguments and arguments[0] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))
        where = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.fspath(path)
        descriptor = more.get("dir_fd", more.get("src_dir_fd"))
        if descriptor is not None:
            where = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), where)
        if writes and str(where).startswith(str(project / ".metier")):
            raise OSError(28, "No space left on device")
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, fails, full)
    before = state_of(project)
    code, _, err = call("add", tmp_path / "source", "--to", "project", "--yes")
    monkeypatch.undo()
    os.chdir(project)
    if fails == "fsync" and code == 0:
        return  # of a folder it is only wished for
    assert code in (1, 2), err
    assert "[source-unavailable]" in err or "[file-refused]" in err, err
    assert state_of(project) == before


# ---- an agent cannot install

AGENT_COMMANDS = [
    *("metier add x --yes", "'met'ier add x", "metier ad\\d x", "m=metier; $m add x", "$(echo metier) add x"),
    *("python -m metier add x", "env metier --skills d add x", "/usr/bin/env -i metier add x", "sh -c 'metier add x'"),
    *("xargs metier add < f", "nohup metier add x &", "metier update --all", "metier remove x", "metier publish x"),
    *("metier install --frozen", "python -c \"from metier.cli import main; main(['add', 'x', '--yes'])\""),
]


@pytest.mark.each("command", AGENT_COMMANDS)
def test_no_agent_installs_by_its_shell(command: str) -> None:
    action = Action(point="call", tool="Bash", arguments={"command": command})
    assert match_human_only(action, [command]) is not None


def test_another_skill_in_the_place_of_an_installed_one_is_not_used(project: Path, tmp_path: Path) -> None:
    installed = project / ".metier/skills/hello"
    assert call("show", "hello")[0] == 0
    other = write(tmp_path / "elsewhere/hello", scripts=b"")
    (other / "scripts").unlink()
    (other / "scripts").mkdir()
    (other / "scripts/hi.py").write_text("print('evil')\n")
    installed.rename(tmp_path / "moved")
    other.rename(installed)
    code, out, err = call("run", "hello", "hi.py")
    assert code == 3
    assert "[integrity-failed]" in err
    assert "evil" not in out
