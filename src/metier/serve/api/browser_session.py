"""Sessions of browsers: the cookie, and the proof that a request comes from our own page.

Boundary: a request that changes something and is known by a cookie alone counts only with the token that our page was
given, and from our own origin. A browser sends the cookie by itself, whatever page is behind the request.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import Response

from metier._hosts import is_loopback
from metier.serve.api.problems import ProblemError
from metier.serve.api.settings import ServerSettings

COOKIE = "metier_session"
ATTEMPT = "metier_sign_in"
"""The cookie of a sign-in that is under way."""
HEADER = "X-CSRF-Token"
SESSION_SECONDS = 12 * 3600
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def base_url(request: Request, settings: ServerSettings) -> str:
    """The address of this server as browsers have it, without a slash at the end."""
    if settings.public_url is not None:
        return settings.url
    return f"{'https' if settings.has_tls else 'http'}://{request.headers.get('host', '')}"


def own_origin(request: Request, settings: ServerSettings) -> str:
    """The origin of our own pages."""
    parts = urlsplit(base_url(request, settings))
    return f"{parts.scheme}://{parts.netloc}".lower()


def require_private(request: Request, settings: ServerSettings) -> None:
    """Refuse to hand out credentials where others can read them on the way."""
    if not settings.is_secure and not is_loopback(urlsplit(base_url(request, settings)).hostname or ""):
        raise ProblemError(
            403,
            "insecure-sign-in",
            "Nobody signs in over plain HTTP: others could read the session.",
            hint="Reach the server by https; behind a proxy that has TLS, set `public_url`.",
        )


def csrf_token(session: str) -> str:
    """The token that our page sends beside a session: only who was given it knows it, and a cookie is not readable."""
    return hmac.new(session.encode(), b"metier csrf token", hashlib.sha256).hexdigest()


def require_own_page(request: Request, settings: ServerSettings, session: str) -> None:
    """Refuse a request with a cookie that changes something, unless our own page sent it."""
    if request.method in _SAFE:
        return
    sent = request.headers.get(HEADER, "").encode()
    is_own = request.headers.get("origin", "").lower() == own_origin(request, settings)
    if not is_own or not hmac.compare_digest(sent, csrf_token(session).encode()):
        raise ProblemError(
            403,
            "foreign-page",
            f"A session of a browser changes something only from our own pages, with the header {HEADER}.",
            hint="`GET /api/v1/session` gives the token. Programs send `Authorization: Bearer TOKEN` instead.",
        )


def read_cookie(request: Request, settings: ServerSettings, name: str) -> str:
    """The value of a cookie; "" where there is none."""
    return request.cookies.get(_full_name(settings, name), "")


def set_cookie(response: Response, settings: ServerSettings, name: str, value: str, seconds: int) -> None:
    """Give a browser a cookie that no page can read."""
    full = _full_name(settings, name)
    secure = settings.is_secure
    response.set_cookie(full, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")


def clear_cookie(response: Response, settings: ServerSettings, name: str) -> None:
    """Take a cookie back."""
    set_cookie(response, settings, name, "", 0)


def _full_name(settings: ServerSettings, name: str) -> str:
    """The name with the prefix by which browsers let no other host of our domain set it; it takes TLS."""
    return f"__Host-{name}" if settings.is_secure else name
