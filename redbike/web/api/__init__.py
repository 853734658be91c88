"""The API: the actions and the lists of the command line, over HTTP as JSON, below ``/api/``.

`routes` has the table of all routes. The router, the checks of roles and ``openapi.json`` are derived from this table.
"""
