"""Real servers on loopback for tests and the demo: brokers, a database, a worker, and a proxy that breaks things.

Every server is started by us on a free port, is ready when its context is entered, and leaves nothing behind: no
process, even when ours is killed, and no file. Only the standard library is used.
"""

from inorder.testing.services.mosquitto import Bridge, Mosquitto, bridged_mosquittos
from inorder.testing.services.pgbouncer import PgBouncer
from inorder.testing.services.postgres import PostgresServer
from inorder.testing.services.proxy import FaultProxy
from inorder.testing.services.redis import RedisServer, replicated_redis
from inorder.testing.services.server import MissingBinary, Server, ServerFailed, find_binary, free_port, wait_until
from inorder.testing.services.tls import Certificates
from inorder.testing.services.worker import WorkerServer

__all__ = [
    "Bridge",
    "Certificates",
    "FaultProxy",
    "MissingBinary",
    "Mosquitto",
    "PgBouncer",
    "PostgresServer",
    "RedisServer",
    "Server",
    "ServerFailed",
    "WorkerServer",
    "bridged_mosquittos",
    "find_binary",
    "free_port",
    "replicated_redis",
    "wait_until",
]
