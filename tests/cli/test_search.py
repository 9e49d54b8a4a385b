"""`metier search`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import thinned

from metier.find.indexed_text import text_of

Call = Callable[..., tuple[int, str, str]]
Process = Callable[..., subprocess.CompletedProcess[bytes]]
Terminal = Callable[..., tuple[int, str]]
Write = Callable[..., Path]

NO_WORD = "There is no word to search for in that. Say what the skill should do."
KEYS = {"name", "score", "description", "layer", "why"}
REFERENCE = Path(__file__).parents[2] / "docs/reference/json.md"
ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path) -> Path:
    """Three skills that have little in common."""
    root = tmp_path / "skills"
    write_skill(root / "csv-plots", description="Plot a csv file as a chart.", more="tags: [Data, charts]\n")
    write_skill(root / "csv-clean", description="Clean a csv file.", more="tags: [data]\n")
    write_skill(root / "letters", description="Write polite letters.", body="Begin with a greeting to the zebra.")
    return root


@pytest.fixture
def reserved(write_skill: Write, tmp_path: Path) -> Path:
    """A skill for anybody, one for people only, and one for another agent."""
    root = tmp_path / "skills"
    write_skill(root / "plain", description="Polishes widgets.")
    write_skill(root / "deploy", description="Ships widgets.", more="disable-model-invocation: true\n")
    write_skill(root / "secret", description="Paints widgets.", more="scope: {agents: [painter]}\n")
    return root


def found(metier: Call, *arguments: str | Path) -> list[dict[str, Any]]:
    code, out, err = metier("--skills", *arguments, "--json")
    assert (code, err) == (0, "")
    shapes = json.loads(out)
    assert isinstance(shapes, list)
    return shapes


def names(metier: Call, *arguments: str | Path) -> list[str]:
    return [shape["name"] for shape in found(metier, *arguments)]


# --- the table ---------------------------------------------------------------------------------------------------


def test_a_result_has_its_line_with_score_layer_and_reason(metier: Call, skills: Path) -> None:
    code, out, err = metier("--skills", skills, "search", "letters")
    assert (code, err) == (0, "")
    head, row, hint = out.splitlines()
    assert head.split() == ["NAME", "SCORE", "LAYER", "WHY", "DESCRIPTION"]
    assert re.fullmatch(r"letters +1\.00 +project +asked for by name; name: letters +Write polite letters\.", row)
    assert hint == "`metier show letters` shows more of the first."


def test_the_best_is_the_first_line(metier: Call, skills: Path) -> None:
    _, out, _ = metier("--skills", skills, "search", "plot a csv file")
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == ["csv-plots", "csv-clean"]


def test_words_may_be_quoted_for_the_shell_or_not(metier: Call, skills: Path) -> None:
    assert metier("--skills", skills, "search", "plot", "a", "csv") == metier(
        "--skills", skills, "search", "plot a csv"
    )


def test_what_only_the_body_says_is_found_and_said_so(metier: Call, skills: Path) -> None:
    (shape,) = found(metier, skills, "search", "zebra")
    assert (shape["name"], shape["why"]) == ("letters", "body: zebra")


@pytest.mark.each(
    ("query", "says"),
    [
        ("qqqzzz", "Nothing fits among 3 skills. Try other words; `metier list` shows them all."),
        ("", NO_WORD),
        (" ", NO_WORD),
        ('"', NO_WORD),
        ("*", NO_WORD),
        ("tag:nothing", "No skill has tag:nothing. `metier list --json` shows the tags of each."),
        ("layer:personal csv", "Nothing fits with layer:personal. Without: 2 skills."),
        ('"file csv a"', "No skill has that phrase. Without the quotes: 2 skills."),
    ],
)
def test_nothing_found_is_fine_and_says_how_to_go_on(metier: Call, skills: Path, query: str, says: str) -> None:
    code, out, err = metier("--skills", skills, "search", query)
    assert (code, err) == (0, "")
    assert out == f"{says}\n"


def test_where_there_are_no_skills_nothing_is_found(metier: Call, tmp_path: Path) -> None:
    code, out, err = metier("--skills", tmp_path, "search", "anything")
    assert (code, err) == (0, "")
    assert out.startswith("No skills here. `metier doctor` shows where they are looked for")


def test_a_query_is_required(metier: Call) -> None:
    code, out, err = metier("search")
    assert (code, out) == (2, "")
    assert "QUERY" in err


def test_the_default_places_are_searched(metier: Call) -> None:
    assert "csv-analyst" in metier("search", "look", "at", "a", "csv", "file")[1]


# --- json --------------------------------------------------------------------------------------------------------


def test_json_is_an_array_of_objects_with_exactly_the_promised_keys(metier: Call, skills: Path) -> None:
    shapes = found(metier, skills, "search", "csv file")
    assert len(shapes) == 2
    for shape in shapes:
        assert set(shape) == KEYS
        assert isinstance(shape["score"], float)
        assert 0 < shape["score"] <= 1
        assert shape["layer"] == "project"
        assert shape["why"]
    assert {shape["description"] for shape in shapes} == {"Plot a csv file as a chart.", "Clean a csv file."}


def test_json_has_the_best_first(metier: Call, skills: Path) -> None:
    shapes = found(metier, skills, "search", "plot a csv file in a letter")
    assert shapes[0]["name"] == "csv-plots"
    scores = [shape["score"] for shape in shapes]
    assert scores == sorted(scores, reverse=True)


def test_nothing_found_is_an_empty_array(metier: Call, skills: Path) -> None:
    assert found(metier, skills, "search", "qqqzzz") == []


def test_the_reference_names_every_key_of_the_json(metier: Call, skills: Path) -> None:
    described = REFERENCE.read_text(encoding="utf-8").partition("## `metier search")[2].partition("\n## ")[0]
    example = json.loads(described.partition("```json\n")[2].partition("```")[0])
    assert set(example[0]) == KEYS == set(found(metier, skills, "search", "csv")[0])


# --- how many ----------------------------------------------------------------------------------------------------


@pytest.mark.each(("k", "count"), [("1", 1), ("2", 2), ("12", 12), ("999999999999", 12)])
def test_no_more_are_found_than_asked_for(metier: Call, write_skill: Write, tmp_path: Path, k: str, count: int) -> None:
    for number in range(12):
        write_skill(tmp_path / f"skill-{number}", description="Polishes widgets.")
    assert len(found(metier, tmp_path, "search", "widgets", "-k", k)) == count


def test_ten_are_found_when_nobody_says_how_many(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    for number in range(12):
        write_skill(tmp_path / f"skill-{number}", description="Polishes widgets.")
    assert len(found(metier, tmp_path, "search", "widgets")) == 10


def test_fewer_are_the_first_of_more(metier: Call, skills: Path) -> None:
    assert found(metier, skills, "search", "csv", "-k", "1") == found(metier, skills, "search", "csv")[:1]


@pytest.mark.each("k", ["0", "-1", "x", "", "1.5", "1e3", "9" * 13, "9" * 10_000, "\x1b[2J", "nan"])
def test_a_number_that_is_none_is_wrong_usage(metier: Call, skills: Path, k: str) -> None:
    code, out, err = metier("--skills", skills, "search", "csv", f"-k{k}" if k else "-k=")
    assert (code, out) == (2, "")
    assert "is not a whole number above 0" in err or len(k) > 500
    assert "\x1b" not in err
    assert len(err) < 2_000


# --- filters and names -------------------------------------------------------------------------------------------


@pytest.mark.each(
    ("query", "expected"),
    [
        (["tag:charts"], ["csv-plots"]),
        (["tag:DATA", "clean"], ["csv-clean"]),
        (["tag:DATA"], ["csv-clean", "csv-plots"]),
        (["letters", "tag:data"], []),
        (["csv", "layer:project", "tag:charts"], ["csv-plots"]),
        (["csv", "layer:plugin"], []),
        (['"clean a csv"'], ["csv-clean"]),
        (["tag:data tag:charts"], ["csv-plots"]),
    ],
)
def test_filters_and_phrases_narrow_a_search(metier: Call, skills: Path, query: list[str], expected: list[str]) -> None:
    assert set(names(metier, skills, "search", *query)) == set(expected)


@pytest.mark.covers("O-106")
@pytest.mark.each("query", ["/csv-clean", "csv-clean", "CSV clean", "/csv-clean this file"])
def test_a_skill_asked_for_by_name_is_the_first(metier: Call, skills: Path, query: str) -> None:
    first = found(metier, skills, "search", query)[0]
    assert (first["name"], first["score"]) == ("csv-clean", 1.0)
    assert first["why"].startswith("asked for by name")


# --- odd queries -------------------------------------------------------------------------------------------------

ODD = [
    *('"', '""', '"""', "'", "''", '"csv', 'csv"', "\\", "\\'", "`id`", "$(id)", "$HOME", ";", "|", "&&", "*", "?"),
    *("tag:", "layer:", "tag:tag:", "layer:layer:", 'tag:"', 'tag:""', 'layer:"project', "tag:\t", "TAG:x LAYER:y"),
    *("csv AND", "NOT csv", "csv OR", "NEAR(csv, 2)", "csv*", "about:csv", "{csv}", "(csv", "^csv", "-csv", "csv - x"),
    *("'; DROP TABLE skills; --", "%s %d {0} %", "@file", "-1", "/", "//", "$", "/../../etc/passwd", "\x1b[2J", "a\nb"),
    *("\u202ecsv", "技能", "🎉", "\udcff\udc80", "e\u0301", "\u200b", "x" * 100_000, "csv " * 20_000, '"a" ' * 5_000),
]


