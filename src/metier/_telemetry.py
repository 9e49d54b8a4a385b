"""Spans and metrics by OpenTelemetry: nothing at all unless the program has set up somewhere for them to go.

OpenTelemetry itself is never imported here. A program that wants telemetry has imported it, and set a provider; until
then every function here is one look into `sys.modules`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

EXECUTE_TOOL = "execute_tool"
OTHER = "other"
"""The value in a metric for values that are too many or unknown."""

_SCOPE = "metier"
_IN_ENVIRONMENT = not os.environ.keys().isdisjoint(("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER"))
_MAX_TEXT = 200
_MAX_LABEL = 100
_MAX_VALUES = 200
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_TOKENS = (100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7)


class _Kind(NamedTuple):
    """A metric: its unit, what it is, and for a histogram the limits of its buckets."""

    unit: str
    about: str
    limits: tuple[float, ...] = ()


METRICS = {
    "skill.activations": _Kind("{activation}", "Skills that were asked for, by what came of it."),
    "skill.run.tokens": _Kind("{token}", "Tokens of a model while a skill was active, per run of it.", _TOKENS),
    "script.executions": _Kind("{execution}", "Scripts of skills that were run."),
    "script.read_attempts": _Kind("{attempt}", "Attempts to read a script instead of running it."),
    "path.failures": _Kind("{failure}", "Paths that led nowhere, or out of where they may lead."),
    "rule.violations": _Kind("{violation}", "What was asked for and is against the rules of a skill or policy."),
    "tool.duration": _Kind("s", "Calls of tools: how many, and how long they took.", _SECONDS),
}
"""The metrics, without the `metier.` that all of them begin with."""
_LABELS = {
    "skill": "gen_ai.skill.name",
    "tool": "gen_ai.tool.name",
    "model": "gen_ai.request.model",
    "outcome": "metier.outcome",
}


class ToolCall:
    """One tool call for as long as it lasts, as telemetry sees it; one of this class itself, nobody is told of."""

    name = ""
    """The tool, where it is known."""

    def describe(self, **attributes: Any) -> None:
        """Say something of it on its span: names with `__` for the dots; what is empty is left out."""

    def is_first(self, metric: str) -> bool:
        """Whether this call has not been counted in a metric yet: of the records it leaves, only one counts."""
        return True

    def ended(self, code: str | None) -> None:
        """Say how it ended: with a code when it failed."""


_NOTHING = contextlib.nullcontext(ToolCall())

_current: ContextVar[_Watched | None] = ContextVar("metier_tool_call", default=None)


def current_call() -> ToolCall | None:
    """The tool call that is being made, where telemetry is on."""
    return _current.get()


def describe_skill(description: str, location: str) -> None:
    """Name the skill that the current tool call uses, and where it comes from; nothing where telemetry is off."""
    call = _current.get()
    if call is not None:
        from pathlib import Path

        path = Path(location)
        uri = path.as_uri() if path.is_absolute() else location
        call.describe(gen_ai__skill__description=description, gen_ai__skill__source__uri=uri)


def tool_call(name: str) -> AbstractContextManager[ToolCall]:
    """Around a tool call: the span that a framework made for it, or one of ours; nothing where telemetry is off.

    `name` is empty for a tool that nobody knows.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return _NOTHING
    try:
        span = trace.get_current_span()
        if not (is_tracing() or span.is_recording() or is_measuring()):
            return _NOTHING
        return _watching(name, span, trace.get_tracer_provider().get_tracer(_SCOPE))
    except Exception:  # whatever others have put there, the call is made
        return _NOTHING


def measure(metric: str, value: float = 1, **labels: str | None) -> None:
    """Count something, by `skill`, `tool`, `model` and `outcome` where they are known."""
    meters = _meters()
    if meters is None:
        return
    with contextlib.suppress(Exception):
        meters.measure(metric, value, labels)


