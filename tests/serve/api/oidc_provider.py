"""A certified OpenID provider, npm's `oidc-provider`, on this machine: its accounts, and the browser of a person."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest
from tests.npm_packages import BIN

PAGE = "http://localhost"
"""Our server, as browsers have it."""
CALLBACK = f"{PAGE}/api/v1/sign-in/callback"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class ProviderProcess:
    """The provider, told who has an account and what to get wrong."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    def has(self, login: str, **claims: Any) -> None:
        """Give somebody an account."""
        self._tell("accounts", {login: {"email": f"{login}@example.com", "email_verified": True, **claims}})

    def alter(self, claims: dict[str, Any] | None = None, **header: Any) -> None:
        """Let the ID tokens have other claims, where None takes one away, or another header."""
        self._tell("alter", {"claims": claims or {}, "header": header})

    def alter_signed_by(self, key: Any, **header: Any) -> None:
        """Let another key sign the ID tokens, under the name of the right one."""
        self._tell("alter", {"claims": {}, "header": header, "key": key})

    def publish(self, *keys: Any) -> None:
        """Publish other keys beside the right one."""
        self._tell("alter", {"keys": keys})

    def fetches(self, path: str) -> int:
        """Return how often a file of the provider was asked for."""
        found: int = httpx2.get(f"{self.issuer}/test/fetches{path}").json()
        return found

    def honest(self) -> None:
        """Let the ID tokens be as they are."""
        self._tell("alter", None)

    def rotate(self, *, keep: bool = True) -> None:
        """Sign with a new key; with `keep` the one before is still published."""
        self._tell("rotate", {"keep": keep})

    def _tell(self, what: str, content: Any) -> None:
        httpx2.post(f"{self.issuer}/test/{what}", content=json.dumps(content)).raise_for_status()

    def sends_back_to(self, page: str) -> None:
        """Register one more server of ours."""
        self._tell("page", f"{page}{CALLBACK.removeprefix(PAGE)}")

    def sign_in(self, url: str, login: str, page: str = PAGE) -> str:
        """Go to the provider with a fresh browser, and sign in: the address at which the browser is sent back."""
        with httpx2.Client() as browser:
            answer = browser.get(url)
            for _ in range(8):
                if answer.is_redirect:
                    url = urljoin(str(answer.url), answer.headers["location"])
                    if url.startswith(page):
                        return url
                    answer = browser.get(url)
                else:
                    form = re.search(r'action="([^"]+)"', answer.text)
                    assert form is not None, answer.text
                    answer = browser.post(
                        urljoin(str(answer.url), form[1]), data={"prompt": "login", "login": login, "password": "x"}
                    )
        raise AssertionError(f"the provider does not send the browser back: {answer.text}")

    def prove_on_device(self, login: str, client: str = "metier-cli") -> dict[str, str]:
        """The tokens that a command line gets for somebody who confirms its code."""
        asked = {"client_id": client, "scope": "openid email groups"}
        begun = httpx2.post(f"{self.issuer}/device/auth", data=asked).json()
        self.confirm_device(begun["verification_uri_complete"], login)
        form = {"client_id": client, "grant_type": DEVICE_GRANT, "device_code": begun["device_code"]}
        answer: dict[str, str] = httpx2.post(f"{self.issuer}/token", data=form).json()
        return {name: answer[name] for name in ("id_token", "access_token")}

    def confirm_device(self, url: str, login: str, *, abort: bool = False) -> None:
        """Confirm the code of a command line, or refuse it, at the address that it shows."""
        with httpx2.Client(follow_redirects=True) as browser:
            answer = browser.get(url)
            for _ in range(8):
                form = re.search(r'action="([^"]+)"', answer.text)
                if form is None:
                    return
                fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', answer.text))
                if fields.get("prompt") == "login":
                    fields |= {"login": login, "password": "x"}
                if abort and fields.pop("confirm", ""):
                    browser.post(urljoin(str(answer.url), form[1]), data={**fields, "abort": "yes"})
                    return
                answer = browser.post(urljoin(str(answer.url), form[1]), data=fields)
        raise AssertionError(f"the provider asks on: {answer.text}")


@contextmanager
def running(*, conform: bool = False) -> Iterator[ProviderProcess]:
    """A provider, until the end of the context; with `conform` it gives claims only as user information."""
    script = BIN.parents[1] / "oidc_provider.mjs"
    if not (BIN / "node").exists() or not (BIN.parent / "oidc-provider").exists():
        pytest.skip("the packages of tests/npm are not installed")
    with subprocess.Popen(
        [BIN / "node", script, CALLBACK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OIDC_CONFORM": "1" if conform else "0"},
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield ProviderProcess(process.stdout.readline().strip())
        finally:
            process.kill()
