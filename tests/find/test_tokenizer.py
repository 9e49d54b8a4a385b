"""Text becomes the words that are searched for, whatever script or spelling it is in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.find.tokenizer import MAX_WORD, STOP_WORDS, split_stems, stems


@pytest.mark.each("text", ["", "   \n", "how do I use this", "The AND or NOT", "don't", "!?*()", "_ - _", "\0", "🎉"])
def test_text_that_says_nothing_has_no_words(text: str) -> None:
    assert stems(text) == []
    assert split_stems(text) == []


def test_a_stop_word_is_dropped_in_any_case() -> None:
    words = sorted(STOP_WORDS)
    assert stems(" ".join([*words, *map(str.upper, words), *map(str.title, words), "form"])) == ["form"]


@pytest.mark.each(
    ("one", "other"),
    [
        ("running tests", "run test"),
        ("Filling forms", "fill form"),
        ("deployments", "deployment"),
        ("libraries", "library"),
        ("PDF", "pdf"),
        ("Résumé", "resume"),
        ("re\u0301sume\u0301", "résumé"),
        ("naïve café", "naive cafe"),
        ("ﬁle", "file"),
        ("\uff30\uff24\uff26", "pdf"),
        ("İstanbul", "istanbul"),
        ("C++", "cpp"),
        ("c++.", "cpp"),
        ("C#", "csharp"),
        ("f#", "fsharp"),
        (".NET", "dotnet"),
        (".net", "dotnet"),
        ("pdf-forms", "pdf forms"),
        ("pdf_forms", "pdf forms"),
        ("docs/guide.md", "docs guide md"),
        ("fill   \n\t forms", "fill forms"),
        ('"fill" (forms)', "fill forms"),
    ],
)
def test_two_spellings_of_one_thing_are_the_same_words(one: str, other: str) -> None:
    assert stems(one) == stems(other)
    assert stems(one) != []


@pytest.mark.each(
    ("text", "expected"),
    [
        ("C# and C++ on .NET", ["csharp", "cpp", "dotnet"]),
        ("(C#)", ["csharp"]),
        ("C", ["c"]),
        ("ASP.NET", ["asp", "net"]),
        ("abc#", ["abc"]),
        ("x.net", ["x", "net"]),
    ],
)
def test_only_names_of_languages_keep_their_signs(text: str, expected: list[str]) -> None:
    assert stems(text) == expected


@pytest.mark.each(
    ("text", "expected"),
    [
        ("pdfForms", ["pdfform", "pdf", "form"]),
        ("PDFForms", ["pdfform", "pdf", "form"]),
        ("pdf-forms", ["pdf", "form"]),
        ("pdf_forms", ["pdf", "form"]),
        ("fillPdfForms", ["fillpdfform", "fill", "pdf", "form"]),
        ("utf8Decoder", ["utf8decod", "utf8", "decod"]),
        ("PDF", ["pdf"]),
        ("forms", ["form"]),
        ("Forms", ["form"]),
        ("useTheForms", ["usetheform", "form"]),
    ],
)
def test_an_identifier_is_searched_for_as_itself_and_by_its_parts(text: str, expected: list[str]) -> None:
    assert split_stems(text) == expected


def test_without_splitting_an_identifier_is_one_word() -> None:
    assert stems("pdfForms") == ["pdfform"]


@pytest.mark.each(
    ("text", "expected"),
    [
        ("表单填写", ["表单", "单填", "填写"]),
        ("表", ["表"]),
        ("填写PDF表单", ["填写", "pdf", "表单"]),
        ("フォーム", ["フォ", "ォー", "ーム"]),
        ("が", ["が"]),
        ("양식", ["양식"]),
    ],
)
def test_a_script_without_blanks_is_taken_in_pairs(text: str, expected: list[str]) -> None:
    assert stems(text) == expected


def test_a_part_of_a_text_without_blanks_has_words_of_the_whole() -> None:
    assert set(stems("填写表单")) & set(stems("请帮我填写一个表单")) == {"填写", "表单"}


@pytest.mark.each("text", ["мой навык", "δοκιμή", "مرحبا", "नमस्ते", "שלום", "สวัสดี", "ይህ"])
def test_every_script_has_words(text: str) -> None:
    assert stems(text) != []


def test_a_run_of_letters_too_long_for_a_word_is_left_out() -> None:
    assert stems("a" * MAX_WORD + "b form") == ["form"]
    assert split_stems("aB" * MAX_WORD + " form") == ["form"]
    assert stems("é" * (MAX_WORD + 1)) == []


def test_words_come_in_order_and_as_often_as_they_occur() -> None:
    assert stems("forms, then PDF, then form") == ["form", "pdf", "form"]


def test_all_threads_find_the_same_words() -> None:
    texts = [f"running {number} tests with résumés and 表单填写" for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(stems, texts)) == [stems(text) for text in texts]


any_text = st.text(max_size=200) | st.text("aZ9é表ก.#+'\"-_ \n\0\u0301İßﬁ\ud800", max_size=60)


@given(any_text)
def test_any_text_gives_words_that_a_search_can_hold(text: str) -> None:
    for stem in (*stems(text), *split_stems(text)):
        assert stem
        assert not set(stem) & set(" \t\r\n\"'\0*^:()-+")
        assert not any(letter.isspace() for letter in stem)
        stem.encode()


@given(any_text)
def test_splitting_only_adds_words(text: str) -> None:
    left = list(split_stems(text))
    for stem in stems(text):
        assert stem in left


@given(any_text)
def test_the_same_text_gives_the_same_words(text: str) -> None:
    assert stems(text) == stems(text)
    assert split_stems(text) == split_stems(text)


@pytest.mark.each("text", ["ΟΔΟΣ.Αθήνα", "ΟΔΟΣ", "οδος Αθήνα", "ΟΔΌΣ: ΑΘΉΝΑ"])
def test_a_sigma_is_the_same_letter_wherever_it_stands(text: str) -> None:
    assert stems(text)[0] == split_stems(text)[0] == "οδοσ"


def test_signs_among_chinese_characters_part_words() -> None:
    assert stems("中䷀文") == split_stems("中䷀文") == ["中", "文"]
    assert stems("䷀") == []
