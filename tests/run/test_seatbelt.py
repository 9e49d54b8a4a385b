"""The profile for macOS says what it should, as far as that can be read; a stand-in for its program shows the way."""

from __future__ import annotations

import functools
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import FileMissing, InvalidArgument, IsolationMissing
from metier.guard.files.protected_names import PROTECTED
from metier.run import CANNOT_START, TIMED_OUT, Job, Limits, RunnerCapabilities
from metier.run import seatbelt as module
from metier.run.job import JobPath, OutputLine
from metier.run.seatbelt import SeatbeltRunner, profile, quoted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs used here are those of a Unix")

Form: TypeAlias = "str | list[Form]"
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@functools.cache
def read_forms(text: str) -> list[Form]:
    """The forms of a profile, as the language it is written in reads them; a string begins with a quotation mark."""
    stack: list[list[Form]] = [[]]
    at = 0
    while at < len(text):
        char = text[at]
        if char == "(":
            stack.append([])
        elif char == ")":
            form = stack.pop()
            stack[-1].append(form)
        elif char == '"':
            value = char
            at += 1
            while text[at] != '"':
                if text[at] == "\\":
                    at += 1
                    value += ESCAPES.get(text[at], text[at])
                else:
                    value += text[at]
                at += 1
            stack[-1].append(value)
        elif char == ";":
            at = text.index("\n", at)
        elif not char.isspace():
            end = at
            while end < len(text) and text[end] not in '()";' and not text[end].isspace():
                end += 1
            stack[-1].append(text[at:end])
            at = end - 1
        at += 1
    (forms,) = stack
    return forms


@functools.cache
def rules_for(text: str, operation: str) -> list[tuple[bool, list[list[Form]]]]:
    """The rules of a profile about an operation on files, the last first: whether it is allowed, and on which."""
    found = []
    for form in reversed(read_forms(text)):
        assert isinstance(form, list)
        operations = [part for part in form[1:] if isinstance(part, str)]
        if any(part == operation or (part.endswith("*") and operation.startswith(part[:-1])) for part in operations):
            found.append((form[0] == "allow", [part for part in form[1:] if isinstance(part, list)]))
    return found


def allows(text: str, operation: str, path: str) -> bool:
    """Whether a profile lets a job do something with a file: the last rule that fits counts."""
    for is_allowed, filters in rules_for(text, operation):
        if not filters or any(_fits(part, path) for part in filters):
            return is_allowed
    return False


def _fits(part: list[Form], path: str) -> bool:
    kind, value = part[0], part[1]
    assert isinstance(value, str)
    if kind == "literal":
        return path == value[1:]
    return kind == "subpath" and f"{path}/".startswith(f"{value[1:]}/")


def reads(text: str, path: object) -> bool:
    return allows(text, "file-read-data", str(path))


def writes(text: str, path: object) -> bool:
    return all(allows(text, f"file-write-{kind}", str(path)) for kind in ("data", "create", "unlink"))


