"""Skills out of git repositories: which commit an address means, and what is read of it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub.sources.git_repositories import (
    SKILL,
    File,
    blob,
    commit,
    commit_tree,
    delta_bomb,
    git,
    make_repository,
    served_by_daemon,
    served_by_http,
    tree,
)

from metier.errors import FileRefused, InvalidArgument, MetierError, PackageTooLarge, SourceUnavailable
from metier.hub.skill_files import require_sound
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Resolved, Transfer, fetch, resolve
from metier.skill.package import Files

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"
ONE: dict[str, File] = {"skills/pdf/SKILL.md": SKILL % b"pdf", "skills/csv/SKILL.md": SKILL % b"csv"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo.git")


@pytest.fixture(autouse=True)
def holding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, in which nothing is left."""
    folder = tmp_path / "holding"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


def resolved(repository: Path | str, rest: str = "", transfer: Transfer | None = None) -> Resolved:
    location = f"git+file://{repository}" if isinstance(repository, Path) else f"git+{repository}"
    return resolve(parse_address(location + rest), transfer)


def skills(repository: Path | str, rest: str = "", transfer: Transfer | None = None) -> dict[str, Files]:
    """All skills of a repository, with their files."""
    with fetch(resolved(repository, rest, transfer), transfer) as fetched:
        return {each.path: each.files() for each in fetched.candidates}


@pytest.mark.covers("A-34")
def test_a_skill_is_read_from_a_repository(repository: Path) -> None:
    files: dict[str, File] = {
        "README.md": b"Not a skill.",
        "skills/pdf/SKILL.md": SKILL % b"pdf",
        "skills/pdf/scripts/fill.py": ("100755", b"print()\n"),
        "skills/pdf/again.md": ("120000", b"SKILL.md"),
        "skills/pdf/ä b.md": b"\0binary\r\n",
    }
    head = commit(repository, files)

    state = resolved(repository)
    assert (state.revision, state.is_exact) == (head, False)
    assert skills(repository) == {
        "skills/pdf": {
            "SKILL.md": ("file", SKILL % b"pdf"),
            "again.md": ("link", b"SKILL.md"),
            "scripts/fill.py": ("exec", b"print()\n"),
            "ä b.md": ("file", b"\0binary\r\n"),
        }
    }


def test_an_address_names_a_folder_and_a_state(repository: Path) -> None:
    commit(repository, ONE, light="v1")
    commit(repository, {"other/SKILL.md": SKILL % b"other"})

    assert skills(repository) == {"other": {"SKILL.md": ("file", SKILL % b"other")}}
    assert list(skills(repository, "@v1")) == ["skills/csv", "skills/pdf"]
    assert skills(repository, "@v1#skills/pdf") == {"skills/pdf": {"SKILL.md": ("file", SKILL % b"pdf")}}
    assert skills(repository, "@v1#skills/pd") == {}
    assert skills(repository, "@v1#skills/*") == {}


def test_refs_are_resolved_as_git_does(repository: Path) -> None:
    old = commit(repository, ONE, tag="v1", light="light")
    new = commit(repository, {"a/SKILL.md": SKILL % b"a"}, branch="v1")
    odd = commit(repository, {"x/SKILL.md": SKILL % b"x"}, branch="feature/of/two")
    other = commit(repository, ONE | {"b": b""}, branch="pkg@1.0")

    table = {
        "@v1": (old, "refs/tags/v1"),  # an annotated tag is its commit, and goes before a branch
        "@refs/heads/v1": (new, "refs/heads/v1"),
        "@light": (old, "refs/tags/light"),
        "@feature/of/two": (odd, "refs/heads/feature/of/two"),
        "@pkg@1.0": (other, "refs/heads/pkg@1.0"),
        "": (old, "HEAD"),
    }
    found = {rest: resolved(repository, rest) for rest in table}
    assert {rest: (state.revision, state.data) for rest, state in found.items()} == table


def test_a_commit_is_exact_and_needs_no_request(repository: Path) -> None:
    old = commit(repository, ONE)
    commit(repository, {"a/SKILL.md": SKILL % b"a"})

    state = resolved("https://nowhere.invalid/skills", f"@{old.upper()}")
    assert (state.revision, state.is_exact) == (old, True)
    assert list(skills(repository, f"@{old}")) == ["skills/csv", "skills/pdf"]


