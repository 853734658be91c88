"""Durations of processes that a test starts: it cannot reach their constants, but their worker module can.

Nothing is imported here, as each of those processes imports this module.
"""

import sys


def set_lines(**seconds: float) -> str:
    """Lines of a worker module that set durations; the name of each is like ``signals__AGAIN``."""
    return f"import tests.durations\ntests.durations.set_all({seconds!r})\n"


def set_all(seconds: dict[str, float]) -> None:
    """Set each of them in its own module of Redbike, and wherever else it was imported."""
    modules = [module for name, module in sys.modules.items() if name.startswith("redbike.")]
    for name, value in seconds.items():
        place, _, constant = name.partition("__")
        [before] = [
            vars(module)[constant]
            for module in modules
            if module.__name__.endswith(f".{place}") and constant in vars(module)
        ]
        for module in modules:
            # Another constant that happens to be equal is another object.
            if vars(module).get(constant) is before:
                setattr(module, constant, value)


AGAIN = 0.2  # seconds
SOON_AGAIN = set_lines(signals__AGAIN=AGAIN)  # a second signal counts
