"""What ordering costs, beside what would be used without it: the workloads of ``inorder bench``."""

from inorder_bench.history import append, check_writable
from inorder_bench.machine import machine
from inorder_bench.match import Size
from inorder_bench.rows import Result, Row, plain
from inorder_bench.table import show
from inorder_bench.workloads import QUICK, WORKLOADS, Workload

__all__ = [
    "QUICK",
    "WORKLOADS",
    "Result",
    "Row",
    "Size",
    "Workload",
    "append",
    "check_writable",
    "machine",
    "plain",
    "show",
]
