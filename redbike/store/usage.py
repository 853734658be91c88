"""What a command has used: it stands behind its run, see history.py."""

import math
import struct
from typing import NamedTuple, Self

_PACKED, KIB, MOST_KIB = struct.Struct("<fI"), 1024, 2**32 - 1
USAGE_SIZE = _PACKED.size


class Usage(NamedTuple):
    """What a command has used, with its children."""

    cpu: float  # seconds
    memory: int | None  # bytes, of that of these processes which had most; None if nobody knows it

    def pack(self) -> bytes:
        """Return it as it is kept."""
        return _PACKED.pack(self.cpu, min(math.ceil((self.memory or 0) / KIB), MOST_KIB))

    @classmethod
    def read(cls, packed: bytes, position: int) -> Self:
        """Return what stands there. Raise `struct.error` if nothing can."""
        cpu, memory = _PACKED.unpack_from(packed, position)
        return cls(round(cpu, 6), memory * KIB or None)
