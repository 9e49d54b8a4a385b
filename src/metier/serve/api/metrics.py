"""Metrics of a server: the requests that this process has answered, and the state and usage of a tenant."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from metier._version import __version__
from metier.proof.usage import catch_up
from metier.proof.usage_formats import escaped_label, openmetrics_lines
from metier.proof.usage_report import usage_report
from metier.serve.http_server import Answered

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from metier.serve.api.context import ServerContext
    from metier.store import TenantScope

MEDIA_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_FIRST_DAY, _LAST_DAY = "0001-01-01", "9999-12-31"
_OTHER = "other"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """The number and the duration of the requests that this process has answered, by route."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, int], int] = defaultdict(int)
        self._times: dict[str, list[float]] = {}
        """By route: the requests up to each bound, of all, and the sum of their seconds."""
        self._under_way = 0

    def begin(self) -> None:
        """Count a request that is under way."""
        with self._lock:
            self._under_way += 1

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._under_way -= 1
            self._counts[method, route, status] += 1
            times = self._times.setdefault(route, [0.0] * (len(_BOUNDS) + 2))
            for place, bound in enumerate(_BOUNDS):
                times[place] += seconds <= bound
            times[-2] += 1
            times[-1] += seconds

    def lines(self) -> Iterator[str]:
        """Yield them as OpenMetrics."""
        with self._lock:
            counts, under_way = sorted(self._counts.items()), self._under_way
            times = {route: list(one) for route, one in sorted(self._times.items())}
        yield from _head("metier_http_requests", "counter", "Requests that this process has answered.")
        for (method, route, status), count in counts:
            labels = f'method="{method}",route="{escaped_label(route)}",status="{status}"'
            yield f"metier_http_requests_total{{{labels}}} {count}"
        yield from _head("metier_http_request_seconds", "histogram", "Time until a request was answered.", "seconds")
        for route, numbers in times.items():
            label = f'route="{escaped_label(route)}"'
            for bound, below in zip((*_BOUNDS, "+Inf"), numbers, strict=False):
                yield f'metier_http_request_seconds_bucket{{{label},le="{bound}"}} {below:g}'
            yield f"metier_http_request_seconds_count{{{label}}} {numbers[-2]:g}"
            yield f"metier_http_request_seconds_sum{{{label}}} {numbers[-1]:.6f}"
        yield from _gauge("metier_http_requests_under_way", "Requests that are being answered.", under_way)


class MeasuredRequests:
    """Counts each request that passes, and the time that it takes."""

    def __init__(self, app: ASGIApp, *, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answered, began = Answered(send), time.perf_counter()
        self._metrics.begin()
        try:
            await self._app(scope, receive, answered)
        finally:
            # Names of routes, as there are few of them: a path is whatever somebody asks for.
            route = getattr(scope.get("route"), "path", _OTHER)
            method = scope["method"] if scope["method"] in _METHODS else _OTHER
            self._metrics.end(method, route, answered.status or 500, time.perf_counter() - began)


def metrics_lines(context: ServerContext, scope: TenantScope) -> Iterator[str]:
    """Yield the metrics of this process, and those of a tenant: what waits, its nodes, its skills and its usage."""
    yield from _head("metier_build", "info", "The version of the server.")
    yield f'metier_build_info{{version="{__version__}"}} 1'
    yield from context.metrics.lines()
    waiting = {
        "requests": len(scope.approvals.requests("pending")),
        "proposals": len(scope.proposals.all("open")),
        "submissions": len(scope.releases.all(status="submitted")),
    }
    yield from _head("metier_waiting", "gauge", "Items that wait for the decision of a person.")
    yield from (f'metier_waiting{{kind="{kind}"}} {count}' for kind, count in waiting.items())
    by_status: dict[str, int] = {"active": 0, "tampered": 0, "revoked": 0}
    for node in scope.nodes.all():
        by_status[node.status] += 1
    yield from _head("metier_nodes", "gauge", "Machines that are bound to this server.")
    yield from (f'metier_nodes{{status="{status}"}} {count}' for status, count in by_status.items())
    yield from _gauge("metier_deployed_skills", "Skills that every node has.", len(scope.deployments.all()))
    last = scope.audit.last()
    yield from _head("metier_audit_records", "counter", "Records in the audit log of the server.")
    yield f"metier_audit_records_total {last.seq if last is not None else 0}"
    catch_up(scope, context.governance(scope.tenant).effective)
    yield from openmetrics_lines(usage_report([scope], since=_FIRST_DAY, until=_LAST_DAY))


def _head(name: str, kind: str, about: str, unit: str = "") -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {about}"


def _gauge(name: str, about: str, value: int) -> Iterator[str]:
    yield from _head(name, "gauge", about)
    yield f"{name} {value}"
