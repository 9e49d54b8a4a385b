"""What somebody typed to search, or a prompt that was never written to search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.find import Query
from metier.find.query import MAX_QUERY, MAX_STEMS
from metier.library import LAYERS

ODD = [
    "",
    " ",
    "\n\n\t",
    "\0",
    "a\0b",
    "🎉",
    "👩‍👩‍👧 🏳️‍🌈",
    "how do I do this",
    '"',
    '"""',
    '"unbalanced phrase',
    'phrase" unbalanced',
    "“curly",
    "AND",
    "AND OR NOT",
    "NEAR(a b, 3)",
    "a AND (b OR NOT c)",
    "form*",
    "^form",
    "name:form",
    "{name about}: form",
    "- form",
    "+form",
    "(",
    ")",
    "* ^ : ( ) \"'",
    "'; DROP TABLE skill; --",
    "tag:",
    "layer:",
    'tag:"',
    'tag:""',
    'tag:" "',
    "tag:tag:tag:",
    "/",
    "//",
    "$",
    "/ name",
    "\ud800",
    "tag:\udcff",
    "\u202e\u2066",
    "\U000e0041",
]


@pytest.mark.each("text", ODD)
def test_no_text_is_an_error(text: str) -> None:
    for query in (Query.read(text), Query.of_prompt(text)):
        assert all(query.stems)


@pytest.mark.each("text", ["", " ", "\0", "🎉", "how do I do this", "AND OR NOT", '"', "()", "* ^ : ( )"])
def test_a_query_that_says_nothing_asks_for_no_word(text: str) -> None:
    query = Query.read(text)
    assert query.stems == ()
    assert query.phrases == ()
    assert not query.only_phrases
    assert (query.tags, query.layers) == ((), ())


def test_each_word_is_asked_for_once_in_order() -> None:
    assert Query.read("Fill forms, fill a PDF form").stems == ("fill", "form", "pdf")


@pytest.mark.each(
    ("text", "stems"),
    [
        ("a AND (b OR NOT form)", ("b", "form")),
        ("form* NEAR pdf", ("form", "near", "pdf")),
        ("^form:pdf", ("form", "pdf")),
        ('"form', ("form",)),
    ],
)
def test_operators_are_words_or_nothing(text: str, stems: tuple[str, ...]) -> None:
    assert Query.read(text).stems == stems


@pytest.mark.each(
    ("text", "tags"),
    [
        ("tag:pdf", ("pdf",)),
        ("TAG:PDF", ("pdf",)),
        ("fill tag:pdf forms", ("pdf",)),
        ("tag:pdf tag:office", ("pdf", "office")),
        ('tag:"a b"', ("a b",)),
        ('tag:" A B "', ("a b",)),
        ("tag:c++", ("c++",)),
        ("tag:表单", ("表单",)),
        ("tag:Straße", ("strasse",)),
    ],
)
def test_a_tag_is_a_filter_and_no_word(text: str, tags: tuple[str, ...]) -> None:
    query = Query.read(text)
    assert query.tags == tags
    assert not set(query.stems) - {"fill", "form"}
    assert "tag" not in query.text.lower()


@pytest.mark.each("text", ["nametag:pdf", "tag: pdf", "tag:", 'tag:""', 'tag:" "', 'tag:"a'])
def test_what_only_looks_like_a_tag_filters_nothing(text: str) -> None:
    assert Query.read(text).tags == ()


@pytest.mark.each("layer", LAYERS)
def test_a_layer_is_a_filter(layer: str) -> None:
    query = Query.read(f"forms layer:{layer.upper()}")
    assert query.layers == (layer,)
    assert query.stems == ("form",)


@pytest.mark.each("text", ["layer:order", "layer:", "layer:projects", 'layer:"my project"'])
def test_an_unknown_layer_is_words_and_no_filter(text: str) -> None:
    query = Query.read(text)
    assert query.layers == ()
    assert "layer" in query.stems
    assert query.text == text


@pytest.mark.each("text", ['fill "tax forms" now', "fill “tax forms” now"])
def test_quoted_words_are_a_phrase(text: str) -> None:
    query = Query.read(text)
    assert query.phrases == (("tax", "form"),)
    assert query.stems == ("fill", "tax", "form")
    assert not query.only_phrases


@pytest.mark.each(
    ("text", "alone"),
    [
        ('"tax forms"', True),
        ('"tax forms" "pdf files"', True),
        ('how to do "tax forms"?', True),
        ('"tax forms" tag:pdf', True),
        ('"tax forms" quickly', False),
        ('"how to"', False),
        ("tax forms", False),
    ],
)
def test_phrases_must_occur_when_there_is_nothing_else(text: str, alone: bool) -> None:
    assert Query.read(text).only_phrases is alone


