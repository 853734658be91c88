"""The page: jobs, runs, queues and processes in a browser, in one ASGI application.

`app` returns it, for programs that mount it in their own application. ``redbike web`` serves the same application. It
needs the extra ``web``.
"""

from redbike.web.application import app

__all__ = ["app"]
