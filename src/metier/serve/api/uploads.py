"""Uploads of archives: the bytes of a request, of a kind that archives have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends, Request

from metier.serve.api.problems import ProblemError

ARCHIVE_TYPES = ("application/gzip", "application/zip", "application/x-gzip", "application/octet-stream")


def _upload(request: Request, body: Annotated[bytes, Body(media_type="application/gzip")]) -> bytes:
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in ARCHIVE_TYPES:
        raise ProblemError(
            415, "unsupported-media-type", "An upload is an archive.", hint=f"Send one of {', '.join(ARCHIVE_TYPES)}."
        )
    return body


UploadOf = Annotated[bytes, Depends(_upload)]
"""The archive that a request has as its body."""
