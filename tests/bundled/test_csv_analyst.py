"""The scripts that look at, profile and draw CSV files."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from tests.bundled import in_process

SKILL = Path(__file__).parents[2] / "src/metier/bundled/csv-analyst"
SAMPLE = SKILL / "assets/sample-sales.csv"


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return in_process.run(SKILL / "scripts" / script, *arguments)


def profile(file: Path, *arguments: str) -> dict[str, Any]:
    done = run("profile_csv.py", file, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    chosen: dict[str, Any] = next(c for c in found["columns"] if c["name"] == name)
    return chosen


def write(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    file = folder / "data.csv"
    file.write_bytes(text.encode(encoding))
    return file


def test_numbers_are_summed_up(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, "n\n1\n2\n3\n4\n10\n")), "n")
    assert (found["type"], found["min"], found["max"]) == ("number", 1, 10)
    assert (found["mean"], found["median"]) == (4, 3)
    assert found["stdev"] == pytest.approx(3.5355339)
    assert found["quantiles"]["p25"] == 2


def test_the_most_frequent_texts_come_first(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, "c\nred\nblue\nred\n")), "c")
    assert found["top"] == [{"value": "red", "count": 2}, {"value": "blue", "count": 1}]


def test_a_date_column_has_a_range(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, "d\n2025-03-01\n2024-12-31\n")), "d")
    assert (found["type"], found["first"], found["last"]) == (
        "date",
        "2024-12-31 00:00:00",
        "2025-03-01 00:00:00",
    )


def test_a_day_above_twelve_settles_the_order_of_day_and_month(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, "d\n01/02/2025\n25/02/2025\n")), "d")
    assert found["date_order"] == "day first"
    assert found["first"] == "2025-02-01 00:00:00"


def test_dates_that_could_be_read_both_ways_are_warned_of(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, "d\n01/02/2025\n05/06/2025\n")), "d")
    assert found["date_order"] == "unknown"
    assert any("cannot be told apart" in warning for warning in found["warnings"])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    text = "\n".join(delimiter.join(row) for row in [("a", "b"), ("1", "x"), ("2", "y")])
    assert profile(write(tmp_path, text))["delimiter"] == delimiter


@pytest.mark.parametrize(
    ("written", "reported"),
    [("utf-8", "utf-8"), ("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16"), ("cp1252", "cp1252")],
)
def test_the_encoding_is_found(tmp_path: Path, written: str, reported: str) -> None:
    found = profile(write(tmp_path, "city\nZürich\nMünchen\n", written))
    assert found["encoding"] == reported
    assert [c["name"] for c in found["columns"]] == ["city"]
    assert found["columns"][0]["top"][0]["value"] == "Zürich"


def test_decimal_commas_are_numbers_when_the_delimiter_is_not_a_comma(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, "a;b\n1,5;x\n1.002,5;y\n")), "a")
    assert (found["type"], found["max"]) == ("number", 1002.5)


def test_grouping_currency_and_percent_signs_are_numbers(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, 'a;b\n"$1,200.50";x\n12%;y\n-3;z\n')), "a")
    assert (found["type"], found["min"], found["max"]) == ("number", -3, 1200.5)


def test_codes_with_leading_zeros_stay_text(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, "zip\n00123\n04567\n")), "zip")
    assert found["type"] == "text"
    assert any("start with 0" in warning for warning in found["warnings"])


def test_a_newline_inside_quotes_does_not_end_the_row(tmp_path: Path) -> None:
    assert profile(write(tmp_path, 'a,b\n"x\ny",1\n"z",2\n'))["rows"] == 2


def test_a_file_without_a_header_keeps_its_first_row(tmp_path: Path) -> None:
    found = profile(write(tmp_path, "1,x\n2,y\n"))
    assert (found["header"], found["rows"]) == (False, 2)
    assert found["columns"][0]["name"] == "column_1"


def test_rows_of_another_length_are_counted(tmp_path: Path) -> None:
    assert profile(write(tmp_path, "a,b\n1,2\n3\n4,5,6\n7,8\n"))["ragged_rows"] == 2


def test_the_faults_of_the_sample_are_all_found() -> None:
    found = profile(SAMPLE)
    said = " ".join(w for c in [found, *found["columns"]] for w in c["warnings"])
    for fault in ["repeat an earlier", "several ways", "mixed types", "outliers", "'n/a'"]:
        assert fault in said
    assert "constant" in " ".join(column(found, "currency")["warnings"])
    assert "row 17: 120" in " ".join(column(found, "units")["warnings"])


def test_a_yes_among_words_is_not_a_mixed_type(tmp_path: Path) -> None:
    found = column(profile(write(tmp_path, "answer\nyes\nmaybe\nperhaps\n")), "answer")
    assert (found["type"], found["warnings"]) == ("text", [])


def test_only_the_chosen_column_is_profiled() -> None:
    assert [c["name"] for c in profile(SAMPLE, "--column", "units")["columns"]] == ["units"]


def test_an_unknown_column_names_those_there_are() -> None:
    done = run("profile_csv.py", SAMPLE, "--column", "unitz")
    assert done.returncode == 2
    assert "no column 'unitz'; there are: order_id" in done.stderr


def test_reading_stops_at_the_limit() -> None:
    found = profile(SAMPLE, "--limit", "3")
    assert (found["rows"], found["stopped_at_limit"]) == (3, True)


def test_many_rows_are_sampled_and_extremes_stay_exact(tmp_path: Path) -> None:
    rows = "\n".join(str(n) for n in range(1, 30_001))
    found = column(profile(write(tmp_path, f"n\n{rows}\n")), "n")
    assert (found["min"], found["max"], found["mean"]) == (1, 30_000, 15_000.5)
    assert (found["quantiles_are_sampled"], found["distinct_is_minimum"]) == (True, True)
    assert found["median"] == pytest.approx(15_000, rel=0.05)


def test_a_long_cell_is_cut_in_the_output(tmp_path: Path) -> None:
    assert len(run("profile_csv.py", write(tmp_path, f"a\n{'x' * 5000}\n")).stdout) < 500


def test_an_empty_file_is_reported_not_a_traceback(tmp_path: Path) -> None:
    done = run("profile_csv.py", write(tmp_path, ""))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the file is empty" in done.stderr


def test_a_header_without_data_is_a_warning(tmp_path: Path) -> None:
    assert "there is a header and no data" in profile(write(tmp_path, "a,b\n"))["warnings"]


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(gzip.compress(b"a,b\n1,2\n") + bytes(50))
    done = run("profile_csv.py", file)
    assert done.returncode == 2
    assert "binary file" in done.stderr


@pytest.mark.parametrize("script", ["peek_csv.py", "profile_csv.py"])
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, script: str) -> None:
    assert run(script, tmp_path / "no.csv").returncode == 2
    assert run(script, tmp_path).returncode == 2


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "a\n1\n")
    file.chmod(0)
    assert run("profile_csv.py", file).returncode == 2


def test_a_quote_that_is_never_closed_is_explained(tmp_path: Path) -> None:
    done = run("profile_csv.py", write(tmp_path, 'a,b\n"' + "x,1\n" * 50_000))
    assert done.returncode == 2
    assert "quote never closed" in done.stderr


def test_strict_exits_with_1_on_a_warning(tmp_path: Path) -> None:
    assert run("profile_csv.py", SAMPLE, "--strict").returncode == 1
    assert run("profile_csv.py", write(tmp_path, "a,b\n1,x\n2,y\n"), "--strict").returncode == 0


def test_peek_shows_the_first_rows() -> None:
    shown = json.loads(run("peek_csv.py", SAMPLE, "--rows", "2").stdout)
    assert shown["columns"][0] == "order_id"
    assert [row[0] for row in shown["rows"]] == ["1001", "1002"]


@pytest.mark.parametrize(
    "options",
    [
        ["--kind", "hist", "--x", "unit_price"],
        ["--kind", "bar", "--x", "region", "--y", "units", "--agg", "mean"],
        ["--kind", "bar", "--x", "product"],
        ["--kind", "line", "--x", "date", "--y", "units"],
    ],
)
def test_a_chart_is_well_formed_svg(tmp_path: Path, options: list[str]) -> None:
    out = tmp_path / "chart.svg"
    assert run("plot_csv.py", SAMPLE, *options, "--out", out).returncode == 0
    assert ElementTree.parse(out).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_bar_shows_the_combined_value(tmp_path: Path) -> None:
    out = tmp_path / "chart.svg"
    file = write(tmp_path, "k,v\na,1\nb,5\na,2\n")
    run("plot_csv.py", file, "--kind", "bar", "--x", "k", "--y", "v", "--out", out)
    assert "<title>a: 3</title>" in out.read_text("utf-8")


def test_markup_in_the_data_is_escaped_in_a_chart(tmp_path: Path) -> None:
    out = tmp_path / "chart.svg"
    file = write(tmp_path, "k,v\n<script>x</script>,1\nb,2\n")
    run("plot_csv.py", file, "--kind", "bar", "--x", "k", "--y", "v", "--out", out)
    assert "<script" not in out.read_text("utf-8")


def test_values_that_are_all_the_same_can_be_drawn(tmp_path: Path) -> None:
    file = write(tmp_path, "v\n0\n0\n0\n")
    for kind in ("hist", "line", "bar"):
        done = run("plot_csv.py", file, "--kind", kind, "--x", "v", "--out", tmp_path / "c.svg")
        assert done.returncode == 0, done.stderr


def test_a_histogram_of_text_says_what_to_use_instead(tmp_path: Path) -> None:
    done = run("plot_csv.py", SAMPLE, "--kind", "hist", "--x", "region", "--out", tmp_path / "c")
    assert done.returncode == 2
    assert "use --kind bar" in done.stderr


def test_the_sample_is_profiled_wherever_the_script_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("profile_csv.py", "--sample").stdout == run("profile_csv.py", SAMPLE).stdout


@pytest.mark.parametrize("arguments", [[], [str(SAMPLE), "--sample"]])
def test_a_file_or_the_sample_is_profiled_and_not_both(arguments: list[str]) -> None:
    done = run("profile_csv.py", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "name a file, or give --sample" in done.stderr
