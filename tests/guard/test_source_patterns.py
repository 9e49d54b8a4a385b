"""Whether a pattern of a policy file means a source: narrowly where it allows, widely where it denies."""

from __future__ import annotations

from pathlib import Path

import pytest

from metier.guard.policy.source_patterns import allows_source, denies_source

ACME = "git+https://github.com/acme/*"


@pytest.mark.each(
    ("pattern", "source", "expected"),
    [
        ("dir:*", "dir:/srv/skills", True),
        ("dir:/srv/*", "dir:/srv/skills", True),
        ("dir:/srv/*", "dir:/srv/../etc", False),
        ("dir:/srv/*", "dir:/srvother/x", False),
        ("dir:*", "git+https://github.com/acme/x", False),
        (ACME, "git+https://github.com/acme/x", True),
        (ACME, "git+https://GitHub.com/acme/x", True),
        (ACME, "git+https://github.com/acme", False),
        (ACME, "git+https://github.com/acme-evil/x", False),
        (ACME, "git+https://github.com/acme/../evil/x", False),
        (ACME, "git+https://github.com/acme/%2e%2E/evil/x", False),
        (ACME, "git+https://github.com/acme/..%2fevil", False),
        (ACME, "git+https://github.com\\@evil.test/acme/x", False),
        (ACME, "git+https://evil.test/github.com/acme/x", False),
        (ACME, "git+https://github.com/acme/x\n", False),
        (ACME, "git+http://github.com/acme/x", False),
        ("git+https://*.acme.com/*", "git+https://evil.test/.acme.com/x", False),
        ("git+https://*.acme.com/*", "git+https://evil.test/x.acme.com/x", False),
        ("git+https://*.acme.com/*", "git+https://skills.acme.com/x", True),
        ("git+*", "git+https://github.com/x", False),
        ("git+*:*", "git+https://github.com/x", True),
        ("well-known:skills.acme.com", "well-known:skills.acme.com", True),
        ("well-known:skills.acme.com", "well-known:skills.acme.com/", True),
        ("well-known:skills.acme.com", "well-known:skills.acme.com.evil.test", False),
        ("*:*.acme.com", "well-known:skills.acme.com", True),
        ("*:*.acme.com", "git+https://evil.test/a.acme.com", False),
        ("*", "anything:at/all", True),
        ("*", "git+https://x.test/../y", False),
    ],
)
def test_what_is_allowed_is_certainly_meant(pattern: str, source: str, expected: bool) -> None:
    assert allows_source(pattern, source) is expected


@pytest.mark.each(
    ("pattern", "source", "expected"),
    [
        ("*:*.vercel.app", "well-known:evil.vercel.app", True),
        ("*:*.vercel.app", "git+https://evil.vercel.app/x", True),
        ("*:*.vercel.app", "git+https://evil.vercel.app:8443/x", True),
        ("*:*.vercel.app", "git+https://evil.VERCEL.app", True),
        ("*:*.vercel.app", "git+https://vercel.app.example.com/x", False),
        ("git+https://github.com/evil/*", "git+https://github.com/Evil/x", True),
        ("git+https://github.com/evil", "git+https://github.com/evil/x", True),
        ("git+https://github.com/evil", "git+https://github.com/evil@v1", True),
        ("git+https://github.com/evil", "git+https://github.com/evilish", False),
        ("dir:/tmp", "dir:/tmp/x", True),
        ("dir:/tmp/", "dir:/tmp/x", True),
        ("dir:/tmp", "dir:/tmpx", False),
        # Servers take all of these for the same place.
        ("git+https://github.com/evil/*", "git+https://github.com:443/evil/x", True),
        ("git+https://github.com/evil/*", "git+https://github.com//evil/x", True),
        ("git+https://github.com/evil/*", "git+https://github.com/./evil/x", True),
        ("git+https://github.com/evil/*", "git+https://github.com/good/../evil/x", True),
        ("git+https://github.com/evil/*", "git+https://github.com/good/%2e%2e/evil/x", True),
        ("git+https://github.com/evil/*", "git+https://github.com/%65vil/x", True),
        ("git+https://github.com/evil/*", "git+https://github.com/%2565vil/x", True),
        ("git+https://github.com/evil/*", "git+https://g\uff49thub.com/evil/x", True),
        ("git+https://github.com:443/evil/*", "git+https://github.com/evil/x", True),
        ("git+ssh://github.com/evil/*", "git+ssh://git@github.com/evil/x", True),
        ("git+ssh://root@*", "git+ssh://git@github.com/acme/x", False),
        ("oci:ghcr.io/evil/*", "oci:ghcr.io:443/evil/x", True),
        ("oci:ghcr.io/evil/*", "oci:ghcr.io./evil/x", True),
        ("oci:ghcr.io/evil/*", "oci:ghcr.io:5000/evil/x", False),
        ("archive+https://cdn.test/evil/*", "archive+https://cdn.test/a/..%2fevil/x.zip", True),
        ("git+https://git.test/evil/x", "git+https://git.test/evil/x.git", True),
        ("git+https://git.test/evil/x.git", "git+https://git.test/evil/x", True),
        ("git+https://b\u00fccher.test/*", "git+https://xn--bcher-kva.test/x", True),
        ("*://*.b\u00fccher.test/*", "git+https://a.xn--bcher-kva.test/x", True),
        ("oci:[::1]/evil/*", "oci:[0:0::1]/evil/x", True),
        ("pypi:evil-pkg", "pypi:Evil__pkg", True),
        ("pypi:Evil.Pkg", "pypi:evil-pkg", True),
        ("git+https://github.com/evil/*", "git+https://github.com/evil-not/x", False),
        ("git+https://github.com/evil/*", "git+https://github.com/evil/../acme/x", True),
    ],
)
def test_what_is_denied_is_denied_with_all_below_it(pattern: str, source: str, expected: bool) -> None:
    assert denies_source(pattern, source) is expected


@pytest.mark.each("spelling", ["{}/real", "{}/real/", "{}/other/../real", "{}/link", "~/real", "~/link", "{}/rea*"])
def test_a_pattern_for_a_folder_means_that_folder_in_every_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("real", "really-not", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
    if not (tmp_path / "link").is_symlink():
        (tmp_path / "link").symlink_to("real")
    pattern = f"dir:{spelling.format(tmp_path)}"
    for source in (f"dir:{tmp_path}/real", f"dir:{tmp_path}/link"):
        assert (denies_source(pattern, source), allows_source(pattern, source)) == (True, True)
        assert denies_source(pattern, f"{source}/skills")
    assert not denies_source(pattern.replace("*", "l"), f"dir:{tmp_path}/really-not")


def test_a_folder_that_is_allowed_is_no_way_to_another_one(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/out").symlink_to("/")
    for kind in ("dir:", "archive:", "marketplace:", "git+file://"):
        assert not allows_source(f"{kind}{tmp_path}/mine/*", f"{kind}{tmp_path}/mine/out")
        assert allows_source(f"{kind}{tmp_path}/mine/*", f"{kind}{tmp_path}/mine/own")
        assert denies_source(f"{kind}/etc", f"{kind}{tmp_path}/mine/out/etc/x")
    assert denies_source("dir:/", f"dir:{tmp_path}/mine/out")
