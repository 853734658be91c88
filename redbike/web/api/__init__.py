"""The API: the verbs and the lists of the command line over HTTP, as JSON, below ``/api/``.

`routes` has the table of all that can be asked. The router, the checks of roles and ``openapi.json`` follow from it.
"""
