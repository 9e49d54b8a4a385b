"""A folder is read without ever leaving it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier._paths import real_path
from metier.errors import FileMissing, FileRefused, FileTooLarge, MetierError, PackageTooLarge, SkillUnreadable
from metier.skill import UNSETTLED_INODE, FolderPackage, Identity, read_skill_file
from metier.skill.package import MAX_DEPTH, MAX_FILES

CANARY = b"CANARY-outside-the-skill"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A skill with a secret beside it."""
    (tmp_path / "secret.txt").write_bytes(CANARY)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "SKILL.md").write_bytes(CANARY)
    root = tmp_path / "skill"
    (root / "references" / "deep").mkdir(parents=True)
    (root / "scripts").mkdir()
    (root / "SKILL.md").write_bytes(b"# Skill\n")
    (root / "references" / "api.md").write_bytes(b"# API\n")
    (root / "references" / "deep" / "x.md").write_bytes(b"deep\n")
    (root / "scripts" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "scripts" / "run.sh").chmod(0o755)
    return root


@pytest.mark.covers("G-07")
def test_files_are_listed_sorted_with_kinds(root: Path) -> None:
    listing = FolderPackage(root).listing()
    assert [(file.path, file.kind, file.executable) for file in listing.files] == [
        ("SKILL.md", "skill", False),
        ("references/api.md", "reference", False),
        ("references/deep/x.md", "reference", False),
        ("scripts/run.sh", "script", True),
    ]
    assert listing.stopped_at is None


@pytest.mark.parametrize("path", ["references/api.md", "./references//api.md", "references\\api.md"])
def test_a_file_is_read(root: Path, path: str) -> None:
    assert FolderPackage(str(root)).read(path) == b"# API\n"


@pytest.mark.covers("Y-20", "G-09")
@pytest.mark.each(
    "path", ["../secret.txt", "references/../../secret.txt", "..", "/etc/passwd", "..\\secret.txt", "", " ", "a\0b"]
)
def test_a_path_that_leaves_is_refused(root: Path, path: str) -> None:
    with pytest.raises(FileRefused):
        FolderPackage(root).read(path)


@pytest.mark.covers("Y-22")
def test_a_missing_file_and_a_folder_are_told_apart(root: Path) -> None:
    package = FolderPackage(root)
    with pytest.raises(FileMissing):
        package.read("nope.md")
    with pytest.raises(FileMissing):
        package.read("SKILL.md/x")
    with pytest.raises(FileRefused, match="folder"):
        package.read("references")


@pytest.mark.parametrize(
    ("link", "target", "content"),
    [
        ("here.md", "SKILL.md", b"# Skill\n"),
        ("references/up.md", "../SKILL.md", b"# Skill\n"),
        ("references/deep/two.md", "../../references/./api.md", b"# API\n"),
        ("dot.md", "./references/../SKILL.md", b"# Skill\n"),
    ],
)
def test_a_link_inside_is_followed(root: Path, link: str, target: str, content: bytes) -> None:
    (root / link).symlink_to(target)
    assert FolderPackage(root).read(link) == content
    assert {file.path: file.kind for file in FolderPackage(root).listing().files}[link] == "link"


def test_a_linked_folder_inside_is_followed_for_reading_and_not_for_listing(root: Path) -> None:
    (root / "refs").symlink_to("references")
    (root / "deeper").symlink_to("refs/deep")
    package = FolderPackage(root)
    assert package.read("refs/api.md") == b"# API\n"
    assert package.read("deeper/x.md") == b"deep\n"
    assert [file.path for file in package.listing().files if file.path.startswith(("refs", "deeper"))] == [
        "deeper",
        "refs",
    ]
    with pytest.raises(FileRefused):
        package.read("refs")


