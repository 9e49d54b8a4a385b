"""`metier validate`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

REFERENCE = Path(__file__).parents[2] / "docs/reference/json.md"
needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")


def verdicts(metier: Call, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of a validation."""
    code, out, err = metier("validate", *arguments, "--json")
    assert err == ""
    report = json.loads(out)
    assert set(report) == {"ok", "skills"}
    assert code == (0 if report["ok"] else 1)
    assert report["ok"] == all(skill["ok"] for skill in report["skills"])
    for skill in report["skills"]:
        assert set(skill) == {"path", "name", "ok", "diagnostics"}
        assert skill["ok"] == (not any(found["severity"] == "error" for found in skill["diagnostics"]))
        for found in skill["diagnostics"]:
            assert set(found) == {"code", "severity", "line", "message", "hint"}
            assert found["hint"]
    return code, report


def found_in(metier: Call, *arguments: str | Path) -> dict[str, int | None]:
    """The codes found in one skill, each with its line."""
    _, report = verdicts(metier, *arguments)
    (skill,) = report["skills"]
    return {found["code"]: found["line"] for found in skill["diagnostics"]}


def write(folder: Path, text: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


# --- what may be named -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [(), ("--strict",), ("--portable",)])
def test_a_valid_skill_is_fine(metier: Call, write_skill: Write, tmp_path: Path, option: tuple[str, ...]) -> None:
    file = write_skill(tmp_path / "alpha")
    assert metier("validate", file.parent, *option) == (0, f"✓ alpha {file}\n1 skill, no errors.\n", "")
    assert verdicts(metier, file.parent, *option)[1] == {
        "ok": True,
        "skills": [{"path": str(file), "name": "alpha", "ok": True, "diagnostics": []}],
    }


def test_a_broken_skill_is_a_problem_with_a_line_and_what_to_do(metier: Call, tmp_path: Path) -> None:
    code, out, err = metier("validate", write(tmp_path / "alpha", ""))
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        f"✗ alpha {tmp_path}/alpha/SKILL.md",
        "  error file-empty line 1: The file is empty.",
        "    → Write a frontmatter block and instructions; `metier new NAME` starts one.",
        *out.splitlines()[3:-1],
        "1 skill, 1 with errors.",
    ]


