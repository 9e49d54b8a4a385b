"""Every error says what happened, to what, and what to do."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from metier import Library, errors
from metier.errors import MetierError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MetierError)]


@pytest.mark.covers("O-11")
@pytest.mark.each("kind", KINDS)
def test_an_error_has_a_message_a_code_and_a_context(kind: type[MetierError]) -> None:
    error = kind("It happened.", hint="Do this.", name="a")
    assert isinstance(error, Exception)
    assert str(error) == error.message == "It happened."
    assert error.code and error.code == error.code.lower()
    assert error.hint == "Do this."
    assert error.context == {"name": "a"}


@pytest.mark.covers("O-11")
def test_codes_are_not_shared() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS)


@pytest.mark.covers("O-11")
@pytest.mark.each("kind", KINDS)
def test_an_error_keeps_everything_between_processes(kind: type[MetierError]) -> None:
    error = pickle.loads(pickle.dumps(kind("It happened.", hint="Do this.", name="a")))
    assert (type(error), error.message, error.hint, error.context) == (kind, "It happened.", "Do this.", {"name": "a"})


@pytest.mark.covers("O-12")
def test_a_skill_that_is_not_found_is_named_with_its_layer(tmp_path: Path) -> None:
    library = Library.from_folder(tmp_path, cache=False)
    with pytest.raises(errors.SkillNotFound, match="'deploy@enterprise'"):
        library.get("deploy@enterprise")


@pytest.mark.covers("O-12")
def test_a_file_that_cannot_be_loaded_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "SKILL.md"
    file.write_text("---\nname: a\ndescription: b\n---\nDo.\n")
    library = Library.from_folder(tmp_path, cache=False)
    file.write_bytes(b"")
    with pytest.raises(errors.SkillUnreadable, match=r"'a' cannot be loaded: The file is empty\.") as caught:
        library.document("a")
    assert caught.value.context["location"] == str(file)