def test_a_phrase_does_not_reach_over_lines() -> None:
    assert Query.read('5" screen\n6" screen').phrases == ()


@pytest.mark.each(
    ("text", "names"),
    [
        ("/deploy", ("deploy",)),
        ("  /deploy", ("deploy",)),
        ("$deploy", ("deploy",)),
        ("/deploy to production", ("deploy", "deploy-to-production")),
        ("/Deploy_It now", ("deploy-it", "deploy-it-now")),
        ("deploy", ("deploy",)),
        ("PDF Forms", ("pdf-forms",)),
        ("/usr/bin/python", ("usr-bin-python",)),
        ("/", ()),
        ("!!!", ()),
    ],
)
def test_a_name_may_be_spelled_out(text: str, names: tuple[str, ...]) -> None:
    assert Query.read(text).names == names


def test_a_name_is_found_beside_a_filter() -> None:
    assert Query.read("deploy layer:project").names == ("deploy",)


def test_prose_spells_out_no_name() -> None:
    assert Query.read("please fill in the forms that I got from the tax office " * 3).names == ()


def test_neighbours_are_pairs_in_order() -> None:
    assert Query.read("fill the tax forms").pairs == (("fill", "tax"), ("tax", "form"))


def test_parts_of_an_identifier_are_told_from_words() -> None:
    query = Query.read("ShoppingCart checkout")
    assert query.stems == ("shoppingcart", "checkout", "shop", "cart")
    assert query.parts == {"shop", "cart"}


def test_a_part_that_is_also_a_word_is_a_word() -> None:
    assert Query.read("ShoppingCart cart").parts == {"shop"}


def test_each_stem_knows_how_it_was_written() -> None:
    written = Query.read("Running pdf_forms").written
    assert written == {"run": "running", "pdf": "pdf", "form": "forms"}


def test_only_the_beginning_of_a_megabyte_is_looked_at() -> None:
    text = "".join(f"word{number} " for number in range(100_000))[: 1024 * 1024]
    for query in (Query.read(text), Query.of_prompt(text)):
        assert len(query.text) == MAX_QUERY
        assert len(query.stems) == MAX_STEMS
        assert query.stems[0] == "word0"
        assert set(query.written) <= set(query.stems)


@pytest.mark.each("text", ['"' * 1024 * 1024, "tag:" * 262_144, "/" * 1024 * 1024, "a" * 1024 * 1024])
def test_a_megabyte_of_one_thing_is_no_error(text: str) -> None:
    assert len(Query.read(text).text) <= MAX_QUERY
    assert len(Query.of_prompt(text).text) <= MAX_QUERY


@pytest.mark.each("text", ["tag:pdf layer:project", 'tag:"a b" and "tax forms"', '"only phrases"', *ODD])
def test_nothing_in_a_prompt_is_a_filter(text: str) -> None:
    query = Query.of_prompt(text)
    assert (query.tags, query.layers, query.phrases) == ((), (), ())
    assert not query.only_phrases
    assert query.text == text


def test_a_prompt_asks_for_the_words_that_a_filter_would_hide() -> None:
    assert Query.of_prompt("tag:pdf").stems == ("tag", "pdf")


piece = st.text(max_size=20) | st.sampled_from(
    [
        "tag:",
        "layer:",
        "layer:project",
        'tag:"a b"',
        '"',
        "“",
        "”",
        "/",
        "$",
        " ",
        "\n",
        "AND",
        "NEAR(",
        "*",
        "\0",
        "\ud800",
    ]
)


@given(st.lists(piece, max_size=20).map("".join))
def test_any_query_is_taken_apart(text: str) -> None:
    for query in (Query.read(text), Query.of_prompt(text)):
        known = set(query.stems)
        assert len(known) == len(query.stems)
        assert not any(set(stem) & set(' \n"\0*') for stem in known)
        assert query.parts <= known
        assert set(query.written) <= known
        assert all(known.issuperset(pair) for pair in query.pairs)
        assert all(phrase and known.issuperset(phrase) for phrase in query.phrases)
        assert set(query.layers) <= set(LAYERS)
        assert all(tag.strip() for tag in query.tags)
        assert all(query.names)
        assert bool(query.phrases) or not query.only_phrases


@given(st.lists(piece, max_size=20).map("".join))
def test_any_prompt_filters_nothing(text: str) -> None:
    query = Query.of_prompt(text)
    assert (query.tags, query.layers, query.phrases) == ((), (), ())
    assert query.text == text[:MAX_QUERY]
