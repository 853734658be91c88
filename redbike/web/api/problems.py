"""Errors as ``application/problem+json`` of RFC 9457. Their detail is the message of the command line."""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from redbike.errors import RedbikeError, ServerError
from redbike.web.permits import Refusal

KIND = "application/problem+json"
AWAY = {"retry-after": "2"}  # seconds that a restart of the server takes, about
INSIDE = "this could not be answered; the log of the process that has the API says why"


class Problem(Exception):
    """The error with which a request fails: its HTTP status, message and headers."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, name: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})
        self.name = name  # the name of the library's error, such as no-such-job; "" for none

    @classmethod
    def of(cls, error: RedbikeError) -> "Problem":
        """Return an error of the library as a problem."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
        if isinstance(error, ServerError):
            return cls(503, str(error), AWAY, name)
        if isinstance(error, LookupError):
            return cls(404, str(error), name=name)
        return cls(422 if isinstance(error, ValueError) else 409, str(error), name=name)

    @classmethod
    def refuse(cls, refusal: Refusal) -> "Problem":
        """Return a refusal of the guard as a problem."""
        return cls(refusal.status, refusal.text, refusal.headers)

    def answer(self) -> Response:
        """Return the response."""
        # Before Python 3.13, the standard library has an earlier name for 422.
        title = "Unprocessable Content" if self.status == 422 else HTTPStatus(self.status).phrase
        kind = f"urn:redbike:problem:{self.name}" if self.name else "about:blank"
        found = {"type": kind, "title": title, "status": self.status, "detail": self.detail}
        return Response(dump(found), self.status, self.headers, KIND)


def dump(value: Any) -> bytes:
    """Return a value as JSON in UTF-8. Surrogates, as in a bad job id, become the original bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogateescape")
