"""Objects of a tenant, one of each kind, for requests that name them."""

from __future__ import annotations

import re
from typing import Any

from tests.serve.api.conftest import Api

from metier.guard.approvals.policy_changes import set_policy
from metier.hub.registry.deployment import deploy_release
from metier.hub.registry.namespaces import put_namespace
from metier.hub.registry.proposals import propose_release
from metier.hub.registry.publication import publish_release, submit_release
from metier.store import Approval, ApprovalRequest, Person
from metier.store.nodes import ManagedNode
from metier.store.webhooks import Delivery, Webhook

MARK = "zinnober"
"""A word that stands in every object of tenant "", so that an answer shows whether it tells of one."""


_TEXT = f"---\nname: {MARK}\ndescription: Paints it red.\n---\n"


def files(body: str) -> dict[str, tuple[Any, bytes]]:
    """The files of a skill."""
    return {"SKILL.md": ("file", f"{_TEXT}{body}\n".encode())}


def make_objects(api: Api) -> dict[str, str]:
    """Make an object of each kind in tenant ""; returns for what stands before a parameter of a path its value."""
    scope, admin, guard = api.scope, api.person("admin"), api.context.guard("")
    namespace, version = f"{MARK}-paints", "1.0.0"
    put_namespace(scope, admin, namespace, ["user:admin"])
    release = publish_release(scope, admin, namespace, files("Paint."), guard=guard, version=version)
    submitted = submit_release(scope, admin, namespace, files("Paint twice."), guard=guard, version="1.1.0")
    skill = f"{MARK}@registry:{namespace}"
    request = scope.approvals.request(ApprovalRequest(digest=release.digest, skill=skill))
    approval = scope.approvals.add(
        Approval(digest=f"sha256:{'1' * 64}", skill=skill, decision="denied", decided_by="admin")
    )
    set_policy(scope, admin, f"# {MARK}\nversion: 1\n")
    scope.people.add(Person(name=MARK, roles=frozenset({"viewer"})))
    token, _ = scope.people.new_token(MARK, label=MARK)
    scope.nodes.add(ManagedNode(id="node", name=f"{MARK}-laptop", person="admin"))
    hook = Webhook(url=f"https://{MARK}.example", form="json", events=("quarantine",), secret="c2VjcmV0")
    hook = scope.webhooks.add(hook, {"type": "webhook.added", "notes": [f"to {MARK}.example"]})
    delivery = scope.webhooks.add_delivery(Delivery(webhook=hook.id, event="quarantine", payload="{}"))
    deploy_release(scope, admin, namespace, MARK, version, guard=guard)
    proposal = propose_release(scope, admin, MARK, files("Paint thrice."), "Three are better.", guard=guard)
    return {
        "/api/v1/contents/": submitted.digest,
        "/api/v1/nodes/": "node",
        "/api/v1/people/": MARK,
        "/api/v1/proposals/": proposal.id,
        "/api/v1/tokens/": token.id,
        "/api/v1/requests/": request.id,
        "/api/v1/approvals/": approval.id,
        "/api/v1/policy/versions/": "1",
        "/api/v1/deployments/": MARK,
        "/api/v1/webhooks/": hook.id,
        "/api/v1/webhooks/{id}/deliveries/": delivery.id,
        "/api/v1/namespaces/": namespace,
        **package("/api/v1/packages/", namespace, version),
        **package("/api/v1/skills/", namespace, version),
        "/api/v1/skills/{namespace}/{name}/versions/": version,
        "/api/v1/skills/{namespace}/{name}/versions/{version}/files/": "SKILL.md",
        "/api/v1/skills/{namespace}/{name}/diff?from": version,
        "/api/v1/skills/{namespace}/{name}/diff?to": version,
        **package("/api/v1/submissions/", namespace, "1.1.0"),
        "/.well-known/agent-skills/": MARK,
        "/.well-known/agent-skills/{name}/": f"{MARK}-{version}.zip",
        "/.well-known/skills/": MARK,
        "/.well-known/skills/{name}/": "SKILL.md",
        "/plugins/": f"{MARK}-{version}.zip",
        "/v1/packages/": namespace,
        "/v1/packages/{owner}/": MARK,
        "/v1/packages/{owner}/{name}/versions/": version,
    }


def package(prefix: str, namespace: str, version: str) -> dict[str, str]:
    """The parameters of a path that names a release."""
    return {
        prefix: namespace,
        f"{prefix}{{namespace}}/": MARK,
        f"{prefix}{{namespace}}/{{name}}/": version,
    }


def fill(path: str, objects: dict[str, str]) -> str:
    """A path with objects in place of its parameters; raises KeyError where none is known for one."""
    filled, end = "", 0
    for found in re.finditer(r"\{\w+(:path)?\}", path):
        filled += path[end : found.start()] + objects[path[: found.start()]]
        end = found.end()
    return filled + path[end:]


def example(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """A value of a JSON Schema, as small as it may be."""
    if "$ref" in schema:
        return example(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return example(schema[key][0], document)
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: example(properties[name], document) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        items = schema.get("prefixItems") or [schema["items"]] * schema.get("minItems", 0)
        return [example(one, document) for one in items]
    plain = {"integer": schema.get("minimum", 0), "number": 0, "boolean": True}
    return plain.get(schema.get("type", ""), _text(schema))


def _text(schema: dict[str, Any]) -> str:
    if "sha256:" in schema.get("pattern", ""):
        return "sha256:" + "0" * 64
    least: int = schema.get("minLength", 1)
    return "x" * max(1, least)
