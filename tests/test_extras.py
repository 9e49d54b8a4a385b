"""Optional parts: whatever is missing, the error names the extra that brings it."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import metier
from metier.errors import MetierError

pytestmark = pytest.mark.covers("USE-10")

PYPROJECT = Path(metier.__file__).parents[2] / "pyproject.toml"
PARTS = [
    ("agents", "metier.dialect.openai_agents", "Skills", "openai-agents"),
    ("langchain", "metier.dialect.langchain", "Skills", "langchain"),
    ("langgraph", "metier.dialect.langchain", "Skills", "langchain"),
    ("agent_framework", "metier.dialect.agent_framework", "Skills", "agent-framework"),
    ("pydantic_ai", "metier.dialect.pydantic_ai", "Skills", "agent"),
    ("pydantic_ai", "metier.agent", "Agent", "agent"),
    ("pydantic_ai", "metier.agent", "Conversation", "agent"),
    ("pydantic_ai", "metier.testing", "ScriptedModel", "agent"),
    ("mcp", "metier.serve.mcp", "SkillServer", "mcp"),
    ("mcp_types", "metier.serve.mcp", "SkillServer", "mcp"),
    ("psycopg", "metier.store.postgresql", "", "postgres"),
]


@pytest.fixture
def without() -> Iterator[Callable[..., None]]:
    """Takes a package away, with all that was imported of it and of others; everything is as it was afterwards."""
    before = dict(sys.modules)

    def take(package: str, *others: str) -> None:
        for name in before:
            if any(name == one or name.startswith(f"{one}.") for one in (package, *others)):
                del sys.modules[name]
        sys.modules[package] = None  # type: ignore[assignment]

    yield take
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.parametrize(("package", "module", "name", "extra"), PARTS)
def test_a_missing_package_is_an_import_error_that_names_the_extra(
    without: Callable[..., None], package: str, module: str, name: str, extra: str
) -> None:
    without(package, "metier")
    with pytest.raises(ImportError) as caught:
        getattr(importlib.import_module(module), name)
    assert getattr(caught.value, "code", "") == "part-missing"
    assert getattr(caught.value, "hint", "") == f"pip install 'metier[{extra}]'"
    assert "Traceback" not in str(caught.value)


def test_a_missing_package_is_an_error_of_ours() -> None:
    from metier.errors import PartMissing

    error = PartMissing("It is not here.", hint="pip install it", package="x")
    assert isinstance(error, MetierError) and isinstance(error, ImportError)
    assert (str(error), error.context) == ("It is not here.", {"package": "x"})


def test_every_extra_that_an_error_names_is_there() -> None:
    from metier.agent.models import PROVIDERS

    extras = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    assert {extra for *_, extra in PARTS} <= extras.keys()
    for provider in PROVIDERS:
        # The same as with all providers, but for the others.
        of_all = [re.sub(r"(?<=pydantic-ai-slim)\[[a-z,]+\]", f"[{provider}]", one) for one in extras["agent"]]
        assert extras[f"agent-{provider}"] == of_all


def test_agents_come_with_the_common_providers_and_all_is_all_but_frameworks_and_what_brings_pytorch() -> None:
    from metier.agent.models import PROVIDERS

    extras = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    assert any(one.startswith(f"pydantic-ai-slim[{','.join(PROVIDERS)}]") for one in extras["agent"])
    parts = {name for name in extras if not name.startswith("agent-")}
    (named,) = extras["all"]
    assert named == f"metier[{','.join(sorted(parts - {'all', 'langchain', 'minilm', 'openai-agents'}))}]"


@pytest.mark.parametrize(
    ("model", "package", "install"),
    [
        ("openai:gpt-5", "openai", "metier[agent-openai]"),
        ("anthropic:claude-sonnet-5", "anthropic", "metier[agent-anthropic]"),
        ("google:gemini-3-pro", "google.genai", "metier[agent-google]"),
        ("groq:llama-4", "groq", "pydantic-ai-slim[groq]"),
    ],
)
def test_a_model_whose_provider_is_missing_says_what_to_install(
    without: Callable[..., None], model: str, package: str, install: str
) -> None:
    provider = model.partition(":")[0]
    without(package, f"pydantic_ai.models.{provider}", f"pydantic_ai.providers.{provider}", "metier")
    from metier.agent.models import model_of
    from metier.errors import ModelMissing

    with pytest.raises(ModelMissing) as caught:
        model_of(model)
    assert f"pip install '{install}'" in caught.value.hint
