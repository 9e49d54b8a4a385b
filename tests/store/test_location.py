"""Where a store is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metier.errors import InvalidArgument
from metier.store import Store, data_folder, default_store
from metier.store.location import hide_password, parse_address


def test_the_store_is_a_file_in_the_data_folder_unless_somebody_says_otherwise(own_home: Path) -> None:
    assert default_store() == f"sqlite:///{data_folder()}/metier.db"
    assert default_store({"METIER_STORE": "postgresql://db/metier"}) == "postgresql://db/metier"
    assert data_folder({"METIER_DATA": os.path.abspath("x")}) == Path("x").absolute()


@pytest.mark.each(
    ("url", "folder"),
    [
        ("sqlite:////srv/a/metier.db", "/srv/a"),
        ("sqlite:////srv/a/company.db", "/srv/a/company.db.files"),
        ("sqlite:////srv/a b/ü?x=%41#.db", "/srv/a b/ü?x=%41#.db.files"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="the paths are those of a Unix")
def test_what_lies_beside_a_file_is_its_own(url: str, folder: str) -> None:
    address = parse_address(url)
    assert (str(address.folder), str(address)) == (folder, url)


def test_two_databases_never_share_a_folder() -> None:
    urls = ["postgresql://db/a", "postgresql://db/b", "postgresql://other/a", "sqlite:////x/a.db", "sqlite:////x/b.db"]
    assert len({parse_address(url).folder for url in urls}) == len(urls)


def test_a_new_password_leads_to_the_same_folder() -> None:
    assert parse_address("postgresql://a:old@db/a").folder == parse_address("postgresql://a:new@db/a").folder


@pytest.mark.each(
    "url",
    ["", "x", "/srv/metier.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///x/", "mysql://db", "\0"],
)
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Store.open(url)
    assert "sqlite:////" in caught.value.hint


@pytest.mark.each(
    ("url", "shown"),
    [
        ("postgresql://app:s3cret@db/metier", "postgresql://app:***@db/metier"),
        ("postgresql://app:s3:c@ret@db/metier", "postgresql://app:***@db/metier"),
        ("postgresql://db/metier?user=a&password=s3cret&x=1", "postgresql://db/metier?user=a&password=***&x=1"),
        ("postgresql://db/m?sslpassword=s3cret", "postgresql://db/m?sslpassword=***"),
        ("postgresql://app@db/metier", "postgresql://app@db/metier"),
        ("sqlite:////srv/a:b@c.db", "sqlite:////srv/a:b@c.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert hide_password(url) == shown


def test_a_plain_path_is_refused_with_the_address_that_it_would_be(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_address(str(tmp_path / "metier.db"))
    address = str(refused.value.hint).split()[-1]
    assert parse_address(address).target == str(tmp_path / "metier.db")
