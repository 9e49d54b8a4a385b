"""The OpenID provider of a server: where it is, its keys, and the ID tokens that it signs.

Boundary: nothing of an ID token counts before `verify` has found the signature, the issuer, the audience, the times and
the nonce to be right. What this process keeps of the provider is derived from it, and is fetched again.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from metier._hosts import is_loopback
from metier._json_object import text_at
from metier._lazy import logger
from metier.serve.api.problems import ProblemError
from metier.serve.api.settings import OidcSettings
from metier.skill import shown

log = logger("metier.serve")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""The signatures that count: with a key of the provider alone, so that none can be made with what is public."""
_KEY_TYPES = ("EC", "OKP", "RSA")
SKEW_SECONDS = 60
_TIMEOUT_SECONDS = 10
_MAX_BYTES = 1024 * 1024
_METADATA_SECONDS = 3600
_RETRY_SECONDS = 2
_KEYS_SECONDS = 600
_FETCHES_A_MINUTE = 5
"""Fetches of the keys for tokens with an unknown one, of which anybody may send as many as they like."""
_WELL_KNOWN = "/.well-known/openid-configuration"


class OidcProvider:
    """The provider by which people sign in."""

    def __init__(self, settings: OidcSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._metadata: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, Any] | None = None
        self._failed_at = -math.inf
        self._fetches: deque[float] = deque(maxlen=_FETCHES_A_MINUTE)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The description that the provider gives of itself."""
        with self._lock:
            at = time.monotonic()
            if self._metadata is None or at - self._metadata[0] > _METADATA_SECONDS:
                self._metadata = (at, self._fetch_metadata())
            return self._metadata[1]

    def _fetch_metadata(self) -> Mapping[str, Any]:
        issuer = str(self.settings.issuer).rstrip("/")
        found = self._fetch(issuer + _WELL_KNOWN)
        # Somebody else's description would have their keys in it.
        if text_at(found, "issuer").rstrip("/") != issuer:
            raise _unavailable("it calls itself another issuer")
        return found

    @property
    def issuer(self) -> str:
        """The issuer, letter by letter as in its tokens."""
        return text_at(self.metadata, "issuer")

    def endpoint(self, name: str, *, is_required: bool = True) -> str:
        """An address of the provider, `token_endpoint`; "" for one that it has not."""
        url = text_at(self.metadata, name)
        if url:
            require_safe(url)
        elif is_required:
            raise _unavailable(f"it has no {name}")
        return url

    def authorization_url(self, redirect_uri: str, *, state: str, nonce: str, verifier: str) -> str:
        """The address at which a browser begins to sign in."""
        with self._client(redirect_uri=redirect_uri, code_challenge_method="S256") as client:
            url: str = client.create_authorization_url(
                self.endpoint("authorization_endpoint"), state=state, nonce=nonce, code_verifier=verifier
            )[0]
        return url

    def redeem(self, code: str, redirect_uri: str, *, nonce: str, verifier: str) -> dict[str, Any]:
        """The claims about the person whom the provider gave a code."""
        from authlib.integrations.base_client import OAuthError

        endpoint = self.endpoint("token_endpoint")
        with self._client(redirect_uri=redirect_uri) as client:
            try:
                answer = client.fetch_token(
                    endpoint,
                    grant_type="authorization_code",
                    code=code,
                    redirect_uri=redirect_uri,
                    code_verifier=verifier,
                )
            except OAuthError as error:
                raise refused(f"the provider answered {shown(str(error), 200)}") from None
            except Exception as error:
                raise _failed(error) from None
        access = text_at(answer, "access_token")
        return self.verify(text_at(answer, "id_token"), nonce=nonce, access_token=access)

    def verify(self, id_token: str, *, nonce: str = "", access_token: str = "", client_id: str = "") -> dict[str, Any]:
        """The claims of an ID token that counts; with those of the user information that it lacks."""
        from authlib.oidc.core import CodeIDToken
        from joserfc.errors import JoseError

        client_id = client_id or self.settings.client_id
        try:
            token = self._decode(id_token)
            if str(token.header.get("typ", "JWT")).upper() != "JWT":
                raise ValueError("a token of another kind")
            options: Any = {
                "iss": {"essential": True, "value": self.issuer},
                "aud": {"essential": True, "value": client_id},
            }
            params = {"nonce": nonce, "client_id": client_id, "access_token": access_token}
            claims = CodeIDToken(token.claims, token.header, options, params)
            claims.validate(now=int(self._clock()), leeway=SKEW_SECONDS)
        except (JoseError, ValueError, TypeError) as error:
            raise refused(f"the ID token does not count ({shown(str(error), 100)})") from None
        if not nonce and "nonce" in claims:
            raise refused("the ID token belongs to a browser")
        return {**self._user_information(dict(claims), access_token), **claims}

    def _decode(self, id_token: str) -> Any:
        """The token, verified by a key that the provider has now."""
        from joserfc import jwt
        from joserfc.errors import BadSignatureError, InvalidKeyIdError
        from joserfc.jws import JWSRegistry

        registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        try:
            return jwt.decode(id_token, self._key_set(), registry=registry)
        except (InvalidKeyIdError, BadSignatureError):
            return jwt.decode(id_token, self._key_set(renew=True), registry=registry)

    def _key_set(self, *, renew: bool = False) -> Any:
        """The keys of the provider; with `renew` fetched again, unless that was done too often."""
        url = self.endpoint("jwks_uri")
        with self._lock:
            at = time.monotonic()
            if self._keys is not None:
                is_old = at - self._keys[0] > _KEYS_SECONDS
                may_fetch = len(self._fetches) < _FETCHES_A_MINUTE or at - self._fetches[0] > 60
                if not (is_old or (renew and may_fetch)):
                    return self._keys[1]
                self._fetches.append(at)
            self._keys = (at, _parse_keys(self._fetch(url)))
            return self._keys[1]

    def _user_information(self, claims: dict[str, Any], access_token: str) -> Mapping[str, Any]:
        """The claims that decide who somebody is, where the provider gives them only when asked."""
        needed = {self.settings.name_claim, *(one.claim for one in self.settings.roles)}
        url = self.endpoint("userinfo_endpoint", is_required=False)
        if not access_token or not url or needed <= claims.keys():
            return {}
        found = self._get_json(url, access_token)
        if found.get("sub") != claims["sub"]:
            raise refused("the user information is about somebody else")
        return found

    def _fetch(self, url: str) -> Mapping[str, Any]:
        """A JSON object for all who wait; those who waited for one in vain do not wait for the next one, too."""
        if time.monotonic() - self._failed_at < _RETRY_SECONDS:
            raise _unavailable("it did not answer a moment ago")
        try:
            return self._get_json(url)
        except ProblemError:
            self._failed_at = time.monotonic()
            raise

    def _get_json(self, url: str, access_token: str = "") -> Mapping[str, Any]:
        headers = {"Accept": "application/json"}
        if access_token:
            headers["Authorization"] = f"Bearer {access_token}"
        require_safe(url)
        with self._client() as client:
            try:
                answer = client.request("GET", url, headers=headers, withhold_token=True)
                answer.raise_for_status()
                found = answer.json() if len(answer.content) <= _MAX_BYTES else None
            except Exception as error:
                raise _failed(error) from None
        if not isinstance(found, dict):
            raise _unavailable("its answer is no JSON object")
        return found

    def _client(self, **options: Any) -> Any:
        from authlib.integrations.httpx_client import OAuth2Client

        try:
            secret = self.settings.client_secret
        except (OSError, UnicodeDecodeError) as error:
            raise _failed(error) from None
        return OAuth2Client(
            client_id=self.settings.client_id,
            client_secret=secret,
            scope=" ".join(self.settings.scopes),
            timeout=_TIMEOUT_SECONDS,
            **options,
        )


def _parse_keys(found: Mapping[str, Any]) -> Any:
    """The keys of a set that we can use: providers publish others beside them."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet, import_key

    keys = []
    listed = found.get("keys")
    for key in listed if isinstance(listed, list) else ():
        if not isinstance(key, dict) or key.get("kty") not in _KEY_TYPES:
            continue
        with contextlib.suppress(JoseError, ValueError, TypeError, KeyError, AttributeError):
            keys.append(import_key(key))
    return KeySet(keys)


def require_safe(url: str) -> None:
    """Refuse an address of the provider to which secrets would go in the open."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise _unavailable(f"{shown(url, 200)} is not https")


def refused(why: str) -> ProblemError:
    """The problem of somebody who may not sign in."""
    return ProblemError(403, "sign-in-refused", f"You were not signed in: {why}.", hint="Begin again.")


def _failed(error: Exception) -> ProblemError:
    log.warning("the OpenID provider failed: %s", shown(f"{type(error).__name__}: {error}", 300))
    return _unavailable("it does not answer as it should")


def _unavailable(why: str) -> ProblemError:
    return ProblemError(
        502, "provider-unavailable", f"The OpenID provider cannot be used: {why}.", hint="Try again in a moment."
    )