@pytest.mark.covers("Y-20")
@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("out", "../secret.txt", "out"),
        ("references/out", "../../secret.txt", "references/out"),
        ("folder", "..", "folder/secret.txt"),
        ("folder", "../other", "folder/SKILL.md"),
        ("back", "../skill/SKILL.md", "back"),
        ("deep", "references/deep/../../../secret.txt", "deep"),
        ("proc", "/proc/self/environ", "proc"),
        ("absolute", "{root}/SKILL.md", "absolute"),
        ("absolute", "{parent}", "absolute/secret.txt"),
        ("slashes", "///etc/passwd", "slashes"),
    ],
)
def test_a_link_that_leaves_is_refused(root: Path, link: str, target: str, path: str) -> None:
    (root / link).symlink_to(target.replace("{root}", str(root)).replace("{parent}", str(root.parent)))
    with pytest.raises(FileRefused, match="traversal"):
        FolderPackage(root).read(path)


@pytest.mark.parametrize(
    "links",
    [
        {"a": "a"},
        {"a": "b", "b": "a"},
        {"a": "references/a", "references/a": "../a"},
        {"a": "a/b"},
        {"a": "./././a"},
        {"a": "l0", **{f"l{i}": f"l{i + 1}" for i in range(40)}},
    ],
)
def test_links_in_a_circle_end(root: Path, links: dict[str, str]) -> None:
    for link, target in links.items():
        (root / link).symlink_to(target)
    with pytest.raises(FileRefused):
        FolderPackage(root).read("a")
    FolderPackage(root).listing()
    FolderPackage(root).digest()


def test_a_broken_link_is_a_missing_file(root: Path) -> None:
    (root / "broken").symlink_to("nope.md")
    with pytest.raises(FileMissing):
        FolderPackage(root).read("broken")


def test_the_folder_itself_may_be_a_link(root: Path) -> None:
    (root.parent / "linked").symlink_to("skill")
    package = FolderPackage(root.parent / "linked")
    assert package.read("SKILL.md") == b"# Skill\n"
    assert package.digest() == FolderPackage(root).digest()


@pytest.mark.parametrize("place", [".git", "node_modules", "__pycache__", "scripts/node_modules", ".venv"])
def test_what_is_no_part_of_a_package_is_neither_listed_nor_read_nor_in_the_digest(root: Path, place: str) -> None:
    before = FolderPackage(root).digest()
    (root / place).mkdir()
    (root / place / "config").write_text("x")
    package = FolderPackage(root)
    assert not any(place in file.path for file in package.listing().files)
    assert package.digest() == before
    with pytest.raises(FileMissing):
        package.read(f"{place}/config")


@pytest.mark.parametrize("target", [".git/config", "node_modules/config", "scripts/../.git/config"])
def test_a_link_does_not_bring_back_what_is_no_part_of_a_package(root: Path, target: str) -> None:
    for place in (".git", "node_modules"):
        (root / place).mkdir()
        (root / place / "config").write_text("secret")
    (root / "link").symlink_to(target)
    with pytest.raises(MetierError):
        FolderPackage(root).read("link")


def test_a_fifo_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe")  # nobody writes to it: who waited would wait for ever
    with pytest.raises(FileRefused):
        FolderPackage(root).read("pipe")
    assert "pipe" not in [file.path for file in FolderPackage(root).listing().files]
    FolderPackage(root).digest()


def test_a_socket_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        with pytest.raises(MetierError):
            FolderPackage(root).read("sock")


def test_a_huge_file_is_refused_without_being_read(root: Path) -> None:
    with open(root / "huge.bin", "wb") as huge:
        huge.truncate(100 * 1024 * 1024)
    start = time.process_time()
    with pytest.raises(FileTooLarge):
        FolderPackage(root).read("huge.bin")
    assert time.process_time() - start < 1


@pytest.mark.parametrize(("limit", "fits"), [(8, True), (7, False), (0, False)])
def test_the_limit_is_inclusive(root: Path, limit: int, fits: bool) -> None:
    if fits:
        assert FolderPackage(root).read("SKILL.md", limit=limit) == b"# Skill\n"
    else:
        with pytest.raises(FileTooLarge):
            FolderPackage(root).read("SKILL.md", limit=limit)


