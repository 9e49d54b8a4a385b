"""Recorded conversations with models: written beside the suite, and replayed offline as long as they are not stale.

A file is one case in one arm with one model, as `evals/recordings/CASE.ARM.MODEL.json`, with every trial of it. Of each
request it has hashes of what the model was shown, of each answer its text and tool calls. The tools of a replay are
real: they run again, and where they, the skill or the prompt give the model another text than then, the recording is
stale.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, cast, get_args

from metier._extras import optional
from metier._json_object import parse_object, value_at
from metier._lazy import dataclass, pattern
from metier._paths import short_digest, write_file
from metier.errors import FileRefused, IntegrityFailed, InvalidArgument
from metier.proof.suite import Note
from metier.proof.trial import Arm
from metier.skill import shown, slug

with optional("Recorded conversations", "pydantic-ai-slim", extra="agent"):
    from pydantic import ValidationError
    from pydantic_ai.messages import (
        ModelMessagesTypeAdapter,
        ModelRequest,
        RetryPromptPart,
        SystemPromptPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.function import AgentInfo

    from metier.proof.suite import BehaviourCase
    from metier.proof.trial import Transcript, Trial
    from metier.skill.package import Files

FOLDER = "evals/recordings"
MAX_BYTES = 8 * 1024 * 1024
MAX_FILES = 1_000
_FORMAT = 1
_KINDS = ("text", "thinking", "tool-call")
_WORDS = {
    "instructions": "its instructions",
    "tools": "its tools",
    "prompt": "the prompt",
    "results": "the results of its calls, which may be the skill itself",
}
"""The parts of a request, in the order in which they are compared."""
_COPY = pattern(r"""[^\s"'<>=:]*/skill-copy-[0-9a-f]+""")
_DURATION = pattern(r'(\\?"duration_ms\\?": )[0-9.e+-]+')
_WORKSPACE, _SKILL_COPY = "{workspace}", "{skill-copy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request to a model and its answer."""

    shown: Mapping[str, str]
    """The hash of each part of the request."""
    response: Mapping[str, Any]
    """The answer as JSON: its parts, its usage, and the name of the model."""

    @classmethod
    def of(cls, parts: Mapping[str, str], response: ModelResponse, trial: Trial) -> Exchange:
        """The exchange of a trial: what a model was shown, and its answer."""
        dumped = ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
        kept = {key: dumped[key] for key in ("parts", "usage", "model_name")}
        return cls(shown=_hash_each(parts), response=json.loads(_portable(json.dumps(kept), trial)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The recorded trials of a case in one arm with one model."""

    case: str
    arm: Arm
    model: str
    trials: tuple[tuple[Exchange, ...], ...]


def shown_parts(messages: Iterable[ModelMessage], parameters: ModelRequestParameters, trial: Trial) -> dict[str, str]:
    """The parts of a request that can differ from another one, as texts that do not depend on folders and times."""
    texts: dict[str, list[str]] = {name: [] for name in _WORDS}
    for message in messages:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, UserPromptPart):
                texts["prompt"].append(str(part.content))
            elif isinstance(part, ToolReturnPart):
                texts["results"].append(part.model_response_str())
            elif isinstance(part, RetryPromptPart):
                texts["results"].append(part.model_response())
            elif isinstance(part, SystemPromptPart):
                texts["instructions"].append(part.content)
    texts["instructions"] += [part.content for part in parameters.instruction_parts or ()]
    tools = [[one.name, one.description, one.parameters_json_schema] for one in parameters.function_tools]
    texts["tools"].append(json.dumps(tools, sort_keys=True))
    return {name: _portable("\n".join(found), trial) for name, found in texts.items()}


def _hash_each(parts: Mapping[str, str]) -> dict[str, str]:
    return {name: hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() for name, text in parts.items()}


def _portable(text: str, trial: Trial) -> str:
    """A text without what differs from trial to trial."""
    for folder in {os.path.realpath(trial.workspace), os.fspath(trial.workspace)}:
        text = text.replace(_as_json(folder), _WORKSPACE).replace(folder, _WORKSPACE)
    return _DURATION.sub(r"\g<1>0", _COPY.sub(_SKILL_COPY, text))


def _as_json(text: str) -> str:
    return json.dumps(text)[1:-1]


class RecordedRunner:
    """Trials with the recorded answers of a model: they cost nothing and reach no network."""

    def __init__(self, model: str, recordings: Iterable[Recording]) -> None:
        self._model = model
        self._recordings = {(one.case, one.arm): one for one in recordings if one.model == model}

    @property
    def name(self) -> str:
        """`recorded:` and the name of the model."""
        return f"recorded:{self._model}" if self._model else "recorded"

    def refusal(self, case: BehaviourCase, arm: Arm, number: int) -> str:
        """The reason why it cannot run a trial: nobody has recorded it."""
        from metier.proof.agent_runner import unmet_need

        found = self._recordings.get((case.id, arm))
        if found is None:
            by = f" with {shown(self._model, 60)}" if self._model else ""
            return f"Nobody has recorded this case {_ARM_WORDS[arm]}{by}; `--record` does that."
        return (
            unmet_need(case)
            if number < len(found.trials)
            else f"Of this case, {len(found.trials)} trials were recorded."
        )

    async def run(self, trial: Trial) -> Transcript:
        """Replay a trial; where it is stale, the error of the transcript says what differs."""
        from metier.proof.agent_runner import MeteredModel, run_agent
        from metier.proof.model_price import FREE

        replay = _Replay(self._recordings[trial.case.id, trial.arm].trials[trial.number], trial)
        model = FunctionModel(replay.answer, model_name=self._model)
        return await run_agent(trial, MeteredModel(model, trial.budget, FREE, trial))


_ARM_WORDS: dict[Arm, str] = {"with": "with the skill", "without": "without the skill", "previous": "before the change"}


class _Replay:
    """The answers of a model as it was recorded, as long as it is asked the same."""

    def __init__(self, exchanges: tuple[Exchange, ...], trial: Trial) -> None:
        self._exchanges = exchanges
        self._trial = trial
        self._place = 0

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Return the recorded answer; raises `IntegrityFailed` where the request is another one."""
        self._place += 1
        if self._place > len(self._exchanges):
            raise self._stale("there were fewer")
        exchange = self._exchanges[self._place - 1]
        now = _hash_each(shown_parts(messages, info.model_request_parameters, self._trial))
        differ = [words for name, words in _WORDS.items() if now[name] != exchange.shown.get(name)]
        if differ:
            raise self._stale(f"what differs: {', '.join(differ)}")
        return self._response(exchange, messages)

    def _stale(self, why: str) -> IntegrityFailed:
        return IntegrityFailed(
            f"Request {self._place} to the model is not the one that was recorded; {why}.", hint="Record it again."
        )

    def _response(self, exchange: Exchange, messages: Iterable[ModelMessage]) -> ModelResponse:
        texts = (str(getattr(part, "content", "")) for message in messages for part in message.parts)
        copy = next((found[0] for text in texts if (found := _COPY.search(text))), _SKILL_COPY)
        text = json.dumps(exchange.response)
        text = text.replace(_WORKSPACE, _as_json(os.fspath(self._trial.workspace))).replace(_SKILL_COPY, _as_json(copy))
        return _response_of(json.loads(text))


def _response_of(data: object) -> ModelResponse:
    """The answer of a model that JSON is; raises `ValueError` for anything but text and calls."""
    parts = value_at(data, "parts")
    if not isinstance(parts, list) or any(value_at(part, "part_kind") not in _KINDS for part in parts):
        raise ValueError("an answer has parts that are neither text nor calls")
    fields = {"kind": "response", "parts": parts, "usage": value_at(data, "usage"), "model_name": ""}
    return cast("ModelResponse", ModelMessagesTypeAdapter.validate_python([fields])[0])


def read_recordings(files: Files) -> tuple[tuple[Recording, ...], tuple[Note, ...]]:
    """The recordings among the files of a skill, and what is wrong with others."""
    found: list[Recording] = []
    notes: list[Note] = []
    paths = [path for path in files if path.startswith(f"{FOLDER}/") and path.endswith(".json")]
    for path in sorted(paths)[:MAX_FILES]:
        mode, data = files[path]
        try:
            if mode == "link":
                raise ValueError("it is a link")
            found.append(_read(data))
        except ValueError as error:
            why = "an answer is not one of a model" if isinstance(error, ValidationError) else str(error)
            notes.append(Note(message=f"The recording is not used: {why}.", path=path, is_error=True))
    return tuple(found), tuple(notes)


def _read(data: bytes) -> Recording:
    known = parse_object(data, most=MAX_BYTES)
    case, arm, model, trials = (known.get(name) for name in ("case", "arm", "model", "trials"))
    if known.get("format") != _FORMAT or not isinstance(trials, list) or arm not in get_args(Arm):
        raise ValueError("it is no recording of this version")
    if not isinstance(case, str) or not isinstance(model, str):
        raise ValueError("it does not say of which case and model it is")
    return Recording(case=case, arm=cast("Arm", arm), model=model, trials=tuple(map(_exchanges, trials)))


def _exchanges(trial: object) -> tuple[Exchange, ...]:
    found = []
    for one in trial if isinstance(trial, list) else ():
        parts, response = value_at(one, "shown"), value_at(one, "response")
        if not isinstance(parts, dict):
            raise ValueError("a request has no hashes")
        _response_of(response)
        found.append(Exchange(shown=parts, response=response))
    return tuple(found)


def write_recording(folder: Path, recording: Recording) -> Path:
    """Write a recording into the folder of a skill, and return its path."""
    if not folder.is_dir():
        raise InvalidArgument(
            f"{shown(os.fspath(folder), 200)} is no folder, so nothing can be recorded there.",
            hint="Record with a skill that is a folder on this disk.",
        )
    place = folder.resolve().joinpath(*FOLDER.split("/"))
    is_behind_link = place.resolve() != place
    if not is_behind_link:
        place.mkdir(parents=True, exist_ok=True)
    if is_behind_link or place.resolve() != place:
        raise FileRefused(f"{shown(os.fspath(place), 200)} is behind a link.", hint="Make it a folder of the skill.")
    # Names that differ in what no file name has must not meet in one file.
    case = slug(recording.case)[:60] or "case"
    name = case if case == recording.case else f"{case}-{short_digest(recording.case.encode(), 6)}"
    path = place / f"{name}.{recording.arm}.{slug(recording.model)[:60] or 'model'}.json"
    trials = [[{"shown": one.shown, "response": one.response} for one in trial] for trial in recording.trials]
    data = {"format": _FORMAT, "case": recording.case, "arm": recording.arm, "model": recording.model, "trials": trials}
    write_file(path, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode(), mode=0o644)
    return path
