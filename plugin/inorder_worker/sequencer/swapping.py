"""Topics with many events change places with less popular ones on higher stages (R15).

The counts of a window ride the belt from the bottom stage to the top; what the top stage proposes is a change of the
topic order like an operator's (R14).
"""

from __future__ import annotations

from msgspec.structs import replace

from inorder.protocol.pairs import joined, pairs
from inorder.protocol.wire import Done
from inorder_worker.sequencer.commands import SetAutomatic
from inorder_worker.sequencer.popularity import swaps
from inorder_worker.sequencer.reordering import Reordering
from inorder_worker.sequencer.rides import PopularityRide, SwapRide
from inorder_worker.sequencer.state import Outbox, StageState, Switch


class Swapping:
    """The department of a stage that counts popularity, and proposes swaps for the topic managers."""

    def __init__(self, state: StageState, outbox: Outbox, reordering: Reordering) -> None:
        self._state, self._outbox, self._reordering = state, outbox, reordering

    def ride(self, ride: PopularityRide | SwapRide) -> None:
        """Take a ride of this department."""
        if isinstance(ride, PopularityRide):
            self.counted(ride)
        else:
            self.proposed(ride)

    def next_deadline(self) -> int | None:
        """Return the stage time at which a window ends, at the bottom stage."""
        state = self._state
        window = state.popularity.window_ms
        if not window or not state.is_bottom or state.count == 1 or state.switch is not None:
            return None
        return state.window_began + window

    def count(self) -> None:
        """Collect the counts of a window that has ended; before that there is nothing to do."""
        state, due = self._state, self.next_deadline()
        if due is not None and due <= state.now:
            state.window_began = state.now
            how = state.popularity
            self.counted(PopularityRide(state.order_epoch, [], sorted(state.pins), how.alpha, how.beta))

    def set_automatic(self, command: SetAutomatic) -> None:
        """Take an operator's word whether, and how, topics change places by themselves. A new window begins."""
        state = self._state
        state.automatic = command.automatic
        self._outbox.reply(command.client_id, command.incarnation, Done(command.request))
        if command.automatic.window_ms:
            self.counted(PopularityRide(state.order_epoch, [], [], 0.0, 0.0, begins=True))

    def begin_window(self) -> None:
        """Popularity is counted from now on."""
        state = self._state
        state.window_began = state.now
        for manager in state.topics.values():
            manager.counted = manager.number

    def counted(self, ride: PopularityRide) -> None:
        """Add this stage's counts; the top stage, which has all of them, proposes for the topic managers."""
        state = self._state
        if ride.begins:
            self.begin_window()
            if state.index > 0:
                self._outbox.up(ride)
            return
        counts = list(ride.counts)
        for manager in state.topics.values():
            if manager.stage == state.index and manager.number > manager.counted:
                counts += (manager.id, manager.number - manager.counted)
                manager.counted = manager.number
        if state.index > 0:
            self._outbox.up(replace(ride, counts=counts))
            return
        events = dict(pairs(counts))
        stages = self._reordering.placement()
        chosen = swaps(stages, events, set(ride.pinned), ride.alpha, ride.beta)
        if chosen:
            self._outbox.send(state.count - 1, SwapRide(ride.order_epoch, joined(chosen)))

    def proposed(self, ride: SwapRide) -> None:
        """Topic managers want to change places; only as long as the order is the one they know."""
        state = self._state
        if state.switch is not None or ride.order_epoch != state.order_epoch:
            return
        stages = self._reordering.placement()
        place = {topic: (stage, at) for stage, topics in enumerate(stages) for at, topic in enumerate(topics)}
        for one, other in pairs(ride.pairs):
            if not state.pins.isdisjoint((one, other)) or state.has_ended(one) or state.has_ended(other):
                continue
            place[one], place[other] = place[other], place[one]
            for topic in (one, other):
                stage, rank = place[topic]
                stages[stage][rank] = topic
        self._reordering.begin(Switch(state.order_epoch + 1, stages))