def test_a_ref_of_a_web_address_may_have_slashes(repository: Path) -> None:
    head = commit(repository, ONE, branch="feature/of/two")
    state = resolved(repository, "@feature#of/two/skills/pdf")
    assert (state.revision, state.address.ref, state.address.path) == (head, "feature/of/two", "skills/pdf")


def test_a_tag_that_moved_is_seen(repository: Path) -> None:
    before = resolved(repository, "@v1") if commit(repository, ONE, tag="v1") else None
    commit(repository, {"evil/SKILL.md": SKILL % b"evil"}, tag="v1")

    after = resolved(repository, "@v1")
    assert before is not None
    assert after.data == before.data == "refs/tags/v1"
    assert after.revision != before.revision
    with fetch(before) as fetched:  # and what was resolved stays what is fetched
        assert [each.path for each in fetched.candidates] == ["skills/csv", "skills/pdf"]


def test_a_repository_with_sha256_is_read(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "sha256.git", object_format="sha256")
    head = commit(repository, ONE)
    assert len(head) == 64
    assert len(skills(repository)) == 2
    assert len(skills(repository, f"@{head}#skills/csv")) == 1


def test_a_bare_repository_is_named_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "my @ repo%20.git")
    commit(repository, ONE, light="v1")
    monkeypatch.chdir(tmp_path)
    with fetch(resolve(parse_address("./my @ repo%20.git"))) as fetched:
        assert len(fetched.candidates) == 2


def test_an_unknown_ref_is_an_error(repository: Path) -> None:
    commit(repository, ONE)
    for rest in ("@v9", "@0123abc", "@HEAD~1", "@a..b", "@*", "@refs/heads/none", "@x.lock"):
        with pytest.raises(MetierError) as raised:
            resolved(repository, rest)
        assert raised.value.code in ("source-unavailable", "invalid-argument")
        assert raised.value.hint


def test_the_hint_for_an_unknown_ref_says_how_a_skill_is_named(repository: Path) -> None:
    commit(repository, ONE)
    with pytest.raises(SourceUnavailable) as raised:
        resolved(repository, "@pdf")
    assert f"`metier add git+file://{repository} pdf`" in raised.value.hint


def test_an_empty_repository_is_an_error(repository: Path) -> None:
    with pytest.raises(SourceUnavailable, match="no commit"):
        resolved(repository)


def test_no_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="cannot be fetched"):
        resolved(tmp_path / "nowhere")


# What a hostile repository brings


def test_a_submodule_is_left_out_with_a_note(repository: Path) -> None:
    commit(repository, ONE | {"skills/pdf/lib": ("160000", b"1" * 40), ".gitmodules": b'[submodule "x"]\n'})
    with fetch(resolved(repository)) as fetched:
        notes = {each.folder: each.notes for each in fetched.candidates}
        assert list(fetched.candidates[1].files()) == ["SKILL.md"]
    assert notes["csv"] == ()
    assert "skills/pdf/lib is a submodule" in notes["pdf"][0]


def test_a_pointer_of_lfs_is_refused_with_the_skill_that_has_it(repository: Path) -> None:
    commit(repository, ONE | {"skills/pdf/model.bin": LFS})
    with fetch(resolved(repository)) as fetched:
        csv, pdf = fetched.candidates
        assert list(csv.files()) == ["SKILL.md"]
        with pytest.raises(FileRefused, match="Git LFS"):
            pdf.files()


