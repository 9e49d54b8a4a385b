"""The routes of the application, which are there before the first request."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from tests.serve.api.conftest import Api


def test_no_request_makes_a_route_and_mutes_the_warnings_of_other_threads(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    muted: list[object] = []

    class Noted(warnings.catch_warnings):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            muted.append(options)

    admin = api.as_("admin")
    with monkeypatch.context() as patch:
        patch.setattr(warnings, "catch_warnings", Noted)
        assert admin.get("/api/v1/usage").status_code == 200
        assert admin.put("/api/v1/policy/text", json={"text": ""}, headers={"If-Match": '"0"'}).status_code == 422
    assert muted == []
