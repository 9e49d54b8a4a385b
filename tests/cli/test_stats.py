"""`metier stats`."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.cli.identity import system_user
from metier.store import Person, Store

Metier = Callable[..., tuple[int, str, str]]
SPAN = ("--since", "2026-01-01", "--until", "2026-01-31")


def record(kind: str, day: str = "2026-01-01", **more: Any) -> dict[str, Any]:
    about = {"skill": "deploy", "source": "personal", "layer": "personal"} if "skill" not in more else {}
    return {"type": kind, "timestamp": f"{day}T10:00:00.000+00:00", **about, **more}


HISTORY = [
    *[record("skill.activated", agent="clerk", skills=["deploy@personal#1"])] * 3,
    *[record("script.denied", "2026-01-02", agent="clerk", model="own")] * 6,
    *[record("script.run", "2026-01-02", agent="=boss\x1b[2J", success=False, duration_ms=1_500)] * 6,
    record("model.answered", model="own", tokens_in=1_000, tokens_out=200),
    record("tool.called", skill="", tool="skills_search", found=0, arguments='{"query": "pay\\u001b[2J rise"}'),
]


@pytest.fixture
def used(own_home: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two skills, of which one was used in January."""
    monkeypatch.chdir(tmp_path)
    for name in ("deploy", "idle"):
        write_skill(own_home / ".metier/skills" / name)
    add(*HISTORY)


def add(*records: dict[str, Any], tenant: str = "") -> None:
    with Store.open() as store:
        store.of(tenant).audit.append_all(lambda: records)


def test_a_table_says_who_used_what_how_much(used: None, metier: Metier) -> None:
    code, out, err = metier("stats", *SPAN)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert lines[0] == "SKILL LOADS CALLS RUNS REFUSED FAILED TOKENS COST"
    assert lines[1] == "deploy@personal 3 0 6 6 6 1,200 unknown"
    assert "total 3 0 6 6 6 1,200 unknown" in lines
    assert "1 search, of which 1 found nothing." in lines
    assert "deploy@personal: Of 15 loads, calls and runs, 6 were refused and 6 failed." in lines
    assert "The price of 1,200 tokens is not known" in out
    _, _, unused = out.partition("NOT USED from 2026-01-01 to 2026-01-31\n")
    assert "  idle@personal\n" in unused
    assert "deploy@personal" not in unused
    assert "pay" not in out


def test_a_row_may_be_an_agent_a_model_or_a_day(used: None, metier: Metier) -> None:
    def names(by: str) -> list[str]:
        return [row["name"] for row in json.loads(metier("stats", *SPAN, "--by", by, "--json")[1])["rows"]]

    assert names("agent") == ["=boss\\x1b[2J", "clerk", ""]
    assert names("model") == ["", "own"]
    assert names("day") == ["2026-01-01", "2026-01-02"]
    assert "(no agent)" in metier("stats", *SPAN, "--by", "agent")[1]


def test_json_has_all_that_is_counted(used: None, metier: Metier) -> None:
    found = json.loads(metier("stats", "deploy", *SPAN, "--json")[1])
    assert (found["since"], found["until"], found["by"]) == ("2026-01-01", "2026-01-31", "skill")
    (row,) = found["rows"]
    assert (row["name"], row["loads"], row["tokens_in"], row["cost"], row["duration"]) == (
        "deploy@personal", 3, 1_000, None, 9.0,
    )  # fmt: skip
    assert {**row, "name": ""} == found["total"]
    assert (found["unused"], found["together"], found["queries"]) == ([], [], [])
    assert [one["skill"] for one in found["underperforming"]] == ["deploy@personal"]


def test_without_days_it_is_about_the_last_thirty(used: None, metier: Metier) -> None:
    code, out, _ = metier("stats")
    assert code == 0
    assert out.startswith("Nothing was recorded from 20")


def test_a_skill_that_nobody_knows_is_an_error_and_one_that_is_gone_is_not(used: None, metier: Metier) -> None:
    code, _, err = metier("stats", "deplyo", *SPAN)
    assert code == 1
    assert "skill-not-found" in err and "deploy" in err
    add(record("skill.activated", skill="gone", source="personal", layer="personal"))
    assert "gone@personal" in metier("stats", "gone", *SPAN)[1]


def test_a_day_that_is_none_is_an_error(used: None, metier: Metier) -> None:
    code, _, err = metier("stats", "--since", "someday")
    assert code == 2
    assert "someday" in err


