"""The settings of a server: from a file in YAML, and from the options of the command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, ValidationError

from metier._hosts import authority, is_loopback
from metier._paths import open_plain
from metier.errors import InvalidArgument
from metier.skill import shown

_MAX_BYTES = 1024 * 1024
Role = Literal["viewer", "author", "reviewer", "admin"]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RoleMapping(_Settings):
    """The role, and the tenant, of people whose claim has a value."""

    claim: str = "groups"
    value: str
    role: Role
    tenant: str = ""


class OidcSettings(_Settings):
    """The provider by which people sign in."""

    issuer: AnyHttpUrl
    client_id: str
    client_secret_file: Path | None = None
    """The file of the secret; a public client has none, and PKCE protects it."""
    device_client_id: str = ""
    """The client for command lines, which can keep no secret; by default the other one, where that has none either."""
    scopes: tuple[str, ...] = ("openid", "profile", "email", "groups")
    name_claim: str = "email"
    roles: tuple[RoleMapping, ...] = ()
    """The first that fits counts. Who fits none may not sign in."""

    @property
    def client_secret(self) -> str | None:
        """The secret in the file, as it is there now."""
        if self.client_secret_file is None:
            return None
        with open_plain(os.fspath(self.client_secret_file)) as file:
            return file.read(_MAX_BYTES).decode().strip()

    @property
    def device_client(self) -> str:
        """The client for command lines; "" where there is none."""
        return self.device_client_id or ("" if self.client_secret_file is not None else self.client_id)


class ClientLimits(_Settings):
    """The most that one client, and all together, may ask for."""

    body_bytes: Annotated[int, Field(ge=1024)] = 64 * 1024 * 1024
    json_bytes: Annotated[int, Field(ge=1024)] = 4 * 1024 * 1024
    request_seconds: Annotated[float, Field(gt=0)] = 60
    requests_per_minute: Annotated[int, Field(ge=1)] = 1_200
    """Of one credential, or of one address without one, in this process."""
    concurrent: Annotated[int, Field(ge=1)] = 64


class NodeSettings(_Settings):
    """The state of nodes."""

    lease_seconds: Annotated[int, Field(ge=60)] = 24 * 3600
    """How long the state of a node holds without the server; policy may say less."""


class McpSettings(_Settings):
    """The skills that MCP clients get at `/mcp`."""

    scripts: Literal["allow", "ask", "deny"] = "deny"
    """Whether scripts of skills run for them, in sandboxes on this machine."""


class RegistrySettings(_Settings):
    """Access to the registry."""

    anonymous: bool | None = None
    """Whether it takes no credential to read it; by default only where no other machine reaches the server."""


class WebhookSettings(_Settings):
    """Limits of the places that webhooks may lead to."""

    allow_private: bool = False
    """Whether receivers may have private addresses, and be on this machine: whoever may add one reaches these."""


class ServerSettings(_Settings):
    """All settings of a server."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8400
    public_url: AnyHttpUrl | None = None
    """The address by which clients reach it, where that is another than the one it listens on."""
    allowed_hosts: tuple[str, ...] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    allow_plain_http: bool = False
    """Whether it may listen beyond this machine without TLS, because a proxy before it has TLS."""
    access_log: bool = True
    """Whether each request gets a line in the log."""
    limits: ClientLimits = ClientLimits()
    nodes: NodeSettings = NodeSettings()
    registry: RegistrySettings = RegistrySettings()
    webhooks: WebhookSettings = WebhookSettings()
    mcp: McpSettings = McpSettings()
    oidc: OidcSettings | None = None

    @property
    def has_tls(self) -> bool:
        """Whether it speaks TLS itself."""
        return self.tls_certificate is not None and self.tls_key is not None

    @property
    def is_secure(self) -> bool:
        """Whether clients speak TLS, to it or to a proxy before it."""
        return self.has_tls or (self.public_url is not None and self.public_url.scheme == "https")

    @property
    def address(self) -> str:
        """The address by which people reach it; "" where that is not known before it listens."""
        return self.url if self.port or self.public_url is not None else ""

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def is_alone(self) -> bool:
        """Whether only this machine reaches it, and no proxy passes on what others ask."""
        return self.is_local and self.public_url is None and not self.allowed_hosts

    @property
    def url(self) -> str:
        """The address by which clients reach it, without a slash at its end."""
        if self.public_url is not None:
            return str(self.public_url).rstrip("/")
        return f"{'https' if self.has_tls else 'http'}://{authority(self.host, self.port)}"

    @property
    def has_open_registry(self) -> bool:
        """Whether everybody who reaches it may read the registry of the installation."""
        return self.is_alone if self.registry.anonymous is None else self.registry.anonymous

    @property
    def has_open_metrics(self) -> bool:
        """Whether metrics take no credential: on this machine alone, unless nothing may be read without one."""
        return self.is_alone and self.has_open_registry


def read_settings(path: str | os.PathLike[str] | None, **options: object) -> ServerSettings:
    """The settings in a file, replaced by those options that are not None; raises `InvalidArgument` for wrong ones."""
    found: object = {}
    try:
        if path is not None:
            with open_plain(os.fspath(path)) as file:
                found = yaml.safe_load(file.read(_MAX_BYTES)) or {}
        if not isinstance(found, dict):
            raise InvalidArgument("The settings of a server are a mapping.", hint="Write `port: 8400` and the like.")
        return ServerSettings.model_validate(
            {**found, **{name: one for name, one in options.items() if one is not None}}
        )
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"{shown(str(path), 300)} cannot be read: {shown(str(error), 300)}.", hint="Correct it."
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidArgument(
            f"The setting {shown(where)} is wrong: {shown(first['msg'], 200)}.",
            hint="Correct it in the file, or the option.",
        ) from None
