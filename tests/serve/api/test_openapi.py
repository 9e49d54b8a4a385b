"""The OpenAPI document."""

from __future__ import annotations

from openapi_spec_validator import validate
from tests.serve.api.conftest import Api

from metier.serve.api.openapi import PATH


def test_the_document_is_valid_and_the_same_for_who_has_it(api: Api) -> None:
    answer = api.as_("nobody").get(PATH)
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    validate(document)
    again = api.as_("nobody").get(PATH, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_every_operation_has_a_name_of_its_own_and_says_what_it_does(api: Api) -> None:
    paths = api.as_("nobody").get(PATH).json()["paths"]
    operations = [operation for path in paths.values() for operation in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations)
    assert [one["operationId"] for one in operations if not one.get("summary")] == []