def test_sections_can_be_seen_alone(used: None, metier: Metier) -> None:
    pair = ["deploy@personal#1", "idle@personal#2"]
    add(*[record("skill.activated", "2026-01-05", skill="idle", source="personal", layer="personal", skills=pair)] * 3)
    assert metier("stats", *SPAN, "--together")[1].split("\n") == [
        "", "ALWAYS LOADED TOGETHER", "  deploy@personal and idle@personal, 3 times", "",
    ]  # fmt: skip
    assert "idle@personal" not in metier("stats", *SPAN, "--unused")[1]
    assert "No skills were always loaded together" in metier("stats", "--together")[1]
    assert "  idle@personal\n" in metier("stats", "--unused")[1]


def test_csv_is_safe_for_a_spreadsheet(used: None, metier: Metier) -> None:
    rows = list(csv.DictReader(io.StringIO(metier("stats", *SPAN, "--by", "agent", "--csv")[1])))
    assert [row["agent"] for row in rows] == ["'=boss\\x1b[2J", "clerk", ""]
    assert [row["runs"] for row in rows] == ["6", "0", "0"]
    assert [row["cost"] for row in rows] == ["0.0", "0.0", ""]


def test_metrics_are_open_metrics(used: None, metier: Metier) -> None:
    add(record("skill.activated", skill='a"b\\', source="x", layer="personal"))
    out = metier("stats", "--openmetrics")[1]
    lines = out.splitlines()
    assert lines[-1] == "# EOF"
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families)) == 14
    family = ""
    for line in lines[:-1]:
        if line.startswith("# TYPE"):
            family = line.split()[2]
            assert line == f"# TYPE {family} counter"
        elif line.startswith(("# HELP", "# UNIT")):
            assert line.split()[2] == family
            assert not line.startswith("# UNIT") or family.endswith(line.split()[3])
        else:
            assert re.fullmatch(rf'{family}_total\{{gen_ai_skill_name="(?:[^"\\\n]|\\["\\n])*"\}} \d+(\.\d+)?', line)
    assert 'metier_skill_loads_total{gen_ai_skill_name="deploy@personal"} 3' in lines
    assert 'metier_skill_loads_total{gen_ai_skill_name="a\\"b\\\\@x"} 1' in lines
    assert 'metier_duration_seconds_total{gen_ai_skill_name="deploy@personal"} 9.000000' in lines


def test_metrics_are_read_by_the_client_of_prometheus(used: None, metier: Metier) -> None:
    from prometheus_client.openmetrics import parser

    read: Any = parser.text_string_to_metric_families
    families = list(read(metier("stats", "--openmetrics")[1]))
    assert {family.type for family in families} == {"counter"}


def test_policy_says_whether_texts_of_searches_are_kept_and_for_how_long(
    used: None, metier: Metier, own_home: Path
) -> None:
    policy = own_home / ".metier/policy.yaml"
    policy.write_text("version: 1\nusage: {queries: text}\n", encoding="utf-8")
    assert "  pay\\x1b[2J rise, 1 time" in metier("stats", *SPAN)[1]
    policy.write_text("version: 1\nusage: {queries: text, keep-days: 1}\n", encoding="utf-8")
    found = json.loads(metier("stats", *SPAN, "--by", "day", "--json")[1])
    assert ([row["name"] for row in found["rows"]], found["queries"]) == (["2026-01"], [])


def test_teams_are_the_tenants_that_the_user_is_known_to(used: None, metier: Metier) -> None:
    add(record("skill.activated"), tenant="acme")

    def teams() -> list[tuple[str, int]]:
        rows = json.loads(metier("stats", *SPAN, "--by", "team", "--json")[1])["rows"]
        return [(row["name"], row["loads"]) for row in rows]

    assert teams() == [("", 3), ("acme", 1)]
    with Store.open() as store:
        store.of().people.add(Person(name=system_user(), roles=frozenset({"admin"})))
        store.of("acme").people.add(Person(name="eve", roles=frozenset({"admin"})))
    assert teams() == [("", 3)]


def test_records_are_counted_once_also_by_commands_that_come_later(used: None, metier: Metier) -> None:
    def loads() -> int:
        found: int = json.loads(metier("stats", *SPAN, "--json")[1])["total"]["loads"]
        return found

    assert (loads(), loads()) == (3, 3)
    add(record("skill.activated"))
    assert (loads(), loads()) == (4, 4)


def test_where_nothing_was_ever_recorded_it_says_so_and_makes_no_store(own_home: Path, metier: Metier) -> None:
    code, out, _ = metier("stats")
    assert (code, out.splitlines()[0][:20]) == (0, "Nothing was recorded")
    assert Store.peek() is None
