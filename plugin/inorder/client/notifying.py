"""Delivery of notifications to the delivery stream, or to a library that embeds the client, and to observers."""

from __future__ import annotations

from collections.abc import Callable

from inorder.client.delivery import DeliveryStream
from inorder.client.notification_sink import NotificationSink
from inorder.client.observing import Observer
from inorder.client.recording import Recording
from inorder.endpoint.effects import (
    Alarm,
    Began,
    Dropped,
    Ended,
    Expired,
    LateConfirmation,
    LeaseTurned,
    Missed,
    Notify,
    Unrouted,
    WasOverlap,
)
from inorder.endpoint.notifications import Verdict
from inorder.errors import InorderError
from inorder.logs import logger

_log = logger("inorder.client")


class Notifier:
    """Carries out the effects for the application, and those for logs and recorders.

    Args:
        stream: gets notifications where there is no ``sink``.
        is_strict: events wait while the lease has lapsed.

    Attributes:
        sink: the library that this client is embedded in.
        observer: tells operators of a sample of events.
        recording: records all of them.
    """

    def __init__(self, stream: DeliveryStream, is_strict: bool) -> None:
        self._stream, self._is_strict = stream, is_strict
        self.sink: NotificationSink | None = None
        self.observer: Observer | None = None
        self.recording: Recording | None = None
        self.handlers: dict[type, Callable[..., None]] = {
            Notify: self.notify,
            Missed: self._missed,
            Began: self._began,
            Ended: self._ended,
            Dropped: self._dropped,
            WasOverlap: self._was_overlap,
            Unrouted: self._unrouted,
            Alarm: self._alarm,
            LeaseTurned: self._lease_turned,
            Expired: self._expired,
            LateConfirmation: self._late_confirmation,
        }

    # -- notifications -----------------------------------------------------------------------------------------

    def notify(self, effect: Notify) -> None:
        """Notify the application of an event."""
        event, entry = effect.event, effect.entry
        is_told = True
        if self.sink is None:
            is_told = self._stream.put(event)
        else:
            self.sink.on_event(event, effect.arrival)
        if entry is None:
            if is_told and self.recording is not None:
                given = event.space, effect.arrival, event.verdict, event.number, effect.arrived
                self.recording.notified_plain(*given)
            return
        if self.observer is not None and event.verdict is not Verdict.UNSEQUENCED:
            self.observer.notified(entry, event.verdict)
        if is_told and self.recording is not None:
            self.recording.notified(entry)

    def _missed(self, effect: Missed) -> None:
        is_told = True
        if self.sink is None:
            is_told = self._stream.put(effect.gap)
        else:
            self.sink.on_gap(effect.gap)
        if is_told and self.recording is not None:
            self.recording.gap(effect.gap)

    def failed(self, error: InorderError) -> None:
        """Pass on that the client has failed for good."""
        if self.sink is not None:
            self.sink.on_failed(error)

    # -- what no notification tells ----------------------------------------------------------------------------

    def _began(self, effect: Began) -> None:
        if self.recording is not None:
            self.recording.began(effect.topic, effect.number)

    def _ended(self, effect: Ended) -> None:
        if self.recording is not None:
            self.recording.ended(effect.topic, effect.number)

    def _dropped(self, effect: Dropped) -> None:
        entry = effect.entry
        if self.recording is not None:
            self.recording.dropped(entry, effect.why)
        if self.sink is not None:
            _, arrival, _ = entry.content
            why = "twin_waits" if effect.twin_waits else effect.why
            self.sink.on_passed_over(arrival, entry.topic, entry.number, why)

    def _was_overlap(self, _: WasOverlap) -> None:
        if self.recording is not None:
            self.recording.was_overlap()

    def _unrouted(self, effect: Unrouted) -> None:
        if self.sink is not None:
            self.sink.on_unrouted(effect.arrival)

    # -- logs --------------------------------------------------------------------------------------------------

    def _alarm(self, effect: Alarm) -> None:
        _log.warning(
            "event=alarm kind=%s space=%s topic=%s number=%d hint=%s",
            effect.kind,
            effect.space,
            effect.topic,
            effect.number,
            effect.hint,
        )

    def _lease_turned(self, effect: LeaseTurned) -> None:
        if effect.is_leased:
            _log.info("event=lease_renewed")
            return
        how = "events wait until they do" if self._is_strict else "events are tagged as late"
        hint = f"not all workers of the subscription have answered in time: {how}"
        _log.warning("event=lease_lapsed hint=%s", hint)

    @staticmethod
    def _expired(_: Expired) -> None:
        _log.warning("event=subscription_expired hint=%s", "away from the workers for too long: it begins anew")

    @staticmethod
    def _late_confirmation(effect: LateConfirmation) -> None:
        _log.error("event=late_confirmation topic=%s number=%d", effect.name, effect.number)
