"""The API: the verbs and the lists of the command line over HTTP, as JSON, below ``/api/``.

`routes` has the table of all that can be asked. The router, the checks of roles and ``openapi.json`` follow from it.
"""

from redbike.web.api.application import Branch, make_api

__all__ = ["Branch", "make_api"]
