"""The page: jobs, runs, queues and processes in a browser, in one ASGI application.

`app` makes it, for ``redbike web`` and for programs that mount it in an application of their own. It needs the extra
``web``.
"""

from redbike.web.application import app

__all__ = ["app"]
