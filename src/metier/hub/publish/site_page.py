"""The page of a registry for people: static, without scripts, and safe whatever a skill says of itself."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import TYPE_CHECKING

from metier.hub.sources.discovery_index import deprecation
from metier.skill import shown

if TYPE_CHECKING:
    from metier.hub.publish.site import BuiltSite, PublishedRelease

_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
article { border-top: 1px solid #8888; padding: 1rem 0; }
h2 { margin: 0; font-size: 1.2rem; }
code, pre { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: .5rem 0; }
dt { opacity: .7; }
dd { margin: 0; }
.gone { border-left: 4px solid #c60; padding-left: .5rem; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"


def page(built: BuiltSite, description: str = "") -> str:
    """The page; everything in it that skills and people wrote is text, and nothing of it is a tag."""
    address = built.url or "ADDRESS"
    about = f"<p>{_text(description)}</p>\n" if description else ""
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(built.name)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{_text(built.name)}</h1>\n{about}"
        f"<pre>metier add {_text(address)}\nnpx skills add {_text(address)}\n"
        f"claude plugin marketplace add {_text(f'{built.url}/marketplace.json' if built.url else 'FOLDER')}</pre>\n"
        + "".join(_article(built, one, address) for one in built.current)
        + "</body>\n</html>\n"
    )


def _article(built: BuiltSite, one: PublishedRelease, address: str) -> str:
    versions = [
        f'<a href="{escape(other.url)}">{_text(other.version or "without a version")}</a>'
        + (f" (yanked: {_text(other.yanked)})" if other.yanked else "")
        for other in built.releases
        if other.name == one.name
    ]
    rows = {
        "version": _text(one.version),
        "licence": _text(one.license),
        "can": _text(", ".join(one.details["permissions"]["capabilities"])) or "instructions only",
        "requires": _text(", ".join(one.details.get("requires", ()))),
        "signature": _text(one.details.get("signature", "")),
        "content": f"<code>{_text(one.digest)}</code>",
        "archive": f"<code>sha256:{_text(one.sha256)}</code>",
        "versions": ", ".join(versions),
        "install": f"<code>metier add {_text(address)} {_text(one.name)}</code>",
    }
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in rows.items() if value)
    said = built.deprecated.get(one.name)
    gone = f'<p class="gone">{_text(deprecation(said))}</p>\n' if said else ""
    return (
        f'<article id="{escape(one.name)}">\n<h2>{_text(one.name)}</h2>\n<p>{_text(one.description)}</p>\n{gone}'
        f"<dl>\n{listed}</dl>\n</article>\n"
    )


def _text(text: str) -> str:
    return escape(shown(text, 2_000))