def is_tracing() -> bool:
    """Whether there is somewhere for spans to go."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or _is_unset(trace, "_TRACER_PROVIDER"):
        return False
    return _is_real(trace.get_tracer_provider())


def is_measuring() -> bool:
    """Whether there is somewhere for metrics to go."""
    return _meters() is not None


class _Watched(ToolCall):
    """A tool call with a span."""

    def __init__(self, name: str, span: Any, *, is_ours: bool) -> None:
        self.name = name
        self.span = span
        self._is_ours = is_ours
        # What a framework has said of its own span stays as it is.
        self._said = frozenset() if is_ours else frozenset(span.attributes)
        self._counted: set[str] = set()

    def describe(self, **attributes: Any) -> None:
        with contextlib.suppress(Exception):
            for name, value in attributes.items():
                dotted = name.replace("__", ".")
                if value not in (None, "", ()) and dotted not in self._said:
                    self.span.set_attribute(dotted, _clean(value))

    def is_first(self, metric: str) -> bool:
        if metric in self._counted:
            return False
        self._counted.add(metric)
        return True

    def ended(self, code: str | None) -> None:
        if code is None or not self._is_ours:
            return
        with contextlib.suppress(Exception):
            from opentelemetry.trace import StatusCode

            self.describe(error__type=code)
            self.span.set_status(StatusCode.ERROR)


@contextlib.contextmanager
def _watching(name: str, span: Any, tracer: Any) -> Iterator[ToolCall]:
    outer = _current.get()
    with contextlib.ExitStack() as used:
        # Inside a call that has its span, there may be others that have none: those of an agent that it started.
        is_ours = not _is_of_a_tool(span) or (outer is not None and outer.span is span)
        if is_ours:
            span = used.enter_context(
                tracer.start_as_current_span(
                    f"{EXECUTE_TOOL} {_text(name)}".rstrip(),
                    attributes={"gen_ai.operation.name": EXECUTE_TOOL, "gen_ai.tool.type": "function"},
                    # What a tool raises may say what it was given.
                    record_exception=False,
                    set_status_on_exception=False,
                )
            )
        call = _Watched(name, span, is_ours=is_ours)
        if is_ours:
            call.describe(gen_ai__tool__name=name)
        token = _current.set(call)
        try:
            yield call
        except Exception as error:
            call.ended(type(error).__qualname__)
            raise
        finally:
            # A call that was given up is ended by whoever clears it away, perhaps in another context.
            with contextlib.suppress(ValueError):
                _current.reset(token)


def _is_of_a_tool(span: Any) -> bool:
    """Whether a span is one that somebody made for a tool call."""
    return (
        span.is_recording() and (getattr(span, "attributes", None) or {}).get("gen_ai.operation.name") == EXECUTE_TOOL
    )


def _is_unset(module: ModuleType, name: str) -> bool:
    """Whether there is surely no provider.

    A shortcut, since the function that gives the provider looks into the environment whenever there is none, which is
    most of what telemetry would cost where it is off. Without the name, or with a provider in the environment, we ask.
    """
    return getattr(module, name, module) is None and not _IN_ENVIRONMENT


def _is_real(provider: object) -> bool:
    """Whether a provider is somebody's own, and not what OpenTelemetry has where there is none."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


class _Meters:
    """The metrics of one provider."""

    def __init__(self, provider: Any) -> None:
        meter = provider.get_meter(_SCOPE)
        self._instruments: dict[str, Any] = {}
        for name, kind in METRICS.items():
            full = f"{_SCOPE}.{name}"
            if kind.limits:
                self._instruments[name] = meter.create_histogram(
                    full, kind.unit, kind.about, explicit_bucket_boundaries_advisory=list(kind.limits)
                ).record
            else:
                self._instruments[name] = meter.create_counter(full, kind.unit, kind.about).add
        self._known: dict[str, set[str]] = {name: {OTHER} for name in _LABELS}

    def measure(self, metric: str, value: float, labels: dict[str, str | None]) -> None:
        given = {_LABELS[name]: self._bounded(name, text) for name, text in labels.items() if text}
        self._instruments[metric](value, given)

    def _bounded(self, name: str, value: str) -> str:
        """A label. Each value costs whoever stores it, and names come from strangers: only so many are kept."""
        value, known = _text(value, _MAX_LABEL), self._known[name]
        if value not in known:
            if len(known) > _MAX_VALUES:
                return OTHER
            known.add(value)
        return value


_kept: tuple[object, _Meters | None] = (None, None)


def _meters() -> _Meters | None:
    """The instruments; None where telemetry is off."""
    global _kept
    inner, module = sys.modules.get("opentelemetry.metrics._internal"), sys.modules.get("opentelemetry.metrics")
    if module is None or (inner is not None and _is_unset(inner, "_METER_PROVIDER")):
        return None
    try:
        provider = module.get_meter_provider()
        kept, made = _kept
        if kept is not provider:
            made = _Meters(provider) if _is_real(provider) else None
            _kept = (provider, made)
    except Exception:
        return None
    return made


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    return [_text(str(one), _MAX_LABEL) for one in value[:20]] if isinstance(value, tuple) else value


def _text(value: str, most: int = _MAX_TEXT) -> str:
    cut = value if len(value) <= most else f"{value[: most - 1]}…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in cut)
