"""Unified diffs applied to the files of a skill: exactly, or not at all."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import MetierError, ProposalInvalid
from metier.hub.diff import difference
from metier.hub.diff_apply import apply_diff
from metier.hub.diff_parser import MAX_DIFF_BYTES
from metier.skill.package import Files

SKILL = b"---\nname: deploy\n---\none\ntwo\nthree\nfour\nfive\n"
BASE: Files = {
    "SKILL.md": ("file", SKILL),
    "scripts/run.sh": ("exec", b"echo hi\n"),
    "notes.md": ("file", b"no end"),
    "empty.md": ("file", b""),
    "link.md": ("link", b"notes.md"),
}


def changed(diff: str) -> dict[str, tuple[str, bytes] | None]:
    """What a diff makes of the files, only what is different."""
    after = apply_diff(BASE, diff)
    return {path: after.get(path) for path in {*BASE, *after} if BASE.get(path) != after.get(path)}


HUNK = "@@ -4,3 +4,3 @@\n one\n-two\n+deux\n three\n"
CHANGED = {"SKILL.md": ("file", SKILL.replace(b"two", b"deux"))}


@pytest.mark.each(
    ("diff", "expected"),
    [
        (f"--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK}", CHANGED),
        (f"--- SKILL.md\n+++ SKILL.md\n{HUNK}", CHANGED),
        (f"--- SKILL.md\t2026-01-01 10:00:00\n+++ SKILL.md\t2026-01-01 10:00:01\n{HUNK}", CHANGED),
        (f"diff --git a/SKILL.md b/SKILL.md\nindex 12ab..34cd 100644\n--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK}", CHANGED),
        (f"Here it is:\n\n--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK}-- \n2.39.5\n", CHANGED),
        (f"--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK}".replace("\n", "\r\n"), CHANGED),
        # The lines are elsewhere, once.
        (f"--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK.replace('-4,3 +4,3', '-40,3 +41,3')}", CHANGED),
        # An empty line of context whose blank an editor took away.
        ("--- /dev/null\n+++ b/x.md\n@@ -0,0 +1,2 @@\n+a\n+\n", {"x.md": ("file", b"a\n\n")}),
        (
            "diff --git a/bin/x b/bin/x\nnew file mode 100755\n--- /dev/null\n+++ b/bin/x\n@@ -0,0 +1 @@\n+hi\n"
            "\\ No newline at end of file\n",
            {"bin/x": ("exec", b"hi")},
        ),
        ("diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n", {"e": ("file", b"")}),
        ("diff --git a/empty.md b/empty.md\ndeleted file mode 100644\nindex e69de29..0000000\n", {"empty.md": None}),
        ("--- a/scripts/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-echo hi\n", {"scripts/run.sh": None}),
        (
            "diff --git a/scripts/run.sh b/scripts/run.sh\nold mode 100755\nnew mode 100644\n",
            {"scripts/run.sh": ("file", b"echo hi\n")},
        ),
        (
            "diff --git a/scripts/run.sh b/bin/go.sh\nsimilarity index 50%\nrename from scripts/run.sh\n"
            "rename to bin/go.sh\n--- a/scripts/run.sh\n+++ b/bin/go.sh\n@@ -1 +1 @@\n-echo hi\n+echo ho\n"
            "diff --git a/empty.md b/empty.md\ndeleted file mode 100644\n",
            {"scripts/run.sh": None, "bin/go.sh": ("exec", b"echo ho\n"), "empty.md": None},
        ),
        (
            "--- a/notes.md\n+++ b/notes.md\n@@ -1 +1,2 @@\n-no end\n\\ No newline at end of file\n+an end\n+more\n",
            {"notes.md": ("file", b"an end\nmore\n")},
        ),
        (
            '--- /dev/null\n+++ "b/\\303\\244 \\"q\\".md"\n@@ -0,0 +1 @@\n+x\n',
            {'ä "q".md': ("file", b"x\n")},
        ),
    ],
)
def test_what_diffs_look_like(diff: str, expected: dict[str, tuple[str, bytes] | None]) -> None:
    assert changed(diff) == expected


def test_a_file_whose_lines_end_in_crlf_stays_one() -> None:
    base: Files = {"SKILL.md": ("file", b"one\r\ntwo\r\n")}
    diff = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1,2 +1,3 @@\n one\n-two\n+deux\n+trois\n"
    assert apply_diff(base, diff) == {"SKILL.md": ("file", b"one\r\ndeux\r\ntrois\r\n")}
    exact = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+deux\n"
    assert apply_diff(base, exact) == {"SKILL.md": ("file", b"one\r\ndeux\n")}


@pytest.mark.covers("Y-35")
@pytest.mark.each(
    ("diff", "said"),
    [
        ("", "empty"),
        ("no diff at all", "no diff"),
        (f"--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK.replace('two', 'zwei')}", "does not fit"),
        ("--- a/SKILL.md\n+++ b/SKILL.md\n@@ -4,2 +4,2 @@\n one\n-two\n", "counts"),
        ("--- a/SKILL.md\n+++ b/SKILL.md\n@@ -4 +4 @@\n-one\n+eins\n two\n", "not understood"),
        ("--- a/SKILL.md\n+++ b/SKILL.md\n@@ nonsense @@\n-one\n", "no header"),
        ("--- a/SKILL.md\n+++ b/SKILL.md\n@@ -99,0 +100 @@\n+x\n", "outside"),
        (f"--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK}--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK}", "twice"),
        (f"--- a/SKILL.md\n+++ b/other.md\n{HUNK}", "two files"),
        (f"--- a/gone.md\n+++ b/gone.md\n{HUNK}", "no file"),
        ("--- /dev/null\n+++ b/SKILL.md\n@@ -0,0 +1 @@\n+x\n", "exists already"),
        ("--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n", "names no file"),
        ("--- a/SKILL.md\n+++ /dev/null\n@@ -1 +0,0 @@\n----\n", "not all of its lines"),
        ("--- a/link.md\n+++ b/link.md\n@@ -1 +1 @@\n-notes.md\n+SKILL.md\n", "link"),
        ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n", "link"),
        ("diff --git a/l b/l\nnew file mode 160000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n", "plain file"),
        ("diff --git a/SKILL.md b/x\ncopy from SKILL.md\ncopy to x\n", "copies"),
        ("diff --git a/x.png b/x.png\nnew file mode 100644\nBinary files /dev/null and b/x.png differ\n", "not text"),
        ("diff --git a/SKILL.md b/SKILL.md\n", "says nothing"),
        ("diff --git a/notes.md b/x.md\nrename from notes.md\nrename to x.md\n", "leads to no file"),
        (f"--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK}Only in new: evil.py\n", "not understood"),
        ("--- a/notes.md\n+++ b/notes.md\n@@ -1 +1 @@\n-no end\n+an end\n", "No newline"),
        (
            "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -4 +4 @@\n-one\n+eins\n\\ No newline at end of file\n",
            "have no end",
        ),
        ("--- /dev/null\n+++ b/skill.MD\n@@ -0,0 +1 @@\n+x\n", "same file"),
        ("--- /dev/null\n+++ b/SKILL.md/x\n@@ -0,0 +1 @@\n+x\n", "lie in it"),
        ("--- /dev/null\n+++ b/../evil.md\n@@ -0,0 +1 @@\n+x\n", "leaves the skill"),
        ("--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+x\n", "leaves the skill"),
        ("--- /dev/null\n+++ b/a/../../evil.md\n@@ -0,0 +1 @@\n+x\n", "leaves the skill"),
        ('--- /dev/null\n+++ "b/\\056\\056/evil.md"\n@@ -0,0 +1 @@\n+x\n', "leaves the skill"),
        ("--- /dev/null\n+++ b/..\\evil.md\n@@ -0,0 +1 @@\n+x\n", "leaves the skill"),
        ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", "not part of the skill"),
        ('--- /dev/null\n+++ "b/a\\033[2J.md"\n@@ -0,0 +1 @@\n+x\n', "control characters"),
        ("rename from SKILL.md\nrename to ../x\n", "no diff"),
        ("diff --git a/SKILL.md b/../x\nrename from SKILL.md\nrename to ../x\n", "leaves the skill"),
        ("--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1 +1 @@\n-\ud800\n+x\n", "Unicode"),
        ("x" * (MAX_DIFF_BYTES + 1), "bytes"),
    ],
)
def test_what_is_refused(diff: str, said: str) -> None:
    with pytest.raises(MetierError, match=said) as caught:
        apply_diff(BASE, diff)
    assert caught.value.hint


def test_lines_that_stand_in_two_other_places_are_nowhere() -> None:
    base: Files = {"SKILL.md": ("file", b"a\nb\nx\na\nb\n")}
    with pytest.raises(ProposalInvalid, match="more than one"):
        apply_diff(base, "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n")


@pytest.mark.covers("Y-35")
def test_one_hunk_that_fails_is_enough_for_nothing_to_change() -> None:
    before = dict(BASE)
    diff = f"--- a/SKILL.md\n+++ b/SKILL.md\n{HUNK}--- a/notes.md\n+++ b/notes.md\n@@ -1 +1 @@\n-other\n+x\n"
    with pytest.raises(ProposalInvalid):
        apply_diff(before, diff)
    assert before == BASE


lines = st.sampled_from(
    ["a", "b", "c", "", " ", "-- ", "--- x", "+++ y", "@@ -1 +1 @@", "\\ No newline", "x\r", "\x0c", "é", "diff --git"]
)
texts = st.builds(lambda many, end: "\n".join(many) + end, st.lists(lines, max_size=12), st.sampled_from(["", "\n"]))
contents = st.one_of(texts, st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
files = st.dictionaries(
    st.sampled_from(["SKILL.md", "a/x.md", "b y.md", 'q"q.md', "ä.md"]),
    st.tuples(st.sampled_from(["file", "exec"]), contents.map(str.encode)),
)


@given(files, files)
def test_a_difference_that_is_applied_gives_what_it_was_made_of(before: Files, after: Files) -> None:
    diff = difference(before, after)
    if before == after:
        assert diff == ""
    else:
        assert apply_diff(before, diff) == after


@given(st.data())
def test_a_broken_diff_is_refused_or_stays_inside(data: st.DataObject) -> None:
    diff = difference(BASE, {**BASE, "SKILL.md": ("file", SKILL + b"six\n"), "x/y.md": ("file", b"new\n")})
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(diff)))
        junk = data.draw(st.one_of(st.text(max_size=5), st.sampled_from(["../", "/", "\n", "+", "-", "@@", '"', "\\"])))
        diff = diff[:at] + junk + diff[at + data.draw(st.integers(0, 5)) :]
    try:
        after = apply_diff(BASE, diff)
    except MetierError as error:
        assert error.hint
    else:
        assert all(".." not in path.split("/") and not path.startswith("/") for path in after)


def test_hostile_diffs_take_no_longer_than_long_ones() -> None:
    base: Files = {"SKILL.md": ("file", b"a\n" * 200_000)}
    misplaced = "".join(f"@@ -{250_000 + number},2 +{number} @@\n a\n-b\n" for number in range(1, 30_000))
    begun = time.process_time()
    for diff in (misplaced, "@@ -1 +1 @@\n-a\n+b\n" * 40_000):
        with pytest.raises(ProposalInvalid):
            apply_diff(base, f"--- a/SKILL.md\n+++ b/SKILL.md\n{diff}")
    assert time.process_time() - begun < 20
