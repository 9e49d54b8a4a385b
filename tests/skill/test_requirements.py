"""What a skill requires, in every way that authors declare it, and nothing that cannot be a requirement."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.skill import NO_REQUIREMENTS, Requirements, Skill, may_require, parse, requirements_of

KINDS = ("bins", "any_bins", "env", "os", "tools", "mcp")
MOST = 64


def read(fields: str) -> Skill:
    return parse(f"---\nname: a\ndescription: Does it.\n{fields}\n---\nDo it.\n".encode(), folder="a").skill


def declared(fields: str) -> Requirements:
    return requirements_of(read(fields))


def names_of(requirements: Requirements) -> list[str]:
    return [name for kind in KINDS for name in getattr(requirements, kind)]


def test_most_skills_require_nothing() -> None:
    assert declared("license: MIT\nmetadata: {author: me}") is NO_REQUIREMENTS
    assert not NO_REQUIREMENTS


@pytest.mark.each("client", ["openclaw", "clawdbot", "moltbot", "clawdis", "clawd", "hermes", "metier"])
def test_requirements_stand_below_the_name_of_a_client(client: str) -> None:
    fields = f"""metadata:
  {client}:
    emoji: "x"
    primaryEnv: API_KEY
    os: [darwin, linux, win32]
    requires:
      bins: [ffmpeg, yt-dlp]
      anyBins: [brew, apt-get]
      env: [API_KEY]
      config: [browser.enabled]
      mcp: [linear]
      tools: [terminal]
    install: [{{kind: brew, formula: ffmpeg, bins: [never]}}]"""
    assert declared(fields) == Requirements(
        bins=("ffmpeg", "yt-dlp"),
        any_bins=("brew", "apt-get"),
        env=("API_KEY",),
        os=("darwin", "linux", "windows"),
        tools=("terminal",),
        mcp=("linear",),
    )


@pytest.mark.each(
    ("fields", "expected"),
    [
        ("requires: {mcp: [rube]}", Requirements(mcp=("rube",))),
        (
            "requires: {bins: [python3, ffmpeg], env: [A_KEY, B_KEY]}",
            Requirements(bins=("python3", "ffmpeg"), env=("A_KEY", "B_KEY")),
        ),
        ("requires: {python: '>=3.10', binaries: [python3], env: []}", Requirements(bins=("python3",))),
        ("requires: {any_bins: [rg, grep]}", Requirements(any_bins=("rg", "grep"))),
        ("requires: {any-bins: [rg]}", Requirements(any_bins=("rg",))),
        ("requires: {bins: ffmpeg}", Requirements(bins=("ffmpeg",))),
        ("requires: {bins: 'ffmpeg, sox'}", Requirements(bins=("ffmpeg", "sox"))),
        ("requires: {bins: [{name: ffmpeg, version: '6'}]}", Requirements(bins=("ffmpeg",))),
        ("requires: {tools: [browser], mcp_servers: [github]}", Requirements(tools=("browser",), mcp=("github",))),
        (
            "prerequisites: {env_vars: [LINEAR_API_KEY], commands: [curl]}",
            Requirements(bins=("curl",), env=("LINEAR_API_KEY",)),
        ),
        ("required_environment_variables: [A_KEY]", Requirements(env=("A_KEY",))),
        (
            "required_environment_variables:\n  - {name: A_KEY, prompt: Key, help: Ask}\n  - {name: B, optional: true}",
            Requirements(env=("A_KEY",)),
        ),
        ("platforms: [macos]", Requirements(os=("darwin",))),
        ("platforms: [macos, linux, windows]", Requirements(os=("darwin", "linux", "windows"))),
        ("os: [Darwin, macOS, osx]", Requirements(os=("darwin",))),
        ("os: [freebsd, any]", NO_REQUIREMENTS),
        ("platforms: [discord]", NO_REQUIREMENTS),
        ("bins: [docker]", Requirements(bins=("docker",))),
        ("metadata: {requires: {bins: [kraken], skills: [basis-trading]}}", Requirements(bins=("kraken",))),
        ("metadata: {hermes: {requires_tools: [terminal]}}", Requirements(tools=("terminal",))),
    ],
)
def test_requirements_are_understood_as_they_are_written(fields: str, expected: Requirements) -> None:
    assert declared(fields) == expected


@pytest.mark.each(
    ("said", "is_required"),
    [
        ("{description: The key}", True),
        ("{required: true}", True),
        ("{required: false}", False),
        ("{required: No}", False),
        ("{optional: yes}", False),
        ("{optional: false}", True),
        ("{default: 'https://a.example'}", False),
        ("{required: true, default: x}", False),
        ("The key", True),
    ],
)
def test_a_map_of_variables_says_which_may_be_absent(said: str, is_required: bool) -> None:
    expected = Requirements(env=("A_KEY",) if is_required else ())
    assert declared(f"env: {{A_KEY: {said}}}") == expected
    if said.startswith("{"):
        assert declared(f"metadata: {{openclaw: {{envVars: [{{name: A_KEY, {said[1:]}]}}}}") == expected


def test_metadata_may_be_json_text() -> None:
    metadata = {
        "openclaw": {
            "requires": {"bins": ["jq"], "env": {"A": {"required": False}, "B": None, "C": {"required": True}}},
            "os": ["darwin"],
        }
    }
    assert declared(f"metadata: '{json.dumps(metadata)}'") == Requirements(bins=("jq",), env=("B", "C"), os=("darwin",))


@pytest.mark.each("text", ["plain text", "'{broken'", "'[1, 2]'", "'{\"openclaw\": 3}'", "'" + "[" * 5_000 + "'"])
def test_metadata_that_is_text_but_no_json_map_requires_nothing(text: str) -> None:
    assert declared(f"metadata: {text}") == NO_REQUIREMENTS


def test_one_requirement_declared_in_several_places_is_one() -> None:
    fields = """requires: {bins: [jq, git]}
