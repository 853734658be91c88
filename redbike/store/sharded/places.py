"""Which shard a job lives in, and what the prefixes of the shards are."""

from binascii import crc_hqx

from redbike.errors import BadConfig
from redbike.store.host_names import AT
from redbike.text.group_names import MARK

SLOTS = 16384  # of a cluster


def name_shards(prefix: str, number: int) -> list[str]:
    """Return the prefix of each shard: ``{app:00}/16`` and so on, each in a slot of its own. Raise `BadConfig`.

    It has the number of shards, so no key of 16 shards is one of 4: a process that expects 4 cannot write into the 16.
    """
    inner = prefix[1:-1] if prefix.startswith("{") and prefix.endswith("}") else prefix
    if "{" in inner or "}" in inner:
        raise BadConfig(f"bad prefix {prefix!r}: with shards it has no braces, as each shard has its own")
    return [f"{{{inner}:{shard:02}}}/{number}" for shard in range(number)]


def find_shard(jobid: str, number: int) -> int:
    """Return the number of the shard of a job, from 0, by CRC16 of its id, as Redis finds the slot of a key.

    Each shard has a range of the slots. The slot modulo `number` would be no good: ids that differ in a few digits
    often have the same last bits of CRC16. If an id has text in braces, only this text counts, as in a key: so jobs can
    be kept together. Without braces, only the text before an ``@`` counts, unless the id begins with it: so the job on
    a host and the occurrences of a backfill are where their job is.
    """
    slot = crc_hqx(_find_tag(jobid).encode(errors="surrogateescape"), 0) % SLOTS
    return slot * number // SLOTS


def _find_tag(jobid: str) -> str:
    jobid = jobid.removeprefix(MARK)  # the name of a group
    begin = jobid.find("{")
    end = jobid.find("}", begin + 1)
    if begin >= 0 and end > begin + 1:
        return jobid[begin + 1 : end]
    return jobid[:1] + jobid[1:].partition(AT)[0]
