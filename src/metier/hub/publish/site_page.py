"""The page of a registry for people: static, without scripts, and safe whatever a skill says of itself."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import TYPE_CHECKING

from metier.hub.sources.well_known import deprecation
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.hub.publish.listing import Facts
    from metier.hub.publish.site import BuiltSite

_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
article { border-top: 1px solid #8888; padding: 1rem 0; }
h2 { margin: 0; font-size: 1.2rem; }
pre { font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: .5rem 0; }
dt { opacity: .7; }
dd { margin: 0; overflow-wrap: anywhere; }
.gone { border-left: 4px solid #c60; padding-left: .5rem; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
_PAGE = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>%(name)s</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>%(name)s</h1>
<p>%(description)s</p>
<pre>metier add %(address)s
npx skills add %(address)s
claude plugin marketplace add %(marketplace)s</pre>
%(articles)s</body>
</html>
"""
_ARTICLE = """\
<article id="%(name)s">
<h2>%(name)s</h2>
<p>%(description)s</p>
%(notes)s<dl>
%(rows)s<dt>versions</dt><dd>%(versions)s</dd>
</dl>
</article>
"""


def page(built: BuiltSite) -> str:
    """The page; everything in it that skills and people wrote is text, and nothing of it is a tag."""
    address = built.url or "ADDRESS"
    return _PAGE % {
        "name": _text(built.name),
        "description": _text(built.description),
        "address": _text(address),
        "marketplace": _text(f"{built.url}/marketplace.json" if built.url else "FOLDER"),
        "articles": "".join(_article(releases, address) for releases in built.skills.values()),
    }


def _article(releases: Sequence[Facts], address: str) -> str:
    """The text about the newest release of a skill that was not yanked, or about a skill that has none."""
    one = next((one for one in releases if "yanked" not in one), releases[0])
    is_gone = "yanked" in one
    rows = {
        "version": one.get("version"),
        "licence": one.get("license"),
        "can": ", ".join(one["permissions"]["capabilities"]) or "instructions only",
        "requires": ", ".join(one.get("requires", ())),
        "signature": one.get("signature"),
        "content": one["content"],
        "archive": one["digest"],
        "install": "" if is_gone else f"metier add {address} {one['name']}",
    }
    notes = ["Withdrawn: every version was yanked."] if is_gone else []
    notes += [deprecation(one["deprecated"])] if "deprecated" in one else []
    links = (
        f'<a href=".well-known/agent-skills/{escape(each["url"])}">{_text(each.get("version", "archive"))}</a>'
        + (f" (yanked: {_text(each['yanked'])})" if "yanked" in each else "")
        for each in releases
    )
    return _ARTICLE % {
        "name": escape(one["name"]),
        "description": _text(one["description"]),
        "notes": "".join(f'<p class="gone">{_text(note)}</p>\n' for note in notes),
        "rows": "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>\n" for name, value in rows.items() if value),
        "versions": ", ".join(links),
    }


def _text(text: str) -> str:
    return escape(shown(text, 2_000))
