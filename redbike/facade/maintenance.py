"""The methods of `redbike.facade.redbike.Redbike` that check and repair what is in Redis."""

from collections.abc import Iterator

from redbike.control.repair import Repair
from redbike.control.setter import Setter
from redbike.store.inspection.fsck import fsck
from redbike.store.store import Store


class Maintenance:
    """Checks and repairs what is in `store`. Its changes are noted in the log by `noted`, if they are a person's."""

    def __init__(self, store: Store, noted: Store, setter: Setter) -> None:
        self.store, self._noted, self._setter = store, noted, setter

    def fsck(self) -> Iterator[str]:
        """Whatever is wrong with the jobs, a line for each thing; nothing is changed."""
        return fsck(self.store)

    def repair(self) -> Iterator[tuple[str, bool]]:
        """Put right what `fsck` finds: for each job a line with what was done, and whether it is well now.

        Dispatchers and workers may go on meanwhile. It happens as the lines are asked for.
        """
        return Repair(self._noted, self._setter.compute_repair_start(), self._setter.compute_first_due).run()

    def acknowledge(self) -> list[str]:
        """Return a line for each time that the server went back, and do not tell it any more: somebody knows of it."""
        found = self._noted.rewinds.list_all()
        self._noted.rewinds.acknowledge(found)
        return [rewind.describe() for rewind in found]

    def flush(self) -> int:
        """Delete all keys under the prefix and no others; how many there were."""
        return self.store.upkeep.flush()
