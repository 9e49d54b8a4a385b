"""Which files a job sees, worked out before anything is started."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.errors import FileMissing, InvalidArgument
from metier.run import Job, JobPath

if sys.platform == "linux":
    from metier.run.native.filesystem_view import FilesystemView, path_in, view_of
    from metier.run.native.protocol import write_request
    from metier.run.native.request import request_for

fuzz = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def seen(view: FilesystemView) -> list[tuple[str, bool, str]]:
    return [(place.path, place.is_writable, place.seen_at) for place in view.places]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A few folders inside each other."""
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "x").mkdir()
    return tmp_path.resolve()


@pytest.mark.covers("ENV-1")
def test_the_working_folder_is_given_unless_a_place_has_it(tree: Path) -> None:
    def places_given(view: FilesystemView) -> list[tuple[str, bool, str]]:
        # The interpreter of this process is a place too where it lies among temporary files.
        return seen(replace(view, places=tuple(place for place in view.places if not place.is_precaution)))

    alone = view_of(Job(argv=("true",), folder=str(tree / "a")))
    assert places_given(alone) == [(str(tree / "a"), True, str(tree / "a"))]
    held = view_of(Job(argv=("true",), folder=str(tree / "a" / "b"), places=(JobPath(str(tree / "a")),)))
    assert places_given(held) == [(str(tree / "a"), False, str(tree / "a"))]


def test_a_folder_whose_name_only_begins_alike_is_another(tree: Path) -> None:
    (tree / "ab").mkdir()
    view = view_of(Job(argv=("true",), folder=str(tree / "ab"), places=(JobPath(str(tree / "a")),)))
    assert (str(tree / "ab"), True, str(tree / "ab")) in seen(view)


@given(
    places=st.lists(
        st.tuples(
            st.sampled_from(["a", "a/b", "a/b/c", "x"]), st.booleans(), st.sampled_from(["", "/one", "/one/two"])
        ),
        max_size=6,
    )
)
@fuzz
def test_the_outer_place_always_comes_before_the_inner(tree: Path, places: list[tuple[str, bool, str]]) -> None:
    given_places = tuple(JobPath(str(tree / path), is_writable, at) for path, is_writable, at in places)
    found = view_of(Job(argv=("true",), folder=str(tree / "x"), places=given_places)).places
    assert len(set(found)) == len(found)
    for first, outer in enumerate(found):
        for inner in found[:first]:
            assert not outer.seen_at.startswith(inner.seen_at + "/") or inner.seen_at.count("/") < outer.seen_at.count(
                "/"
            )
    shown = {(place.path, place.seen_at) for place in found}
    assert {(str(tree / path), at or str(tree / path)) for path, _, at in places} <= shown
    assert any((str(tree / "x") + "/").startswith(place.seen_at + "/") for place in found)


@given(path=st.text(max_size=30))
@fuzz
def test_any_path_is_a_place_or_an_error_that_says_so(tree: Path, path: str) -> None:
    for place in (JobPath(path), JobPath(str(tree), at=path)):
        try:
            view = view_of(Job(argv=("true",), folder=str(tree), places=(place,)))
        except (InvalidArgument, FileMissing) as error:
            assert error.hint
            continue
        assert all(os.path.isabs(found.path) and os.path.isabs(found.seen_at) for found in view.places)
        assert not any("/../" in f"{found.seen_at}/" for found in view.places)


@pytest.mark.parametrize("at", ["/", "//", "/.", "/usr/..", "/usr/../etc", "/proc", "/dev/", "/sys", "/lib64"])
def test_what_a_job_has_of_its_own_is_not_covered(tree: Path, at: str) -> None:
    with pytest.raises(InvalidArgument):
        view_of(Job(argv=("true",), folder=str(tree), places=(JobPath(str(tree), at=at),)))


def test_programs_are_looked_for_only_where_they_can_be_seen(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tree}/a:.:relative::/usr/bin:{Path.home()}/secret/bin")
    folders = path_in(view_of(Job(argv=("true",), folder=str(tree / "x")))).split(":")
    assert "/usr/bin" in folders
    assert not {f"{tree}/a", ".", "relative", "", f"{Path.home()}/secret/bin"} & set(folders)


def test_a_home_is_never_shown_because_a_program_is_in_it(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bin", "lib", ".local/bin", ".local/lib"):
        (own_home / folder).mkdir(parents=True)
    for name in ("bin/tool", ".local/bin/other"):
        (own_home / name).write_text("#!/bin/sh\n")
        (own_home / name).chmod(0o755)
    (own_home / "secret").write_text("s3cret")
    for name in ("bin/tool", ".local/bin/other"):
        view = view_of(Job(argv=(str(own_home / name),), folder=str(tmp_path)))
        roots = [path for _, path in view.programs]
        assert str(own_home / name) in roots
        assert not any(f"{own_home}/secret".startswith(f"{root}/") for root in roots)
        assert not any(f"{own_home}/.local/share".startswith(f"{root}/") for root in roots)


@given(
    argv=st.lists(st.text(max_size=20), min_size=1, max_size=5),
    env=st.dictionaries(st.text(max_size=10), st.text(max_size=20), max_size=5),
)
@fuzz
def test_a_request_carries_any_text(tree: Path, argv: list[str], env: dict[str, str]) -> None:
    import marshal

    asked = request_for(Job(argv=tuple(argv), folder=str(tree), env=env), "namespaces").content
    descriptor = write_request(asked)
    try:
        carried = marshal.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    finally:
        os.close(descriptor)
    assert carried["argv"] == argv
    assert {**env, **carried["env"]} == carried["env"]
