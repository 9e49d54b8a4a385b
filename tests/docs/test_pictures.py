"""The pictures of the documentation show what commands print now."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))


def test_each_picture_is_on_a_page_and_says_in_words_what_it_shows() -> None:
    shown = {
        name for page in DOCS.rglob("*.md") for name in re.findall(r"pictures/([\w-]+\.svg)", page.read_text("utf-8"))
    }
    assert shown == {picture.name for picture in PICTURES}
    for picture in PICTURES:
        root = xml.etree.ElementTree.parse(picture).getroot()
        assert root.get("aria-label") and not root.findall(".//{*}script")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the scenes are played in a shell")
def test_pictures_are_drawn_from_what_commands_print() -> None:
    run = subprocess.run([sys.executable, DOCS / "pictures.py", "--check"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
