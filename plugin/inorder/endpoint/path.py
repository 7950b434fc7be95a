"""A client's requests enter the belt where its publish order is kept: the path of R19. No I/O."""

from __future__ import annotations

from itertools import islice
from typing import Any

from inorder.endpoint.homes import Homes
from inorder.endpoint.publications import Publication, Publications, PublicationState
from inorder.endpoint.uses import Uses
from inorder.protocol.wire import TopicInfo

LOOKED_AHEAD = 64
"""Publications in the queue whose topics' stages are looked at before one is asked for."""
_REQUESTED = PublicationState.REQUESTED


class Path:
    """The path knows the unanswered requests; these decide where the next request enters, or whether it must wait.

    Args:
        publications: all that are open; those in the queue come next.
        homes: the stages of topics.
        uses: what requests follow.
    """

    def __init__(self, publications: Publications, homes: Homes, uses: Uses) -> None:
        self._publications, self._homes, self._uses = publications, homes, uses
        # Counters of requests without an answer. All of them entered at the stage `_entry`; the highest of their
        # topics' homes is `_ceiling`.
        self._unanswered: set[int] = set()
        self._entry = self._ceiling = 0
        # The home of the last request's topic; 0 where everything that was requested is known to be complete.
        self._previous_home = 0
        # Requests without an answer that stages may have forgotten: nothing else is requested before they are answered.
        self._doubted: set[int] = set()
        # What requests without an answer follow is to be collected once more before they are asked again.
        self._is_stale = False

    def describe(self) -> dict[str, Any]:
        """Return all that is known of requests, for tests and messages about failures."""
        return {
            "unanswered": set(self._unanswered),
            "entry": self._entry,
            "ceiling": self._ceiling,
            "previous_home": self._previous_home,
            "doubted": set(self._doubted),
            "is_stale": self._is_stale,
        }

    # -- new requests ------------------------------------------------------------------------------------------

    def next_entry(self, info: TopicInfo) -> int:
        """Return the stage at which a request of this topic would enter now."""
        return self._entry if self._unanswered else self._entry_alone(info)

    def enter(self, publication: Publication, info: TopicInfo) -> bool:
        """Make the request of a publication, if it may leave now."""
        doubted = self._doubted
        if doubted and publication.counter not in doubted:
            return False
        home = info.stage
        if not self._unanswered:
            self._entry, self._ceiling = self._entry_alone(info), home
            self._uses.rely_on_nothing()
        elif not self._may_follow(info):
            return False
        if home < self._ceiling:
            self._ceiling = home
        self._previous_home = home
        self._unanswered.add(publication.counter)
        publication.info, publication.entry, publication.state = info, self._entry, _REQUESTED
        self._uses.follow(publication, info, bool(doubted))
        return True

    def _may_follow(self, info: TopicInfo) -> bool:
        """A request follows unanswered ones into their entry stage, unless it must enter below that. If some of them
        are created above its topic's own stage, its timestamp rides on behind them up to there, and what it follows is
        added there: the numbers are not known before. An event log would serve it even if a stage cannot do that any
        more (R18)."""
        if info.stage > self._ceiling and (info.stage > self._entry or info.logged):
            return False
        return self._uses.lowest_followed(info) <= self._entry

    def _entry_alone(self, info: TopicInfo) -> int:
        """Return the stage at which a request enters while no other one is unanswered. It is no higher than where the
        one before was created, nor than the topics of what a stage may have forgotten; and no higher than the topics of
        those that are queued behind, so that these need not wait."""
        entry = max(info.stage, self._previous_home, self._uses.lowest_followed(info))
        if entry >= self._homes.lowest:
            return entry
        topics = self._homes.topics
        for each in islice(self._publications.queue, LOOKED_AHEAD):
            its = topics.get(each.topic)
            if its is None or its.logged:
                break
            entry = max(entry, its.stage)
        return entry

    # -- answers -----------------------------------------------------------------------------------------------

    def answered(self, publication: Publication) -> None:
        """A stage answered a request: it numbered the event, or never will."""
        counter = publication.counter
        self._unanswered.discard(counter)
        if counter in self._doubted:
            self._doubted.remove(counter)
            self._uses.carry([publication.use] if publication.use is not None else [])

    def given_up(self, publication: Publication) -> None:
        """A stage gave up the number of an event, or refused to give it one. What the event follows may be named by
        none now."""
        if publication.number and publication.use is not None:
            publication.use.number = publication.number  # who has it must not have what follows before it
        if not publication.number:
            self._uses.withdraw(publication)
        elif publication.through >= 0:
            self._uses.carry_behind(publication)
        else:
            return
        self._doubted |= self._unanswered

    # -- what is unanswered ------------------------------------------------------------------------------------

    def lost(self, stage: int) -> None:
        """The connection to a stage is gone. Before there is another one the stage may drop the session; so what is
        requested from now on does not rely on its knowing what this client published there last. What it
        says of that would come too late: its word may be lost with the next connection, and the session is new then.

        What is unanswered is asked again of a session that may be new, and may be forgotten: it carries what it can,
        relies on that stage's knowing the rest, and the next request waits until it is answered.
        """
        self._uses.lost(stage)
        if any(_passes(self._publications.open[counter], stage) for counter in self._unanswered):
            self._doubted |= self._unanswered
            self._is_stale = True

    def refresh(self) -> None:
        """Let unanswered requests carry what a lost stage may not know any more, before they are asked again."""
        if self._is_stale:
            self._is_stale = False
            asked = [each for each in self._publications if each.counter in self._unanswered]
            self._uses.follow_anew(asked, self._doubted)

    def take_back(self, publications: list[Publication]) -> None:
        """Take back all requests without an answer, as if they had never been made. Everything older is complete, so
        nothing waits for its way up."""
        self._unanswered.clear()
        self._previous_home = 0
        self._uses.take_back(publications)
        self._uses.count_stages()

    def take_back_last(self, publications: list[Publication], entry: int) -> None:
        """Take back the last requests, which a stage has refused, as if they had never been made. What was requested
        before may be on its way up from there, so the next request enters no higher."""
        self._unanswered.difference_update(each.counter for each in publications)
        self._previous_home = entry
        self._uses.take_back(publications)
        self._uses.count_stages()


def _passes(publication: Publication, stage: int) -> bool:
    if (info := publication.info) is None:
        return False
    top = info.stage if publication.through < 0 else publication.through
    return top <= stage <= publication.entry
