"""The policy files that decisions were made under, word by word."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from metier.store.codec import now, require_key

if TYPE_CHECKING:
    from metier.store.rows import TenantRows


class PolicyTexts:
    """The policies that counted for a tenant at some time."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def keep(self, digest: str, layer: str, path: str, text: str) -> bool:
        """Keep a policy file under its digest; False when it was kept already."""
        row = {
            "digest": require_key("digest", digest),
            "layer": layer,
            "path_hash": hashlib.sha256(path.encode(errors="surrogatepass")).hexdigest(),
            "path": path,
            "text": text,
            "loaded_at": now(),
        }
        return self._rows.insert("policies", row, "ignore")

    def texts(self, digest: str) -> dict[str, str]:
        """The files that were kept under a digest, by path."""
        return {row["path"]: row["text"] for row in self._rows.select("policies", {"digest": digest}, ("path",))}
