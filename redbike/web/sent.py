"""A form that a browser has sent to change something, and the answers to it."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redbike.schedule.clock import Clock
from redbike.web.control import Steerer, name_person
from redbike.web.memory import Memory, Note
from redbike.web.requests import Form, read_back
from redbike.web.site import Site

USED_UP = {
    "again": "This form was sent before: what it asks for was done once, not twice.",
    "old": "This form is too old, so nothing was done. Look how things are now, and try it again.",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A form that the page itself has given to this browser: that was checked."""

    site: Site
    request: Request
    form: Form

    @property
    def browser(self) -> str:
        """The cookie that tells browsers apart."""
        browser: str = self.request.state.browser
        return browser

    @property
    def memory(self) -> Memory:
        """What the page remembers of those who send forms."""
        return self.site.memory

    def make_steerer(self) -> Steerer:
        """Return what changes jobs in the name of who has sent the form."""
        return Steerer(self.site.bike, name_person(self.request, self.site.who_header))

    def read_clock(self) -> Clock:
        """Return Redis' clock, in the zone of the settings. Raise `ServerError`."""
        return self.site.read_clock()

    def lead_back(self, note: Note, back: str | None = None) -> Response:
        """Lead the browser back to where the form was, or to another place, and tell it something there."""
        self.memory.add_note(self.browser, note)
        return RedirectResponse(read_back(self.form) if back is None else back, 303)

    @property
    def is_repeated(self) -> bool:
        """Whether this form was sent before, and what it asks for was done."""
        return self.memory.is_used(self.form.get("once", ""))

    def refuse_again(self) -> Response:
        """Lead the browser back, and say that what it asks for was done before."""
        return self.lead_back(Note(USED_UP["again"], is_problem=True))

    def do_once(self, do: Callable[[], Note | Response], back: str | None = None) -> Response:
        """Call `do`, unless this form was sent before, and lead back with what it has to say; or give its answer."""
        claim = self.memory.claim(self.form.get("once", ""), self.browser)
        if claim != "ok":
            return self.lead_back(Note(USED_UP[claim], is_problem=True))
        try:
            said = do()
        finally:
            self.site.drop_seen()
        return self.lead_back(said, back) if isinstance(said, Note) else said
