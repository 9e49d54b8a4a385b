"""The routes of the API, a module for each kind of resource."""

from metier.serve.api import registry
from metier.serve.api.routes import (
    approvals,
    audit,
    contents,
    decisions,
    deployments,
    health,
    node_exchange,
    nodes,
    packages,
    people,
    policy,
    proposals,
    quarantine,
    runs,
    sign_in,
    skills,
    usage,
    waiting,
    webhooks,
)

ROUTERS = (
    health.router,
    people.router,
    sign_in.router,
    approvals.router,
    proposals.router,
    waiting.router,
    quarantine.router,
    policy.router,
    decisions.router,
    contents.router,
    packages.router,
    deployments.router,
    registry.router,
    # The routes of a node's own come first: `me` is no id.
    node_exchange.router,
    nodes.router,
    webhooks.router,
    skills.router,
    audit.router,
    runs.router,
    usage.router,
)
"""All routers, in the order of the documentation."""
