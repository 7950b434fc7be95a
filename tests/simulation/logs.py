"""Event logs of simulated stages (R18): which topics have one, and how they are trimmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.endpoints import SPACE
from tests.simulation.messages import wild

from inorder.protocol.names import exact
from inorder.protocol.pairs import flat, raise_to
from inorder.protocol.wire import LogRule
from inorder_worker.sequencer.commands import SetLogRule, TrimLog

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.hosts import Host
    from tests.simulation.world import World


def turn_on(world: World) -> None:
    """Turn on the profile's logs, everywhere before anything is published."""
    names = [wild("#")] if world.profile.logged else []
    if world.profile.some_logs:
        names = [exact(each) for each in world.names if world.operators.random() < 0.6]
    bottom = world.hosts[-1]
    for name in names:
        bottom.run(SetLogRule("", 0, 0, LogRule(SPACE, name), True))
    bottom.commit()
    while any(host.step(world.rng) or host.commit() for host in world.hosts) and names:
        pass


def trim(world: World, _: Client, host: Host) -> None:
    """A log is over its bounds: its oldest rows are forgotten (see ``service/log_bounds``)."""
    rng, stage = world.operators, host.stage
    logged = [each for each, rows in world.log.items() if rows and stage.stage_of(each) == host.index]
    if not logged:
        return
    topic = rng.choice(logged)
    numbers = stage.log.settled(topic, rng.choice((1, 2, 5)))
    rows, base = world.log[topic], dict[int, int]()
    if not numbers or any(not (row := rows.get(each)) or not row.stored_ms for each in numbers):
        return
    for each in numbers:
        raise_to(base, rows[each].deps)
    behind = rows.get(numbers[-1] + 1)
    world.done["trims"] += 1
    world.history.is_direct = False  # what the log has is confirmed, and may be handed over later than it is trimmed
    host.run(TrimLog(topic, numbers[-1], flat(base), behind is None or bool(behind.ticks)))
