"""Telemetry goes where the variables of OpenTelemetry say, and nowhere else."""

from __future__ import annotations

import http.server
import importlib.util
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from metier._otel_setup import configure_from_environment

WORK = """
from metier._otel_setup import configure_from_environment
from metier.testing import library
print(*configure_from_environment())
executor = library("greet").session().executor()
assert executor.execute_blocking("skills_load", {"skills": ["greet"]}).success
"""


def worked(variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What a command of ours does: a process of its own, as providers are set once."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", WORK], env=own | dict(variables), capture_output=True, text=True, timeout=60, check=True
    )


@pytest.fixture
def collector() -> Iterator[tuple[str, dict[str, bytes]]]:
    """A collector of OTLP over HTTP: where it is, and what it was sent."""
    sent: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()
        thread.join()


def _has_otlp() -> bool:
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.skipif(not _has_otlp(), reason="what sends OTLP is not installed")
def test_spans_and_metrics_reach_a_collector(collector: tuple[str, dict[str, bytes]]) -> None:
    url, sent = collector
    done = worked({"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"})
    assert done.stdout.split() == ["traces", "metrics"]
    assert b"execute_tool skills_load" in sent["/v1/traces"]
    assert b"metier.skill.activations" in sent["/v1/metrics"]
    assert b"service.name\x12\x08\n\x06metier" in sent["/v1/traces"]  # where it was given no other name


def test_what_goes_to_the_console_leaves_standard_output_alone_and_what_cannot_be_set_up_is_said_there() -> None:
    done = worked(
        {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "bogus", "OTEL_SERVICE_NAME": "skills-of-acme"}
    )
    assert done.stdout.split() == ["traces"]
    assert '"gen_ai.skill.name": "greet"' in done.stderr
    assert '"service.name": "skills-of-acme"' in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("warning")] == [
        "warning: No metrics are sent: there is no exporter 'bogus' here; they are otlp, console and none. "
        "Look at the variables that begin with OTEL_."
    ]


def test_nothing_is_imported_where_nothing_is_asked_for() -> None:
    statement = (
        "from metier._otel_setup import configure_from_environment; import sys; configure_from_environment({})\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", statement], check=True, timeout=60)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "there is no exporter 'zipkin' here"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only http/protobuf is"),
    ],
)
def test_what_cannot_be_set_up_is_a_warning(
    variables: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert configure_from_environment(variables) == ()
    assert said in caplog.text


@pytest.mark.skipif(not _has_otlp(), reason="what sends OTLP is not installed")
@pytest.mark.parametrize("dead", ["silent", pytest.param("gone", marks=pytest.mark.slow)])
def test_a_dead_collector_holds_nobody_up_and_is_named_once(dead: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        if dead == "gone":
            server.close()
        began = time.monotonic()
        done = worked({"OTEL_EXPORTER_OTLP_TIMEOUT": "120", "OTEL_EXPORTER_OTLP_ENDPOINT": url})
        assert time.monotonic() - began < 45  # each exporter would wait two minutes
        assert done.stdout.split() == ["traces", "metrics"]
        assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["warning"]
        assert "Look at OTEL_EXPORTER_OTLP_ENDPOINT." in done.stderr


def test_a_part_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("trace_exporter", "metric_exporter"):
        monkeypatch.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.http.{name}", None)
    assert configure_from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) == ()
    assert "pip install 'metier[telemetry]'" in caplog.text


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"},
        {},
    ],
)
def test_nothing_is_set_up_where_it_is_turned_off(variables: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert configure_from_environment(variables) == ()
    assert caplog.text == ""
