"""Real models with skills: see README.md for how to run this, which nothing here does by itself."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anthropic import AsyncAnthropic
from google import genai
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from tests.live.scenario import TARGET, Measured, measure, tasks

from metier.proof.model_table import ModelRow, table_of

pytestmark = pytest.mark.live

MODELS = {"OPENAI": "gpt-5", "ANTHROPIC": "claude-sonnet-5-5", "GEMINI": "gemini-2.5-pro"}


@asynccontextmanager
async def real_model(provider: str, key: str) -> AsyncIterator[Model]:
    """A provider's model, over its own library."""
    name = os.environ.get(f"METIER_LIVE_{provider}") or MODELS[provider]
    if provider == "OPENAI":
        async with AsyncOpenAI(api_key=key) as openai:
            yield OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=openai))
    elif provider == "ANTHROPIC":
        async with AsyncAnthropic(api_key=key) as anthropic:
            yield AnthropicModel(name, provider=AnthropicProvider(anthropic_client=anthropic))
    else:
        client = genai.Client(api_key=key)
        try:
            yield GoogleModel(name, provider=GoogleProvider(client=client))
        finally:
            await client.aio.aclose()
            client.close()


def results_folder() -> Path:
    """The folder for what was measured."""
    folder = Path(os.environ.get("METIER_LIVE_RESULTS") or "live-results")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module", params=sorted(MODELS))
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """What a model did, also written to a file."""
    provider: str = request.param
    key = os.environ.get(f"{provider}_API_KEY")
    if not key:
        pytest.skip(f"{provider}_API_KEY is not set")

    async def run() -> Measured:
        async with real_model(provider, key) as model:
            asked = tasks(int(os.environ.get("METIER_LIVE_TASKS") or 20))
            return await measure(model, asked, tmp_path_factory.mktemp("live"))

    found = anyio.run(run)
    (results_folder() / f"{provider.lower()}.json").write_text(
        json.dumps(found.as_dict(), indent=2) + "\n", encoding="utf-8"
    )
    return found


@pytest.fixture(scope="module")
def rows() -> list[ModelRow]:
    """The rows of the models that were measured."""
    return []


def test_no_task_breaks_off(measured: Measured) -> None:
    assert measured.failures == ()


def test_the_model_finds_the_skill_by_itself(measured: Measured) -> None:
    assert measured.loaded >= 0.9 * measured.tasks


def test_the_model_gets_few_paths_wrong(measured: Measured) -> None:
    assert measured.paths >= measured.tasks
    assert measured.share < TARGET


def test_the_model_ends_with_what_the_script_says(measured: Measured) -> None:
    assert measured.done >= 0.9 * measured.tasks


def test_the_model_keeps_to_the_limits_beside_those_before_it(measured: Measured, rows: list[ModelRow]) -> None:
    rows.append(measured.row)
    table = table_of(rows)
    (results_folder() / "models.md").write_text(table.as_markdown(), encoding="utf-8")
    assert table.is_within_limits, table.verdicts
