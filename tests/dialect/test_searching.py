"""Lists and searches of every dialect: by the library's search, page by page, with how many there are."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from metier import Library
from metier.dialect import DialectName
from metier.guard import Guard, MemoryLog
from metier.tools import Executor, ToolResult

Find = Callable[[Executor, str, int], ToolResult]


def skill(name: str, description: str, more: str = "") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n{more}---\nDo it.\n"}


@pytest.fixture(scope="module")
def library() -> Library:
    """401 skills, whose names say little of what they are for."""
    many = [skill(f"helper-{number:03}", f"Helps with chore {number}.") for number in range(394)]
    return Library.from_files(
        *many,
        skill("task-decomposition", "Breaks work into steps."),
        skill("rollout", "Ships containers to a kubernetes cluster."),
        skill("pods", "Looks after pods.", "tags: [kubernetes-ops]\n"),
        skill("kubernetes-costs", "Counts what a cluster costs."),
        skill("code-review", "Reviews changes."),
        skill("k8s-secret", "For people: kubernetes.", "disable-model-invocation: true\n"),
        skill("tides", "Says when the tide is high."),
    )


def listing(executor: Executor, query: str, page: int) -> ToolResult:
    return executor.execute_blocking("list_skills", {"query": query} | ({} if page == 1 else {"page": page}))


def searching(executor: Executor, query: str, page: int) -> ToolResult:
    return executor.execute_blocking("skills_search", {"query": query} | ({} if page == 1 else {"page": page}))


def by_action(executor: Executor, query: str, page: int) -> ToolResult:
    return executor.execute_blocking("skill", {"skill_name": query, "action": "search", "args": str(page)})


WAYS: dict[DialectName, Find] = {"registry": listing, "runtime": searching, "tool": by_action}


@pytest.fixture(params=WAYS)
def find(request: pytest.FixtureRequest, library: Library) -> Callable[[str, int], ToolResult]:
    """Asks for skills as a model of each dialect does that has a tool to find them."""
    executor = library.session(guard=Guard(audit=MemoryLog())).executor(dialect=request.param)

    def find(query: str, page: int = 1) -> ToolResult:
        return WAYS[request.param](executor, query, page)

    return find


def names(result: ToolResult) -> list[str]:
    return [one.get("id") or one["name"] for one in result.result["skills"]]


@pytest.mark.covers("ACC-1")
@pytest.mark.each(
    ("query", "expected"),
    [
        ("kubernetes", {"rollout", "kubernetes-costs", "pods"}),
        ("task decomposition", {"task-decomposition"}),
        ("Decompositions", {"task-decomposition"}),
        ("high tides", {"tides"}),
        ("review of code", {"code-review"}),
    ],
)
def test_a_model_finds_skills_by_words_of_what_they_are_for(
    find: Callable[..., ToolResult], query: str, expected: set[str]
) -> None:
    result = find(query)
    assert result.success
    assert expected <= set(names(result))
    assert "k8s-secret" not in names(result)
    assert result.result["total"] == len(names(result))


@pytest.mark.covers("ACC-1")
def test_the_best_skill_comes_first(find: Callable[..., ToolResult]) -> None:
    assert names(find("kubernetes cluster costs"))[0] == "kubernetes-costs"


@pytest.mark.covers("ACC-1", "Y-15")
def test_parts_of_names_and_tags_find_a_skill_as_well(library: Library) -> None:
    executor = library.session(guard=Guard(audit=MemoryLog())).executor(dialect="registry")
    assert "task-decomposition" in names(listing(executor, "DECOMP", 1))
    assert "pods" in names(listing(executor, "netes-op", 1))
    assert listing(executor, "qqqq", 1).result == {"skills": [], "total": 0}


def pages(find: Callable[..., ToolResult], query: str) -> Iterator[dict[str, Any]]:
    for number in itertools.count(1):
        found = find(query, number).result
        yield found
        if "hint" not in found or number == found["pages"]:
            return
        assert f"={number + 1} gets the next" in found["hint"]


@pytest.mark.covers("ACC-1")
def test_page_after_page_gives_every_skill_once_and_how_many_there_are(library: Library) -> None:
    executor = library.session(guard=Guard(audit=MemoryLog())).executor(dialect="registry")
    found = list(pages(lambda query, page: listing(executor, query, page), ""))
    assert {one["total"] for one in found} == {400}
    assert {one["pages"] for one in found} == {len(found)}
    everything = [one["id"] for page in found for one in page["skills"]]
    assert everything == sorted(entry.name for entry in library if entry.name != "k8s-secret")


@pytest.mark.covers("ACC-1")
@pytest.mark.parametrize(
    "find", ["registry", *(pytest.param(one, marks=pytest.mark.slow) for one in ("runtime", "tool"))], indirect=True
)
def test_what_a_query_finds_has_pages_too(find: Callable[..., ToolResult]) -> None:
    first = find("chore 7")
    assert first.truncated
    assert first.result["at_least"]
    assert first.result["total"] == 200
    everything = [one.get("id") or one["name"] for page in pages(find, "chore 7") for one in page["skills"]]
    assert len(everything) == len(set(everything)) == 200
    assert everything[0] == "helper-007"


@pytest.mark.covers("ACC-1")
@pytest.mark.each("page", [2, 999_999, 10**12])
def test_a_page_that_is_not_there_is_an_error_that_names_the_last(find: Callable[..., ToolResult], page: int) -> None:
    result = find("tides", page)
    assert (result.success, result.result) == (False, None)
    assert result.hint


@pytest.mark.covers("ACC-1")
@pytest.mark.each("args", ["two", "-1", "0", "1.5", "²", "9" * 5_000])
def test_what_is_no_page_is_an_error(library: Library, args: str) -> None:
    executor = library.session(guard=Guard(audit=MemoryLog())).executor(dialect="tool")
    result = executor.execute_blocking("skill", {"skill_name": "tides", "action": "search", "args": args})
    assert result.code == "invalid-argument"


@pytest.mark.covers("ACC-1")
def test_the_catalog_of_the_registry_names_a_tool_that_finds_what_it_leaves_out(library: Library) -> None:
    session = library.session(guard=Guard(audit=MemoryLog()), budget=1_024)
    told = session.instructions(dialect="registry")
    assert "`list_skills`" in told or "list_skills" in told
    assert "rollout" not in told
    found = listing(session.executor(dialect="registry"), "kubernetes", 1)
    assert "rollout" in json.dumps(found.result)