@pytest.mark.parametrize("path", ["alpha/SKILL.md", "alpha", "alpha/", ".", "./alpha/../alpha"])
def test_a_file_a_folder_and_a_folder_of_skills_may_be_named(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    write_skill(tmp_path / "alpha")
    monkeypatch.chdir(tmp_path)
    _, report = verdicts(metier, path)
    assert [(skill["name"], skill["path"]) for skill in report["skills"]] == [("alpha", f"{tmp_path}/alpha/SKILL.md")]


def test_every_skill_of_a_folder_is_checked(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "b")
    write_skill(tmp_path / "deeper" / "a")
    write(tmp_path / "c", "")
    code, report = verdicts(metier, tmp_path)
    assert code == 1
    assert [(skill["name"], skill["ok"]) for skill in report["skills"]] == [("b", True), ("c", False), ("a", True)]
    assert "3 skills, 1 with errors." in metier("validate", tmp_path)[1]


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar"])
def test_the_skills_of_an_archive_are_checked(metier: Call, write_skill: Write, tmp_path: Path, kind: str) -> None:
    write_skill(tmp_path / "packed" / "alpha")
    write(tmp_path / "packed" / "beta", "")
    archive = shutil.make_archive(str(tmp_path / "skills"), kind, tmp_path / "packed")
    code, report = verdicts(metier, archive)
    assert code == 1
    assert [(skill["path"], skill["ok"]) for skill in report["skills"]] == [
        (f"{archive}!/alpha/SKILL.md", True),
        (f"{archive}!/beta/SKILL.md", False),
    ]


def test_several_paths_are_checked_in_one_go(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "a")
    write_skill(tmp_path / "b")
    _, report = verdicts(metier, tmp_path / "b", tmp_path / "a" / "SKILL.md")
    assert [skill["name"] for skill in report["skills"]] == ["b", "a"]


@pytest.mark.each("path", ["nowhere", "nowhere/SKILL.md", "notes.txt", "nowhere.zip", "", "x" * 5_000, "\udcff"])
def test_a_path_that_is_nothing_to_check_is_wrong_usage(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("no skill")
    code, out, err = metier("validate", path)
    assert (code, out) == (2, "")
    assert err.startswith("error [source-unavailable]: ")
    assert "\nhint: Name " in err


@needs_links
def test_a_link_to_nothing_is_wrong_usage(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("link", "loop"):
        code, _, err = metier("validate", tmp_path / name)
        assert code == 2
        assert "\nhint: " in err


def test_a_folder_without_skills_is_a_problem(metier: Call, tmp_path: Path) -> None:
    code, report = verdicts(metier, tmp_path)
    assert code == 1
    (skill,) = report["skills"]
    assert skill["name"] is None
    assert "There is no SKILL.md in" in skill["diagnostics"][0]["message"]


def test_an_archive_that_is_none_is_a_problem(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"junk")
    code, out, _ = metier("validate", tmp_path / "bad.zip")
    assert code == 1
    assert "archive-refused" in out


def test_an_archive_that_is_none_does_not_keep_the_others_from_being_checked(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    (tmp_path / "bad.zip").write_bytes(b"junk")
    write_skill(tmp_path / "alpha")
    code, report = verdicts(metier, tmp_path / "bad.zip", tmp_path / "alpha")
    assert code == 1
    assert [skill["ok"] for skill in report["skills"]] == [False, True]


def test_a_tilde_means_home_as_it_does_for_every_command(metier: Call, write_skill: Write, own_home: Path) -> None:
    write_skill(own_home / "skills" / "alpha")
    assert metier("list", "--skills", "~/skills")[0] == 0
    assert metier("validate", "~/skills")[0] == 0


def test_a_search_that_stopped_early_is_pointed_out(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha")
    write_skill(tmp_path / "1/2/3/4/5/6/7/8/9/too-deep")
    assert "scan-limit" in metier("list", "--skills", tmp_path)[1] + metier("doctor", "--skills", tmp_path)[1]
    assert "scan-limit" in metier("validate", tmp_path)[1]


# --- odd files ------------------------------------------------------------------------------------------------


@needs_links
@pytest.mark.parametrize("named", ["folder", "file"])
def test_a_linked_skill_file_is_refused(metier: Call, write_skill: Write, tmp_path: Path, named: str) -> None:
    real = write_skill(tmp_path / "elsewhere")
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "SKILL.md").symlink_to(real)
    path = tmp_path / "alpha" / ("SKILL.md" if named == "file" else "")
    assert found_in(metier, path) == {"file-symlink": 1}


@needs_links
def test_a_link_to_a_folder_with_a_skill_is_followed(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "elsewhere" / "alpha")
    (tmp_path / "alpha").symlink_to(tmp_path / "elsewhere" / "alpha")
    assert found_in(metier, tmp_path / "alpha", "--strict") == {}


def test_a_huge_skill_file_is_refused_without_being_read(metier: Call, tmp_path: Path) -> None:
    folder = write(tmp_path / "alpha", "---\nname: alpha\n")
    with open(folder / "SKILL.md", "r+b") as file:
        file.truncate(100 << 20)
    start = time.process_time()
    _, report = verdicts(metier, folder)
    assert time.process_time() - start < 2
    (found,) = report["skills"][0]["diagnostics"]
    assert (found["code"], found["line"]) == ("file-too-large", 1)
    assert "104,857,600" in found["message"]


def test_a_skill_file_that_is_a_folder_is_refused(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "alpha" / "SKILL.md").mkdir(parents=True)
    assert found_in(metier, tmp_path / "alpha" / "SKILL.md") == {"file-not-regular": 1}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_skill_file_that_is_a_named_pipe_is_refused_and_not_waited_for(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    os.mkfifo(tmp_path / "alpha" / "SKILL.md")
    assert found_in(metier, tmp_path / "alpha") == {"file-not-regular": 1}


def test_text_in_another_encoding_is_pointed_out_with_its_line(metier: Call, tmp_path: Path) -> None:
    folder = write(tmp_path / "alpha", b"---\nname: alpha\ndescription: Does it.\n---\nDo it.\nCaf\xe9.\n")
    assert found_in(metier, folder) == {"invalid-utf8": 6, "not-deployable": 6}
    assert found_in(metier, folder, "--strict") == {"spec-encoding": 6}


@pytest.mark.parametrize("name", ["skill.md", "Skill.md"])
def test_a_file_of_another_case_is_checked_and_pointed_out(
    metier: Call, write_skill: Write, tmp_path: Path, name: str
) -> None:
    file = write_skill(tmp_path / "alpha", file=name)
    expected = {"file-name-case": 1} | ({"not-deployable": 1} if name == "Skill.md" else {})
    assert found_in(metier, tmp_path / "alpha") == expected
    assert found_in(metier, file) == expected


@pytest.mark.each("option", [(), ("--strict",), ("--portable",)])
@pytest.mark.each(
    "data",
    [
        b"\x00" * 1_000,
        b"\xff\xfe" + "---\nname: a\n---\nDo.".encode("utf-16-le"),
        b"---\n" * 1_000,
        b"---\n" + b"[" * 10_000 + b"\n---\n",
        b"---\na: &a [x]\nb: *a\n<<: *a\n---\n",
        b"---\n? [a, b]\n: c\nnull: 1\n1: 2\nmetadata: {1: 2, null: [1], [a]: {b: c}}\n---\n",
        b"---\nname: {a: b}\ndescription: [1, 2]\ncompatibility: {a: 1}\nallowed-tools: {a: 1}\nmetadata: 3\n---\n",
        b"---\nname: null\ndescription: ~\ncompatibility: ''\nallowed-tools: []\nmetadata: []\n---\n",
        b'---\nname: "a\\nb"\ndescription: "\\ud800\\e[2J\\0"\n---\n',
        b"--- \nname: a\n...\n",
        b"---\nname: a",
    ],
    every=4,
)
def test_whatever_the_file_holds_there_is_a_verdict(
    metier: Call, tmp_path: Path, data: bytes, option: tuple[str, ...]
) -> None:
    folder = write(tmp_path / "alpha", data)
    code, out, err = metier("validate", folder, *option)
    assert code in (0, 1)
    assert err == ""
    assert "\x1b" not in out
    verdicts(metier, folder, *option)


# --- lenient and strict --------------------------------------------------------------------------------------------


@pytest.mark.covers("O-03", "O-04", "Y-02")
@pytest.mark.each(
    ("text", "lenient", "strict"),
    [
        ("---\nname: alpha\n---\nDo it.", {"description-missing": 4}, {"spec-description-missing": 1}),
        ("Do it.", {"frontmatter-missing": 1, "name-missing": 1}, {"spec-frontmatter-missing": 1}),
        ("---\nname: alpha\ndescription: a: b\n---\nDo it.", {"yaml-unquoted-colon": 3}, {"spec-yaml": 3}),
        (
            "---\nname: Alpha\ndescription: d\n---\nDo it.",
            {"name-invalid": 2, "name-differs-from-folder": 2},
            {"spec-name-case": 2, "spec-name-folder": 2},
        ),
        (
            "---\nname: beta\ndescription: d\n---\nDo it.",
            {"name-differs-from-folder": 2},
            {"spec-name-folder": 2},
        ),
        (
            f"---\nname: alpha\ndescription: {'d' * 1_025}\n---\nDo it.",
            {"description-too-long": 3},
            {"spec-description-too-long": 3},
        ),
        (f"---\nname: alpha\ndescription: {'d' * 1_024}\n---\nDo it.", {}, {}),
        (
            "---\nname: alpha\nname: alpha\ndescription: d\n---\nDo it.",
            {"yaml-duplicate-key": 3},
            {"spec-duplicate-key": 3},
        ),
        ("---\nname: alpha\ndescription: d\nDo it.", {"frontmatter-unclosed": 4}, {"spec-frontmatter-unclosed": 1}),
        (
            "---\nname: alpha\ndescription: d\nversion: 1\n---\nDo it.",
            {"unknown-fields": None},
            {"spec-unexpected-field": 4},
        ),
    ],
    every=2,
)
def test_what_loads_with_a_warning_is_an_error_when_the_specification_decides(
    metier: Call, tmp_path: Path, text: str, lenient: dict[str, int | None], strict: dict[str, int | None]
) -> None:
    folder = write(tmp_path / "alpha", text)
    found = found_in(metier, folder)
    assert lenient.items() <= found.items()
    assert metier("validate", folder)[0] == 0
    found = found_in(metier, folder, "--strict")
    assert strict.items() <= found.items()
    assert metier("validate", folder, "--strict")[0] == (1 if strict else 0)


@pytest.mark.covers("O-03")
@pytest.mark.each(
    ("name", "valid"),
    [
        ("test", True),
        ("test-skill-123", True),
        ("3d-print", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("Test", False),
        ("test_skill", False),
        ("test skill", False),
        ("-test", False),
        ("a--b", False),
        ("a-", False),
    ],
)
def test_strictly_a_name_is_lower_case_letters_digits_and_single_hyphens(
    metier: Call, tmp_path: Path, name: str, valid: bool
) -> None:
    folder = write(tmp_path / name, f"---\nname: '{name}'\ndescription: Does it.\n---\nDo it.\n")
    found = found_in(metier, folder, "--strict")
    assert (found == {}) is valid
    assert all(code.startswith("spec-name-") and line == 2 for code, line in found.items())


def test_several_problems_are_said_at_once_each_with_its_line(metier: Call, tmp_path: Path) -> None:
    folder = write(tmp_path / "alpha", "---\nversion: 2\nname: A--b_\ncompatibility: ''\n---\nSee [x](missing.md).\n")
    assert found_in(metier, folder, "--strict") == {
        "spec-unexpected-field": 2,
        "spec-name-case": 3,
        "spec-name-hyphen-double": 3,
        "spec-name-characters": 3,
        "spec-name-folder": 3,
        "spec-compatibility-empty": 4,
        "spec-description-missing": 1,
        "reference-missing": 6,
        "unknown-fields": None,
    }


@pytest.mark.each(
    ("frontmatter", "expected"),
    [
        ("name: {folder}\ndescription: Helps with <b>bold</b>.", {"portable-angle-brackets": 3}),
        ("name: {folder}\ndescription: d\nallowed-tools: [Read, Grep]", {"portable-tools-list": 4}),
        ("name: {folder}\ndescription: d\nmetadata:\n  tags: [a, b]", {"portable-metadata-values": 4}),
        ("name: {folder}\ndescription: d\nmetadata:\n  a: b", {}),
        ("name: {folder}\ndescription: d\nallowed-tools: Read Grep", {}),
    ],
)
def test_places_that_skills_are_uploaded_to_have_rules_of_their_own(
    metier: Call, tmp_path: Path, frontmatter: str, expected: dict[str, int]
) -> None:
    folder = write(tmp_path / "alpha", f"---\n{frontmatter.format(folder='alpha')}\n---\nDo it.\n")
    assert metier("validate", folder, "--strict")[0] == 0
    found = found_in(metier, folder, "--portable")
    assert {code: line for code, line in found.items() if code.startswith(("portable-", "spec-"))} == expected


@pytest.mark.parametrize("name", ["claude-helper", "my-anthropic-tool"])
def test_uploads_reserve_some_words(metier: Call, write_skill: Write, tmp_path: Path, name: str) -> None:
    folder = write_skill(tmp_path / name).parent
    assert found_in(metier, folder, "--strict") == {}
    assert found_in(metier, folder, "--portable") == {"portable-reserved-word": 2}


def test_uploads_have_a_size(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "alpha").parent
    with open(folder / "huge.bin", "wb") as huge:
        huge.truncate(31_000_000)
    assert found_in(metier, folder, "--strict") == {}
    assert found_in(metier, folder, "--portable") == {"portable-too-large": None}


# --- the package ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("O-107")
@pytest.mark.each(
    ("body", "expected"),
    [
        ("See [it](references/api.md).", {}),
        ("See [it](./references/api.md#part).", {}),
        ("See [it](references/).", {}),
        ("Run scripts/run.py first.", {}),
        ("See [it](references/gone.md).", {"reference-missing": 6}),
        ("Run `scripts/gone.py` first.", {"reference-missing": 6}),
        ("See [it](../other/SKILL.md).", {"reference-outside": 6}),
        ("See [it](references/../../other.md).", {"reference-outside": 6}),
        ("See [it](https://example.org/gone.md), [mail](mailto:a@b.c), [part](#part), [root](/x.md).", {}),
        ("```\n[it](gone.md)\n```", {}),
        ("Fill [it]({{ path }}) and [that]($DIR/x.md).", {}),
    ],
)
def test_files_that_the_instructions_mention_must_be_there(
    metier: Call, write_skill: Write, tmp_path: Path, body: str, expected: dict[str, int]
) -> None:
    folder = write_skill(tmp_path / "alpha", body=f"# Alpha\n{body}").parent
    for path in ("references/api.md", "scripts/run.py"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("# nothing\n")
    assert found_in(metier, folder) == expected
    assert metier("validate", folder, "--strict")[0] == 0


@pytest.mark.covers("ACC-12")
@pytest.mark.each(
    ("line", "missing"),
    [
        ("Everything else is in `docs/b.md`.", "docs/b.md"),
        ("See docs/c.md.", "docs/c.md"),
        ("Please read the file **guide.md** first.", "guide.md"),
        ("For limits, refer to `LIMITS.md`, then go on.", "LIMITS.md"),
        ("- reference.md: all calls", "reference.md"),
        ("2. `errors.md` - what may go wrong", "errors.md"),
        ("| forms | `reference/forms.md` |", "reference/forms.md"),
        ("Change `notes/b.txt` and `notes/deep/c.json`.", "notes/deep/c.json"),
        ("Run `python ./scripts/gone.py --all`.", "scripts/gone.py"),
        ("Text ![picture](assets/gone.png) and more.", "assets/gone.png"),
        ("```bash\npip install x\npython3 -u ${SKILL_DIR}/scripts/gone.py in.csv\n```", "scripts/gone.py"),
        ("~~~\n# then\n$ bash scripts/gone.sh\n~~~", "scripts/gone.sh"),
    ],
)
def test_a_missing_file_is_found_however_it_is_mentioned(
    metier: Call, write_skill: Write, tmp_path: Path, line: str, missing: str
) -> None:
    folder = write_skill(tmp_path / "alpha", body=f"# Alpha\n\n{line}").parent
    (folder / "notes").mkdir()
    (folder / "notes" / "b.txt").write_text("x")
    code, out, _ = metier("validate", folder, "--json")
    found = [one for one in json.loads(out)["skills"][0]["diagnostics"] if one["code"] == "reference-missing"]
    assert (code, [(one["line"], f"`{missing}` is" in one["message"]) for one in found]) == (
        *(0, [(7 + 2 * (line[0] in "`~"), True)]),
    )


@pytest.mark.covers("ACC-12")
@pytest.mark.each(
    "line",
    [
        "Look into `package.json` and `src/app.ts`, and edit `docs/guide/intro.md`.",
        "Read CLAUDE.md, README.md and `docs/CHANGELOG.md`.",
        "Read `style.md` if it exists, and `SOUL.md` from the workspace root.",
        "Write the result to `result.md`, and read `numbers.txt` first.",
        "- `memory/YYYY-MM-DD.md`: what happened that day",
        "- `tsconfig.json`: options of the compiler",
        "See e.g. version 1.2.md5 or Node.js, or a.b.c.",
        "- limits.md: it is in another folder, and found",
        "<!-- See docs/old.md. -->",
        "```\nmy-skill/\n  scripts/other.py\nscripts/other.py: [it](docs/x.md)\ncat scripts/other.py\n```",
        "See `docs/*.md` and `docs/{name}.md`.",
    ],
)
def test_files_of_whoever_uses_a_skill_are_not_missed(
    metier: Call, write_skill: Write, tmp_path: Path, line: str
) -> None:
    folder = write_skill(tmp_path / "alpha", body=f"# Alpha\n\n{line}").parent
    (folder / "references").mkdir()
    (folder / "references" / "limits.md").write_text("x")
    assert found_in(metier, folder) == {}


@pytest.mark.covers("ACC-12")
@pytest.mark.parametrize(
    ("hooks", "missing"),
    [
        ("hooks:\n  pre: scripts/check.sh\n", "scripts/check.sh"),
        ("hooks:\n  post: python3 ${SKILL_DIR}/tidy.py --all\n", "tidy.py"),
        (
            "hooks:\n  PreToolUse:\n    - matcher: Write\n      hooks:\n        - command: ./hooks/guard.sh strict\n",
            "hooks/guard.sh",
        ),
        ("hooks:\n  pre: git status\n", None),
        ("hooks:\n  pre: /usr/bin/env true\n", None),
    ],
)
def test_a_hook_that_is_not_there_is_said_with_its_line(
    metier: Call, write_skill: Write, tmp_path: Path, hooks: str, missing: str | None
) -> None:
    file = write_skill(tmp_path / "alpha", more=hooks)
    line = next((n for n, text in enumerate(file.read_text().split("\n"), 1) if missing and missing in text), None)
    found = found_in(metier, file.parent)
    assert found.get("hook-missing") == (line if missing else None)
    if missing:
        (file.parent / missing).parent.mkdir(exist_ok=True)
        (file.parent / missing).write_text("#!/bin/sh\n")
        assert "hook-missing" not in found_in(metier, file.parent)


@pytest.mark.covers("ACC-5")
def test_a_file_that_is_not_whole_is_said_to_be_held_back(metier: Call, own_home: Path, write_skill: Write) -> None:
    file = write_skill(own_home / ".metier/skills/alpha")
    assert metier("list")[0] == 0
    assert found_in(metier, file.parent) == {}
    file.write_text("---\nname: alpha\ndescription: Does it.\n")
    assert "stale" in found_in(metier, file.parent)
    write_skill(own_home / ".metier/skills/alpha", description="Does more.")
    assert found_in(metier, file.parent) == {}


@pytest.mark.covers("ACC-12")
def test_what_was_meant_is_suggested(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "alpha", body="See references/api.md and read `REFERENCE.md`.").parent
    (folder / "docs").mkdir()
    (folder / "docs" / "api.md").write_text("x")
    (folder / "reference.md").write_text("x")
    _, out, _ = metier("validate", folder)
    assert "Did you mean `docs/api.md`?" in out
    assert "Did you mean `reference.md`?" in out


def test_a_file_of_nothing_but_links_is_checked_in_time(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    file = write_skill(tmp_path / "alpha", body="[x](a)\n" * 20_000)
    start = time.process_time()
    assert found_in(metier, file.parent)["reference-missing"] == 5
    assert time.process_time() - start < 0.5


def test_a_script_with_a_syntax_error_is_pointed_out_and_never_run(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    folder = write_skill(tmp_path / "alpha").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "good.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "scripts" / "bad.py").write_text("def broken(:\n")
    (folder / "scripts" / "bare.sh").write_text("echo hello\n")
    _, report = verdicts(metier, folder)
    messages = {found["code"]: found["message"] for found in report["skills"][0]["diagnostics"]}
    assert set(messages) == {"script-syntax", "script-no-shebang"}
    assert messages["script-syntax"].startswith("scripts/bad.py has a syntax error: ")
    assert not (tmp_path / "ran").exists()


def test_a_script_that_python_merely_warns_about_has_no_syntax_error(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    folder = write_skill(tmp_path / "alpha").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.py").write_text("import re\nre.compile('\\d')\n")
    assert found_in(metier, folder) == {}


@pytest.mark.each(
    "script",
    [b"\x00", b"\xff\xfe\xfa", b"# coding: nonsense\n", b"(" * 100_000, b"-" * 100_000 + b"1", b"x" + b".x" * 60_000],
)
def test_a_script_that_hurts_the_parser_is_survived(
    metier: Call, write_skill: Write, tmp_path: Path, script: bytes
) -> None:
    folder = write_skill(tmp_path / "alpha").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.py").write_bytes(script)
    assert found_in(metier, folder).keys() <= {"script-syntax"}


@needs_links
def test_a_link_that_leaves_the_skill_is_pointed_out(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "alpha").parent
    (folder / "inside.md").symlink_to("SKILL.md")
    (folder / "outside.md").symlink_to("/etc/hostname")
    _, report = verdicts(metier, folder)
    (found,) = report["skills"][0]["diagnostics"]
    assert found["code"] == "file-link-outside"
    assert "outside.md" in found["message"]


# --- what is printed ---------------------------------------------------------------------------------------------


def test_no_word_of_a_stranger_begins_a_line_of_the_report(metier: Call, tmp_path: Path) -> None:
    folder = write(
        tmp_path / "al\npha\x1b[2J",
        '---\nname: "a\\n✓ forged\\e[31m"\n"k\\ney": v\ndescription: "d\\nx"\n---\n[x](<a\x1b[0m.md>)\n',
    )
    for option in ((), ("--strict",)):
        _, out, _ = metier("validate", folder, *option)
        assert "\x1b" not in out
        assert all(re.match(r"[✓✗] |  (error|warning|info) |    → |1 skill, ", line) for line in out.splitlines()), out


def test_of_many_skills_only_those_with_findings_are_printed(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    for number in range(30):
        write_skill(tmp_path / f"skill-{number}")
    write(tmp_path / "worse", "")
    _, out, _ = metier("validate", tmp_path)
    assert [line.split()[1] for line in out.splitlines() if line[0] in "✓✗"] == ["worse"]
    assert "31 skills, 1 with errors." in out


def test_the_reference_shows_every_key_of_the_json(metier: Call, tmp_path: Path) -> None:
    described = REFERENCE.read_text(encoding="utf-8").partition("## `metier validate")[2].partition("\n## ")[0]
    _, report = verdicts(metier, write(tmp_path / "alpha", ""))
    keys = {*report, *report["skills"][0], *report["skills"][0]["diagnostics"][0]}
    assert [key for key in keys if f'"{key}"' not in described] == []


@pytest.mark.covers("O-30")
@pytest.mark.parametrize(("lines", "expected"), [(500, set()), (501, {"body-too-long"})])
def test_a_body_of_five_hundred_lines_is_fine_and_one_more_is_not(
    metier: Call, tmp_path: Path, lines: int, expected: set[str]
) -> None:
    folder = write(tmp_path / "alpha", "---\nname: alpha\ndescription: d\n---\n\n" + "Do it.\n" * lines)
    _, report = verdicts(metier, folder)
    notes = report["skills"][0]["diagnostics"]
    assert {found["code"] for found in notes} == expected
    assert all("501 lines" in found["message"] and "500 lines" in found["message"] for found in notes)


@pytest.mark.covers("USE-6")
@pytest.mark.parametrize(
    ("folder", "here"),
    [
        ("mine", "mine"),
        ("skills/mine", "skills"),
        (".claude/skills/mine", "."),
        (".metier/skills/mine", "."),
        (".agents/skills/mine", "."),
    ],
)
def test_without_a_path_the_skills_that_are_here_are_validated(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, here: str
) -> None:
    write_skill(tmp_path / folder)
    monkeypatch.chdir(tmp_path / here)
    code, out, _ = metier("validate", "--json")
    assert code == 0
    assert [one["name"] for one in json.loads(out)["skills"]] == ["mine"]


@pytest.mark.covers("USE-6")
def test_without_a_path_and_without_skills_here_it_says_what_to_name(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = metier("validate")
    assert (code, out) == (2, "")
    assert "There is no skill here." in err


def test_a_skill_is_validated_by_its_name_too(metier: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = metier("validate", "csv-analyst")
    assert code == 0 and "csv-analyst" in out
    code, _, err = metier("validate", "no-such-skill")
    assert code == 2 and "no-such-skill" in err


# --- what is declared and what is done ------------------------------------------------------------------------


def test_what_the_files_do_beyond_what_is_declared_is_said_with_the_words_to_add(metier: Call, tmp_path: Path) -> None:
    text = "---\nname: alpha\ndescription: Does it.\nallowed-tools: Read\n---\nRun `scripts/x.py now`.\n"
    folder = write(tmp_path / "alpha", text)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "x.py").write_text("import requests\n")
    assert found_in(metier, folder) == {"tools-exceeded": 4, "capability-undeclared": 4}
    code, out, _ = metier("validate", folder)
    assert code == 0
    assert "Write `allowed-tools: Read Bash(python3 scripts/x.py *)`" in out
    assert found_in(metier, folder, "--strict") == {}
    write(folder, text.replace("allowed-tools: Read\n", ""))
    assert found_in(metier, folder) == {}
