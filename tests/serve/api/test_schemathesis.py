"""Schemathesis: requests that nobody thought of, made from the OpenAPI document and from earlier answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.serve.api.conftest import Api
from tests.serve.api.objects import make_objects
from tests.serve.machine import Machine

from metier.serve.api.openapi import PATH
from metier.serve.api.settings import ServerSettings
from metier.store import Store

OBJECTS = "METIER_TEST_OBJECTS"
SECONDS = int(os.environ.get("METIER_SCHEMATHESIS_SECONDS", "300"))
HERE = Path(__file__).parent
EXCLUDED = "^/api/v1/(sign-in/.*|session|nodes/me/events|audit/stream)$"
"""A sign-in asks a provider, signing out ends the credential, and streams end only with the server."""
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)


@pytest.mark.slow
@pytest.mark.long
def test_no_request_has_an_answer_that_the_document_does_not_describe(tmp_path: Path) -> None:
    host = Machine(tmp_path / "host")
    config = tmp_path / "settings.yaml"
    config.write_text("access_log: false\nlimits: {requests_per_minute: 1000000}\n")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    shutil.copy(HERE / "schemathesis_hooks.py", hooks / "schemathesis_hooks.py")
    with Store.open(f"sqlite:///{host.environ['METIER_DATA']}/metier.db") as store:
        objects = make_objects(Api(store, ServerSettings()))
    with host.server("--config", str(config)) as server:
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                *("run", f"{server.url}{PATH}", "--checks", ",".join(CHECKS), "--max-time", str(SECONDS)),
                *("--exclude-path-regex", EXCLUDED, "--continue-on-failure", "--no-color"),
                *("--generation-database", "none", "--seed", "1", "--suppress-health-check", "all"),
            ],
            cwd=tmp_path,
            env={
                **host.environ,
                "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
                "PYTHONPATH": path(hooks),
                OBJECTS: json.dumps(objects),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS + 300,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]


def path(*folders: Path) -> str:
    """The folders in which Python looks for modules, besides those where it looks already."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH", "")])])
