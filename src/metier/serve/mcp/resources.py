"""Skills as resources, and the skills extension over them (`io.modelcontextprotocol/skills`).

What is read here is read by a host, which shows it to a model or not. The guard decides about each file, as where a
model reads it, and records it. Of a skill that the conversation has loaded, it is what was loaded.
"""

from __future__ import annotations

import base64
import mimetypes
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio.to_thread
from mcp_types import (
    BlobResourceContents,
    EmptyResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from metier._cache import BoundedCache
from metier.errors import FileMissing, MetierError, SkillNotFound
from metier.guard import Action
from metier.guard.question import consent_from_any
from metier.serve.mcp.connection import conversation_of, kit_of
from metier.serve.mcp.manifests import FILE, MAX_BYTES, SkillManifests
from metier.serve.mcp.pages import page_of, place_of
from metier.serve.mcp.served_files import ServedFile, ServedFiles
from metier.serve.mcp.uris import parse_uri, uri_of
from metier.session.active_skills import is_same, subject_of
from metier.skill import FolderPackage, shown
from metier.skill.package import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_types import (
        InputRequiredResult,
        ReadResourceRequestParams,
        SubscribeRequestParams,
        UnsubscribeRequestParams,
    )

    from metier import Session
    from metier.dialect import Kit
    from metier.guard.governance import InForce
    from metier.guard.question import Answers
    from metier.library import Entry
    from metier.serve.mcp.connection import ClientConnection, Context
    from metier.serve.mcp.conversations import Conversations
    from metier.serve.mcp.elicitation import Questions
    from metier.session.active_skills import ActiveSkill
    from metier.skill import PackageListing

    Served: TypeAlias = TextResourceContents | BlobResourceContents

EXTENSION = "io.modelcontextprotocol/skills"
FOLDER = "inode/directory"
_MAX_AGREED = 10_000
_FRESHNESS = {"ttlMs": 0, "cacheScope": "private"}
"""Whatever is listed may be blocked or edited a moment later."""


class ByUri(RequestParams):
    """The parameters of a request about one skill."""

    uri: str


class FolderParams(PaginatedRequestParams):
    """The parameters of a request for what is in a folder."""

    uri: str


class Resources:
    """The files of skills, by URI."""

    def __init__(self, conversations: Conversations, questions: Questions) -> None:
        self._conversations = conversations
        self._questions = questions
        self._manifests = SkillManifests()
        self._contents = ServedFiles(conversations.library)
        self._agreed: BoundedCache[tuple[str, str], None] = BoundedCache(_MAX_AGREED)

    async def list_skills(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        """`skills/list`."""

        def listed() -> dict[str, Any]:
            skills, cursor = page_of(self._skills(place_of(params.cursor)), weight=_weight)
            return {"skills": skills, **({"nextCursor": cursor} if cursor else {}), **_FRESHNESS}

        return await anyio.to_thread.run_sync(listed)

    async def get_skill(self, ctx: Context, params: ByUri) -> dict[str, Any]:
        """`skills/get`."""
        session = (await kit_of(ctx) or self._conversations.window).session

        def found() -> dict[str, Any]:
            address = parse_uri(params.uri)
            if address.path != FILE:
                raise SkillNotFound(
                    f"{shown(params.uri, 200)!r} is no address of a skill.", hint="It ends in /SKILL.md."
                )
            entry = self._entry(address.skill)
            subject = subject_of(entry, self._conversations.library.digest(entry))
            with session.context.audited(Action(point="read", skill=subject, path=FILE, by="host")):
                return {"skill": self._manifest(entry), **_FRESHNESS}

        return await self._conversations.guard.in_thread(found)

    def _skills(self, after: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for entry in self._shown(after):
            try:
                yield entry.name, self._manifest(entry)
            except MetierError:
                continue  # it is in the log, and a bad skill hides no good one

    def _manifest(self, entry: Entry) -> dict[str, Any]:
        """The manifest of a skill that is not loaded: where policy shows its name alone, nothing that describes it."""
        is_bare = bool(entry.description) and not self._conversations.window.session.parts.known.description(entry)
        # What is refused when it is read is not listed: a host that verifies a skill reads all that is.
        has_scripts = self._conversations.guard.policy.script_reads == "allow"
        return self._manifests.of(entry).as_dict(is_bare=is_bare, has_scripts=has_scripts)

    async def read_folder(self, ctx: Context, params: FolderParams) -> dict[str, Any]:
        """`resources/directory/read`."""
        session = (await kit_of(ctx) or self._conversations.window).session

        def found() -> dict[str, Any]:
            address, after = parse_uri(params.uri), place_of(params.cursor)
            entry = self._entry(address.skill)
            one = _active_skill(session, entry)
            children = _children(entry, entry.package.listing() if one is None else one.listing, address.path)
            if not children:
                raise FileMissing(f"{shown(params.uri, 200)!r} is no folder of a skill.", hint="Name a folder of one.")
            behind = ((name, child) for name, child in sorted(children.items()) if name > after)
            listed, cursor = page_of(behind)
            resources = [child.model_dump(by_alias=True, mode="json", exclude_none=True) for child in listed]
            return {"resources": resources, **({"nextCursor": cursor} if cursor else {})}

        return await anyio.to_thread.run_sync(found)

    async def list(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """The instructions of each skill; its other files are found from there."""

        def listed() -> ListResourcesResult:
            after = place_of(params.cursor if params is not None else None)
            resources, cursor = page_of((entry.name, self._resource(entry)) for entry in self._shown(after))
            return ListResourcesResult(resources=resources, next_cursor=cursor)

        return await anyio.to_thread.run_sync(listed)

    async def templates(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        """The template of the URI of a file."""
        place_of(params.cursor if params is not None else None)
        template = ResourceTemplate(
            name="skill-file",
            title="A file of a skill",
            uri_template="skill://{skill}/{+path}",
            description="A file of a skill: its name, and the path as its instructions have it.",
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult | InputRequiredResult:
        """The content of a file, byte for byte."""
        kit, guard = await kit_of(ctx), self._conversations.guard

        async def attempt(answers: Answers | None) -> ReadResourceResult:
            with consent_from_any(answers):
                # Another thread costs as much as the file; but over HTTP, others must not wait for the disk.
                is_shared = not ctx.lifespan_context.key
                if is_shared or guard.may_ask or guard.governance.may_take_long:
                    read = await guard.in_thread(self._read, kit, params.uri)
                else:
                    # Earlier records are on the disk before it is decided, and its own before it is served.
                    await guard.finish_records()
                    try:
                        read = self._read(kit, params.uri)
                    finally:
                        await guard.finish_records()
            return ReadResourceResult(contents=[read])

        return await self._questions.settle(ctx, params, [conversation_of(ctx), params.uri], attempt)

    def _read(self, kit: Kit | None, uri: str) -> Served:
        session = (kit or self._conversations.window).session
        address = parse_uri(uri)
        entry = self._entry(address.skill)
        path = address.path
        self._conversations.library.document(entry.name)  # raises where its file hides it by now, or is another skill
        if not path:
            raise FileMissing(f"{shown(uri, 200)!r} is a folder.", hint="Name a file in it, such as SKILL.md.")
        one = _active_skill(session, entry)
        content = self._contents.read(entry, path, limit=MAX_BYTES) if one is None else _of_copy(session, one, path)
        subject = subject_of(entry, content.digest)
        guard, actor = self._conversations.guard, session.context.actor
        # One look for all three decisions, after what they are about was read; another one after somebody was asked.
        in_force: InForce | None = guard.look(actor)[1]
        call = self._tool_call(entry, path)
        if not guard.decide(call, actor, in_force).is_allowed:
            in_force = None
            with session.context.audited(call):
                pass  # somebody agreed
        wanted = session.parts.known.load_action(entry, content.digest, "model")
        if not guard.decide(wanted, actor, in_force).is_allowed:
            in_force = None
            self._require_agreement(session, wanted, subject.digest, is_conversation=kit is not None)
        # What a model may not read, it does not get from a host that reads for it.
        instead = path if _is_script(entry, one, path) else ""
        action = Action(point="read", skill=subject, path=path, command=instead, by="host")
        with session.context.audited(action, in_force=in_force):
            if content.problem is not None:
                raise content.problem
        return _contents(uri, path, content.data)

    def _tool_call(self, entry: Entry, path: str) -> Action:
        """The call of the tool that would read the same, whose policy holds here too: some hosts let models read."""
        words = self._conversations.dialect.words
        if path == entry.key.rpartition("/")[2]:
            return Action(point="call", tool=words.load, arguments={"skills": [entry.name]}, by="host", is_control=True)
        given = {"skill": entry.name, "path": path}
        return Action(point="call", tool=words.read or words.load, arguments=given, by="host", is_control=True)

    def _require_agreement(self, session: Session, wanted: Action, digest: str, *, is_conversation: bool) -> None:
        """Ask about a skill as where a model loads it: some hosts let models read resources.

        Once for its content in a conversation; where there is none, each time.
        """
        agreed = (session.id, digest)
        if agreed in self._agreed:
            return
        with session.context.audited(wanted):
            if is_conversation:
                self._agreed[agreed] = None

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Tell a client of the handshake protocols when a file changes."""
        await anyio.to_thread.run_sync(self._entry, parse_uri(params.uri).skill)
        line: ClientConnection = ctx.lifespan_context
        peer = line.peer(ctx)
        if params.uri not in peer.subscriptions:
            line.require_few([params.uri], beside=len(peer.subscriptions))
            peer.subscriptions.add(params.uri)
        return EmptyResult()

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """Stop telling it."""
        line: ClientConnection = ctx.lifespan_context
        line.peer(ctx).subscriptions.discard(params.uri)
        return EmptyResult()

    def _shown(self, after: str) -> Iterator[Entry]:
        """The skills that a model may know of: what a host reads may be shown to one."""
        for entry in self._conversations.entries(after):
            if not entry.is_hidden_from_models:
                yield entry

    def _entry(self, name: str) -> Entry:
        entry = self._conversations.library.snapshot.view(self._conversations.library.caller).active.get(name)
        if entry is None or not self._conversations.may_know(entry) or entry.is_hidden_from_models:
            raise SkillNotFound(f"Skill {shown(name)!r} was not found.", hint="resources/list has all that there are.")
        return entry

    def _resource(self, entry: Entry) -> Resource:
        file = entry.key.rpartition("/")[2]  # some are written skill.md
        told = self._conversations.window.session.parts.known.description(entry)
        return Resource(uri=uri_of(entry.name, file), name=entry.name, description=told, mime_type="text/markdown")


def _weight(skill: dict[str, Any]) -> int:
    """The share of a page that a skill takes, by its files."""
    return 1 + len(skill["resources"]) // 20


def _active_skill(session: Session, entry: Entry) -> ActiveSkill | None:
    """The skill as it was loaded into a conversation, if it was."""
    return next((one for one in session.active if is_same(one.entry, entry)), None)


def _is_script(entry: Entry, one: ActiveSkill | None, path: str) -> bool:
    if kind_of(path) == "skill":
        return False  # what is read most, and to list all files takes longer than to read it
    return (entry.package.listing() if one is None else one.listing).is_script(path)


def _of_copy(session: Session, one: ActiveSkill, path: str) -> ServedFile:
    """A file of what was loaded, whatever lies in the skill's folder by now."""
    with session.parts.copies.of(one) as root:
        try:
            return ServedFile(digest=one.digest, data=FolderPackage(root).read(path, limit=MAX_BYTES))
        except MetierError as error:
            return ServedFile(digest=one.digest, problem=error)


def _children(entry: Entry, listing: PackageListing, folder: str) -> dict[str, Resource]:
    """The entries of a folder of a skill, by name."""
    prefix = f"{folder}/" if folder else ""
    found: dict[str, Resource] = {}
    for file in listing.files:
        if not file.path.startswith(prefix):
            continue
        name, _, below = file.path.removeprefix(prefix).partition("/")
        uri = uri_of(entry.name, f"{prefix}{name}")
        if below:
            found[name] = Resource(uri=uri, name=name, mime_type=FOLDER)
        else:
            found[name] = Resource(uri=uri, name=name, mime_type=_mime_type(name), size=file.size)
    return found


def _contents(uri: str, path: str, data: bytes) -> Served:
    if b"\0" not in data:
        try:
            return TextResourceContents(uri=uri, mime_type=_mime_type(path), text=data.decode())
        except UnicodeDecodeError:
            pass
    blob = base64.b64encode(data).decode("ascii")
    return BlobResourceContents(uri=uri, mime_type=_mime_type(path, "application/octet-stream"), blob=blob)


def _mime_type(path: str, otherwise: str = "text/plain") -> str:
    if path.lower().endswith(".md"):
        return "text/markdown"
    return mimetypes.guess_type(path)[0] or otherwise
