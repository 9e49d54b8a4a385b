"""Exporters of telemetry for commands that run long: to wherever the variables of OpenTelemetry say."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import logger
from metier._telemetry import is_measuring, is_tracing
from metier._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic_ai.capabilities import Instrumentation

log = logger("metier.telemetry")

Signal: TypeAlias = Literal["traces", "metrics"]

LAST_SECONDS = 2.0
"""Seconds that a command waits at its end for what is still to be sent."""
_PROTOCOL = "http/protobuf"
_OTLP = "opentelemetry.exporter.otlp.proto.http"
_EXPORTERS = {
    ("otlp", "traces"): (f"{_OTLP}.trace_exporter", "OTLPSpanExporter"),
    ("otlp", "metrics"): (f"{_OTLP}.metric_exporter", "OTLPMetricExporter"),
    ("console", "traces"): ("opentelemetry.sdk.trace.export", "ConsoleSpanExporter"),
    ("console", "metrics"): ("opentelemetry.sdk.metrics.export", "ConsoleMetricExporter"),
}


def configure_from_environment(environ: Mapping[str, str] = os.environ) -> tuple[Signal, ...]:
    """Send telemetry where `OTEL_EXPORTER_OTLP_ENDPOINT` and its like say; the signals that are sent from now on.

    Nothing happens where they say nothing, or where the program around us has set up its own. What cannot be set up or
    sent is a line on standard error and a warning in the log, and never an error: the command works without.

    >>> configure_from_environment({})
    ()
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    begun: list[Signal] = []
    signals: tuple[tuple[Signal, bool, Callable[[Any, Any], None]], ...] = (
        ("traces", is_tracing(), _begin_traces),
        ("metrics", is_measuring(), _begin_metrics),
    )
    for signal, is_set_up, begin in signals:
        name = _exporter_name(signal, environ)
        if is_set_up or name == "none":
            continue
        _COMPLAINTS.listen()
        try:
            begin(_exporter(signal, name, environ), _resource(environ))
            begun.append(signal)
        except ImportError as error:
            log.warning("No %s are sent: %s. Install what sends them: pip install 'metier[telemetry]'.", signal, error)
        except Exception as error:
            log.warning("No %s are sent: %s. Look at the variables that begin with OTEL_.", signal, error)
    return tuple(begun)


def agent_instrumentation(environ: Mapping[str, str] = os.environ) -> list[Instrumentation]:
    """Return the capabilities that give an agent of pydantic-ai its spans; empty where nobody is told.

    What users and models say is not sent unless `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`.
    """
    if not is_tracing():
        return []
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.models.instrumented import InstrumentationSettings

    captures = environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower() == "true"
    settings = InstrumentationSettings(
        include_content=captures, include_binary_content=False, include_model_request_parameters=captures
    )
    return [Instrumentation(settings)]


def _exporter_name(signal: Signal, environ: Mapping[str, str]) -> str:
    chosen = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower()
    if chosen:
        return chosen
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return "otlp" if any(environ.get(name) for name in endpoints) else "none"


def _exporter(signal: Signal, name: str, environ: Mapping[str, str]) -> Any:
    if (name, signal) not in _EXPORTERS:
        raise ValueError(f"there is no exporter {name[:40]!r} here; they are otlp, console and none")
    if name == "otlp":
        variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        asked = next((environ[variable] for variable in variables if environ.get(variable)), _PROTOCOL)
        if asked.strip().lower() != _PROTOCOL:
            raise ValueError(f"the protocol {asked[:40]!r} is not spoken here, only {_PROTOCOL} is")
    module, kind = _EXPORTERS[name, signal]
    exporter = getattr(importlib.import_module(module), kind)
    # Standard output belongs to what the command says, and for `metier mcp` to the protocol.
    return exporter(out=sys.stderr) if name == "console" else exporter()


def _begin_traces(exporter: Any, resource: Any) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    _ENDINGS.add(provider.shutdown)


def _begin_metrics(exporter: Any, resource: Any) -> None:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    provider = MeterProvider([PeriodicExportingMetricReader(exporter)], resource, shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    _ENDINGS.add(provider.shutdown)


def _resource(environ: Mapping[str, str]) -> Any:
    from opentelemetry.sdk.resources import Resource

    given = {"service.version": __version__}
    if not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        given["service.name"] = "metier"
    return Resource.create(given)


class _Endings:
    """Send the rest when the process ends: all of it at once, and for no longer than a person would wait.

    The threads that do it are there from the start, as none can be started so late.
    """

    def __init__(self) -> None:
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(self, shutdown: Callable[[], object]) -> None:
        """Have this called at the end."""

        def wait() -> None:
            self._end.wait()
            shutdown()

        if not self._threads:
            atexit.register(self.end)
        self._threads.append(threading.Thread(target=wait, name="metier-telemetry", daemon=True))
        self._threads[-1].start()

    def end(self) -> None:
        """Send what is left."""
        self._end.set()
        last = time.monotonic() + LAST_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, last - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            log.warning(
                "Not all telemetry was sent: no collector took it in %.0f s. Look at OTEL_EXPORTER_OTLP_ENDPOINT.",
                LAST_SECONDS,
            )


class _Complaints(logging.Handler):
    """Says on standard error why telemetry goes nowhere: whatever of ours is wrong, and of what sends it one line."""

    _SENDERS = ("opentelemetry", "urllib3")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def listen(self) -> None:
        """Hear of it, which otherwise nobody would, or would in every detail."""
        for name in (log.name, *self._SENDERS):
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            what = record.getMessage()
        except Exception:
            return
        sender = record.name.partition(".")[0]
        if sender in self._SENDERS:
            # Attempts that are made again are no news yet, and the first that is given up says it for all.
            if record.levelno < logging.ERROR or "opentelemetry" in self._said:
                return
            self._said.add("opentelemetry")
            what = f"Telemetry is not sent: {what}"
        elif what in self._said:
            return
        self._said.add(what)
        plain = "".join(letter if letter.isprintable() else " " for letter in what[:500])
        print(f"warning: {plain}", file=sys.stderr)


_ENDINGS = _Endings()
_COMPLAINTS = _Complaints()
