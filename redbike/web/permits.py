"""The permit of a person or program: who sends a request, and what the sender may do. The guard makes it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from redbike.store.patterns import compile_patterns
from redbike.store.tokens import ROLES, Role


@dataclass(frozen=True, slots=True)
class Permit:
    """What a sender may do. The sender is known by a token, by a proxy, or only by the address."""

    name: str = ""  # of the token, or of the user that a proxy names; "" if unknown
    role: Role = "read"
    jobs: tuple[str, ...] = ()  # patterns of the permitted jobs; () for all

    @property
    def whose(self) -> str:
        """The name for a message, such as " of anna"; "" without a name."""
        return f" of {self.name}" if self.name else ""

    def may(self, role: Role) -> bool:
        """Tell whether the permit has this role or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def fits(self) -> Callable[[str], bool]:
        """A function that tells whether the permit includes the job with an id."""
        return compile_patterns(self.jobs)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused: an HTTP status, one line of text, and headers."""

    status: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)


def explain_role(permit: Permit, needed: Role, writes: bool) -> str:
    """Return a sentence that says why a permit does not suffice. `writes` tells whether the page may make changes."""
    if not writes:
        return "this page is read-only: start it with --write to change something"
    return f"the role {permit.role!r}{permit.whose} may not do this: {needed!r} is needed"
