"""A pipeline of one of several shards, which share connections."""

from collections.abc import Iterable

from redbike.store.scripts import Call, Pipeline, Reply


class SharedPipeline(Pipeline):
    """Gives its connection back as soon as nothing is unanswered, so that other shards of its master may use it."""

    def run(self, calls: Iterable[Call]) -> list[Reply]:
        """Run scripts in one round trip, see `Pipeline.run`."""
        try:
            return super().run(calls)
        finally:
            # After an error too: with replies left in it, nobody gets it.
            if not self.unanswered:
                self.close()
