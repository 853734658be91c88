"""Who asks, and what that person or program may do: read once from a request, and asked wherever something is done."""

from collections.abc import Callable
from dataclasses import dataclass, field

from redbike.store.patterns import compile_patterns
from redbike.store.tokens import ROLES, Role


@dataclass(frozen=True, slots=True)
class Permit:
    """What somebody may do who is known by a token, by a proxy, or only by the address."""

    name: str = ""  # of the token, or of the user that a proxy names; "" if nobody says
    role: Role = "read"
    jobs: tuple[str, ...] = ()  # patterns of the jobs that it is for; none for all

    @property
    def whose(self) -> str:
        """Its name in a sentence, with a blank before it; "" without one."""
        return f" of {self.name}" if self.name else ""

    def may(self, role: Role) -> bool:
        """Tell whether it has this role, or one that may do more."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def fits(self) -> Callable[[str], bool]:
        """Return what tells whether it is for a job of an id."""
        return compile_patterns(self.jobs)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered: a status of HTTP, one line, and headers."""

    status: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)


def explain_role(permit: Permit, needed: Role, writes: bool) -> str:
    """Return why somebody may not do what needs a role, in a sentence; `writes` tells whether the page may write."""
    if not writes:
        return "this page is read-only: start it with --write to change something"
    return f"the role {permit.role!r}{permit.whose} may not do this: {needed!r} is needed"
