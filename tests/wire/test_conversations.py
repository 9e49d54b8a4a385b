"""One conversation on every wire: it loads a skill, reads a file, is refused a tool, switches, unloads and answers."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from tests.wire.clients import API_KEY
from tests.wire.conversation import Conversation
from tests.wire.reading import strings
from tests.wire.script import ACTIVE, ANSWER, BODIES, FIELDS, RULES, SKILLS, TURNS, WEB

LAST_COUNTS = "the one that was loaded last counts"


def listed(name: str) -> str:
    """The line of a skill in the catalog."""
    return f"<skill><name>{name}</name>"


def found(text: str, texts: Sequence[str]) -> int:
    """How often a text is found in others."""
    return sum(one.count(text) for one in texts)


def test_it_comes_to_its_end(conversation: Conversation) -> None:
    assert conversation.answer == ANSWER
    assert len(conversation.sent) == len(TURNS) + 1
    assert conversation.sent[-1].history


def test_every_request_is_what_the_providers_types_describe(conversation: Conversation) -> None:
    for sent in conversation.sent:
        assert sent.typed == sent.body


def test_every_request_asks_for_a_stream_or_none_does(conversation: Conversation) -> None:
    for sent in conversation.sent:
        asked = sent.body.get("stream", False) or "streamGenerateContent" in sent.path
        assert asked is conversation.streamed


def test_what_the_agent_is_told_comes_before_what_skills_are(conversation: Conversation) -> None:
    for sent in conversation.sent:
        assert found(RULES, list(strings(sent.body))) == 1
        assert sent.system.index(RULES) < sent.system.index("# Skills")


@pytest.mark.covers("G-31")
def test_the_catalog_is_there_once(conversation: Conversation) -> None:
    for sent, active in zip(conversation.sent, ACTIVE, strict=True):
        for name in SKILLS:
            # What is written out in full beside the catalog is not listed in it again.
            is_written_out = conversation.delivery == "instructions" and name == active
            assert sent.system.count(listed(name)) == (0 if is_written_out else 1)
            assert found(listed(name), list(strings(sent.body))) == sent.system.count(listed(name))


@pytest.mark.covers("G-40")
def test_an_active_skill_stands_where_it_is_delivered_and_nowhere_else(conversation: Conversation) -> None:
    for number, sent in enumerate(conversation.sent):
        for name, body in BODIES.items():
            in_results = found(body, [result.text for result in sent.results])
            if conversation.delivery == "result":
                was_loaded = name in ACTIVE[: number + 1]
                assert (sent.system.count(body), in_results) == (0, int(was_loaded))
            else:
                assert (sent.system.count(body), in_results) == (int(name == ACTIVE[number]), 0)
            assert found(body, list(strings(sent.body))) == sent.system.count(body) + in_results


@pytest.mark.covers("G-31", "G-40")
def test_the_top_level_text_says_which_skill_is_active(conversation: Conversation) -> None:
    for sent, active in zip(conversation.sent, ACTIVE, strict=True):
        assert sent.system.count("<active_skills>") == (1 if active else 0)
        block = sent.system.partition("<active_skills>")[2]
        assert [name for name in SKILLS if f' name="{name}"' in block] == ([active] if active else [])


@pytest.mark.covers("G-40")
def test_the_history_is_only_added_to(conversation: Conversation) -> None:
    for before, after in pairwise(conversation.sent):
        assert len(after.history) > len(before.history)
        assert after.history[: len(before.history)] == before.history


@pytest.mark.covers("G-34")
def test_the_tools_are_the_same_in_every_request(conversation: Conversation) -> None:
    # The order of keys is that of the bytes, which a provider's cache goes by.
    assert len({json.dumps(sent.body["tools"]) for sent in conversation.sent}) == 1


def test_the_top_level_text_changes_only_with_what_is_active(conversation: Conversation) -> None:
    texts = [(active, sent.system) for active, sent in zip(ACTIVE, conversation.sent, strict=True)]
    assert len(set(texts)) == len(set(ACTIVE))


def test_what_comes_before_the_active_skill_never_changes(conversation: Conversation) -> None:
    if conversation.delivery == "result":
        first = conversation.sent[0].system
        assert all(sent.system.startswith(first) for sent in conversation.sent)
    else:
        # There the catalog leaves out what is active, and only the rules before it stay.
        heads = {sent.system.partition("<available_skills>\n")[0] for sent in conversation.sent}
        assert len(heads) == 1


def test_a_file_of_a_skill_is_in_the_result_alone(conversation: Conversation) -> None:
    counts = [found(FIELDS, list(strings(sent.body))) for sent in conversation.sent]
    assert counts == [0, 0, 1, 1, 1]
    assert FIELDS in conversation.sent[2].results[1].text


def test_a_refusal_says_why_and_is_flagged_where_the_wire_can(conversation: Conversation) -> None:
    results = conversation.sent[-1].results
    refused = [number for number, result in enumerate(results) if "tool-not-allowed" in result.text]
    assert refused == [2]
    assert WEB in results[2].text
    assert "Read" in results[2].text
    if conversation.wire in ("anthropic", "gemini"):
        assert [result.failed for result in results] == [number == 2 for number in range(len(results))]


@pytest.mark.covers("G-41")
def test_every_request_says_that_the_skill_loaded_last_counts(conversation: Conversation) -> None:
    for sent in conversation.sent:
        assert sent.system.count(LAST_COUNTS) == 1


def test_no_secret_and_no_path_of_the_machine_is_sent(conversation: Conversation, skills: Path) -> None:
    for number, sent in enumerate(conversation.sent):
        text = "\n".join((sent.path, *strings(sent.body)))
        for name in set(ACTIVE[: number + 1]) - {""}:
            # But for where a skill is that was loaded: its verified copy.
            text = re.sub(rf"{re.escape(tempfile.gettempdir())}/skill-copy-[0-9a-f]+/{name}\b", "", text)
        for private in (API_KEY, str(skills), os.getcwd(), tempfile.gettempdir(), str(Path.home())):
            assert private not in text


def test_the_audit_trail_is_the_same_on_every_wire(conversation: Conversation) -> None:
    trail = [(one.event, one.tool, one.skill, one.decision, one.code) for one in conversation.records]
    assert [entry for entry in trail if entry[0] != "call" or entry[3] != "allow"] == [
        ("load", "", "forms", "allow", ""),
        ("read", "", "forms", "allow", ""),
        ("call", WEB, "", "deny", "tool-not-allowed"),
        ("load", "", "letters", "allow", ""),
        ("unload", "", "forms", "allow", ""),
        ("unload", "", "letters", "allow", ""),
    ]
