"""Setting a listing mode in a policy file: one line changes, and everything that people wrote stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import crossed

from metier.errors import InvalidArgument
from metier.guard.policy.edit import set_listing_mode
from metier.guard.policy.reader import parse_policy
from metier.skill.listing import MODES, ListingMode

FILES = {
    "nothing": "",
    "comments": "# Ours.\n",
    "no end of line": "version: 1",
    "another key": "version: 1\n# Why we do this.\nmode: audit  # for now\n",
    "skills in a block": "skills:\n  # These are dangerous.\n  deny: [miner]  # all of them\n# The end.\n",
    "skills in braces": "version: 1\nskills: {deny: [miner], allow: [a, b]}\n",
    "empty skills": "version: 1\nskills:\nmode: audit\n",
    "empty braces": "skills: {}\n",
    "listing in a block": "skills:\n    listing:\n        # Too long.\n        legacy-*: name-only\n    deny: [x]\n",
    "listing in braces": "skills:\n  listing: {old: off}\n",
    "empty listing": "skills:\n  listing:\n  deny: [x]\n",
    "set already": "skills:\n  listing:\n    pdf: manual  # until it is mended\n    old: 'off'\n",
    "set already, in quotes": 'skills: {"listing": {"pdf": "off", old: off}}\n',
    "all in braces": "{version: 1, mode: audit}\n",
}


def modes(text: str) -> dict[str, str]:
    file = parse_policy(text if text.strip("# Ours.\n") else "version: 1", "policy.yaml", "personal")
    assert not file.is_broken, file.problems
    return {rule.pattern: rule.mode for layer in file.settings.get("skills.listing", ()) for rule in layer}


@crossed(("before", FILES.values()), ("mode", MODES), one_in=5)
def test_a_mode_is_set_and_all_else_stays_as_it_was_written(before: str, mode: ListingMode, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(before)
    set_listing_mode(str(path), "personal", "pdf", mode)
    after = path.read_text()
    assert modes(after) == modes(before) | {"pdf": mode}
    rest = [line for line in before.splitlines() if "pdf" not in line and "{" not in line and line != "skills:"]
    lines = iter(after.splitlines())
    assert all(any(one.startswith(line) for one in lines) for line in rest), after
    set_listing_mode(str(path), "personal", "pdf", mode)
    assert path.read_text() == after


def test_a_file_that_is_not_there_is_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / ".metier" / "policy.yaml"
    set_listing_mode(str(path), "personal", "pdf", "pinned")
    assert path.read_text() == "version: 1\nskills:\n  listing:\n    pdf: pinned\n"
    assert [one.name for one in path.parent.iterdir()] == ["policy.yaml"]


@given(st.text(min_size=1, max_size=20).filter(str.isprintable), st.sampled_from(list(FILES.values())))
def test_whatever_a_name_is_the_file_stays_sound(
    tmp_path_factory: pytest.TempPathFactory, name: str, before: str
) -> None:
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text(before)
    try:
        set_listing_mode(str(path), "personal", name, "name-only")
    except InvalidArgument:
        assert path.read_text() == before
    else:
        assert modes(path.read_text()) == modes(before) | {name: "name-only"}


@pytest.mark.parametrize("text", ["skills: [", "skills: {listing: [pdf]}\n", "moode: x\n", "- a\n"])
def test_a_broken_file_is_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match="has errors") as caught:
        set_listing_mode(str(path), "personal", "pdf", "off")
    assert "metier policy check" in caught.value.hint
    assert path.read_text() == text


def test_a_link_stays_a_link_and_keeps_the_mode_of_its_file(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text("version: 1\n")
    real.chmod(0o600)
    (tmp_path / "policy.yaml").symlink_to(real)
    set_listing_mode(str(tmp_path / "policy.yaml"), "personal", "pdf", "off")
    assert (tmp_path / "policy.yaml").is_symlink()
    assert modes(real.read_text()) == {"pdf": "off"}
    assert real.stat().st_mode & 0o777 == 0o600
