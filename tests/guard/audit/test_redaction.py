"""Secrets do not get into records."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import in_part

from metier.guard.audit.redaction import MARK, names_secret, redact, redact_value

# Put together here, so that nobody who searches this file takes them for real.
GITHUB, OPENAI, AWS = "ghp_" + "a1" * 18, "sk-" + "proj-" + "b2" * 12, "AKIA" + "C3" * 8
JWT = "eyJhbGciOiJI" + ".eyJzdWIiOiIx" + ".SflKxwRJSMeK"
BLOCK = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\n-----END RSA " + "PRIVATE KEY-----"


@pytest.mark.covers("O-85")
@pytest.mark.each(
    ("text", "redacted"),
    [
        ('api_key="abc"', f'api_key="{MARK}"'),
        ("password: hunter2", f"password: {MARK}"),
        ("token=xyz", f"token={MARK}"),
        ("API_KEY=abc PassWord=def Token: ghi", f"API_KEY={MARK} PassWord={MARK} Token: {MARK}"),
        ("apikey: 'a b c' rest", f"apikey: '{MARK}' rest"),
        ('password="a\\"b" rest', f'password="{MARK}" rest'),
        ('password="never closed\nnext', f'password="{MARK}"\nnext'),
        ("GITHUB_TOKEN=abc,x", f"GITHUB_TOKEN={MARK},x"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c", f"AWS_SECRET_ACCESS_KEY={MARK}"),
        ("client-secret := abc", f"client-secret := {MARK}"),
        ("secret => 'abc'", f"secret => '{MARK}'"),
        ("https://x/?token=abc&b=1", f"https://x/?token={MARK}&b=1"),
        ("DB_PWD=abc PWD=/home", f"DB_PWD={MARK} PWD=/home"),
        ('{"password": "abc", "n": 1}', f'{{"password": "{MARK}", "n": 1}}'),
        ("Authorization: Bearer abc.def", f"Authorization: {MARK}"),
        ('-H "authorization: Basic Zm9v" x', f'-H "authorization: {MARK}" x'),
        ("Cookie: a=b; c=d\nnext", f"Cookie: {MARK}\nnext"),
        ("use bearer abcdefgh12 now", f"use bearer {MARK} now"),
        ("git clone https://me:pw@host/x", f"git clone https://{MARK}@host/x"),
        ("postgres://u:p@h/db", f"postgres://{MARK}@h/db"),
        (f"key {GITHUB} there", f"key {MARK} there"),
        (f"({OPENAI})", f"({MARK})"),
        (f"id {AWS}.", f"id {MARK}."),
        (JWT, MARK),
        (f"a\n{BLOCK}\nb", f"a\n{MARK}\nb"),
        (BLOCK.partition("\n")[0] + "\nMIIE and no end", MARK),
    ],
)
def test_a_secret_becomes_a_mark(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.covers("O-85")
def test_three_secrets_become_three_marks() -> None:
    assert redact('api_key="abc", password: hunter2 and TOKEN=xyz').count(MARK) == 3


@pytest.mark.each(
    "text",
    [
        "",
        "max_tokens: 500",
        "tokens_used=12",
        "task-aaaaaaaaaaaaaaaaaaaaaaaa",
        "the password is secret",
        "https://example.com/a@b",
        "git log --format=%h",
        "keyboard: qwerty",
        "mail me@example.com: now",
        "bearer of news",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.covers("O-85")
@pytest.mark.each(
    ("value", "redacted"),
    [
        ({"user": "me", "password": "abc"}, {"user": "me", "password": MARK}),
        ({"clientSecret": ["a", "b"], "x": {"API-Key": 12}}, {"clientSecret": MARK, "x": {"API-Key": MARK}}),
        ({"password": None, "token": "", "secret": True}, {"password": None, "token": "", "secret": True}),
        (["token=abc", ("x", 3, None, 1.5, False)], [f"token={MARK}", ("x", 3, None, 1.5, False)]),
        ({"token=abc": 1, 7: "password: x"}, {f"token={MARK}": 1, 7: f"password: {MARK}"}),
        ({"max_tokens": 500, "author": "x"}, {"max_tokens": 500, "author": "x"}),
        ("token=abc", f"token={MARK}"),
        (3, 3),
        (None, None),
    ],
)
def test_values_are_redacted_through_and_through(value: Any, redacted: Any) -> None:
    assert redact_value(value) == redacted


def test_a_value_without_a_bottom_is_cut() -> None:
    deep: Any = "token=abc"
    for _ in range(5_000):
        deep = [deep]
    assert "abc" not in str(redact_value(deep))


@pytest.mark.each("name", ["password", "GITHUB_TOKEN", "client-secret", "X-Api-Key", "dbPassword", "Authorization"])
def test_a_name_says_that_its_value_is_a_secret(name: str) -> None:
    assert names_secret(name)


TEXTS = st.lists(
    st.sampled_from(
        [
            "password",
            "token",
            "=",
            ": ",
            '"',
            "'",
            "\\",
            "\n",
            " ",
            "abc",
            "https://",
            "@",
            "sk-",
            "Bearer ",
            MARK,
            "[",
            "eyJ",
            ".",
        ]
    ),
    max_size=20,
).map("".join)


@given(TEXTS)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.text(alphabet=st.characters(codec="ascii", categories=["L", "N"]), min_size=8, max_size=20))
def test_json_stays_json_and_holds_no_secret(secret: str) -> None:
    text = redact(json.dumps({"a": 1, "password": f"<{secret}>", "inner": json.dumps({"api_key": f"<{secret}>"})}))
    assert f"<{secret}>" not in text
    assert json.loads(text)["a"] == 1


@in_part
@pytest.mark.each(
    ("before", "unit", "count", "after"),
    [
        ("", "a-", 100_000, "token"),
        ("", 'password="', 50_000, ""),
        ("", "password='\\", 50_000, ""),
        ("", "aa://", 100_000, ""),
        ("http://", "a:", 100_000, ""),
        ("", "-eyJaaaaaaaa", 50_000, ""),
        ("", "eyJaaaaaaaa.", 50_000, ""),
        ("", "-----BEGIN ", 50_000, ""),
        ('token="', "\\", 100_000, ""),
        ("cookie: a", ";a", 50_000, ""),
    ],
    every=3,
)
def test_no_text_takes_long(before: str, unit: str, count: int, after: str, part: float) -> None:
    text = before + unit * int(count * part) + after
    # Were any of these more than linear, it would take far longer.
    start = time.process_time()
    assert isinstance(redact(text), str)
    assert time.process_time() - start < 5 * part
