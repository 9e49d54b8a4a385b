"""The lock file: read, changed by several at once, written in one way, and never trusted."""

from __future__ import annotations

import multiprocessing
import tomllib
from pathlib import Path

import pytest

from metier._lazy import replace
from metier.errors import LockInvalid
from metier.library.lock_file import LockedSkill, LockFile, change_lock, lock_path_for

DIGEST = "sha256:" + "a" * 64
SKILL = LockedSkill(name="pdf", folder=".metier/skills/pdf", digest=DIGEST)
FULL = LockedSkill(
    name="pdf",
    folder=".metier/skills/pdf",
    source="git+https://github.com/acme/skills",
    ref="v2",
    path="skills/pdf",
    revision="c" * 40,
    version="2.1.0",
    package="acme/skills",
    digest=DIGEST,
    signer="ann@example.com",
    unsigned="no key yet",
    pinned=True,
    requires=("csv>=1,<2",),
    packages=("pypdf==5.1.0 --hash=sha256:" + "b" * 64, "wheel==1 --hash=sha256:" + "d" * 64),
    added="2026-01-01T00:00:00Z",
    by="ann",
)
LINE = f'digest = "{DIGEST}"'
TABLE = f'version = 1\n[[skill]]\nname = "pdf"\nfolder = ".metier/skills/pdf"\n{LINE}\n'


def test_a_lock_file_is_read_as_it_was_written_and_is_plain_toml(tmp_path: Path) -> None:
    lock = LockFile(path=str(tmp_path / "metier.lock"), skills=(FULL,))
    lock.write()
    assert LockFile.read(lock.path) == lock
    table = tomllib.loads(Path(lock.path).read_text())["skill"][0]
    assert table["source"] == "git+https://github.com/acme/skills"
    assert table["pinned"] is True


def test_the_order_in_which_skills_were_added_makes_no_difference(tmp_path: Path) -> None:
    empty = LockFile(path=str(tmp_path / "metier.lock"))
    skills = [replace(SKILL, name=name, folder=f".metier/skills/{name}") for name in ("b", "a", "c")]
    assert empty.with_skill(*skills).text() == empty.with_skill(*reversed(skills)).text()
    assert [skill.name for skill in empty.with_skill(*skills).without(".metier/skills/b").skills] == ["a", "c"]


@pytest.mark.each(
    "each",
    ['say "hi"', "back\\slash", "a\nb\r\tc", "\x00\x01\x1f", "del\x7f", "é日🐍", "''' \"\"\"", "[[skill]]\nname = 1"],
)
def test_every_text_survives_being_written(each: str, tmp_path: Path) -> None:
    lock = LockFile(path=str(tmp_path / "metier.lock"), skills=(replace(SKILL, by=each, requires=(each,)),))
    lock.write()
    assert LockFile.read(lock.path) == lock
    assert "\x7f" not in Path(lock.path).read_text()


def test_keys_that_are_not_known_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "metier.lock"
    path.write_text(
        'version = 1\nnotes = ["x"]\n'
        + TABLE.partition("\n")[2]
        + 'since = 2026-01-01\n"a b" = {c = 1.5, d = [true]}\n'
    )
    change_lock(str(path), lambda lock: lock.with_skill(replace(SKILL, name="csv", folder="csv")))
    lock = LockFile.read(path)
    assert dict(lock.other) == {"notes": ["x"]}
    assert lock.skills[-1].other["a b"] == {"c": 1.5, "d": [True]}


@pytest.mark.each(
    "each",
    [
        ("not TOML", "version = 1\n[[skill"),
        ("not UTF-8", b"version = 1\n# \xff\n"),
        ("no `version", "skill = []\n"),
        ("no `version", "version = true\n"),
        ("version 2", "version = 2\n"),
        ("no list", "version = 1\nskill = 3\n"),
        ("no table", "version = 1\nskill = [3]\n"),
        ("no `digest`", TABLE.replace(LINE, "")),
        ("no sha256", TABLE.replace("sha256:a", "md5:a")),
        ("no sha256", TABLE.replace("aaaa", "AAAA")),
        ("no `name`", TABLE.replace('"pdf"', '""')),
        ("wrong type", TABLE + "pinned = 1\n"),
        ("wrong type", TABLE + "requires = [1]\n"),
        ("wrong type", TABLE + "source = {}\n"),
        ("wrong type", TABLE + f'by = "{"x" * 5000}"\n'),
        ("twice", TABLE + TABLE.partition("\n")[2]),
        ("twice", TABLE + TABLE.partition("\n")[2].replace("skills/pdf", "skills/PDF")),
        ("deeply", "version = 1\nx = " + "[" * 5000),
        ("too large", "version = 1\nx = " + "9" * 6000),
        *(
            ("no plain path", TABLE.replace('".metier/skills/pdf"', folder))
            for folder in (
                "'../pdf'",
                "'/etc/pdf'",
                "'a/../../pdf'",
                "'a\\pdf'",
                "'C:/pdf'",
                "'a//pdf'",
                "'.'",
                r'"a\u0000"',
            )
        ),
    ],
)
def test_a_lock_file_that_cannot_be_used_says_why_and_is_never_overwritten(
    each: tuple[str, str | bytes], tmp_path: Path
) -> None:
    problem, content = each
    path = tmp_path / "metier.lock"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    with pytest.raises(LockInvalid, match=problem) as caught:
        change_lock(str(path), lambda lock: lock.with_skill(SKILL))
    assert caught.value.hint
    assert path.read_bytes() == before


def test_a_link_and_a_folder_in_its_place_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.lock").write_text(TABLE)
    (tmp_path / "metier.lock").symlink_to("other.lock")
    with pytest.raises(LockInvalid, match="link"):
        LockFile.read(tmp_path / "metier.lock")
    (tmp_path / "sub" / "metier.lock").mkdir(parents=True)
    with pytest.raises(LockInvalid):
        LockFile.read(tmp_path / "sub" / "metier.lock")


def test_a_skill_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "metier.lock"
    for bad in (replace(SKILL, folder="../pdf"), replace(SKILL, digest="x"), replace(SKILL, by="\ud800")):
        with pytest.raises(LockInvalid):
            LockFile(path=str(path), skills=(bad,)).write()
    assert not path.exists()


def _add(path: str, numbers: range) -> None:
    for number in numbers:
        skill = replace(SKILL, name=f"s{number}", folder=f"skills/s{number}")
        change_lock(path, lambda lock, skill=skill: lock.with_skill(skill))  # type: ignore[misc]


def test_no_entry_is_lost_when_several_add_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "metier.lock")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add, args=(path, range(at, at + 8))) for at in (0, 8, 16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(LockFile.read(path).skills) == 24


def test_the_lock_of_a_skill_is_at_the_root_of_its_project_or_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert lock_path_for(tmp_path / "home/.metier/skills/pdf") == str(tmp_path / "home/.metier/metier.lock")
    (tmp_path / "repo/.git").mkdir(parents=True)
    for folder in ("", "sub", ".metier/skills", ".metier/skills/pdf", "sub/.claude/skills/pdf"):
        assert lock_path_for(tmp_path / "repo" / folder) == str(tmp_path / "repo/metier.lock")
    assert lock_path_for(tmp_path / "plain/.metier/skills/pdf") == str(tmp_path / "plain/metier.lock")


def test_a_repository_made_in_a_skill_does_not_hide_the_lock_of_the_project(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".metier/skills/pdf/.git").mkdir(parents=True)
    assert lock_path_for(tmp_path / ".metier/skills/pdf") == str(tmp_path / "metier.lock")