@pytest.mark.each("json_too", [False, True])
@pytest.mark.each("query", ODD, every=7)
def test_whatever_is_asked_the_answer_is_a_table_or_a_sentence(
    metier: Call, skills: Path, query: str, json_too: bool
) -> None:
    code, out, err = metier("--skills", skills, "search", *(["--json"] if json_too else []), "--", query)
    assert (code, err) == (0, "")
    assert ACTING.search(out) is None
    if json_too:
        assert all(set(shape) == KEYS for shape in json.loads(out))
    else:
        assert out.startswith(("NAME ", "Nothing fits ", "No skill has ", NO_WORD))


@thinned("query", ["\udcff\udc80", '"tag:', "csv\u202e", "'; DROP TABLE skills; --"], one_in=2)
def test_odd_bytes_from_a_shell_are_no_traceback(process: Process, skills: Path, query: str) -> None:
    done = process("--skills", skills, "search", query)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_query_that_looks_like_an_option_is_wrong_usage(metier: Call, skills: Path) -> None:
    code, out, err = metier("--skills", skills, "search", "--csv\x1b[2J")
    assert (code, out) == (2, "")
    assert "\x1b" not in err


# --- words of a stranger -----------------------------------------------------------------------------------------

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\x08\r"


@pytest.fixture
def hostile(write_skill: Write, tmp_path: Path) -> Path:
    text = json.dumps(f"Polishes widgets {HOSTILE}\n\nforged  1.00  enterprise  name: x  Trust me.\u2028\tx")
    root = tmp_path / "skills"
    write_skill(root / "evil", description=text, more=f"tags: [{json.dumps('widget' + HOSTILE)}]\n")
    return root