def test_a_vanished_folder_is_said(tmp_path: Path) -> None:
    package = FolderPackage(tmp_path / "gone")
    with pytest.raises(MetierError):
        package.read("SKILL.md")
    for look in (package.listing, package.digest, package.signature):
        with pytest.raises(SkillUnreadable):
            look()


def test_a_listing_is_bounded(tmp_path: Path) -> None:
    for i in range(MAX_FILES + 5):
        (tmp_path / f"f{i}").touch()
    listing = FolderPackage(tmp_path).listing()
    assert len(listing.files) == MAX_FILES
    assert listing.stopped_at is not None
    FolderPackage(tmp_path).digest()


def test_a_very_deep_folder_is_not_entered(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * (MAX_DEPTH + 2))
    deep.mkdir(parents=True)
    (deep / "x").touch()
    (tmp_path / "SKILL.md").touch()
    listing = FolderPackage(tmp_path).listing()
    assert [file.path for file in listing.files] == ["SKILL.md"]
    assert listing.stopped_at is not None
    with pytest.raises(PackageTooLarge):
        FolderPackage(tmp_path).digest()


def test_a_package_of_more_bytes_than_allowed_has_no_digest(root: Path) -> None:
    with open(root / "huge.bin", "wb") as huge:
        huge.truncate(300 * 1024 * 1024)
    with pytest.raises(PackageTooLarge):
        FolderPackage(root).digest()


def test_everything_that_matters_is_in_the_digest(root: Path) -> None:
    package = FolderPackage(root)
    seen = {package.digest()}
    (root / "SKILL.md").write_bytes(b"# Skilk\n")
    seen.add(package.digest())
    (root / "scripts" / "run.sh").chmod(0o644)
    seen.add(package.digest())
    (root / "new").touch()
    seen.add(package.digest())
    (root / "new").rename(root / "newer")
    seen.add(package.digest())
    (root / "link").symlink_to("SKILL.md")
    seen.add(package.digest())
    (root / "link").unlink()
    (root / "link").symlink_to("scripts/run.sh")
    seen.add(package.digest())
    assert len(seen) == 7


def test_a_date_is_not_in_the_digest_but_in_the_signature(root: Path) -> None:
    package = FolderPackage(root)
    digest, signature = package.digest(), package.signature()
    os.utime(root / "SKILL.md", (1, 1))
    assert package.digest() == digest
    assert package.signature() != signature


def test_the_signature_of_settled_files_stays(root: Path) -> None:
    time.sleep(0.15)
    package = FolderPackage(root)
    assert package.signature() == package.signature()


