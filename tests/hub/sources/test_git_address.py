"""The ways to write where a git repository is, and that none of them can mean anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hub.sources.git_repositories import make_repository

from metier.errors import InvalidArgument, MetierError
from metier.hub.sources.address import SourceAddress, parse_address
from metier.hub.sources.git_process import protocols

HUB = "https://github.com/acme/skills"


@pytest.mark.each(
    ("text", "location", "ref", "path"),
    [
        ("acme/skills", HUB, "", ""),
        ("acme/skills.git", HUB, "", ""),
        ("acme/skills/tools/pdf", HUB, "", "tools/pdf"),
        ("acme/skills/./tools//pdf/", HUB, "", "tools/pdf"),
        ("acme/skills@v1.2", HUB, "v1.2", ""),
        ("acme/skills/tools/pdf@v1.2", HUB, "v1.2", "tools/pdf"),
        ("acme/skills@feature/of/two", HUB, "feature/of/two", ""),
        ("acme/skills@pdf@1.0", HUB, "pdf@1.0", ""),
        ("acme/skills@v1#tools/pdf", HUB, "v1", "tools/pdf"),
        ("acme/skills#tools/pdf", HUB, "", "tools/pdf"),
        ("https://github.com/acme/skills", HUB, "", ""),
        ("https://GitHub.com/acme/skills.git/", HUB, "", ""),
        ("https://github.com/acme/skills.git@v1", HUB, "v1", ""),
        ("https://github.com/acme/skills/tree/main", HUB, "main", ""),
        ("https://github.com/acme/skills/tree/main/tools/pdf", HUB, "main", "tools/pdf"),
        ("https://github.com/acme/skills/tree/a%2Fb/my%20tools?x=1#L3", HUB, "a/b", "my tools"),
        ("https://github.com/acme/skills/blob/main/tools/pdf/SKILL.md", HUB, "main", "tools/pdf"),
        ("https://gitlab.com/a/b/c/-/tree/main/pdf", "https://gitlab.com/a/b/c", "main", "pdf"),
        ("https://git.example.com/a/b/-/tree/main/pdf", "https://git.example.com/a/b", "main", "pdf"),
        ("https://example.com/skills.git", "https://example.com/skills.git", "", ""),
        ("https://example.com/skills.git@v1#pdf", "https://example.com/skills.git", "v1", "pdf"),
        ("git+https://example.com:8443/skills@v1", "https://example.com:8443/skills", "v1", ""),
        ("git+ssh://git@example.com/skills@a/b#c/d", "ssh://git@example.com/skills", "a/b", "c/d"),
        ("ssh://git@example.com:2222/skills", "ssh://git@example.com:2222/skills", "", ""),
        ("git@example.com:acme/skills.git@v1", "ssh://git@example.com/acme/skills.git", "v1", ""),
        ("git@github.com:acme/skills.git", "ssh://git@github.com/acme/skills", "", ""),
        ("git+git@example.com:acme/skills#pdf", "ssh://git@example.com/acme/skills", "", "pdf"),
        ("me@example.com:skills", "ssh://me@example.com/~/skills", "", ""),
        ("me@example.com:/srv/skills", "ssh://me@example.com/srv/skills", "", ""),
        ("git://example.com/skills", "git://example.com/skills", "", ""),
        ("git+http://127.0.0.1:8000/skills", "http://127.0.0.1:8000/skills", "", ""),
        ("git+https://[::1]:8000/skills", "https://[::1]:8000/skills", "", ""),
        ("git+file:///srv/no-such/a@b", "file:///srv/no-such/a", "b", ""),
    ],
)
def test_a_repository_is_named_in_many_ways(text: str, location: str, ref: str, path: str) -> None:
    assert parse_address(text) == SourceAddress(kind="git", location=location, ref=ref, path=path)


def test_a_folder_with_a_repository_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path / "a@b.git")
    (tmp_path / "work" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    base = f"file://{tmp_path}"
    table = {
        "./a@b.git": ("git", f"{base}/a%40b.git", ""),
        f"git+file://{tmp_path}/a@b.git": ("git", f"{base}/a@b.git", ""),
        f"git+file://{tmp_path}/a@b.git@v1": ("git", f"{base}/a@b.git", "v1"),
        "./work": ("dir", f"{tmp_path}/work", ""),
        "./work@v1": ("git", f"{base}/work", "v1"),
        "./nothing@v1": ("dir", f"{tmp_path}/nothing@v1", ""),
    }
    found = {text: parse_address(text) for text in table}
    assert {text: (each.kind, each.location, each.ref) for text, each in found.items()} == table


@pytest.mark.each(
    "text",
    [
        "git+https://example.com",
        "git+https:///skills",
        "git+https://a b/c",
        "git+https://exa$mple.com/x",
        "git+ssh://@example.com/x",
        "git+file://example.com/x",
        "git+skills",
        "git+",
        "host::x",
        "acme/skills@-v1",
        "acme/skills@v1\x07",
        "acme/skills/../../other",
        "git+https://example.com/x#a/../../b",
    ],
)
def test_what_names_no_repository_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse_address(text)
    assert raised.value.hint


def test_a_ref_beside_an_address_is_the_only_one() -> None:
    assert parse_address("acme/skills", ref="v1").ref == "v1"
    assert parse_address("acme/skills@v1", ref="v1").ref == "v1"
    with pytest.raises(InvalidArgument):
        parse_address("acme/skills@v1", ref="v2")
    with pytest.raises(InvalidArgument):
        parse_address("acme/skills", ref="--upload-pack=x")


pieces = st.sampled_from(
    ["git+", "https://", "ssh://", "file://", "ext::", "git@", "a", "b.git", "/", "@", ":", "#", "..", "-", "tree", " "]
)
words = st.from_regex(r"[a-z][a-z0-9_.]{0,8}[a-z0-9]", fullmatch=True)
hosts = st.from_regex(r"[a-z][a-z0-9]{0,8}(\.[a-z]{2,6}){0,2}", fullmatch=True)
folders = st.lists(words, max_size=3).map("/".join)


@given(st.one_of(st.text(max_size=60), st.lists(pieces, max_size=12).map("".join)))
def test_any_text_is_an_address_or_an_error_of_ours(text: str) -> None:
    try:
        found = parse_address(text)
        if found.kind != "git":
            return
        allowed = protocols(found.location)
    except MetierError as error:
        assert error.hint
    else:
        assert found.location.partition("://")[0] in allowed.split(":")
        assert not found.location.startswith("-") and "://-" not in found.location
        assert ".." not in found.path.split("/")


@given(
    st.sampled_from(["https", "ssh", "git", "file"]), hosts, st.lists(words, min_size=1, max_size=3), folders, folders
)
def test_the_name_with_ref_and_path_is_the_address_again(
    scheme: str, host: str, parts: list[str], ref: str, path: str
) -> None:
    location = f"{scheme}://{'' if scheme == 'file' else host}/{'/'.join(parts)}"
    address = SourceAddress(kind="git", location=location, ref=ref, path=path)
    text = address.name + (f"@{ref}" if ref else "") + (f"#{path}" if path else "")
    assert parse_address(text) == address