def test_a_description_that_acts_on_a_terminal_is_shown_and_never_sent(terminal: Terminal, hostile: Path) -> None:
    code, out = terminal("--skills", hostile, "search", "widgets", columns=300, env={"NO_COLOR": "1"})
    assert code == 0
    assert "\\x1b[2J" in out
    assert ACTING.search(out) is None, repr(out)
    assert "\r" not in out.replace("\r\n", "")


def test_a_description_of_many_lines_is_one_line_of_the_table(metier: Call, hostile: Path) -> None:
    _, out, _ = metier("--skills", hostile, "search", "widgets")
    head, row, hint = out.split("\n")[:-1]
    assert row.startswith("evil ")
    assert "forged" in row
    assert out.splitlines() == [head, row, hint]


def test_json_gives_a_hostile_description_back_unchanged_and_sends_none_of_it(metier: Call, hostile: Path) -> None:
    _, out, _ = metier("--skills", hostile, "search", "widgets", "--json")
    assert ACTING.search(out) is None
    assert out.isascii()
    (shape,) = json.loads(out)
    assert HOSTILE.strip() in shape["description"]


def test_a_tag_that_acts_on_a_terminal_is_shown_and_never_sent(metier: Call, hostile: Path) -> None:
    code, out, _ = metier("--skills", hostile, "search", "tag:widget\x1b[2J", "widgets")
    assert code == 0
    assert ACTING.search(out) is None


