"""The commands that dispatchers, workers and clients run, with spaces between them, as the rules of an ACL spell them.

``docs/security.rst`` gives users these rights. A dispatcher or a worker checks all of them at its start, in one
request. Otherwise a missing right would be noticed only in the middle of a run, perhaps after weeks. ``ping``,
``evalsha`` and in a cluster ``cluster|slots`` are not listed, as the request itself needs them. ``info`` and
`PUBLISHING` are optional.
"""

DISPATCHER = (
    "script|load time blpop hlen zcard scard llen type exists pttl psetex get hget hgetall hmget hexists hset hdel "
    "hincrby zrange zrevrange zrangebyscore zscore zmscore zlexcount zadd zrem zremrangebyrank zremrangebylex del "
    "lrange lindex lpos lpush rpush rpop ltrim sadd smembers srem smismember"
)
WORKER = (
    "script|load time blpop hlen zcard scard llen strlen type exists pttl get set mget del hget hmget hexists hset "
    "hdel hscan hincrby zrange zrevrange zscore zlexcount zadd zrem zremrangebylex lrange lindex lpos lpush rpush "
    "ltrim rpop sadd srem smismember sismember smembers"
)
# A client that runs neither ``fsck`` nor ``tail``.
CLIENT = (
    "script|load time hscan hlen zcard scard llen strlen type exists pttl get set del hget hgetall hmget hexists hset "
    "hdel hincrby multi exec zrange zcount zrank zscore zmscore zlexcount zadd zrem zremrangebyrank zremrangebylex "
    "lrange lindex lpos lpush rpush lset ltrim sadd smembers srem smismember"
)
# What a dispatcher and a worker also need if there is a setting ``alert``.
ALERTING = "hscan hlen hset hdel hmget multi exec zrange zscore zmscore"
# What a worker, and each process that changes something, also need if there are several shards.
SHARDED = "hsetnx client|id client|unblock"
ROLES = {"client": CLIENT, "dispatcher": DISPATCHER, "worker": WORKER}

PUBLISHING = "spublish"


def describe_missing(user: str, role: str, missing: list[str]) -> str:
    """Return a message that `user` of Redis lacks the rights `missing`, which a process of this role needs."""
    return (
        f"Redis gives the user {user!r} no permissions for {', '.join(missing)}: a {role} needs them "
        "(docs/security.rst lists all)"
    )
