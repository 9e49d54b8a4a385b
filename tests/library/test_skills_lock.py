"""`skills-lock.json`, as `npx skills` writes and reads it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from metier.errors import LockInvalid
from metier.library.lock_file import LockedSkill
from metier.library.skills_lock import change_skills_lock, computed_hash, entry_of
from metier.skill.package import Files

FILES: Files = {"SKILL.md": ("file", b"---\nname: pdf\n---\n")}
SKILL = LockedSkill(
    name="pdf",
    folder=".metier/skills/pdf",
    source="git+https://github.com/acme/skills",
    ref="v2",
    path="skills/pdf",
    digest="sha256:" + "a" * 64,
)
_HASH = """
const {createHash} = require("crypto"), files = JSON.parse(require("fs").readFileSync(0));
files.sort((a, b) => a.localeCompare(b));
const hash = createHash("sha256");
for (const file of files) { hash.update(file); hash.update(Buffer.from("x")); }
console.log(hash.digest("hex"));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_computed_hash_has_the_order_of_javascript() -> None:
    letters = "abAB_-./ 019zZ~$@+()'^`=,;{}[]#%&!éÉñüω"
    rng = random.Random(1)
    paths = sorted({"".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(2_000)} - {"node_modules"})
    theirs = subprocess.run(["node", "-e", _HASH], input=json.dumps(paths), capture_output=True, text=True, check=True)
    assert computed_hash(dict.fromkeys(paths, ("file", b"x"))) == theirs.stdout.strip()


def test_links_and_installed_modules_are_not_in_the_computed_hash() -> None:
    more: Files = {"node_modules/a.js": ("file", b"x"), "link": ("link", b"SKILL.md"), "a/.git/config": ("file", b"x")}
    assert computed_hash({**FILES, **more}) == computed_hash(FILES)
    assert computed_hash({**FILES, "a.js": ("file", b"x")}) != computed_hash(FILES)


@pytest.mark.each(
    "each",
    [
        ("git+https://github.com/acme/skills", {"source": "acme/skills", "sourceType": "github"}),
        ("git+https://gitlab.com/a/b/c.git", {"source": "a/b/c", "sourceType": "gitlab"}),
        (
            "git+https://git.example.com/a/b",
            {"source": "https://git.example.com/a/b", "sourceType": "git", "sourceUrl": "https://git.example.com/a/b"},
        ),
        ("well-known:example.com/x", {"source": "example.com", "sourceType": "well-known"}),
        ("well-known+http://127.0.0.1:8000", {"source": "127.0.0.1", "sourceType": "well-known"}),
        ("dir:/srv/skills", {"source": "/srv/skills", "sourceType": "local"}),
    ],
)
def test_an_entry_names_its_source_as_that_client_does(each: tuple[str, dict[str, str]]) -> None:
    source, expected = each
    skill = LockedSkill(name="pdf", folder="pdf", source=source, path="skills/pdf", digest=SKILL.digest)
    entry = entry_of(skill, FILES)
    assert {key: entry.get(key) for key in expected} == expected
    assert entry["computedHash"] == computed_hash(FILES)


def test_entries_and_keys_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "skills-lock.json"
    theirs = {"source": "x/y", "sourceType": "github", "computedHash": "0", "subagents": [""]}
    path.write_text(json.dumps({"version": 1, "skills": {"zip": theirs, "pdf": theirs}, "extra": True}))
    entry = entry_of(SKILL, FILES)
    change_skills_lock(str(tmp_path), {"pdf": entry, "csv": entry})
    lock = json.loads(path.read_text())
    assert list(lock["skills"]) == ["csv", "pdf", "zip"]
    assert lock["skills"]["zip"] == theirs
    assert lock["skills"]["pdf"] == entry | {"subagents": [""]}
    assert lock["extra"] is True
    change_skills_lock(str(tmp_path), {"pdf": None, "csv": None})
    assert list(json.loads(path.read_text())["skills"]) == ["zip"]


@pytest.mark.each("each", ["{", "[]", '{"version": 2, "skills": {}}', '{"version": 1}', "[" * 100_000])
def test_a_file_that_cannot_be_read_is_left_alone(each: str, tmp_path: Path) -> None:
    path = tmp_path / "skills-lock.json"
    path.write_text(each)
    with pytest.raises(LockInvalid):
        change_skills_lock(str(tmp_path), {"pdf": {}})
    assert path.read_text() == each
