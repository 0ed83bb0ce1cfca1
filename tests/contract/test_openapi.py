# SPDX-License-Identifier: Apache-2.0
"""The server against its own document: requests made from openapi.json, right ones and wrong ones.

Schemathesis walks every operation of the table of routes. Whatever it sends, the answer is one that
the document promises: a known status, the error's shape with the request's id, the right media
type, and never a failure of the server.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from requests.exceptions import ChunkedEncodingError
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    status_code_conformance,
)

from serving import Server, make_home

EXAMPLES = int(os.environ.get("SEALMARK_SCHEMATHESIS_EXAMPLES", "12"))

# what may be answered with a status of 5xx: all by itself, and said so
PASSING = {"unavailable", "busy", "host_unavailable", "guest_busy"}


@pytest.fixture(scope="module")
def walked(has_machines: None) -> Iterator[tuple[Server, str]]:
    """A server with little room, and a sandbox in it."""
    options = ["--rate", "5000", "--sandboxes", "3", "--memory", "2G"]
    server = Server(make_home(), options)
    server.start()
    yield server, server.create(timeoutSeconds=3600)
    server.close()


@pytest.fixture(scope="module")
def document(walked: tuple[Server, str]) -> Any:
    server, _ = walked
    answer = server.ask("GET", "/v1/openapi.json")
    assert answer.status == 200
    schema = schemathesis.openapi.from_dict(answer.json)
    schema.config.update(base_url=server.url)
    return schema


def is_error(body: Any, request_id: str) -> bool:
    error = body.get("error", {})
    return (
        isinstance(error.get("code"), str)
        and isinstance(error.get("status"), int)
        and isinstance(error.get("message"), str)
        and error.get("requestId") == request_id
    )


def check(case: schemathesis.Case, server: Server, sandbox: str) -> None:
    # most of what is behind needs a sandbox that is there; its end is the life tests' matter
    ends = case.method == "DELETE" or case.path.endswith((":stop", ":restart", ":pause"))
    if case.path.startswith("/v1/sandboxes/{id}") and not ends:
        case.path_parameters = {**(case.path_parameters or {}), "id": sandbox}
    for wait in ("timeoutSeconds", "waitMs"):  # an answer that is waited for is none the better
        if case.query and isinstance(case.query.get(wait), int) and case.query[wait] > 1:
            case.query[wait] = 1
    try:
        response = case.call(
            headers={"Authorization": f"Bearer {server.key}", "Prefer": "wait=1"}, timeout=60
        )
    except ChunkedEncodingError:
        # it had begun, and breaks off at what this user may not read: so it is no whole archive
        assert (case.method, case.path) == ("GET", "/v1/sandboxes/{id}/files/archive")
        return
    if response.status_code in (414, 431) and "x-request-id" not in response.headers:
        return  # the HTTP library has refused it before there was a request
    request_id = response.headers["x-request-id"][0]
    assert request_id
    if response.status_code >= 400 and case.method != "HEAD":
        body = json.loads(response.content)
        assert is_error(body, request_id), body
        assert response.status_code < 500 or body["error"]["code"] in PASSING, body
    case.validate_response(
        response,
        checks=[content_type_conformance, negative_data_rejection, status_code_conformance],
    )


@pytest.mark.timeout(900)
def test_every_answer_is_as_the_document_says(walked: tuple[Server, str], document: Any) -> None:
    server, sandbox = walked
    operations, wrong = 0, []
    for found in document.get_all_operations():
        operation = found.ok()
        for mode in schemathesis.GenerationMode:

            @hypothesis.settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
            def walk(case: schemathesis.Case) -> None:
                check(case, server, sandbox)

            try:
                walk()
            except hypothesis.errors.Unsatisfiable:
                continue  # nothing of it can be wrong
            except (
                Exception,
                BaseExceptionGroup,
            ) as why:  # all of them, so that one run names everything
                wrong.append(f"{operation.method.upper()} {operation.path} ({mode.value}): {why}")
        operations += 1
    assert operations > 40
    assert not wrong, "\n\n".join(wrong)
    assert server.ask("GET", "/v1/health").status == 200
