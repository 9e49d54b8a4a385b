"""Commands that publish to, and deploy at, a server."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from metier.cli.identity import person_token
from metier.cli.output import Style, print_done, print_json
from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from metier.hub.registry.server_client import RegistryServer


def publish_to_server(options: Namespace) -> None:
    """Publish a skill to the server that `--to` names, or submit it there."""
    from metier.hub.registry.server_client import read_versioned, split_namespace

    url, namespace = split_namespace(options.to)
    _refuse_dry_run(options)
    server, release = _server(url), read_versioned(options.path, options.sign or "")
    answer = server.publish(
        release, namespace, reason=options.reason, accept_findings=options.accept_findings, submit=options.submit
    )
    if options.json:
        print_json({**answer, "target": server.url})
        return
    how = "waits for review at" if options.submit else "is published at"
    print_done(f"{_label(answer)} {how} {Style.text(server.url)}")
    _print_content(answer)


def deploy_to_server(options: Namespace, path: str) -> None:
    """Deploy a skill to all nodes of the server that `--server` names, or of which this machine is a node."""
    from metier.guard.node.binding import require_binding
    from metier.hub.publish.release import read_release
    from metier.hub.registry.server_client import split_namespace

    url, namespace = split_namespace(options.server or require_binding().url)
    _refuse_dry_run(options)
    server, release = _server(url), read_release(path)
    answer = server.deploy(release, namespace, reason=options.reason, accept_findings=options.accept_findings)
    if options.json:
        print_json({**answer, "target": server.url})
        return
    print_done(f"{_label(answer)} is deployed to all nodes of {Style.text(server.url)}")
    _print_content(answer)
    if answer.get("not_approved"):
        why = Style.text(str(answer["not_approved"]), 1_000)
        print(Style(sys.stdout).warn(f"  Its content is not approved by that. {why}"))


def _server(url: str) -> RegistryServer:
    from metier.hub.registry.server_client import RegistryServer

    return RegistryServer(url, person_token(url))


def _refuse_dry_run(options: Namespace) -> None:
    if options.dry_run:
        raise InvalidArgument(
            "A server decides by its own policy, which is not tried from here.", hint="Leave out --dry-run."
        )


def _label(answer: dict[str, Any]) -> str:
    return f"{Style.text(str(answer.get('name')))} {Style.text(str(answer.get('version')))}"


def _print_content(answer: dict[str, Any]) -> None:
    namespace, digest = (Style.text(str(answer.get(name))) for name in ("namespace", "digest"))
    print(Style(sys.stdout).dim(f"  content {digest}, namespace {namespace}"))
