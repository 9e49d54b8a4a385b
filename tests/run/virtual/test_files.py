"""The files of a shell: written and read from here, within limits, and never of the skills."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument, ShellRefused
from metier.run.virtual import ShellLimits, VirtualShell
from metier.run.virtual.validation import is_inside, normal


@pytest.fixture(scope="module")
def _small() -> Iterator[tuple[VirtualShell, bytes]]:
    limits = ShellLimits(file_bytes=100, total_bytes=250, files=6, depth=5, command_bytes=200)
    with VirtualShell(limits=limits) as shell:
        yield shell, shell.snapshot()


@pytest.fixture
def small(_small: tuple[VirtualShell, bytes]) -> VirtualShell:
    """A shell with hardly any room: files of 100 bytes, 250 in all, 6 files and folders."""
    shell, beginning = _small
    shell.restore(beginning)
    return shell


def refused(act: Callable[[], object]) -> ShellRefused:
    with pytest.raises(ShellRefused) as caught:
        act()
    assert caught.value.hint
    return caught.value


def test_the_working_folder_is_that_of_the_last_command(shell: VirtualShell) -> None:
    shell.make_folder("/elsewhere")
    shell.execute("cd /elsewhere")
    assert shell.folder == "/elsewhere"


@pytest.mark.covers("S-14")
def test_folders_above_a_file_are_made(shell: VirtualShell) -> None:
    shell.write("/a/b/c.txt", b"x")
    assert shell.stat("/a/b").kind == "folder"
    assert shell.read("/a/b/c.txt") == b"x"
    assert shell.read("a//b/./c.txt") == b"x"


@pytest.mark.covers("S-14")
def test_what_cannot_be_read_is_named(shell: VirtualShell) -> None:
    shell.make_folder("/d")
    assert refused(lambda: shell.read("/d")).code == "shell-is-folder"
    missing = refused(lambda: shell.read("/missing"))
    assert (missing.code, missing.message) == ("shell-missing", "/missing: No such file or directory.")
    assert refused(lambda: shell.list("/workspace/../x")).code == "shell-refused"


@pytest.mark.covers("S-14")
def test_a_folder_lists_what_is_in_it_and_no_further(shell: VirtualShell) -> None:
    shell.write("/d/e/f", b"xy")
    shell.write("/d/a", b"x")
    assert [(entry.name, entry.kind, entry.size) for entry in shell.list("/d")] == [
        ("a", "file", 1),
        ("e", "folder", 0),
    ]


@pytest.mark.covers("S-14")
def test_a_folder_that_is_not_empty_needs_to_be_meant(shell: VirtualShell) -> None:
    shell.write("/d/f", b"x")
    assert refused(lambda: shell.remove("/d")).code == "shell-not-empty"
    shell.remove("/d", recursive=True)
    assert not shell.exists("/d")
    shell.make_folder("/d")
    shell.remove("/d")
    assert refused(lambda: shell.remove("/d")).code == "shell-missing"
    assert refused(lambda: shell.remove("/", recursive=True)).code == "shell-root"


@pytest.mark.covers("S-14")
def test_files_and_folders_are_copied_and_moved(shell: VirtualShell) -> None:
    shell.write("/d/f", b"x")
    shell.execute("chmod 755 /d/f; ln -s f /d/l")
    shell.copy("/d", "/e/copy")
    assert shell.read("/e/copy/f") == b"x"
    assert shell.stat("/e/copy/f").mode & 0o111
    assert shell.stat("/e/copy/l").kind == "link"
    shell.move("/e/copy/f", "/new/place")
    assert shell.read("/new/place") == b"x"
    assert not shell.exists("/e/copy/f")
    assert refused(lambda: shell.copy("/d/f", "/new/place")).code == "shell-exists"
    assert refused(lambda: shell.move("/missing", "/x")).code == "shell-missing"
    assert refused(lambda: shell.copy("/d", "/d/inside")).code == "shell-inside"


@pytest.mark.covers("S-14", "S2-05")
@pytest.mark.each(
    ("path", "wanted"),
    [
        ("", "/"), ("a/b", "/a/b"), ("/a/b/", "/a/b"), ("\\a\\b", "/a/b"), ("/a/./b", "/a/b"), ("//a///b", "/a/b"),
        ("/file..txt", "/file..txt"), ("...", "/..."), ("/a/..b/c..", "/a/..b/c.."),
    ],
)  # fmt: skip
def test_paths_have_one_form(path: str, wanted: str) -> None:
    assert normal(path) == wanted


@pytest.mark.covers("S-14", "S2-05")
@pytest.mark.parametrize("path", ["..", "/safe/../x", "/a/b/../../../x", "a\\..\\b", "../a", "/a/.."])
def test_a_step_up_is_refused_wherever_it_stands(shell: VirtualShell, path: str) -> None:
    """A path that is given to a shell from outside has no step up at all, so that nobody has to follow one to know
    where it leads. In a command, where the shell follows it, `cd ..` is what it is in bash."""
    assert "step up" in refused(lambda: shell.write(path, b"x")).message
    assert "step up" in refused(lambda: VirtualShell(folder=path)).message
    assert shell.execute("mkdir -p /a/b && cd /a/b && cd .. && pwd").stdout == "/a\n"


@pytest.mark.covers("S2-05")
@pytest.mark.parametrize("path", ["/a\0b", "/" + "x" * 5_000, "/" + "n" * 300, "/\ud800"])
def test_paths_that_no_system_has_are_refused(shell: VirtualShell, path: str) -> None:
    refused(lambda: shell.write(path, b"x"))


@given(st.text(max_size=60))
def test_a_path_that_is_taken_is_normal_and_stays_so(path: str) -> None:
    try:
        found = normal(path, "/work")
    except ShellRefused:
        return
    parts = found.split("/")[1:]
    assert found == "/" or all(part not in ("", ".", "..") and "\\" not in part and "\0" not in part for part in parts)
    assert normal(found) == found
    assert is_inside(found, "/")
    assert path.startswith(("/", "\\")) or is_inside(found, "/work")


@pytest.mark.covers("S-14")
def test_a_snapshot_brings_back_what_was_and_drops_what_came_later(shell: VirtualShell) -> None:
    shell.execute("echo one > f; v=1; mkdir d; cd d; greet() { echo hi; }")
    kept = shell.snapshot()
    shell.execute("echo two > ../f; touch ../later; v=2; cd /; unset -f greet")
    shell.restore(kept)
    assert shell.execute("pwd; cat ../f; echo $v; greet; ls ..").stdout == "/workspace/d\none\n1\nhi\nd\nf\n"


@pytest.mark.parametrize("data", [b"", b"junk", b"\0" * 5_000])
def test_a_snapshot_that_is_none_changes_nothing(shell: VirtualShell, data: bytes) -> None:
    shell.write("/f", b"x")
    assert refused(lambda: shell.restore(data)).code == "shell-snapshot"
    assert shell.read("/f") == b"x"


def test_a_damaged_snapshot_is_refused(shell: VirtualShell) -> None:
    good = bytearray(shell.snapshot())
    good[len(good) // 2] ^= 1
    assert refused(lambda: shell.restore(bytes(good))).code == "shell-snapshot"


def test_a_snapshot_that_holds_too_much_is_refused(shell: VirtualShell, small: VirtualShell) -> None:
    shell.write("/f", b"x" * 200)
    small.write("/g", b"here")
    assert "exceeds" in refused(lambda: small.restore(shell.snapshot())).message
    assert not small.exists("/f")


@pytest.mark.covers("S-14", "S-15")
def test_usage_counts_what_was_put_there(small: VirtualShell) -> None:
    assert small.usage().nodes == 1
    small.write("/d/f", b"12345")
    assert (small.usage().nodes, small.usage().total_bytes) == (3, 5)
    small.write("/g", b"123")
    assert (small.usage().files, small.usage().total_bytes) == (2, 8)
    small.remove("/d", recursive=True)
    assert (small.usage().nodes, small.usage().total_bytes) == (2, 3)


@pytest.mark.covers("S-15", "S2-07")
@pytest.mark.parametrize("command", ["seq 100 > f", "seq 100 | tee f", "seq 100 >> f", "printf '%0101d' 1 > f"])
def test_a_file_that_a_command_makes_too_large_is_undone(small: VirtualShell, command: str) -> None:
    small.write("/f", b"old")
    outcome = small.execute(command)
    assert outcome.exit_code != 0
    assert "exceeds the limit of 100 bytes" in outcome.stderr
    assert "as they were before this command" in outcome.stderr
    assert small.read("/f") == b"old"


@pytest.mark.covers("S2-07")
def test_writing_too_much_keeps_what_was_there(small: VirtualShell) -> None:
    small.write("/f", b"old")
    assert "exceeds the limit of 100 bytes" in refused(lambda: small.write("/f", b"x" * 101)).message
    assert small.read("/f") == b"old"
    small.write("/f", b"x" * 100)
    small.write("/g", b"x" * 100)
    assert "exceeds the limit of 250 bytes" in refused(lambda: small.write("/h", b"x" * 51)).message
    small.write("/h", b"x" * 50)
    assert "exceeds" in refused(lambda: small.write("/h", b"x" * 51)).message
    assert small.read("/h") == b"x" * 50


@pytest.mark.covers("S2-07")
def test_more_files_than_may_be_are_refused_and_deleting_makes_room(small: VirtualShell) -> None:
    small.write("/a/b/c/f", b"")
    small.write("/g", b"")
    assert "exceeds the limit of 6" in refused(lambda: small.write("/x/y", b"")).message
    assert not small.exists("/x")
    assert "exceeds the limit of 6" in small.execute("mkdir x y z").stderr
    assert not small.exists("/x")
    small.remove("/a", recursive=True)
    small.write("/x/y", b"")
    assert "exceeds the limit of 5 folders" in refused(lambda: small.write("/1/2/3/4/5/6", b"")).message


@pytest.mark.covers("S2-07")
def test_a_copy_that_does_not_fit_leaves_nothing(small: VirtualShell) -> None:
    small.write("/d/a", b"x" * 90)
    small.write("/d/b", b"x" * 90)
    assert "exceeds" in refused(lambda: small.copy("/d", "/e")).message
    assert not small.exists("/e")
    assert refused(lambda: small.move("/d", "/d/a/b")).code == "shell-inside"
    assert small.usage().total_bytes == 180


@pytest.mark.covers("S2-07")
def test_text_is_valid_unicode_and_bytes_are_kept(shell: VirtualShell) -> None:
    with pytest.raises(InvalidArgument):
        shell.write("/f", "\ud800")
    shell.write("/f", "ä\u202e€")
    assert shell.read("/f") == "ä\u202e€".encode()
    shell.write("/b", bytes(range(256)))
    assert (
        shell.execute("cp /b /c; cat /b > /d; cat /b | cat > /e; cmp /b /c && cmp /b /d && echo same").stdout
        == "same\n"
    )
    assert shell.read("/d") == bytes(range(256))


@pytest.mark.covers("S2-05")
def test_commands_are_measured_in_bytes(small: VirtualShell) -> None:
    assert small.execute("echo " + "ä" * 97).exit_code == 0
    error = refused(lambda: small.execute("echo " + "ä" * 98))
    assert error.code == "shell-command-too-long"
    assert "exceeds" in error.message


@pytest.mark.covers("S2-05")
@pytest.mark.parametrize("name", ["seconds", "commands", "loop_turns", "depth", "output_bytes", "file_bytes", "files"])
@pytest.mark.each("value", [0, -1, True, "1", None, float("nan"), float("inf"), 10**12])
def test_limits_are_positive_and_possible(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ShellLimits(**{name: value})  # type: ignore[arg-type]
    assert name in caught.value.message


@pytest.mark.parametrize("seconds", [0, -1, 601, float("nan"), "1"])
def test_the_time_of_a_command_is_positive_and_bounded(shell: VirtualShell, seconds: float) -> None:
    with pytest.raises(InvalidArgument):
        shell.execute("true", seconds=seconds)


@pytest.mark.parametrize("command", ["echo a\0b", b"echo", None, "echo \ud800"])
def test_a_command_is_text(shell: VirtualShell, command: str) -> None:
    with pytest.raises(InvalidArgument):
        shell.execute(command)


@pytest.mark.parametrize("env", [{"a b": "c"}, {"": "x"}, {"A": "x\0y"}, {"A": 1}, {"1A": "x"}])
def test_variables_have_names_and_text(shell: VirtualShell, env: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        shell.execute("true", env=env)


@pytest.mark.each(
    ("limits", "command", "words"),
    [
        (ShellLimits(commands=50), "for i in $(seq 100); do echo $i; done", "exceeds the limit of 50 commands"),
        (ShellLimits(loop_turns=50), "i=0; while [ $i -lt 100 ]; do i=$((i+1)); done", "exceeds the limit of 50 turns"),
        (ShellLimits(seconds=0.2), "echo early; sleep 60", "exceeds its limit of 0.2 seconds"),
    ],
)
def test_what_a_command_may_use_is_bounded(limits: ShellLimits, command: str, words: str) -> None:
    with VirtualShell(limits=limits) as shell:
        outcome = shell.execute(command)
        assert outcome.exit_code != 0
        assert words in outcome.stderr
        assert shell.execute("echo alive").stdout == "alive\n"


def test_a_command_that_exceeds_both_its_time_and_its_files_is_late_and_undone() -> None:
    with VirtualShell(limits=ShellLimits(files=20)) as shell:
        shell.execute("cd /tmp; i=0")
        late = shell.execute("while :; do echo x > f$i; i=$((i+1)); done", seconds=0.2)
        assert (late.exit_code, late.timed_out, late.killed_by) == (124, True, "timeout")
        assert "exceeds the limit of 20 files" in late.stderr
        assert shell.execute("ls; echo $i").stdout == "0\n"


def test_output_beyond_its_limit_is_dropped_with_a_word() -> None:
    with VirtualShell(limits=ShellLimits(output_bytes=1_000)) as shell:
        outcome = shell.execute("seq 1000; seq 10 >&2")
        assert (len(outcome.stdout), outcome.stdout_truncated, outcome.stderr_truncated) == (1_000, True, False)
        flood = shell.execute("while :; do seq 1000; done")
        assert (flood.killed_by, flood.exit_code, flood.stdout_truncated) == ("output", 137, True)
        assert shell.execute("echo alive").stdout == "alive\n"


SKILL = {"SKILL.md": b"---\nname: demo\n---\n", "scripts/x.sh": b"echo hi\n", "data/a.txt": b"a\n"}


@pytest.mark.parametrize(
    "command",
    [
        "echo x > SKILL.md", "echo x >> SKILL.md", "echo x > new", "rm SKILL.md", "rm -r data", "rmdir data",
        "mv SKILL.md other", "mv SKILL.md /workspace/", "mv data /workspace/", "mv /workspace/f data/",
        "cp /workspace/f .", "touch new", "mkdir new", "ln -s / link", "chmod 600 SKILL.md", "chmod -x scripts/x.sh",
        "sed -i s/d/x/ SKILL.md", "truncate -s 0 SKILL.md", "dd if=/workspace/f of=SKILL.md", "mkdir ../other",
        "ln -s $PWD /workspace/l; echo x > /workspace/l/SKILL.md", "echo x > ../new", "install /workspace/f SKILL.md",
        "tee SKILL.md < /workspace/f",
    ],
)  # fmt: skip
def test_nothing_changes_a_skill(shell: VirtualShell, command: str) -> None:
    at = shell.mount("demo", SKILL)
    shell.write("/workspace/f", b"mine")
    assert shell.execute(f"cd {at} && {{ {command}; }}").exit_code != 0
    assert shell.execute(f"cd {at}; find . -type f | sort; cat SKILL.md").stdout == (
        "./SKILL.md\n./data/a.txt\n./scripts/x.sh\n---\nname: demo\n---\n"
    )
    assert shell.execute(f"ls {at}/..").stdout == "demo\n"


def test_skills_are_there_again_after_their_folder_was_removed(shell: VirtualShell) -> None:
    """`rm -f` says nothing, and the empty folders above the skills do go; the skills do not, and those come back."""
    at = shell.mount("demo", SKILL)
    shell.execute("rm -rf /.sandbox; rm -rf /")
    assert shell.execute("ls -A / | grep sandbox; ls /.sandbox/skills").stdout == ".sandbox\ndemo\n"
    assert shell.execute(f"cat {at}/data/a.txt").stdout == "a\n"


@pytest.mark.parametrize("act", ["write", "remove", "move", "copy", "make_folder"])
def test_skills_cannot_be_changed_from_here_either(shell: VirtualShell, act: str) -> None:
    at = shell.mount("demo", SKILL)
    acts: dict[str, Callable[[], object]] = {
        "write": lambda: shell.write(f"{at}/SKILL.md", b"x"),
        "remove": lambda: shell.remove(f"{at}/SKILL.md"),
        "move": lambda: shell.move(f"{at}/SKILL.md", "/x"),
        "copy": lambda: shell.copy(f"{at}/SKILL.md", f"{at}/x"),
        "make_folder": lambda: shell.make_folder(f"{at}/x"),
    }
    assert refused(acts[act]).code == "shell-read-only"
    assert shell.read(f"{at}/SKILL.md") == SKILL["SKILL.md"]


def test_scripts_of_a_skill_can_be_executed_and_chmod_agrees(shell: VirtualShell) -> None:
    at = shell.mount("demo", SKILL)
    assert shell.stat(f"{at}/scripts/x.sh").mode & 0o777 == 0o755
    assert shell.stat(f"{at}/data/a.txt").mode & 0o777 == 0o644
    outcome = shell.execute(f"chmod +x {at}/scripts/x.sh && chmod 755 {at}/scripts/*.sh && {at}/scripts/x.sh")
    assert (outcome.exit_code, outcome.stdout) == (0, "hi\n")
    refusal = shell.execute(f"chmod 777 {at}/scripts/x.sh")
    assert (refusal.exit_code, "Read-only file system" in refusal.stderr) == (1, True)


@pytest.mark.parametrize(
    ("before", "mode", "after"),
    [
        ("644", "+x", "755"), ("644", "u+x", "744"), ("755", "go-rx", "700"), ("600", "a+r", "644"),
        ("644", "640", "640"), ("755", "u=rw,go=", "600"), ("640", "o=g", "644"), ("644", "+w", "644"),
        ("600", "ug+rw,o+r", "664"),
        ("644", "+X", "644"), ("744", "+X", "755"), ("644", "0755", "755"),
    ],
)  # fmt: skip
def test_modes_are_set_as_chmod_sets_them(shell: VirtualShell, before: str, mode: str, after: str) -> None:
    assert shell.execute(f"touch f; chmod {before} f; chmod {mode} f; stat -c %a f").stdout == f"{after}\n"


def test_modes_of_a_folder_are_set_with_all_that_is_in_it(shell: VirtualShell) -> None:
    shell.execute("mkdir -p d/e; touch d/e/f; chmod -R u=rwX,go= d")
    assert shell.execute("stat -c %a d d/e d/e/f").stdout == "700\n700\n600\n"
    assert shell.execute("chmod zz d").exit_code == 1
    assert shell.execute("chmod +x missing").exit_code == 1
    assert shell.execute("chmod +x").exit_code == 1


def test_a_skill_goes_when_it_is_unmounted_and_another_takes_its_place(shell: VirtualShell) -> None:
    at = shell.mount("demo", SKILL)
    shell.mount("demo", {"SKILL.md": b"new"})
    assert shell.execute(f"find {at} -type f; cat {at}/SKILL.md").stdout == f"{at}/SKILL.md\nnew"
    assert shell.unmount("demo")
    assert not shell.unmount("demo")
    assert shell.execute(f"ls {at}").exit_code == 2


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0b", None, "x" * 300])
def test_a_skill_has_a_name_that_is_no_path(shell: VirtualShell, name: str) -> None:
    with pytest.raises((InvalidArgument, ShellRefused)):
        shell.mount(name, SKILL)


def test_skills_can_be_mounted_elsewhere() -> None:
    with VirtualShell(mount="/opt/skills/") as shell:
        assert shell.mount("demo", SKILL) == "/opt/skills/demo"
        assert shell.execute("/opt/skills/demo/scripts/x.sh").stdout == "hi\n"
        assert shell.execute("echo x > /opt/skills/demo/SKILL.md").exit_code == 1
        assert shell.execute("echo x > /opt/mine && cat /opt/mine").stdout == "x\n"
    with pytest.raises(InvalidArgument):
        VirtualShell(mount="/")
