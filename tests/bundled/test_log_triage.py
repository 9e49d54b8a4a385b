"""The scripts that triage logs and read places in them."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import string
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.bundled import in_process

SCRIPTS = Path(__file__).parents[2] / "src/metier/bundled/log-triage/scripts"


def run(script: str, *arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return in_process.run(SCRIPTS / script, *arguments, given=given)


def triage(folder: Path, text: str, *arguments: str) -> dict[str, Any]:
    file = folder / "app.log"
    file.write_text(text, encoding="utf-8")
    done = run("triage_log.py", file, "--json", *arguments)
    assert done.returncode in {0, 1}, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def texts(found: dict[str, Any], key: str = "problems") -> list[tuple[int, str]]:
    return [(group["count"], group["text"]) for group in found[key]]


def test_lines_that_differ_in_ids_are_one_group(tmp_path: Path) -> None:
    found = triage(
        tmp_path,
        "2025-01-01 10:00:00 ERROR order 17 of ann@example.org failed after 12ms\n"
        "2025-01-01 10:00:01 ERROR order 9999 of bob@example.org failed after 1.5ms\n",
    )
    assert texts(found) == [(2, "order <n> of <email> failed after <n>ms")]


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("7f3e1c2a-0b1d-4e5f-8a9b-0c1d2e3f4a5b", "<uuid>"),
        ("10.0.0.7:5432", "<ip>"),
        ("0xdeadbeef", "<hex>"),
        ("9f86d081884c7d65", "<hex>"),
        ("/var/lib/app/17.db", "<path>"),
        ("https://example.org/a?b=1", "<url>"),
        ("-12.5", "<n>"),
        ("worker-17", "worker-<n>"),
    ],
)
def test_what_varies_is_masked(tmp_path: Path, value: str, masked: str) -> None:
    assert texts(triage(tmp_path, f"ERROR cannot use {value} here\n")) == [(1, f"cannot use {masked} here")]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("2025-01-01T00:00:00Z WARN low disk", "warning"),
        ("2025-01-01T00:00:00Z [error] low disk", "error"),
        ("level=fatal msg=x", "fatal"),
        ('{"level":"info","msg":"x"}', "info"),
        ('{"level":50,"msg":"x"}', "error"),
        ('1.2.3.4 - - [01/Jan/2025:00:00:00 +0000] "GET / HTTP/1.1" 503 12', "error"),
        ('1.2.3.4 - - [01/Jan/2025:00:00:00 +0000] "GET / HTTP/1.1" 200 12', "info"),
        ("Jan  5 10:00:00 host sshd[7]: Failed password for root", "warning"),
        ("finished with 0 errors", "unknown"),
        ("hello", "unknown"),
    ],
)
def test_the_level_is_read(tmp_path: Path, line: str, level: str) -> None:
    assert triage(tmp_path, line + "\n")["levels"] == {level: 1}


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        ("2025-01-02 03:04:05,678", "2025-01-02 03:04:05"),
        ("2025-01-02T03:04:05+02:00", "2025-01-02 01:04:05"),
        ("2025/01/02 03:04:05", "2025-01-02 03:04:05"),
        ("[02/Jan/2025:03:04:05 +0000]", "2025-01-02 03:04:05"),
        ("Jan  2 03:04:05", "2000-01-02 03:04:05"),
        ("1735787045", "2025-01-02 03:04:05"),
    ],
)
def test_the_time_is_read(tmp_path: Path, stamp: str, shown: str) -> None:
    assert triage(tmp_path, f"{stamp} hello\n")["first"] == shown


@pytest.mark.parametrize("stamp", ["0001-01-01T00:00:00+14:00", "2025-99-99T00:00:00", "Feb 30 10:00:00"])
def test_a_time_that_cannot_be_is_no_time(tmp_path: Path, stamp: str) -> None:
    assert triage(tmp_path, f"{stamp} hello\n")["first"] is None


PYTHON = """2025-01-01 10:00:0{n} ERROR job {n} failed
Traceback (most recent call last):
  File "/srv/app.py", line {n}, in work
    connect()