bins: [git]
metadata: {openclaw: {requires: {bins: [curl, jq]}}, hermes: {requires: {bins: [jq]}}}"""
    assert declared(fields) == Requirements(bins=("jq", "git", "curl"))


@pytest.mark.each("written", ["[other-skill, another]", "'other-skill, another'"])
def test_a_list_of_requires_names_skills_and_is_no_requirement(written: str) -> None:
    skill = read(f"requires: {written}")
    assert skill.requires == ("other-skill", "another")
    assert requirements_of(skill) == NO_REQUIREMENTS


def test_a_map_of_requires_names_no_skills() -> None:
    assert read("requires: {bins: [git]}").requires == ()


@pytest.mark.each("fields", ["tools: [Read, Bash]", "metadata: {tools: [Read]}", "tools: [Read]\nos: linux"])
def test_tools_that_a_skill_may_use_are_not_tools_that_it_needs(fields: str) -> None:
    assert declared(fields).tools == ()


def test_tools_that_a_skill_may_use_are_known_in_any_spelling() -> None:
    assert declared("Tools: [Read]\nos: linux").tools == ()


@pytest.mark.each("fields", ["prerequisites: [resume]", "requires: 'dembrandt>=0.12.10'", "prerequisites: Git."])
def test_prose_is_no_requirement(fields: str) -> None:
    assert declared(fields) == NO_REQUIREMENTS


@pytest.mark.parametrize(
    "fields",
    [
        "bins: [jq]",
        "env: [A_KEY]",
        "mcp: [rube]",
        "anyBins: [a, b]",
        "platforms: [macos]",
        "required_environment_variables: [A]",
        pytest.param("any_bins: [a, b]"),
        pytest.param("env_vars: [A_KEY]"),
        pytest.param("mcp_servers: [rube]"),
        pytest.param("binaries: [jq]"),
        pytest.param("metadata: {env_vars: [A_KEY]}"),
        pytest.param("Metadata: {openclaw: {requires: {bins: [jq]}}}"),
    ],
)
def test_a_requirement_means_the_same_alone_and_beside_another(fields: str) -> None:
    beside = declared(f"{fields}\nprerequisites: {{tools: [other]}}")
    assert set(names_of(declared(fields))) == set(names_of(beside)) - {"other"}


def test_a_map_of_requires_is_known_in_any_spelling() -> None:
    assert declared("Requires: {bins: [jq]}") == Requirements(bins=("jq",))


@pytest.mark.each(
    "name",
    [
        "/bin/sh",
        "../sh",
        "a/b",
        "a\\b",
        "C:x",
        "~",
        ".",
        "..",
        "-rf",
        "*",
        "a b",
        "a;b",
        "a|b",
        "$(id)",
        "a\nb",
        "a\0b",
        "\x1b[2J",
        "a\x9bb",
        "a\u202eb",
        "é",
        "",
        " ",
        "a" * 65,
    ],
)
@pytest.mark.parametrize("kind", ["bins", "anyBins"])
def test_what_cannot_be_the_name_of_a_program_is_passed_over(kind: str, name: str) -> None:
    assert declared(f"requires: {{{kind}: [{json.dumps(name)}]}}") == NO_REQUIREMENTS


@pytest.mark.each(
    "name", ["A=1", "1A", "A-B", "a b", "", "$A", "A\nB", "A\0", "é", "A" * 129, "\x1b[2J", "LD_PRELOAD=/tmp/x.so"]
)
def test_what_cannot_be_a_variable_is_passed_over(name: str) -> None:
    assert declared(f"requires: {{env: [{json.dumps(name)}]}}") == NO_REQUIREMENTS


@pytest.mark.each("kind", ["mcp", "tools"])
@pytest.mark.each(
    "name",
    [
        "a b",
        "",
        "a\nb",
        "a\tb",
        "a\0b",
        "\x1b[2J",
        "a" * 129,
        "a\x85b",
        "a\u2028b",
        "a\x7fb",
        "a\x9b2Jb",
        "a\u202eb",
        "a\u2066b",
        "a\u200bb",
    ],
)
def test_the_name_of_a_server_or_tool_is_one_word_that_can_be_shown(kind: str, name: str) -> None:
    assert declared(f"requires: {{{kind}: [{json.dumps(name)}]}}") == NO_REQUIREMENTS


def test_the_name_of_a_server_can_be_encoded() -> None:
    (name,) = declared("""metadata: '{"openclaw": {"requires": {"mcp": ["a\\ud800b"]}}}'""").mcp or ("",)
    is_whole = not any("\ud800" <= character <= "\udfff" for character in name)
    assert is_whole


@pytest.mark.each("kind", ["bins", "anyBins", "env", "mcp", "tools"])
def test_a_huge_list_is_cut(kind: str) -> None:
    many = [f"n{number}" for number in range(2 * MOST + 100)]
    for written in (many, ",".join(many), dict.fromkeys(many, ""), [{"name": name} for name in many]):
        found = names_of(declared(f"requires: {{{kind}: {json.dumps(written)}}}"))
        assert found == many[:MOST]


@pytest.mark.each(
    "value",
    ["[[jq]]", "[[[jq]]]", "[{jq: {name: x}}]", "[{name: [jq]}]", "[{name: {a: b}}]", "[null, '', ~]", "", "{}", "[]"],
)
def test_nested_junk_is_passed_over(value: str) -> None:
    for kind in ("bins", "anyBins", "env", "os", "mcp"):
        fields = f"metadata: {{openclaw: {{requires: {{{kind}: {value}}}}}}}"
        assert set(names_of(declared(fields))) <= {"null", "~"}


def test_requirements_are_not_looked_for_any_deeper() -> None:
    assert declared("metadata: {openclaw: {requires: {requires: {bins: [jq]}, more: {bins: [jq]}}}}") == NO_REQUIREMENTS


WORDS = st.sampled_from(
    (
        *KINDS,
        *("anyBins", "env_vars", "platforms", "requires", "prerequisites", "openclaw", "hermes", "metadata"),
        *("required_environment_variables", "name", "required", "optional", "default", "commands", "macos", "jq"),
    )
)
SCALARS = st.one_of(WORDS, st.text(max_size=12), st.integers(), st.booleans(), st.none(), st.floats())
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=6)), inner, max_size=4)
    ),
    max_leaves=20,
)


def is_acceptable(requirements: Requirements) -> bool:
    names = names_of(requirements)
    return all(isinstance(name, str) and 0 < len(name) <= 128 and not set(name) & set("\0\n\r\t ") for name in names)


@given(st.dictionaries(WORDS, VALUES, max_size=5))
def test_any_frontmatter_has_requirements(fields: dict[str, Any]) -> None:
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in fields.items())
    found = declared(lines)
    assert is_acceptable(found)
    assert set(found.os) <= {"darwin", "linux", "windows"}
    assert Requirements.from_text(found.as_text()) == found


@given(VALUES)
def test_any_json_in_metadata_has_requirements(value: Any) -> None:
    text = json.dumps({"openclaw": value, "requires": value})
    assert is_acceptable(declared(f"metadata: {json.dumps(text)}"))


@given(st.text(max_size=200))
def test_any_text_in_a_frontmatter_has_requirements(text: str) -> None:
    assert is_acceptable(declared(f"requires:{text}"))
    assert is_acceptable(declared(f"metadata:\n  openclaw:\n    requires: {text}"))


@given(st.dictionaries(WORDS, VALUES, max_size=5))
def test_a_frontmatter_that_cannot_require_anything_does_not(fields: dict[str, Any]) -> None:
    skill = read("\n".join(f"{key}: {json.dumps(value)}" for key, value in fields.items()))
    if not may_require(skill.frontmatter):
        assert requirements_of(skill) == NO_REQUIREMENTS


NAMES = st.lists(st.text(min_size=1, max_size=20), max_size=5).map(tuple)


@given(st.builds(Requirements, **dict.fromkeys(KINDS, NAMES)))
def test_requirements_survive_being_kept_as_text(requirements: Requirements) -> None:
    text = requirements.as_text()
    assert Requirements.from_text(text) == requirements
    assert bool(text) == bool(requirements)
    assert text.isascii()


@pytest.mark.parametrize(
    "text",
    [
        "junk",
        "1",
        "null",
        "[]",
        '"bins"',
        '{"bins": 5}',
        '{"bins": null}',
        '{"other": ["a"]}',
        "{",
        pytest.param('{"bins": "abc"}'),
        pytest.param('{"bins": [1]}'),
        pytest.param('{"bins": [["a"]]}'),
        pytest.param('{"bins": {"a": 1}}'),
        pytest.param("[" * 100_000),
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Requirements.from_text(text)
