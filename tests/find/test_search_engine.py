"""Searching a library: the right skill first, for a reason that is said, and nothing that was ruled out."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metier import Library
from metier.errors import InvalidArgument
from metier.library import LAYERS, Layer, Machine, Place
from metier.source import MemorySource

pytestmark = pytest.mark.usefixtures("quiet_files")

Write = Callable[..., Path]
Found = list[tuple[str, float, str]]


@pytest.fixture
def library(tmp_path: Path, write_skill: Write) -> Library:
    folder = tmp_path / "skills"
    write_skill(
        folder / "pdf-forms",
        description="Fill PDF forms.",
        body="Open the document, then write into each field of the page with fillAcroForm.",
        more="tags: [pdf, office]\n",
    )
    write_skill(
        folder / "pdf-merge",
        description="Join several documents into one.",
        body="Append each page to the first document. Never fill anything.",
        more="tags: [pdf]\n",
    )
    write_skill(
        folder / "deploy-kubernetes",
        description="Roll out a service to a cluster.",
        body="Run kubectl apply and watch the rollout status. The exact phrase stands here.",
        more="triggers: [ship it]\n",
    )
    write_skill(
        folder / "shopping-cart",
        description="Rules for the class ShoppingCart.",
        body="A phrase that matches exactly. Check totals of the basket.",
        more='tags: [Office, "two words"]\n',
    )
    write_skill(folder / "release-notes", description="Write notes for a release.", body="List what changed.")
    return Library.from_folder(folder, cache=tmp_path / "cache")


def names(library: Library, query: str, k: int = 10) -> list[str]:
    return [result.name for result in library.search(query, k)]


def found(library: Library, query: str, k: int = 100) -> Found:
    return [(result.name, result.score, result.why) for result in library.search(query, k)]


def skill(name: str, description: str = "Does it.", body: str = "Do it.", more: str = "") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"}


# --- what is found first ---------------------------------------------------------------------------------------------


@pytest.mark.each(
    "query",
    [
        "pdf-merge",
        "PDF-Merge",
        "pdf merge",
        "pdf_merge",
        "  pdf-merge\n",
        "/pdf-merge",
        "$pdf-merge",
        "/pdf-merge fill forms of pdf documents, fill each field",
    ],
)
def test_a_skill_asked_for_by_its_name_comes_first(library: Library, query: str) -> None:
    first = library.search(query)[0]
    assert (first.name, first.score) == ("pdf-merge", 1.0)
    assert first.why.startswith("asked for by name")


@pytest.mark.each(
    "query", ["pdf-froms", "pdf-form", "pdf-fomrs", "pdf-forsm", "pdf-fforms", "pdf-firms", "pdf froms", "/pdf-froms"]
)
def test_a_mistyped_name_finds_the_skill(library: Library, query: str) -> None:
    assert names(library, query)[0] == "pdf-forms"


@pytest.mark.each(
    ("query", "expected"),
    [
        ("kuberentes", "deploy-kubernetes"),
        ("kubernete", "deploy-kubernetes"),
        ("kubernets rollout", "deploy-kubernetes"),
        ("shoping", "shopping-cart"),
        ("relaese", "release-notes"),
    ],
)
def test_a_mistyped_word_of_a_name_finds_the_skill(library: Library, query: str, expected: str) -> None:
    assert names(library, query)[0] == expected


@pytest.mark.each(
    ("query", "expected"),
    [
        ("fillAcroForm", "pdf-forms"),
        ("fillacroform", "pdf-forms"),
        ("ShoppingCart", "shopping-cart"),
        ("shopping_cart", "shopping-cart"),
        ("shoppingCart totals", "shopping-cart"),
        ("kubectl", "deploy-kubernetes"),
        ("ship it", "deploy-kubernetes"),
        ("rolling out services", "deploy-kubernetes"),
        ("What changed since the last release?", "release-notes"),
    ],
)
def test_words_and_identifiers_find_their_skill(library: Library, query: str, expected: str) -> None:
    assert names(library, query)[0] == expected


def test_a_part_of_a_name_finds_it_while_somebody_is_typing(library: Library) -> None:
    assert names(library, "kubern") == ["deploy-kubernetes"]


@pytest.mark.each(
    ("query", "expected"),
    [
        ('"exact phrase"', ["deploy-kubernetes"]),
        ("“exact phrase”", ["deploy-kubernetes"]),
        ('"phrase exact"', []),
        ('"phrase matches exactly"', ["shopping-cart"]),
        ('"exact phrases stand here"', ["deploy-kubernetes"]),
        ('"each page" "first document"', ["pdf-merge"]),
        ('"each page" "exact phrase"', []),
        ('"fill pdf forms"', ["pdf-forms"]),
        ('"pdf merge"', ["pdf-merge"]),
        ('"pdf froms"', []),
        ('"unheard words"', []),
    ],
)
def test_a_phrase_alone_finds_only_skills_that_contain_it(library: Library, query: str, expected: list[str]) -> None:
    assert names(library, query) == expected


def test_a_phrase_beside_words_lifts_the_skill_that_contains_it(library: Library) -> None:
    assert names(library, 'document "each page"')[0] == "pdf-merge"


# --- filters ---------------------------------------------------------------------------------------------------------


@pytest.mark.each(
    ("query", "expected"),
    [
        ("tag:pdf", {"pdf-forms", "pdf-merge"}),
        ("TAG:PDF", {"pdf-forms", "pdf-merge"}),
        ("tag:office", {"pdf-forms", "shopping-cart"}),
        ("tag:pdf tag:office", {"pdf-forms"}),
        ('tag:"two words"', {"shopping-cart"}),
        ("fill tag:pdf document", {"pdf-forms", "pdf-merge"}),
        ("release tag:pdf", set()),
        ("/release-notes tag:pdf", set()),
        ("kubern tag:pdf", set()),
        ('"exact phrase" tag:pdf', set()),
        ("tag:none", set()),
        ("tag:pd", set()),
    ],
)
def test_a_tag_lets_only_its_skills_through(library: Library, query: str, expected: set[str]) -> None:
    assert set(names(library, query)) == expected


def layered(*layers: Layer) -> Library:
    places = [
        Place(layer=layer, source=MemorySource.of(skill(f"in-{layer}", "Find words."), name=layer)) for layer in layers
    ]
    return Library(places, cache=False)


@pytest.mark.each(
    ("query", "expected"),
    [
        ("words layer:project", {"in-project"}),
        ("words LAYER:Project", {"in-project"}),
        ('words layer:"project"', {"in-project"}),
        ("words layer:project layer:plugin", {"in-project", "in-plugin"}),
        ("/in-plugin layer:project", set()),
        ("plugi layer:project", set()),
        ('"find words" layer:enterprise', {"in-enterprise"}),
        ("words layer:project tag:x", set()),
    ],
)
def test_a_layer_lets_only_its_skills_through(query: str, expected: set[str]) -> None:
    assert set(names(layered(*LAYERS), query)) == expected


def test_what_is_no_layer_is_a_word() -> None:
    library = Library.from_files(skill("z-index", "Explains layer order."), skill("other", "Explains nothing."))
    assert names(library, "layer:order") == ["z-index"]


def test_a_filter_at_the_end_of_a_very_long_query_still_holds(library: Library) -> None:
    assert names(library, "pdf document " * 2_000 + " tag:none") == []


@pytest.mark.each("query", [f"pdf tag:{'n' * 101}", f'pdf tag:"{"n" * 101}"'])
def test_a_filter_by_a_very_long_tag_still_holds(library: Library, query: str) -> None:
    assert names(library, query) == []


def test_only_certain_names_may_be_searched(library: Library) -> None:
    allowed = ["pdf-merge", "release-notes"]
    for query, unlisted in itertools.product(("pdf document", "/pdf-forms", "tag:pdf", "for", '"pdf"'), (False, True)):
        assert {one.name for one in library.search(query, names=allowed, include_unlisted=unlisted)} <= set(allowed)
    assert [one.name for one in library.search("pdf", names=allowed)] == ["pdf-merge"]


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.each(
    ("query", "name", "why"),
    [
        ("/pdf-forms", "pdf-forms", "asked for by name; name: pdf, forms"),
        ("kubectl", "deploy-kubernetes", "body: kubectl"),
        ("cluster", "deploy-kubernetes", "description: cluster"),
        ("cluster kubectl", "deploy-kubernetes", "description: cluster; body: kubectl"),
        ('"exact phrase"', "deploy-kubernetes", 'phrase: "exact phrase"; body: exact, phrase'),
        ("tag:office", "shopping-cart", "tag: office"),
        ("kubern", "deploy-kubernetes", "name: kubern"),
        ("kuberentes", "deploy-kubernetes", "name: kubernetes (for kuberentes)"),
    ],
)
def test_a_result_says_why(library: Library, query: str, name: str, why: str) -> None:
    assert {one.name: one.why for one in library.search(query)}[name] == why


def test_a_result_shows_the_skill(library: Library) -> None:
    (result,) = library.search("kubectl")
    assert (result.description, result.layer) == ("Roll out a service to a cluster.", "project")
    assert result.entry.location == library.get("deploy-kubernetes").location


@pytest.mark.each("k", [1, 2, 3])
def test_k_cuts_the_same_list_shorter(library: Library, k: int) -> None:
    for query in ("pdf document", "tag:pdf", "write page", "e", "/pdf-merge document"):
        assert found(library, query, k) == found(library, query)[:k]


@pytest.mark.each("k", [0, -1, True, 1.5, "3", None])
def test_a_k_that_is_no_number_of_results_is_refused(library: Library, k: object) -> None:
    with pytest.raises(InvalidArgument):
        library.search("pdf", k)  # type: ignore[arg-type]


@pytest.mark.each("query", [None, b"pdf", 3, ["pdf"]])
def test_a_query_that_is_no_text_is_refused(library: Library, query: object) -> None:
    with pytest.raises(InvalidArgument):
        library.search(query)  # type: ignore[arg-type]


@pytest.mark.each("query", ["pdf", "document page fill", "/pdf-merge page", "tag:pdf", "a e i", "exact phrase"])
def test_scores_lie_between_0_and_1_and_descend(library: Library, query: str) -> None:
    scores = [result.score for result in library.search(query)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_skills_that_fit_equally_well_come_by_name() -> None:
    same = [skill(name, "Find words.") for name in ("mid", "zoo", "ant", "bee")]
    for order in itertools.permutations(same):
        assert names(Library.from_files(*order), "words") == ["ant", "bee", "mid", "zoo"]


@pytest.mark.each("query", ["", " ", "\n", '""', '"', "the of and", '"to be"', "tag:", "layer:", "!?", "-", "/"])
def test_a_query_that_says_nothing_finds_nothing(library: Library, query: str) -> None:
    assert names(library, query) == []


def test_an_empty_library_finds_nothing(tmp_path: Path) -> None:
    library = Library.from_folder(tmp_path, cache=tmp_path / "cache")
    assert [library.search(query) for query in ("pdf", '"a phrase"', "tag:pdf", "layer:project x")] == [[], [], [], []]


# --- who may find what -----------------------------------------------------------------------------------------------


@pytest.mark.covers("O-106")
@pytest.mark.each("query", ["/deploy", "deploy", "ship code", "tag:ops", '"ship the code"', "dep", "depoly"])
def test_a_skill_for_people_is_found_only_when_unlisted_ones_are_asked_for(query: str) -> None:
    more = "disable-model-invocation: true\ntags: [ops]\n"
    library = Library.from_files(skill("deploy", "Ship the code.", more=more), skill("other"))
    assert [one.name for one in library.search(query)] == []
    assert [one.name for one in library.search(query, include_unlisted=True)] == ["deploy"]


@pytest.mark.covers("O-106")
def test_user_invocable_false_does_not_keep_models_from_finding_it() -> None:
    library = Library.from_files(skill("deploy", "Ship it.", more="user-invocable: false\n"))
    assert names(library, "ship") == ["deploy"]


def test_a_skill_whose_side_file_is_for_people_only_is_not_found_by_models(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "skills" / "deploy", description="Ship the code.")
    side = tmp_path / "skills" / "deploy" / "agents" / "openai.yaml"
    side.parent.mkdir()
    side.write_text("policy:\n  allow_implicit_invocation: false\n")
    library = Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
    assert library.get("deploy").is_hidden_from_models
    assert names(library, "ship code") == []


def test_an_undescribed_skill_that_is_hidden_from_models_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "skills" / "bare").mkdir(parents=True)
    (tmp_path / "skills" / "bare" / "SKILL.md").write_text("---\nname: bare\n---\nShip the code.\n")
    library = Library.from_folder(tmp_path / "skills", cache=False, on_missing_description="hide")
    assert library.get("bare").is_hidden_from_models
    assert names(library, "ship code") == []


@pytest.mark.each(
    ("requires", "machine", "ready"),
    [
        ("{bins: [no-such-program]}", Machine(), False),
        ("{env: [KEY]}", Machine(environment={}), False),
        ("{env: [KEY]}", Machine(environment={"KEY": "x"}), True),
        ("{os: [windows]}", Machine(system="linux"), False),
        ("{os: [linux]}", Machine(system="linux"), True),
        ("{tools: [browser]}", Machine(tools=["shell"]), False),
        ("{tools: [browser]}", Machine(tools=["Browser"]), True),
        ("{tools: [browser]}", Machine(), True),
        ("{mcp: [github]}", Machine(mcp=[]), False),
    ],
)
def test_a_skill_that_cannot_work_here_is_found_only_when_unlisted_ones_are_asked_for(
    requires: str, machine: Machine, ready: bool
) -> None:
    library = Library.from_files(skill("deploy", "Ship it.", more=f"requires: {requires}\n"))
    for query in ("ship", "/deploy", "dep"):
        assert bool(library.search(query, machine=machine)) is ready
        assert [one.name for one in library.search(query, machine=machine, include_unlisted=True)] == ["deploy"]


def test_a_shadowed_skill_is_never_found(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "strong" / "deploy", description="Ship it.")
    write_skill(tmp_path / "weak" / "deploy", description="Secondhand zebra.", more="tags: [weak]\n")
    library = Library.from_folder(tmp_path / "strong", tmp_path / "weak", cache=tmp_path / "cache")
    for query in ("zebra", "tag:weak", '"secondhand zebra"', "secondhnad"):
        assert library.search(query, include_unlisted=True) == []
    assert [one.entry.location for one in library.search("deploy")] == [library.get("deploy").location]


def test_a_broken_skill_is_never_found(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "skills" / "good")
    (tmp_path / "skills" / "zebra").mkdir()
    (tmp_path / "skills" / "zebra" / "SKILL.md").write_bytes(b"")
    library = Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
    assert [entry.status for entry in library.entries(all=True)] == ["active", "broken"]
    for query in ("zebra", "/zebra", "zeb", "zebar"):
        assert library.search(query, include_unlisted=True) == []


VISIBLE = (
    skill("pdf-forms", "Fill PDF forms.", "Open the page. Write words.", "tags: [pdf]\n"),
    skill("pdf-merge", "Join documents.", "Append every page to the words.", "tags: [pdf, join]\n"),
    skill("notes", "Write notes.", "A page of words, the exact phrase among them."),
)
SECRET = "scope: {agents: [secret-agent]}\n"
HIDDEN: tuple[Mapping[str, str], ...] = (
    skill("pdf-forms", "Fill PDF forms.", "Fill fill forms forms.", f"{SECRET}priority: 5\ntags: [pdf]\n"),
    skill("form-letter", "Fill forms.", "The exact phrase. Words on a page.", f"{SECRET}tags: [pdf, join]\n"),
    skill("zebra-words", "Zebra pages, zebra words.", "Zebra " * 50, SECRET),
    skill("for-one-tenant", "Fill words.", "Page page page.", "scope: {tenants: [t]}\n"),
    skill("for-nobody", "Write notes on a page.", "Exact phrase.", "scope: {agents: []}\n"),
)
QUERIES = (
    "pdf-forms", "/pdf-forms", "form-letter", "/zebra-words", "zebra", "zeb", "fill a form", "page words", "notes",
    "exact phrase", '"exact phrase"', '"fill forms"', '"zebra words"', "tag:pdf", "tag:join", "words tag:pdf",
    "layer:project page", "pdf-froms", "pdf-fomrs", "zebar", "letetr", "nobdoy", "wrtie ntoes", "tenatn", "form",
)  # fmt: skip


@pytest.mark.covers("O-100")
def test_a_skill_out_of_scope_is_as_good_as_absent() -> None:
    without = Library.from_files(*VISIBLE)
    for order in (VISIBLE + HIDDEN, HIDDEN + VISIBLE):
        library = Library.from_files(*order)
        assert {query: found(library, query) for query in QUERIES} == {
            query: found(without, query) for query in QUERIES
        }


@pytest.mark.covers("O-100")
def test_a_scope_follows_the_caller() -> None:
    library = Library.from_files(*VISIBLE, *HIDDEN)
    assert "zebra-words" in [one.name for one in library.search("zebra", agent="secret-agent")]
    assert "zebra-words" in names(library.as_caller(agent="secret-agent"), "zebra")
    assert names(library.as_caller(agent="another"), "zebra") == []
    assert "for-one-tenant" in names(library.as_caller(tenant="t"), "page")
    assert "for-one-tenant" in [one.name for one in library.as_caller(tenant="t").search("page", agent="x")]
    assert "for-one-tenant" not in [one.name for one in library.search("page", agent="t")]


@pytest.mark.covers("O-100")
def test_the_name_of_a_skill_out_of_scope_corrects_no_typo() -> None:
    visible = skill("notes", body="A zebra runs.")
    library = Library.from_files(visible, skill("zebra-words", more=SECRET))
    assert found(library, "zebar") == found(Library.from_files(visible), "zebar")


WORDS = ("page", "form", "zebra", "pdf", "write", "join")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
some_skills = st.lists(st.tuples(texts, texts, st.sampled_from(["", "tags: [pdf]\n"])), max_size=4)
questions = st.one_of(
    texts, texts.map('"{}"'.format), texts.map("{} tag:pdf".format), st.sampled_from(["/hidden-0", "visible-1"])
)


@pytest.mark.covers("O-100")
@given(some_skills, some_skills, questions)
def test_whatever_is_hidden_changes_no_result_no_score_and_no_order(
    visible: list[tuple[str, str, str]], hidden: list[tuple[str, str, str]], query: str
) -> None:
    seen = [skill(f"visible-{n}", about, body, more) for n, (about, body, more) in enumerate(visible)]
    unseen = [skill(f"hidden-{n}", about, body, more + SECRET) for n, (about, body, more) in enumerate(hidden)]
    assert found(Library.from_files(*unseen, *seen), query) == found(Library.from_files(*seen), query)


# --- anything may be typed -------------------------------------------------------------------------------------------

PIECES = (
    "AND", "OR", "NOT", "NEAR(", "NEAR(a b, 2)", "*", "^", ":", "about:", "body:", "stems:", "{about body}:", "(", ")",
    '"', "'", '""', "“", "”", "--", ";", "DROP TABLE skill;", "%", "\\", "\x00", "\x1f", "\u00b2", "form\u00b3", "é",
    "e\u0301", "\u202e", "\ufeff", "👩‍👩‍👧", "技能", "tag:", "layer:", "tag:pdf", "tag:x", 'tag:"', "layer:plugin",
    "/pdf-forms", "$", "/", "pdf", "forms", "froms", "the", "a" * 50, "C++", ".NET", "I\u0307", "ß", "ﬁ", "\n", "\t",
)  # fmt: skip
anything = st.one_of(
    st.text(max_size=60),
    st.text(st.characters(codec="utf-8"), max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
)


@pytest.fixture(scope="module")
def small() -> Library:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("METIER_VECTORS", "off")
        library = Library.from_files(*VISIBLE, *HIDDEN, skill("技能", "ß é ﬁ I\u0307 C++ .NET 👩‍👩‍👧"))
        assert library.update_index()
    return library


@given(anything)
@example("the of and to")
@example('"' * 1_001)
@example("/" + "a" * 5_000)
@example("x" * 200_000)
@example("pdf " * 50_000)
@example('"a b" ' * 30_000)
@example("\x00" * 200_000)
@example("tag:pdf " * 20_000)
def test_whatever_is_typed_gives_results(small: Library, query: str) -> None:
    require_results(small, query)


@pytest.mark.slow
@pytest.mark.each(
    "query", ["x" * 1_000_000, "pdf " * 250_000, '"a b" ' * 170_000, "\x00" * 1_000_000, "tag:pdf " * 100_000]
)
def test_however_much_is_typed_gives_results(small: Library, query: str) -> None:
    require_results(small, query)


def require_results(small: Library, query: str) -> None:
    results = small.search(query)
    assert len(results) <= 10
    assert all(0 <= one.score <= 1 and one.why and small.get(one.name) is not None for one in results)
    assert results == small.search(query)


@given(anything, st.sampled_from(["tag:pdf", "tag:join", 'tag:"pdf"', "tag:none"]))
def test_whatever_is_typed_after_a_tag_finds_only_its_skills(small: Library, text: str, tag: str) -> None:
    wanted = tag.removeprefix("tag:").strip('"')
    for one in small.search(f"{tag} {text}", include_unlisted=True):
        assert wanted in one.entry.skill.tags


@given(anything, st.sampled_from(LAYERS))
def test_whatever_is_typed_after_a_layer_finds_only_its_skills(text: str, layer: Layer) -> None:
    library = _layered_once()
    named = {layer, *(other for other in LAYERS if f"layer:{other}" in text.lower())}
    assert {one.layer for one in library.search(f"layer:{layer} {text}")} <= named


_made: list[Library] = []


def _layered_once() -> Library:
    if not _made:
        _made.append(layered(*LAYERS))
    return _made[0]


@pytest.mark.each("query", ["tag:\ud800", 'tag:"\udfff x"', "pdf tag:a\udcff"])
def test_a_tag_that_is_no_valid_unicode_finds_nothing(small: Library, query: str) -> None:
    assert small.search(query) == []


@pytest.mark.each("query", ["\ud800", "pdf \udcff forms", '"\ud800"', "/\udcff", "\ud83d\ude00"])
def test_text_that_is_no_valid_unicode_can_be_searched_for(small: Library, query: str) -> None:
    assert {one.name for one in small.search(query)} <= {"pdf-forms", "pdf-merge"}


def test_the_same_skills_from_folders_and_from_memory_are_found_alike() -> None:
    with tempfile.TemporaryDirectory() as name:
        for number, files in enumerate(VISIBLE):
            (Path(name) / str(number)).mkdir()
            (Path(name) / str(number) / "SKILL.md").write_text(files["SKILL.md"])
        folder, memory = Library.from_folder(name, cache=False), Library.from_files(*VISIBLE)
        for query in QUERIES:
            assert found(folder, query) == found(memory, query)


@pytest.mark.each("query", ['"GitHub Actions"', '"github actions"', '"GITHUB ACTIONS"'])
def test_a_phrase_of_identifiers_is_found_in_descriptions_and_bodies(query: str) -> None:
    library = Library.from_files(
        skill("runners", "Deploy with GitHub Actions runners."),
        skill("notes", "Writes notes.", body="Then open GitHub Actions."),
        skill("apart", "GitHub starts Actions."),
    )
    assert {one.name for one in library.search(query)} == {"runners", "notes"}


def test_what_a_hidden_skill_says_corrects_no_word() -> None:
    far = skill("far", " ".join(f"word{number}" for number in range(150)) + " zanzibar")
    hidden = skill("hidden", "About zanzibar.", more="scope: {agents: [bob]}\n")
    alone, both = Library.from_files(far), Library.from_files(far, hidden)
    for query in ("zanzibra", "zanzibar"):
        assert [one.name for one in both.search(query, agent="alice")] == ["far"]
        assert [one.name for one in alone.search(query, agent="alice")] == ["far"]