def job(folder: Path, *places: JobPath, **more: Any) -> Job:
    return Job(argv=("true",), folder=str(folder), places=places, **more)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The real path of a folder with some in it."""
    for name in ("work/inner/deep", "skill/scripts", "other"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path.resolve()


def test_all_is_denied_that_is_not_named(home: Path) -> None:
    text = profile(job(home / "work"))
    assert text.startswith("(version 1)\n(deny default)\n")
    for path in (
        home,
        home / "other",
        home / "other/file",
        "/Users/me/.ssh/id",
        "/private/etc/master.passwd",
        "/dev/mem",
    ):
        assert not reads(text, path), path
        assert not writes(text, path), path


def test_programs_are_read_and_not_written(home: Path) -> None:
    text = profile(job(home / "work"), programs=["/Users/me/.nvm/versions/node/v20"])
    for path in ("/bin/sh", "/usr/lib/dyld", "/opt/homebrew/bin/python3", "/Users/me/.nvm/versions/node/v20/bin/node"):
        assert reads(text, path), path
        assert allows(text, "file-map-executable", path), path
        assert not writes(text, path), path
    assert not reads(text, "/Users/me/.nvm/other")
    assert not reads(text, "/opt/homebrew/var/postgres/data")
    assert writes(text, "/dev/null")


def test_a_job_writes_in_its_folder_and_in_its_temporary_one_only(home: Path) -> None:
    text = profile(job(home / "work", JobPath(str(home / "skill"))), scratch=str(home / "other"))
    for path in (home / "work/new", home / "work/inner/deep/new", home / "other/new"):
        assert reads(text, path) and writes(text, path), path
    assert reads(text, home / "skill/scripts/run.py")
    assert not writes(text, home / "skill/scripts/run.py")
    assert not writes(text, f"{home}/workshop")


@pytest.mark.parametrize("is_writable", [True, False])
@pytest.mark.parametrize("name", ["work", "work/inner"])
def test_places_say_whether_the_folder_is_written(home: Path, name: str, is_writable: bool) -> None:
    text = profile(job(home / "work/inner", JobPath(str(home / name), is_writable)))
    assert reads(text, home / "work/inner/new")
    assert writes(text, home / "work/inner/new") is is_writable


def test_the_longest_path_that_fits_counts(home: Path) -> None:
    places = (
        JobPath(str(home / "work/inner/deep"), is_writable=True),
        JobPath(str(home / "work/inner")),
        JobPath(str(home / "work"), is_writable=True),
    )
    text = profile(job(home / "work", *places))
    assert [writes(text, home / name) for name in ("work/x", "work/inner/x", "work/inner/deep/x")] == [
        True,
        False,
        True,
    ]
    assert reads(text, home / "work/inner/x")


def test_a_folder_above_a_read_only_one_cannot_be_moved_out_of_the_way(home: Path) -> None:
    text = profile(job(home / "work", JobPath(str(home / "work/inner/deep"))))
    for path in ("work", "work/inner", "work/.git", "work/.github"):
        assert not allows(text, "file-write-unlink", str(home / path)), path
    assert writes(text, home / "work/inner/file")


def test_what_runs_later_is_not_written_even_if_it_is_not_there_yet(home: Path) -> None:
    text = profile(job(home / "work"))
    paths = [path for name in PROTECTED for path in (home / "work" / name, home / "work" / name / "inside")]
    assert [path for path in paths if writes(text, path) or not reads(text, path)] == []


@pytest.mark.covers("SEC-15")
def test_a_repository_that_is_granted_is_written_but_for_what_git_starts_something_from(home: Path) -> None:
    (home / "work/.git").mkdir()
    text = profile(replace(job(home / "work"), grants=(".git",)))
    assert writes(text, home / "work/.git/index")
    for name in ("hooks", "hooks/pre-commit", "config", "commondir", "info/attributes", "modules", "worktrees"):
        assert not writes(text, home / "work/.git" / name), name


@pytest.mark.covers("SEC-9")
def test_what_is_hidden_in_a_workspace_is_not_even_read(home: Path) -> None:
    (home / "work/keys").mkdir()
    hidden = JobPath(str(home / "work/keys"), is_hidden=True)
    text = profile(job(home / "work", JobPath(str(home / "work"), True), hidden))
    assert not reads(text, home / "work/keys/private") and not writes(text, home / "work/keys/private")


def test_a_file_that_says_where_a_repository_is_stays_as_it_is(home: Path) -> None:
    (home / "work/.git").write_text("gitdir: elsewhere")
    assert not allows(profile(job(home / "work")), "file-write-data", str(home / "work/.git"))


def test_what_was_given_by_name_is_written_although_it_is_protected(home: Path) -> None:
    (home / "work/.claude").mkdir()
    text = profile(job(home / "work", JobPath(str(home / "work/.claude"), True), JobPath(str(home / "work"), True)))
    assert writes(text, home / "work/.claude/notes")


def test_links_are_given_by_what_they_lead_to(home: Path) -> None:
    (home / "link").symlink_to(home / "work")
    text = profile(job(home / "link", JobPath(str(home / "link"))))
    assert reads(text, home / "work/x")
    assert not reads(text, home / "link/x")


def test_folders_above_can_be_looked_at_but_not_listed(home: Path) -> None:
    text = profile(job(home / "work"))
    for path in home.parents:
        assert allows(text, "file-read-metadata", str(path))
        assert not reads(text, path) or str(path) in ("/", "/tmp")
    assert not allows(text, "file-read-metadata", str(home / "other"))


@pytest.mark.parametrize(
    ("more", "port", "expected"),
    [
        ({}, None, []),
        ({"network": "none", "hosts": ("example.com",)}, None, []),
        ({"network": "restricted"}, None, []),
        ({"network": "restricted", "hosts": ("example.com",)}, None, []),
        (
            {"network": "restricted", "hosts": ("example.com",)},
            4711,
            [["allow", "network-outbound", ["remote", "ip", '"localhost:4711']]],
        ),
        (
            {"network": "host"},
            None,
            [
                ["allow", "network-outbound", ["remote", "ip", '"*:*'], ["literal", '"/private/var/run/mDNSResponder']],
                ["allow", "network-inbound", "network-bind", ["local", "ip", '"*:*']],
            ],
        ),
    ],
)
def test_the_network_is_closed_but_for_what_was_asked(
    home: Path, more: dict[str, Any], port: int | None, expected: list[Form]
) -> None:
    forms = read_forms(profile(job(home / "work", **more), proxy_port=port))
    assert [form for form in forms if any(str(part).startswith("network") for part in form)] == expected


@pytest.mark.parametrize("at", ["/elsewhere", "relative"])
def test_a_place_is_seen_where_it_is_or_not_at_all(home: Path, at: str) -> None:
    with pytest.raises(InvalidArgument, match="skill") as raised:
        profile(job(home / "work", JobPath(str(home / "skill"), at=at)))
    assert at in raised.value.message
    profile(job(home / "work", JobPath(str(home / "skill"), at=f"{home}/skill/")))


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("relative", InvalidArgument),
        ("/with\0zero", InvalidArgument),
        ("/", InvalidArgument),
        ("/no/such", FileMissing),
    ],
)
def test_a_place_that_is_none_is_refused(home: Path, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        profile(job(home / "work", JobPath(path)))
    with pytest.raises(error):
        profile(Job(argv=("true",), folder=path))


@given(st.text(st.characters(exclude_categories=()), max_size=50))
def test_no_text_ends_the_string_that_it_is_in(text: str) -> None:
    assert read_forms(f"(a {quoted(text)} b)") == [["a", f'"{text}', "b"]]


HOSTILE = st.sampled_from(list("\"\\()#; \n\r\t'`|é名\u202e"))


@given(st.text(HOSTILE | st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=40))
def test_no_name_of_a_folder_changes_the_rules(name: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        # A name of 40 characters has up to 160 bytes, and none of them is one that means the folder itself.
        folder, plain = Path(temporary).resolve() / f"x{name}", Path(temporary).resolve() / "plain"
        for path in (folder, plain):
            path.mkdir(exist_ok=True)
        forms, usual = (read_forms(profile(job(path))) for path in (folder, plain))
    assert renamed(forms, f'"{folder}') == renamed(usual, f'"{plain}')


def renamed(forms: list[Form], prefix: str) -> list[Form]:
    return [renamed(form, prefix) if isinstance(form, list) else form.replace(prefix, "FOLDER") for form in forms]


STAND_IN = """#!/bin/sh
echo "$2" >> "{log}"
[ "$1" = -p ] && [ "$3" = -- ] || exit 64
shift 3
case "$*" in
  /bin/cat\\ *secret | *'< /dev/tcp/'*) {refuse} ;;
