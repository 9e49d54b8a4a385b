"""Sends exported audit records to a collector of OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from metier._hosts import is_loopback
from metier.errors import AuditUnavailable, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

_OTLP_SECONDS = 30
_OTLP_PATH = "/v1/logs"


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: records go to the named collector alone."""

    def redirect_request(self, *_: object) -> None:
        return None


def send_otlp(requests: Iterable[str], endpoint: str) -> int:
    """Post requests in OTLP JSON to a collector, one after the other; returns how many it accepted."""
    address = otlp_endpoint(endpoint)
    handlers = [_NoRedirect(), ProxyHandler({})] if _is_local(address) else [_NoRedirect()]
    opener = build_opener(*handlers)
    count = 0
    for body in requests:
        request = Request(address, body.encode(), {"Content-Type": "application/json"}, method="POST")
        try:
            with opener.open(request, timeout=_OTLP_SECONDS) as answer:
                answer.read(1024)
        except HTTPError as error:
            error.close()
            raise _rejected(address, f"it answered {error.code}") from None
        except (URLError, OSError, ValueError) as error:
            raise _rejected(address, str(getattr(error, "reason", error))) from None
        count += 1
    return count


def otlp_endpoint(endpoint: str) -> str:
    """Return the URL for logs at an endpoint; raises `InvalidArgument` for one without encryption on the way.

    >>> otlp_endpoint("http://localhost:4318")
    'http://localhost:4318/v1/logs'
    """
    try:
        parts = urlsplit(endpoint)
        is_named = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_named = False
    if not is_named or not endpoint.isprintable() or "@" in parts.netloc:
        raise InvalidArgument(f"{endpoint!r:.200} is no endpoint.", hint="Write one such as http://localhost:4318.")
    if parts.scheme == "http" and not _is_local(endpoint):
        raise InvalidArgument(
            f"{endpoint!r:.200} would be told in the open.", hint="Use https, or a collector on this machine."
        )
    return endpoint if parts.path.strip("/") else urlunsplit(parts._replace(path=_OTLP_PATH))


def _is_local(address: str) -> bool:
    return is_loopback(urlsplit(address).hostname or "")


def _rejected(address: str, reason: str) -> AuditUnavailable:
    return AuditUnavailable(
        f"The collector at {address} did not take the records: {reason}.",
        hint="See that it runs, and that it takes OTLP over HTTP there.",
    )
