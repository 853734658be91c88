"""``/api/openapi.json``: it is valid, has each route, and what is answered fits the schemas in it."""

import pytest

from redbike.config.parameters import OPTIONS
from redbike.web import app
from redbike.web.api.routes import ROUTES
from tests.web.api import JOB, Api, list_requests


@pytest.fixture
def api(bike):
    return Api(app(bike, write=True, api=True, show_data=True))


def test_the_document_is_valid_and_has_all_that_can_be_asked(api):
    from openapi_spec_validator import OpenAPIV31SpecValidator  # takes seconds: only where it is needed

    _, document = api.ask("GET", "/openapi.json")
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in ROUTES} | {("GET", "/events")}
    names = [each["operationId"] for item in document["paths"].values() for each in item.values()]
    assert len(names) == len({*names})
    assert document["components"]["schemas"]["Options"]["properties"].keys() == OPTIONS.keys()
    assert document["servers"] == [{"url": "/api"}]


def test_what_is_answered_fits_its_schema(bike, api):
    from jsonschema import Draft202012Validator

    _, document = api.ask("GET", "/openapi.json")
    components = {"components": document["components"]}
    for route, path, body in list_requests():
        bike.limit("A", at_once=3)
        bike.set(JOB, "EVERY:1h", retries=1, data={"error": "no"})
        bike.run(JOB)
        bike.work_one()
        bike.pause(JOB)
        described = document["paths"][route.path][route.method.lower()]
        status, found = api.ask(route.method, path, body)
        reply = described["responses"][str(status)]
        if status != 204:
            schema = reply["content"]["application/json"]["schema"]
            Draft202012Validator(schema | components).validate(found)
        if body is not None:
            given = described["requestBody"]["content"]["application/json"]["schema"]
            Draft202012Validator(given | components).validate(body)
