"""What is kept in memory is bounded by its size, and the oldest goes first."""

from __future__ import annotations

import pytest

from metier import Document
from metier.library import document_cache as module
from metier.library.document_cache import DocumentCache
from metier.skill import parse

IDENTITY = (1, 2, 3, 4)


def document(length: int) -> Document:
    return parse(b"---\nname: a\ndescription: b\n---\n" + b"x" * length)


def test_the_oldest_documents_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHARACTERS_KEPT", 100)
    kept = DocumentCache()
    for number in range(5):
        kept.keep_document((0, str(number)), IDENTITY, document(40))
        kept.document((0, "0"))  # asked for again, so it is not the oldest
    assert [kept.document((0, str(number))) is not None for number in range(5)] == [True, False, False, False, True]


def test_the_same_document_kept_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHARACTERS_KEPT", 100)
    kept = DocumentCache()
    kept.keep_document((0, "other"), IDENTITY, document(40))
    for _ in range(5):
        kept.keep_document((0, "same"), IDENTITY, document(40))
    assert kept.document((0, "other")) is not None


def test_forgetting_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHARACTERS_KEPT", 100)
    kept = DocumentCache()
    kept.keep_document((0, "a"), IDENTITY, document(60))
    kept.forget((0, "a"))
    kept.keep_document((0, "b"), IDENTITY, document(60))
    kept.keep_document((0, "c"), IDENTITY, document(40))
    assert kept.document((0, "a")) is None
    assert kept.document((0, "b")) is not None
    kept.forget()
    assert kept.document((0, "b")) is None


def test_a_very_long_document_is_not_kept() -> None:
    kept = DocumentCache()
    kept.keep_document((0, "a"), IDENTITY, document(200_000))
    assert kept.document((0, "a")) is None