def test_json_is_json_in_an_encoding_that_cannot_say_it(process: Process, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha", description="Café 技能 🎉.")
    done = process("--skills", tmp_path, "search", "café", "--json", env={"PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout)[0]["description"] == "Café 技能 🎉."


def _columns(line: str) -> int:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_table_of_short_names_stays_within_the_terminal(
    terminal: Terminal, write_skill: Write, tmp_path: Path, columns: int
) -> None:
    write_skill(tmp_path / "alpha", description="widgets 技能 " * 80)
    _, out = terminal("--skills", tmp_path, "search", "widgets", columns=columns)
    lines = out.splitlines()[:4]
    assert max(map(_columns, lines)) <= columns
    assert lines[-1].endswith("…")


def test_a_long_name_and_a_long_reason_leave_the_table_within_the_terminal(
    terminal: Terminal, write_skill: Write, tmp_path: Path
) -> None:
    name = "quarterly-financial-statement-reconciliation-for-widgets"
    write_skill(tmp_path / name, description="Reconciles the ledger.")
    _, out = terminal("--skills", tmp_path, "search", "quarterly financial statement reconciliation", columns=80)
    assert max(map(_columns, out.splitlines()[:2])) <= 80


# --- on whose behalf ---------------------------------------------------------------------------------------------


@pytest.mark.covers("O-106")
def test_a_person_finds_what_is_for_people_only_and_it_is_marked(metier: Call, reserved: Path) -> None:
    _, out, _ = metier("--skills", reserved, "search", "widgets")
    marks = {line.split()[0]: "(not for models)" in line for line in out.splitlines()[1:-1]}
    assert marks == {"deploy": True, "plain": False}


@pytest.mark.covers("O-106")
@pytest.mark.each("query", ["widgets", "deploy", "/deploy", "deplo", "ships"])
def test_on_behalf_of_an_agent_what_is_for_people_only_is_not_found(metier: Call, reserved: Path, query: str) -> None:
    assert "deploy" in names(metier, reserved, "search", query)
    assert "deploy" not in names(metier, reserved, "search", query, "--agent", "helper")


@pytest.mark.covers("O-100")
@pytest.mark.each("query", ["widgets", "secret", "/secret", "secre", "paints"])
@pytest.mark.each("caller", [[], ["--agent", "helper"], ["--tenant", "acme"], ["--environment", "production"]], every=3)
def test_what_is_out_of_scope_is_not_found(metier: Call, reserved: Path, query: str, caller: list[str]) -> None:
    assert "secret" not in names(metier, reserved, "search", query, *caller)
    assert "Paints" not in metier("--skills", reserved, "search", query, *caller)[1]


@pytest.mark.covers("O-100")
def test_an_agent_finds_what_is_in_its_scope(metier: Call, reserved: Path) -> None:
    assert set(names(metier, reserved, "search", "widgets", "--agent", "painter")) == {"plain", "secret"}


def test_what_cannot_work_here_is_found_by_a_person_with_the_reason_and_by_no_agent(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "cutter", description="Cuts films.", more="requires: {bins: [no-such-program]}\n")
    _, out, _ = metier("--skills", tmp_path, "search", "films")
    assert "description: films (missing bins: no-such-program)" in out
    assert names(metier, tmp_path, "search", "films", "--agent", "helper") == []


def test_every_reason_to_hold_a_skill_back_is_said(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    more = "disable-model-invocation: true\nrequires: {bins: [no-such-program]}\n"
    write_skill(tmp_path / "cutter", description="Cuts films.", more=more)
    _, out, _ = metier("--skills", tmp_path, "search", "films")
    assert "(missing bins: no-such-program; not for models)" in out


# --- the index between two searches ------------------------------------------------------------------------------


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the skills that were read to be indexed."""
    read: list[str] = []

    def counted(entry: Any) -> Any:
        read.append(entry.name)
        return text_of(entry)

    monkeypatch.setattr("metier.find.index_maintenance.text_of", counted)
    return read


@pytest.mark.usefixtures("settled")
def test_a_second_search_uses_the_index_of_the_first(
    metier: Call, skills: Path, own_home: Path, indexed: list[str]
) -> None:
    first = metier("--skills", skills, "search", "csv")
    assert sorted(indexed) == ["csv-clean", "csv-plots", "letters"]
    assert len(list(own_home.rglob("search-*.db"))) == 1
    indexed.clear()
    assert metier("--skills", skills, "search", "csv") == first
    assert indexed == []


@pytest.mark.usefixtures("settled")
def test_only_a_skill_that_changed_is_indexed_again(
    metier: Call, write_skill: Write, skills: Path, indexed: list[str], next_tick: Callable[[Path], None]
) -> None:
    metier("--skills", skills, "search", "csv")
    indexed.clear()
    next_tick(skills / "letters" / "SKILL.md")
    write_skill(skills / "letters", description="Feeds giraffes.")
    assert names(metier, skills, "search", "giraffes") == ["letters"]
    assert names(metier, skills, "search", "polite") == []
    assert indexed == ["letters"]


@pytest.mark.parametrize("before", [True, False])
def test_without_a_cache_no_index_is_left_behind(
    metier: Call, skills: Path, own_home: Path, indexed: list[str], before: bool
) -> None:
    arguments = ["--no-cache", "search", "csv"] if before else ["search", "csv", "--no-cache"]
    expected = metier("--skills", skills, "search", "csv")[1]
    for path in own_home.rglob("*"):
        if path.is_file():
            path.unlink()
    for _ in range(2):
        indexed.clear()
        assert metier("--skills", skills, *arguments) == (0, expected, "")
        assert len(indexed) == 3
    assert [path for path in own_home.rglob("*") if path.is_file()] == []
    assert {path.name for path in skills.rglob("*") if path.is_file()} == {"SKILL.md"}


def test_a_cache_that_is_off_leaves_no_index_behind(
    metier: Call, skills: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_CACHE", "off")
    assert len(found(metier, skills, "search", "csv")) == 2
    assert list(own_home.iterdir()) == []


def test_a_cache_that_cannot_be_written_does_not_matter(
    metier: Call, skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("METIER_CACHE", str(tmp_path / "file" / "cache"))
    code, out, _ = metier("--skills", skills, "search", "csv", "--json")
    assert code == 0
    assert len(json.loads(out)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="this is how POSIX systems keep files private")
def test_what_is_kept_of_skills_is_for_their_user_only(metier: Call, skills: Path, own_home: Path) -> None:
    (own_home / "metier-cache").mkdir(mode=0o755)
    metier("--skills", skills, "search", "csv")
    kept = [path for path in own_home.rglob("*") if path.is_file()]
    assert kept
    assert [path.name for path in kept if path.stat().st_mode & 0o077] == []


def test_a_damaged_index_is_made_again(metier: Call, skills: Path, own_home: Path) -> None:
    first = found(metier, skills, "search", "csv")
    (database,) = [path for path in own_home.rglob("search-*") if path.suffix == ".db"]
    database.write_bytes(b"junk" * 5_000)
    code, out, _ = metier("--skills", skills, "search", "csv", "--json")
    assert (code, json.loads(out)) == (0, first)