def test_a_link_that_vanishes_while_the_digest_is_made_is_one_of_our_errors(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "link").symlink_to("SKILL.md")

    def gone(path: str, **_: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(os, "readlink", gone)
    with pytest.raises(MetierError):
        FolderPackage(root).digest()


def test_a_file_name_that_is_not_utf8_is_no_obstacle(root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/\xff.md", os.O_CREAT | os.O_WRONLY))
    package = FolderPackage(root)
    assert len(package.listing().files) == 5
    assert package.digest()
    assert package.signature()


@pytest.mark.parametrize(
    "name",
    [
        "Screenshot 1.00.00\u202fPM.png",
        "x\xa0y.md",
        "a:b.md",
    ],
)
def test_every_listed_file_can_be_read(root: Path, name: str) -> None:
    (root / name).write_bytes(b"x")
    package = FolderPackage(root)
    assert [package.read(file.path) for file in package.listing().files if file.path == name] == [b"x"]


# --- races -------------------------------------------------------------------------------------------------------


def churn(stop: threading.Event, path: Path, good: Path, bad: str) -> None:
    """Swap a path between something harmless and a link to the outside, as fast as it goes."""
    other = path.with_name(path.name + ".next")
    while not stop.is_set():
        for link in (False, True):
            with contextlib.suppress(OSError):
                if link:
                    other.symlink_to(bad)
                elif good.is_dir():
                    path.rename(path.with_name(f"old-{time.monotonic_ns()}"))
                    other.mkdir()
                    (other / "secret.txt").write_bytes(b"harmless")
                else:
                    other.write_bytes(b"harmless")
                os.replace(other, path)


@pytest.mark.parametrize(
    ("swapped", "path", "bad"), [("f.md", "f.md", "../secret.txt"), ("sub", "sub/secret.txt", "..")]
)
@pytest.mark.parametrize("seconds", [0.1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_file_swapped_for_a_link_during_reading_never_leads_out(
    root: Path, swapped: str, path: str, bad: str, seconds: float
) -> None:
    good = root / "good"
    if "/" in path:
        good.mkdir()
    else:
        good.write_bytes(b"harmless")
    stop = threading.Event()
    thread = threading.Thread(target=churn, args=(stop, root / swapped, good, bad))
    thread.start()
    package = FolderPackage(root)
    read = refused = 0
    began = time.monotonic()
    try:
        while (passed := time.monotonic() - began) < seconds or (not refused and passed < 60):
            try:
                assert package.read(path) in (b"harmless", b"")
                read += 1
            except MetierError:
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert refused


@given(
    st.lists(
        st.sampled_from(
            [
                "..",
                ".",
                "",
                "out",
                "dir",
                "abs",
                "references",
                "loop",
                "in",
                "secret.txt",
                "other",
                "SKILL.md",
                "skill",
                "\\..",
                "a\0",
                "~",
            ]
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["/", "\\", "//", "/./"]),
    st.sampled_from(["", "/", "C:", "./"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_whatever_reads_what_is_outside(root: Path, parts: list[str], separator: str, start: str) -> None:
    for link, target in {
        "out": "../secret.txt",
        "dir": "..",
        "abs": str(root.parent),
        "loop": "loop/x",
        "references/dir": "../dir",
        "in": "references",
    }.items():
        if not (root / link).is_symlink():
            (root / link).symlink_to(target)
    try:
        data = FolderPackage(root).read(start + separator.join(parts))
    except MetierError:
        return
    assert CANARY not in data


# --- read_skill_file ---------------------------------------------------------------------------------------------


def test_a_settled_file_is_read_with_its_identity(root: Path) -> None:
    file = root / "SKILL.md"
    time.sleep(0.15)
    data, identity = read_skill_file(str(file), 100)
    assert data == b"# Skill\n"
    assert identity == Identity.of(os.stat(file))


def test_a_file_written_just_now_has_no_identity_to_rely_on(root: Path) -> None:
    (root / "SKILL.md").write_bytes(b"new")
    data, identity = read_skill_file(str(root / "SKILL.md"), 100)
    assert data == b"new"
    assert identity.inode == UNSETTLED_INODE
    assert identity == Identity.unsettled(b"new")
    assert identity != Identity.unsettled(b"now")


def test_a_date_set_back_does_not_hide_a_change(root: Path) -> None:
    file = root / "SKILL.md"
    time.sleep(0.15)
    before = Identity.of(os.stat(file))
    file.write_bytes(b"# Skilk\n")
    os.utime(file, ns=(before.mtime_ns, before.mtime_ns))
    after = Identity.of(os.stat(file))
    assert (after.size, after.mtime_ns, after.inode) == (before.size, before.mtime_ns, before.inode)
    assert after != before


@pytest.mark.each(
    ("now", "settled"),
    [(1_000_000_001 + 50_000_000, False), (1_000_000_001 + 150_000_000, True), (0, False)],
)
def test_fine_time_stamps_settle_soon(now: int, settled: bool) -> None:
    assert Identity(1, 1, 1_000_000_001, 1_000_000_001).is_settled(now) is settled


def test_coarse_time_stamps_settle_late() -> None:
    identity = Identity(1, 1, 2_000_000_000, 2_000_000_000)
    assert not identity.is_settled(3_500_000_000)
    assert identity.is_settled(4_500_000_000)


@pytest.mark.covers("G-06")
def test_a_skill_file_that_is_a_link_is_refused(root: Path) -> None:
    (root / "link.md").symlink_to("SKILL.md")
    with pytest.raises(OSError, match="symbolic links"):
        read_skill_file(str(root / "link.md"), 100)


def test_a_skill_file_that_is_no_file_is_refused(root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    for path in (root / "pipe.md", root / "references"):
        with pytest.raises(FileRefused):
            read_skill_file(str(path), 100)
    with pytest.raises(FileNotFoundError):
        read_skill_file(str(root / "nope.md"), 100)


@pytest.mark.covers("G-03")
def test_a_skill_file_of_100_megabytes_is_refused_without_being_read(root: Path) -> None:
    with open(root / "SKILL.md", "wb") as huge:
        huge.truncate(100 * 1024 * 1024)
    start = time.process_time()
    with pytest.raises(FileTooLarge) as caught:
        read_skill_file(str(root / "SKILL.md"), 2 * 1024 * 1024)
    assert time.process_time() - start < 0.5
    assert caught.value.context["limit"] == 2 * 1024 * 1024


def test_a_file_with_a_date_to_come_is_read_too(root: Path) -> None:
    later = time.time() + 3_600
    os.utime(root / "SKILL.md", (later, later))
    data, identity = read_skill_file(str(root / "SKILL.md"), 100)
    assert (data, identity.inode) == (b"# Skill\n", UNSETTLED_INODE)


@pytest.mark.covers("ENV-3")
@pytest.mark.parametrize(
    "steps",
    [
        [b"", b"x" * 5_000],
        [b"", b"x" * 100, b"x" * 4_096, b"x" * 5_000],
        [b"x" * 9_000, b"", b"", b"x" * 5_000],
        [b""] * 12 + [b"x" * 5_000],
    ],
    ids=["truncated", "in parts", "shortened", "truncated for long"],
)
def test_a_file_being_written_is_never_half_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, steps: list[bytes]
) -> None:
    """Each time that the reader waits, the writer takes its next step, a millisecond before the reader looks again."""
    file, left = root / "SKILL.md", list(steps)
    file.write_bytes(left.pop(0))

    def wait(seconds: float) -> None:
        if left:
            file.write_bytes(left.pop(0))

    def now() -> int:
        return file.stat().st_ctime_ns + (1_000_000 if left else 1_000_000_000)

    monkeypatch.setattr(time, "sleep", wait)
    monkeypatch.setattr(time, "time_ns", now)
    assert read_skill_file(str(file), 10_000)[0] == b"x" * 5_000
    assert not left


def test_a_file_that_stays_empty_is_read_as_that(root: Path) -> None:
    (root / "SKILL.md").write_bytes(b"")
    assert read_skill_file(str(root / "SKILL.md"), 100)[0] == b""


def test_nothing_is_left_open(root: Path) -> None:
    (root / "out").symlink_to("../secret.txt")
    package = FolderPackage(root)
    before = len(os.listdir("/proc/self/fd"))
    for path in ("SKILL.md", "out", "nope", "references", "references/deep/x.md", "references/nope/x"):
        with contextlib.suppress(MetierError):
            package.read(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_link_that_nobody_here_may_read_leads_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.path.realpath(tmp_path))
    (folder / "closed").symlink_to("elsewhere")
    (folder / "link").symlink_to(folder / "closed")
    readlink = os.readlink

    def read(path: str, **options: int) -> str:
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied", path)
        return readlink(path, **options)

    monkeypatch.setattr(os, "readlink", read)
    for path in ("closed/x", "link/x", "link/../closed/x"):
        assert real_path(str(folder / path)) == str(folder / "closed" / "x")
    assert real_path(str(folder / "none" / ".." / "x")) == str(folder / "x")