ConnectionError: cannot reach 10.0.0.{n}
"""


def test_python_stack_traces_are_grouped_by_error_and_place(tmp_path: Path) -> None:
    found = triage(tmp_path, PYTHON.format(n=1) + PYTHON.format(n=2))
    assert texts(found, "stack_traces") == [(2, "ConnectionError: cannot reach <ip>")]
    assert found["stack_traces"][0]["frames"][-1] == "connect()"
    assert found["stack_traces"][0]["where"] == "app.log:2"


def test_an_announced_traceback_is_not_counted_as_a_second_error(tmp_path: Path) -> None:
    assert triage(tmp_path, PYTHON.format(n=1))["levels"] == {"error": 1}


def test_a_bare_traceback_is_an_error(tmp_path: Path) -> None:
    found = triage(tmp_path, PYTHON.format(n=1).split("\n", 1)[1])
    assert texts(found) == [(1, "ConnectionError: cannot reach <ip>")]


def test_a_traceback_with_a_timestamp_on_each_line_is_one_trace(tmp_path: Path) -> None:
    lines = PYTHON.format(n=1).splitlines()[1:]
    found = triage(tmp_path, "".join(f"2025-01-01T10:00:00Z {line}\n" for line in lines))
    assert texts(found, "stack_traces") == [(1, "ConnectionError: cannot reach <ip>")]


def test_a_java_stack_trace_belongs_to_the_line_before_it(tmp_path: Path) -> None:
    found = triage(
        tmp_path,
        "2025-01-01 10:00:00 ERROR java.lang.IllegalStateException: bad\n"
        "\tat com.x.A.b(A.java:10)\nCaused by: java.io.IOException: no\n\t... 3 more\n"
        "2025-01-01 10:05:00 INFO next\n",
    )
    (trace,) = found["stack_traces"]
    assert trace["text"] == "java.lang.IllegalStateException: bad"
    assert trace["last"] == "2025-01-01 10:00:00"


def test_a_go_panic_is_a_stack_trace(tmp_path: Path) -> None:
    text = "panic: nil map\n\ngoroutine 1 [running]:\nmain.main()\n\t/a/main.go:5 +0x1d\n"
    assert texts(triage(tmp_path, text), "stack_traces") == [(1, "panic: nil map")]


def test_a_stack_inside_json_is_a_stack_trace(tmp_path: Path) -> None:
    line = json.dumps({"level": "error", "msg": "x", "stack": "Error: no\n    at pay (b.js:1:2)"})
    assert texts(triage(tmp_path, line), "stack_traces") == [(1, "Error: no")]


def test_a_burst_names_the_error_it_began_with(tmp_path: Path) -> None:
    quiet = "".join(f"2025-01-01 {hour:02}:00:00 ERROR tick\n" for hour in range(10))
    storm = "2025-01-01 10:00:00 ERROR disk gone\n" + "2025-01-01 10:00:01 ERROR retry\n" * 20
    (burst,) = triage(tmp_path, quiet + storm)["bursts"]
    assert (burst["at"], burst["errors"]) == ("2025-01-01 10:00:00", 21)
    assert burst["began_with"] == "disk gone"


def test_the_longest_silence_is_found(tmp_path: Path) -> None:
    text = "2025-01-01 10:00:00 a\n2025-01-01 10:00:05 b\n2025-01-01 11:00:05 c\n"
    assert triage(tmp_path, text)["longest_silence"] == {
        "seconds": 3600,
        "after": "2025-01-01 10:00:05",
    }


def test_the_first_error_is_the_earliest_not_the_most_frequent(tmp_path: Path) -> None:
    found = triage(tmp_path, "ERROR cause\n" + "ERROR consequence\n" * 5)
    assert found["first_error"]["text"] == "cause"
    assert found["problems"][0]["text"] == "consequence"


def test_a_time_range_narrows_the_lines(tmp_path: Path) -> None:
    text = "".join(f"2025-01-01 {hour:02}:00:00 ERROR x\n" for hour in range(5))
    arguments = ("--since", "2025-01-01T01:00", "--until", "2025-01-01T02:30")
    assert triage(tmp_path, text, *arguments)["lines"] == 2


def test_a_gzipped_log_is_read(tmp_path: Path) -> None:
    file = tmp_path / "app.log.1.gz"
    file.write_bytes(gzip.compress(b"ERROR x\n"))
    assert json.loads(run("triage_log.py", file, "--json").stdout)["levels"] == {"error": 1}


def test_a_damaged_gzip_gives_what_could_be_read(tmp_path: Path) -> None:
    file = tmp_path / "app.log.gz"
    file.write_bytes(gzip.compress(os.urandom(20_000).hex().encode() + b"\n")[:-500])
    done = run("triage_log.py", file)
    assert done.returncode in {0, 1}
    assert "damaged" in done.stderr


def test_the_standard_input_is_read() -> None:
    assert run("triage_log.py", "-", given="ERROR x\n").returncode == 1


def test_a_log_without_errors_exits_with_0(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text("INFO fine\n", encoding="utf-8")
    assert run("triage_log.py", file).returncode == 0


def test_an_empty_log_is_reported_not_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.touch()
    done = run("triage_log.py", file)
    assert done.returncode == 0
    assert "no lines" in done.stderr


def test_bytes_that_are_not_text_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_bytes(b"ERROR caf\xe9 closed\n")
    assert "ERROR caf\ufffd closed" in run("triage_log.py", file).stdout


def test_a_utf_16_log_is_read(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_bytes("ERROR x\r\nINFO y\r\n".encode("utf-16"))
    assert json.loads(run("triage_log.py", file, "--json").stdout)["lines"] == 2


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_bytes(b"\x7fELF\0\0\0")
    done = run("triage_log.py", file)
    assert done.returncode == 2
    assert "binary file" in done.stderr


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, name: str) -> None:
    assert run("triage_log.py", tmp_path / name).returncode == 2


def test_a_very_long_line_does_not_flood_the_output(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text("ERROR " + "word " * 100_000 + "\nINFO next\n", encoding="utf-8")
    done = run("triage_log.py", file, "--json")
    assert json.loads(done.stdout)["lines"] == 2
    assert len(done.stdout) < 5_000


def test_rare_templates_are_given_up_before_errors(tmp_path: Path) -> None:
    letters = itertools.islice(itertools.product(string.ascii_lowercase, repeat=3), 5_200)
    words = (f"INFO {''.join(word)}\n" for word in letters)
    found = triage(tmp_path, "ERROR kept\n" + "".join(words))
    assert found["lines_forgotten"] > 0
    assert texts(found) == [(1, "kept")]


def test_around_shows_a_line_with_its_neighbours(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text("a\nb\nc\nd\ne\n", encoding="utf-8")
    shown = run("read_log.py", file, "--around", "3", "--context", "1").stdout
    assert shown == "  2: b\n> 3: c\n  4: d\n"


def test_match_stops_at_the_most_lines(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text("hit\n" * 50, encoding="utf-8")
    done = run("read_log.py", file, "--match", "HIT", "--max", "3")
    assert len(done.stdout.splitlines()) == 3
    assert "stopped after 3 lines" in done.stderr


def test_nothing_matched_exits_with_1(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    file.write_text("a\n", encoding="utf-8")
    assert run("read_log.py", file, "--match", "z").returncode == 1


def test_a_wrong_pattern_exits_with_2(tmp_path: Path) -> None:
    assert run("read_log.py", tmp_path / "x", "--match", "(").returncode == 2
