"""The node: a machine that is bound to a server, whose policy, approvals and quarantines hold here.

`binding` says which server that is, `state` is what the server signed last, `lease` says for how long it holds without
the server, and `bound_node` is all of that as decisions see it. `connection` asks the server. Nothing here decides by
itself: `node_checks` are checks like all others.
"""
