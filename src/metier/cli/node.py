"""`metier node`: what this machine has of its server, and the exchange with it."""

from __future__ import annotations

import sys
import time
from argparse import Namespace

from metier._lazy import asdict
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.identity import person_token
from metier.cli.output import Style, plural, print_done, print_json, print_warning, table
from metier.cli.parser import Parser
from metier.errors import MetierError


def add(parser: Parser) -> None:
    parser.example("metier node status")
    status = parser.verb(
        "status",
        "say which server this machine is a node of, and for how long it may be alone",
        "metier node status",
        _status,
    )
    sync = parser.verb("sync", "exchange everything with the server once", "metier node sync", _sync)
    run_ = parser.verb(
        "run",
        "keep this node current until it is stopped, for machines without other programs of ours",
        "metier node run",
        _run,
    )
    listed = parser.verb("list", "list all nodes of the server", "metier node list --json", _list)
    for verb in (status, sync, run_, listed):
        verb.json()


def run(options: Namespace) -> int:
    return options.do(options) or FINE


def _status(options: Namespace) -> int:
    from metier.guard.governance import Governance
    from metier.guard.node.binding import require_binding
    from metier.guard.node.lease import read_lease
    from metier.guard.policy.files import Policies
    from metier.library.places import node_folder

    binding = require_binding()
    governance = Governance(Policies.discover(), store=None)
    effective = governance.effective
    node = governance.policies.node
    fault = node.states(effective.nodes_lease)[-1].fault if node is not None else ""
    state = node.state if node is not None else None
    try:
        lease = read_lease(node_folder(), binding)
        seconds = lease.seconds if effective.nodes_lease is None else min(lease.seconds, effective.nodes_lease)
        reached, left = lease.received, max(0, round(lease.received + seconds - time.time()))
    except MetierError:
        reached, left = 0.0, 0
    found = {
        "server": binding.url,
        "node": binding.node,
        "name": binding.name,
        "tenant": binding.tenant,
        "fault": fault,
        "number": state.number if state is not None else None,
        "skills": [asdict(one) for one in state.skills] if state is not None else [],
        "seconds_left": 0 if fault else left,
        "offline": effective.nodes_offline,
        "online": effective.nodes_online,
    }
    if options.json:
        print_json(found)
        return PROBLEMS if fault else FINE
    style = Style(sys.stdout)
    print(f"{Style.text(binding.name)} ({Style.text(binding.node)}), a node of {Style.text(binding.url)}")
    if reached:
        print(f"  The server was reached {round(time.time() - reached):,} s ago.")
    if state is not None:
        print(
            f"  It deploys {plural(len(state.skills), 'skill')}: {', '.join(one.name for one in state.skills) or '-'}"
        )
    if fault:
        print(style.bad(f"  It holds no longer ({fault}): after the lease, policy says `{effective.nodes_offline}`."))
        return PROBLEMS
    print(f"  What it said holds for another {left:,} s without it.")
    return FINE


def _sync(options: Namespace) -> int:
    from metier.guard.node.binding import require_binding
    from metier.guard.node.exchange import NodeExchange
    from metier.hub.node.content import bring_skills
    from metier.hub.node.reports import Reports

    require_binding()
    exchange = NodeExchange.here()
    assert exchange is not None
    exchange.renew()
    problems = bring_skills(exchange, again=True)
    Reports(exchange).report()
    if options.json:
        number = exchange.state.number if exchange.state is not None else None
        print_json({"server": exchange.binding.url, "number": number, "problems": problems})
    elif not problems:
        print_done(f"This node has what {Style.text(exchange.binding.url)} says.")
    for problem in problems:
        print_warning(Style.text(problem))
    return PROBLEMS if problems else FINE


def _run(options: Namespace) -> None:
    import anyio

    from metier.cli.mcp import log_to_stderr, serve_until_signal
    from metier.guard.node.binding import require_binding
    from metier.hub.node.sync import keep_current

    binding = require_binding()
    log_to_stderr()

    async def keep() -> None:
        await anyio.to_thread.run_sync(keep_current)
        if options.json:
            print_json({"server": binding.url, "node": binding.node})
        else:
            print_done(f"This machine is kept current as a node of {Style.text(binding.url)}. Ctrl-C stops that.")
        sys.stdout.flush()
        await anyio.sleep_forever()

    serve_until_signal(keep)


def _list(options: Namespace) -> None:
    from metier.guard.node.binding import require_binding
    from metier.guard.node.connection import ServerConnection

    url = require_binding().url
    connection, nodes, path = ServerConnection(url, person_token(url)), [], "/api/v1/nodes?limit=200"
    while path:
        page = connection.request("GET", path).json
        nodes += page.get("items", [])
        path = f"/api/v1/nodes?limit=200&cursor={page['next']}" if page.get("next") else ""
    if options.json:
        print_json({"nodes": nodes})
        return
    style = Style(sys.stdout)
    rows = [
        tuple(str(one.get(name) or "-") for name in ("name", "id", "status", "person", "last_seen_at", "fault"))
        for one in nodes
    ]
    print(table(style, ("NODE", "ID", "STATUS", "BY", "SEEN", "FAULT"), rows, paint={2: style.outcome}))