esac
exec "$@"
"""


@pytest.fixture
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A program that is called like the real one, refuses what the runner tries it with, and isolates nothing."""
    yield make_stand_in(tmp_path_factory.mktemp("stand-in"), "exit 1")


def make_stand_in(folder: Path, refuse: str) -> tuple[str, Path]:
    program, log = folder / "sandbox-exec", folder / "log"
    program.write_text(STAND_IN.format(log=log, refuse=refuse))
    program.chmod(0o755)
    return str(program), log


@pytest.mark.skipif(sys.platform == "darwin", reason="the real one is there")
def test_where_there_is_no_such_sandbox_nothing_runs(tmp_path: Path) -> None:
    runner = SeatbeltRunner()
    assert not runner.capabilities().isolates_files
    with pytest.raises(IsolationMissing) as raised:
        runner.run_blocking(Job(argv=("touch", "began"), folder=str(tmp_path)))
    assert raised.value.context["missing"] == ["files", "network"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("refuse", [":", "exec /bin/true"])
def test_a_sandbox_that_keeps_nothing_back_is_not_believed(tmp_path: Path, refuse: str) -> None:
    program, _ = make_stand_in(tmp_path, refuse)
    assert SeatbeltRunner(program).capabilities() == RunnerCapabilities(how="sandbox-exec does not work here")


def test_a_sandbox_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PROBE_SECONDS", 0.1)
    program = tmp_path / "sandbox-exec"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    assert not SeatbeltRunner(str(program)).capabilities().isolates_files


def test_what_it_keeps_is_found_out_once(stand_in: tuple[str, Path]) -> None:
    runner = SeatbeltRunner(stand_in[0])
    expected = RunnerCapabilities(isolates_files=True, isolates_network=True, filters_hosts=True, how="sandbox-exec")
    assert (runner.capabilities(), runner.name) == (expected, "native")
    tried = stand_in[1].read_text().count("(version 1)")
    assert (runner.capabilities(), tried) == (expected, 3)
    assert stand_in[1].read_text().count("(version 1)") == tried


def test_a_job_runs_under_its_profile(stand_in: tuple[str, Path], tmp_path: Path) -> None:
    lines: list[OutputLine] = []
    wanted = Job(
        argv=("sh", "-c", 'echo "$1" $X; echo err >&2; exit 3', "sh", "a b"), folder=str(tmp_path), env={"X": "x"}
    )
    outcome = SeatbeltRunner(stand_in[0]).run_blocking(wanted, on_output=lines.append)
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("a b x\n", "err\n", 3)
    assert (outcome.runner, len(lines)) == ("native", 2)
    assert f'file-write* (subpath "{tmp_path.resolve()}")' in stand_in[1].read_text()


def test_a_job_that_takes_too_long_is_ended(stand_in: tuple[str, Path], tmp_path: Path) -> None:
    wanted = Job(argv=("sleep", "600"), folder=str(tmp_path), limits=Limits(seconds=0.2))
    outcome = SeatbeltRunner(stand_in[0]).run_blocking(wanted)
    assert (outcome.exit_code, outcome.killed_by, outcome.runner) == (TIMED_OUT, "timeout", "native")


def test_a_job_runs_beside_the_event_loop(stand_in: tuple[str, Path], tmp_path: Path) -> None:
    import anyio

    runner = SeatbeltRunner(stand_in[0])
    assert anyio.run(runner.run, Job(argv=("echo", "hello"), folder=str(tmp_path))).stdout == "hello\n"


def test_temporary_files_are_a_jobs_own_and_go_with_it(stand_in: tuple[str, Path], tmp_path: Path) -> None:
    script = 'mkdir -p "$TMPDIR/a/b"; touch "$TMPDIR/a/b/c"; chmod 0 "$TMPDIR/a/b" "$TMPDIR/a"; echo "$TMPDIR"'
    wanted = Job(argv=("sh", "-c", script), folder=str(tmp_path), env={"TMPDIR": "/tmp"})
    runner = SeatbeltRunner(stand_in[0])
    folders = {runner.run_blocking(wanted).stdout.strip() for _ in range(2)}
    assert len(folders) == 2
    assert all(f'file-write* (subpath "{folder}")' in stand_in[1].read_text() for folder in folders)
    assert not any(os.path.lexists(folder) for folder in folders)


def test_what_a_link_among_temporary_files_leads_to_stays(stand_in: tuple[str, Path], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o755)
    (kept / "file").write_text("mine")
    script = 'ln -s "$PWD/kept" "$TMPDIR/link"; mkdir -m 0 "$TMPDIR/closed"'
    assert SeatbeltRunner(stand_in[0]).run_blocking(Job(argv=("sh", "-c", script), folder=str(tmp_path))).is_success
    assert (kept / "file").read_text() == "mine"
    assert kept.stat().st_mode & 0o777 == 0o755


def test_a_restricted_job_is_led_to_a_proxy_that_knows_its_hosts(stand_in: tuple[str, Path], tmp_path: Path) -> None:
    script = """
import os, urllib.error, urllib.request
print(os.environ["https_proxy"])
for host in ("127.0.0.1:" + os.environ["INPUT_PORT"], "evil.example"):
    try:
        print(urllib.request.urlopen(f"http://{host}/", timeout=20).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
    with socket.create_server(("127.0.0.1", 0)) as web:

        def answer() -> None:
            connection, _ = web.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = str(web.getsockname()[1])
        wanted = Job(
            argv=(sys.executable, "-c", script),
            folder=str(tmp_path),
            env={"INPUT_PORT": port},
            network="restricted",
            hosts=(f"127.0.0.1:{port}",),
        )
        outcome = SeatbeltRunner(stand_in[0]).run_blocking(wanted)
        thread.join(20)
    proxy, *statuses = outcome.stdout.split()
    assert (statuses, outcome.stderr) == (["200", "403"], "")
    proxy_port = proxy.rpartition(":")[2]
    assert f'(remote ip "localhost:{proxy_port}")' in stand_in[1].read_text()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(proxy_port)), 1)


@pytest.mark.parametrize("more", [{"network": "restricted"}, {"network": "none", "hosts": ("a.example",)}, {}], ids=str)
def test_a_job_without_hosts_has_no_proxy(stand_in: tuple[str, Path], tmp_path: Path, more: dict[str, Any]) -> None:
    outcome = SeatbeltRunner(stand_in[0]).run_blocking(Job(argv=("env",), folder=str(tmp_path), **more))
    assert not [line for line in outcome.stdout.lower().splitlines() if line.partition("=")[0].endswith("_proxy")]
    assert "(allow network" not in stand_in[1].read_text()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"argv": ("no-such-program",)}, "no such program"),
        ({"argv": ("./no-such-script",)}, "no such program"),
        ({"argv": ("/",)}, "no such program"),
        ({"argv": ("a\0b",)}, "no such program"),
        ({"argv": ("./a\0b",)}, "no such program"),
        ({"argv": ()}, "needs a program"),
        ({"argv": ("",)}, "needs a program"),
        ({"argv": ("echo", 1)}, "arguments that are text"),
        ({"argv": ("echo", "a\0b")}, "null byte"),
        ({"argv": ("echo",), "places": (JobPath("/usr", at="/elsewhere"),)}, "/elsewhere"),
        ({"argv": ("echo",), "places": (JobPath("/no/such"),)}, "/no/such"),
        ({"argv": ("echo",), "network": "restricted", "hosts": ("https://x",)}, "https://x"),
    ],
    ids=str,
)
def test_a_job_that_cannot_start_says_why(
    stand_in: tuple[str, Path], tmp_path: Path, more: dict[str, Any], reason: str
) -> None:
    outcome = SeatbeltRunner(stand_in[0]).run_blocking(Job(folder=str(tmp_path), **more))
    assert (outcome.exit_code, outcome.runner) == (CANNOT_START, "native")
    assert reason in outcome.stderr
    assert len(outcome.stderr) < 1_000


def test_an_executable_runs_relative_to_the_folder(stand_in: tuple[str, Path], tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\necho direct\n")
    script.chmod(0o755)
    assert SeatbeltRunner(stand_in[0]).run_blocking(Job(argv=("./run",), folder=str(tmp_path))).stdout == "direct\n"