def test_filters_and_hooks_do_not_run(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    commit(repository, ONE | {".gitattributes": b"* filter=evil text eol=crlf ident\n", "skills/pdf/a.md": b"$Id$\n"})
    for name in ("post-checkout", "pre-upload", "reference-transaction", "post-index-change"):
        hook = repository / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
        hook.chmod(0o755)
    for name in ("filter.evil.smudge", "core.fsmonitor", "uploadpack.packObjectsHook", "core.sshCommand"):
        git("-C", repository, "config", name, f"touch {mark}; cat")
    assert skills(repository)["skills/pdf"]["a.md"] == ("file", b"$Id$\n")
    assert not mark.exists()


@pytest.mark.each("path", ["../evil", "a/../../evil", ".git/config", "a/.GIT/hooks/x", "./a"])
def test_a_tree_that_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    repository = make_repository(tmp_path / "repo.git")
    at, mode = blob(repository, b"evil"), "100644"
    for name in reversed(path.split("/")[1:]):
        raw = f"{mode} {name}".encode() + b"\0" + bytes.fromhex(at)
        at = git("-C", repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=raw)
        mode = "40000"
    commit_tree(repository, [(mode, path.split("/")[0], at), ("100644", "SKILL.md", blob(repository, SKILL % b"a"))])
    with pytest.raises(SourceUnavailable, match=r"fsck|has(Dot|Dotdot|Dotgit)"):
        skills(repository)


UNSOUND: dict[str, dict[str, File]] = {
    "link-out": {"link": ("120000", b"../../../etc/passwd")},
    "link-absolute": {"link": ("120000", b"/etc/passwd")},
    "link-to-another-skill": {"link": ("120000", b"../link-out/SKILL.md")},
    "case": {"Readme.md": b"1", "README.md": b"2"},
    "unicode": {"\u00e9": b"1", "e\u0301": b"2"},
    "backslash": {"x\\\\..\\\\y": b""},
    "control": {"line\\nbreak": b""},
    "direction": {"turned\u202e": b""},
}


def test_a_skill_whose_files_cannot_lie_in_a_folder_is_unsound(repository: Path) -> None:
    files = {f"{name}/{path}": file for name, some in UNSOUND.items() for path, file in some.items()}
    commit(repository, {f"{name}/SKILL.md": SKILL % name.encode() for name in UNSOUND} | files)
    found = skills(repository)
    assert {name: len(some) - 1 for name, some in found.items()} == {name: len(some) for name, some in UNSOUND.items()}
    for some in found.values():
        with pytest.raises(FileRefused):
            require_sound(some)


def test_a_huge_file_stops_only_the_skill_that_has_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.hub.sources.git_process.MAX_FILE_BYTES", 100_000)
    commit(repository, ONE | {"skills/pdf/zero.bin": bytes(100_001)})
    with fetch(resolved(repository)) as fetched:
        csv, pdf = fetched.candidates
        with pytest.raises(PackageTooLarge, match=r"zero\.bin"):
            pdf.files()
        assert list(csv.files()) == ["SKILL.md"]  # the reader begins anew


def test_one_file_a_thousand_times_is_too_large(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.hub.sources.tree.MAX_PACKAGE_BYTES", 1_000_000)
    commit(repository, ONE | {f"skills/pdf/{number}.bin": bytes(10_000) for number in range(101)})
    with pytest.raises(PackageTooLarge, match="larger than a skill may be"):
        skills(repository)


@pytest.mark.slow
def test_a_delta_that_unfolds_without_end_is_not_unfolded(repository: Path) -> None:
    at = delta_bomb(repository, 100 * 1024 * 1024)
    small = blob(repository, SKILL % b"a")
    commit_tree(repository, [("100644", "SKILL.md", small), ("100644", "bomb", at)])
    with pytest.raises(SourceUnavailable, match="attempting to allocate"):
        skills(repository, transfer=Transfer(max_bytes=1_000_000))


def test_more_bytes_than_allowed_are_not_kept(repository: Path) -> None:
    commit(repository, ONE | {"noise.bin": os.urandom(300_000)})
    with pytest.raises(PackageTooLarge, match=r"more than 200,000 bytes"):
        skills(repository, transfer=Transfer(max_bytes=200_000))


def test_folders_that_unfold_without_end_are_not_listed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.hub.sources.git._MAX_LISTING", 1_000_000)
    at = tree(repository, f"100644 blob {blob(repository, b'x')}\tx\n")
    for _ in range(9):
        at = tree(repository, "".join(f"040000 tree {at}\t{name}\n" for name in range(10)))
    commit_tree(repository, [("40000", "a", at)])
    with pytest.raises(PackageTooLarge):
        skills(repository)


def test_a_path_that_is_too_deep_is_refused(repository: Path) -> None:
    commit(repository, {"d/" * 120 + "SKILL.md": SKILL % b"d"})
    with pytest.raises(FileRefused, match="too deep"):
        skills(repository)


@pytest.mark.each(
    "address",
    [
        "git+ext::sh -c touch% /tmp/x",
        "ext::sh",
        "git+ext://x/y",
        "git+fd://3/x",
        "git+ftp://example.com/x",
        "git+http://example.com/x",
        "http://example.com/x.git",
        "--upload-pack=touch",
        "git+--upload-pack=touch",
        "git+ssh://-oProxyCommand=touch/x",
        "ssh://-oProxyCommand=touch@host/x",
        "-oProxyCommand=touch:x",
        "git+file://host/x",
        "git+https://user:secret@example.com/x",
        "https://token@github.com/a/b",
        "git+ssh://git:secret@example.com/x",
        "a/b@--upload-pack=touch",
        "a/b/../../c",
        "git+https://example.com/x#../y",
    ],
)
def test_an_address_that_git_would_take_for_something_else_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument):
        resolve(parse_address(address))


def test_names_that_are_options_are_names(repository: Path) -> None:
    commit(repository, {"--output=x/SKILL.md": SKILL % b"a", "-r/SKILL.md": SKILL % b"b"})
    assert list(skills(repository)) == ["--output=x", "-r"]
    assert list(skills(repository, "#-r")) == ["-r"]


def test_the_environment_of_the_caller_does_not_steer_git(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, ONE)
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/mark\nexit 1\n")
    evil.chmod(0o755)
    for name in ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND"):
        monkeypatch.setenv(name, str(evil))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE", "GIT_EXEC_PATH"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "mark"))
    assert len(skills(repository)) == 2
    assert not (tmp_path / "mark").exists()


def test_the_configuration_of_the_user_counts(repository: Path, tmp_path: Path) -> None:
    commit(repository, ONE)
    config = Path.home() / ".gitconfig"
    config.write_text(f'[url "file://{tmp_path}/"]\n\tinsteadOf = https://private.example/\n')
    # A rule may name another host, but no protocol that the address itself could not have.
    with pytest.raises(SourceUnavailable, match="transport 'file' not allowed"):
        resolved("https://private.example/repo.git")
    config.write_text('[credential]\n\thelper = "!f() { touch ~/asked; }; f"\n[url "ssh://git@x.invalid/"]\n')
    assert len(skills(repository)) == 2


# Servers


def hostile_server(answer: bytes, *, endless: bool = False) -> tuple[socket.socket, threading.Thread]:
    """A server that answers each connection with the same bytes, once or for ever, and then is silent."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.ExitStack() as kept, contextlib.suppress(OSError):
            while True:
                connection = kept.enter_context(server.accept()[0])
                with contextlib.suppress(OSError):
                    connection.recv(1_000)
                    connection.sendall(answer)
                    while endless:
                        connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return server, thread


@pytest.mark.each(
    ("answer", "endless", "transfer"),
    [
        (b"", False, Transfer(seconds=0.2)),  # says nothing
        (b"000eversion 2\n", False, Transfer(seconds=0.2)),  # and nothing more
        (b"not git at all", True, Transfer(seconds=5)),
        (b"003f" + b"1" * 40 + b" refs/heads/a" + b"a" * 5 + b"\n", True, Transfer(seconds=0.5)),  # refs without end
    ],
)
def test_a_server_that_does_not_play_along_ends_in_an_error(answer: bytes, endless: bool, transfer: Transfer) -> None:
    server, thread = hostile_server(answer, endless=endless)
    try:
        with pytest.raises(MetierError) as raised:
            resolved(f"git://127.0.0.1:{server.getsockname()[1]}/x", transfer=transfer)
        assert raised.value.code == "source-unavailable"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


def test_a_pack_without_end_is_cut_off(holding: Path) -> None:
    def packet(data: bytes) -> bytes:
        return b"%04x" % (len(data) + 4) + data

    can = [b"version 2\n", b"agent=x\n", b"ls-refs\n", b"fetch=shallow filter\n", b"object-format=sha1\n"]
    blob_head = b"\xbf" + b"\xff" * 4 + b"\x7f"  # a blob of many gigabytes
    stored = b"\x00\x00\xf0\xff\x0f" + bytes(0xF000)  # a block of a zlib stream that is not compressed
    begun = packet(b"shallow-info\n") + packet(b"shallow " + b"1" * 40) + b"0001" + packet(b"packfile\n")
    begun += packet(b"\1PACK\0\0\0\2\0\0\0\1" + blob_head + b"\x78\x01")
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server.accept()[0] as connection, contextlib.suppress(OSError):
            connection.recv(1_000)
            connection.sendall(b"".join(map(packet, can)) + b"0000")
            asked = b""
            while b"command=fetch" not in asked or b"done" not in asked:
                asked = connection.recv(10_000)
                if b"command=ls-refs" in asked:
                    connection.sendall(b"0000")
            connection.sendall(begun)
            while True:
                connection.sendall(packet(b"\1" + stored))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with server, pytest.raises(PackageTooLarge, match=r"more than 3,000,000 bytes"):
        skills(
            f"git://127.0.0.1:{server.getsockname()[1]}/x", f"@{'1' * 40}", Transfer(max_bytes=3_000_000, seconds=30)
        )
    thread.join(5)
    assert not thread.is_alive()


def test_all_processes_end_when_a_transfer_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "git").write_text(f"#!/bin/sh\nexec 3>{pipe}\nsleep 1000 &\necho started >&3\nsleep 1000\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def stop(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            if os.read(reader, 100):
                raise InterruptedError

    with pytest.raises(InterruptedError):
        resolved("https://example.invalid/x", transfer=Transfer(progress=stop))
    os.set_blocking(reader, True)
    with open(reader, "rb") as file:
        assert file.read() == b""  # which comes when the last process that has it open is gone


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_somebody_else_is_not_opened(repository: Path) -> None:
    commit(repository, ONE)
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 12_345, 12_345)
    with pytest.raises(SourceUnavailable, match="dubious ownership") as raised:
        resolved(repository)
    assert "safe.directory" in raised.value.hint


@pytest.mark.slow
@pytest.mark.covers("A-34")
def test_skills_come_from_a_daemon(repository: Path, tmp_path: Path) -> None:
    commit(repository, ONE, tag="v1")
    with served_by_daemon(tmp_path) as address:
        assert len(skills(f"{address}/repo.git")) == 2
        assert len(skills(f"{address}/repo.git", "@v1#skills/pdf")) == 1


def test_skills_come_over_http_in_one_resolution_and_few_requests(repository: Path, tmp_path: Path) -> None:
    head = commit(repository, ONE | {"skills/pdf/large.bin": os.urandom(300_000)}, tag="v1")
    git("-C", repository, "config", "uploadpack.allowFilter", "true")
    with served_by_http(tmp_path) as (address, requests):
        assert resolved(f"{address}/repo.git", "@v1").revision == head
        assert len(requests) == 2  # what the server can do, and its refs
        with fetch(resolved(f"{address}/repo.git", f"@{head}")) as fetched:
            assert [len(each.skill_file()) > 0 for each in fetched.candidates] == [True, True]
            requests.clear()
            fetched.candidates[0].files()
            assert requests == []
            assert len(fetched.candidates[1].files()["large.bin"][1]) == 300_000  # fetched only now
            assert requests
        assert skills(f"{address}/repo.git", f"@{head}#skills/csv") == {
            "skills/csv": {"SKILL.md": ("file", SKILL % b"csv")}
        }


@pytest.mark.each("can_filter", ["true", "false"])
def test_of_a_large_repository_only_the_chosen_skill_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_filter: str
) -> None:
    monkeypatch.setattr("metier.hub.sources.git._CHEAP_BYTES", 100_000)
    repository = make_repository(tmp_path / f"{can_filter}.git")
    commit(repository, ONE | {f"{number}.txt": os.urandom(100_000) for number in range(3)})
    git("-C", repository, "config", "uploadpack.allowFilter", can_filter)
    sizes: list[int] = []
    with served_by_http(tmp_path) as (address, requests):
        state = resolved(f"{address}/{can_filter}.git")
        with fetch(state, Transfer(progress=lambda _what, done, _total: sizes.append(done))) as fetched:
            requests.clear()
            assert [each.skill_file() for each in fetched.candidates] == [SKILL % b"csv", SKILL % b"pdf"]
            assert [list(each.files()) for each in fetched.candidates] == [["SKILL.md"], ["SKILL.md"]]
    if can_filter == "true":
        assert len([each for each in requests if each.startswith("POST")]) == 1  # all SKILL.md at once
        assert sizes[-1] < 100_000
    else:
        assert requests == []


def test_a_server_of_the_first_protocol_is_enough(repository: Path, tmp_path: Path) -> None:
    head = commit(repository, ONE, tag="v1")
    commit(repository, {"a/SKILL.md": SKILL % b"a"})
    with served_by_http(tmp_path, is_old=True) as (address, _):
        assert list(skills(f"{address}/repo.git")) == ["a"]
        assert list(skills(f"{address}/repo.git", "@v1")) == ["skills/csv", "skills/pdf"]
        with pytest.raises(SourceUnavailable) as raised:
            skills(f"{address}/repo.git", f"@{head}")
    assert "name a branch or a tag" in raised.value.hint


def test_a_redirect_is_followed_on_the_same_host_only(repository: Path, tmp_path: Path) -> None:
    commit(repository, ONE)
    with served_by_http(tmp_path) as (other, _):
        with served_by_http(tmp_path, redirect=other) as (address, _), pytest.raises(SourceUnavailable) as raised:
            resolved(f"{address}/moved/repo.git")
        assert "another host" in raised.value.message
    for elsewhere in ("file://" + str(tmp_path), "ftp://127.0.0.1", "git://127.0.0.1"):
        with served_by_http(tmp_path, redirect=elsewhere) as (address, _), pytest.raises(SourceUnavailable):
            resolved(f"{address}/moved/repo.git")
    with served_by_http(tmp_path, redirect="") as (address, _):
        assert len(skills(f"{address}/moved/repo.git")) == 2
        asked: list[str] = []
        transfer = Transfer(permit=lambda one, is_way=False: asked.append(f"{one.name} {is_way}"))
        resolve(parse_address(f"git+{address}/moved/repo.git"), transfer)
        assert asked == [f"git+{address}/moved/repo.git False", f"git+{address}/repo.git True"]


@pytest.mark.slow
def test_a_hundred_thousand_refs_are_no_problem(repository: Path, tmp_path: Path) -> None:
    head = commit(repository, ONE)
    lines = [f"{head} refs/heads/b{number:06d}\n" for number in range(100_000)]
    (repository / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted\n" + "".join(lines))
    with served_by_http(tmp_path) as (address, _):
        for place in (repository, f"{address}/repo.git"):
            assert resolved(place).revision == head
            assert resolved(place, "@b099999").data == "refs/heads/b099999"
            assert len(skills(place, "@b000007")) == 2


KILLED = """
import sys
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Transfer, resolve

def told(*_):
    print("here", flush=True)

resolve(parse_address(sys.argv[1]), Transfer(progress=told))
"""


@pytest.mark.each("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.covers("A-35")
def test_what_is_interrupted_leaves_nothing(holding: Path, tmp_path: Path, sent: signal.Signals) -> None:
    server, thread = hostile_server(b"")
    address = f"git+git://127.0.0.1:{server.getsockname()[1]}/x"
    environment = {**os.environ, "TMPDIR": str(holding)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, address], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (folder,) = holding.iterdir()
        with pytest.raises(SourceUnavailable):  # another process meanwhile
            resolved(tmp_path / "nothing")
        assert folder.exists()
        process.send_signal(sent)
    assert process.returncode
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)
    if folder.exists():  # a process that is killed cannot remove it, but the next one does
        os.utime(folder, (0, 0))
        with pytest.raises(SourceUnavailable):
            resolved(tmp_path / "nothing")
    assert not folder.exists()
