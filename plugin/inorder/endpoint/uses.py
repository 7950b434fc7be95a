"""A client's requests follow its last events in other topics: the dependencies of R19. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import Any

from inorder.endpoint.publications import LastUse, Publication, Publications
from inorder.protocol.pairs import flat
from inorder.protocol.wire import TopicInfo

_NOWHERE = -1
"""As a stage: no stage remembers that use, so the request itself has to carry it."""


class Uses:
    """The record holds a session's last use of each topic, and tells what a request follows.

    Args:
        publications: those that are open remember the use before them, which is the last one again if they are taken
            back.
    """

    def __init__(self, publications: Publications) -> None:
        self._publications = publications
        # By topic id; in rising order of their counters, so that the latest are found from the end.
        self._last: dict[int, LastUse] = {}
        # The stages that add uses to what follows them: of all in `_last`, and perhaps of some that were there.
        self._stages: set[int] = set()
        # What unanswered requests rely on: by stage, the lowest of this session's counters that it must know.
        self._relied: dict[int, int] = {}
        # Unless this is so, no use is deep.
        self._is_deep = False

    def describe(self) -> dict[str, Any]:
        """Return all that was used, for tests and messages about failures."""
        return {
            "last_uses": dict(self._last),
            "stages_used": set(self._stages),
            "relied": dict(self._relied),
            "is_deep": self._is_deep,
        }

    def _all(self) -> list[tuple[int, LastUse]]:
        """Return the last use of each topic, and former ones: each is the last again if a later request is planned
        anew."""
        behind = [(each.topic_id, each.before) for each in self._publications if each.before is not None]
        return [*self._last.items(), *behind]

    # -- what a request follows --------------------------------------------------------------------------------

    def rely_on_nothing(self) -> None:
        """Forget the requirements of earlier requests: none of them is unanswered."""
        self._relied = {}

    def lowest_followed(self, info: TopicInfo) -> int:
        """Return the lowest stage of what a request of this topic follows, and stages above may have forgotten; 0 where
        there is none."""
        if not self._is_deep:
            return 0
        last = self._last.get(info.id)
        since = 0 if last is None else last.since
        behind = takewhile(lambda use: use.counter > since, reversed(self._last.values()))
        return max((use.home for use in behind if use.is_deep), default=0)

    def follow(self, publication: Publication, info: TopicInfo, is_doubted: bool) -> None:
        """A request follows the last events in other topics since the previous one in its own. Those of stages that the
        request passes are added there, and so are unanswered ones above its topic's stage. All that relies on these
        stages: they may have dropped this session before the request gets there, if it is long on its way. If one that
        is unanswered is forgotten for that, what it follows is named by none; so whatever comes behind it relies on the
        same.

        One that is asked for anew may be older than some that are answered already. It follows none of these; and if
        one of them is in its topic, it was numbered before that, and gets the timestamp that it has.

        Args:
            is_doubted: the request may be forgotten, and is asked again.
        """
        uses, entry, counter = self._last, publication.entry, publication.counter
        publication.after, publication.required, publication.through = [], [], -1
        last = uses.get(info.id)
        if last is not None and last.counter > counter:
            return
        publication.before = uses.pop(info.id, None)
        if info.stage < entry or is_doubted or not all(map(range(info.stage, entry + 1).__contains__, self._stages)):
            self._collect(publication, info, 0 if last is None else last.since, is_doubted)
        is_older = bool(uses) and next(reversed(uses.values())).counter > counter
        publication.use = uses[info.id] = LastUse(counter, info.stage, last)
        if is_older:
            self._sort()
        self._stages.add(info.stage)
        if relied := self._relied:
            publication.required = flat(relied)
            highest = min(relied)
            publication.through = highest if highest < info.stage else -1

    def _collect(self, publication: Publication, info: TopicInfo, since: int, is_doubted: bool) -> None:
        """Let a request carry what no stage on its way adds of what was used behind the counter ``since``; rely on
        these stages for the rest."""
        after, entry, counter = publication.after, publication.entry, publication.counter
        passed, required = range(info.stage, entry + 1), dict[int, int]()
        for topic, use in reversed(self._last.items()):
            if use.counter <= since:
                break
            if use.counter > counter:
                continue
            if _NOWHERE < use.stage < info.stage and not use.number:
                after += (topic, use.known) if use.known else ()
                required[use.stage] = min(use.first, required.get(use.stage, use.first))
            elif use.stage not in passed:
                after += (topic, use.number) if use.number else ()
            elif use.stage < entry or (is_doubted and not use.number):
                required[use.stage] = use.counter
        relied = self._relied
        for stage, lowest in required.items():
            relied[stage] = min(lowest, relied.get(stage, lowest))

    def follow_anew(self, asked: list[Publication], doubted: Collection[int]) -> None:
        """Collect once more what unanswered requests follow, for when they are asked again.

        Args:
            asked: those requests, in publish order.
            doubted: counters of those that may be forgotten.
        """
        self._relied = {}
        self.take_back(asked)
        for each in asked:
            if each.info is not None:
                self.follow(each, each.info, each.counter in doubted)

    # -- what stages cannot be relied on for -------------------------------------------------------------------

    def lost(self, stage: int) -> None:
        """The connection to a stage is gone: from now on requests carry the numbers of uses there. They go by the homes
        of those further down that the stage was told of."""
        uses = [use for _, use in self._all()]
        self.carry(use for use in uses if use.stage == stage)
        for use in uses:
            if use.home > stage:
                use.is_deep = self._is_deep = True

    def carry(self, uses: Iterable[LastUse]) -> None:
        """Requests carry these themselves from now on; no stage has to know them."""
        for use in uses:
            use.stage = _NOWHERE
            self._stages.add(_NOWHERE)

    def carry_behind(self, publication: Publication) -> None:
        """Let later events in a topic follow all that this event follows, for perhaps no stage names it any more."""
        before, use = publication.before, publication.use
        since = 0 if before is None else before.since
        if use is not None:
            use.since = since
        self.carry(each for _, each in self._all() if each.counter > since)

    def withdraw(self, publication: Publication) -> None:
        """Let later publications follow the one before this in its topic, for this one never gets a number. Stages that
        it rode through take it for the last one there; so requests carry what is later than that one. What is
        unanswered has no number to be carried yet, and the next request waits for it."""
        use, before = publication.use, publication.before
        if use is not None:
            for each in self._publications:
                if each.before is use:
                    each.before = before
            if self._last.get(publication.topic_id) is use:
                self._restore(publication.topic_id, before)
                self._sort()
        self.carry_behind(publication)

    # -- as if requests had never been made --------------------------------------------------------------------

    def take_back(self, publications: list[Publication]) -> None:
        """Undo the uses of these publications, the last ones that were requested."""
        for each in reversed(publications):
            if each.use is not None and self._last.get(each.topic_id) is each.use:
                self._restore(each.topic_id, each.before)
            each.use, each.before = None, None
        self._sort()

    def _restore(self, topic: int, before: LastUse | None) -> None:
        del self._last[topic]
        if before is not None:
            self._last[topic] = before

    def _sort(self) -> None:
        self._last = dict(sorted(self._last.items(), key=lambda pair: pair[1].counter))

    def move(self, homes: Mapping[int, int]) -> None:
        """Take the new homes of topics, by their ids; these stages have been told of the last uses (R14)."""
        for topic, use in self._all():
            use.home = homes.get(topic, use.home)
            if use.stage != _NOWHERE:
                use.stage = use.home
        self.count_stages()

    def forget(self, topics: Iterable[int]) -> None:
        """Forget the last uses of topics that have ended; open requests keep theirs."""
        for topic in topics:
            use = self._last.get(topic)
            if use is not None and use.counter not in self._publications.open:
                del self._last[topic]

    def count_stages(self) -> None:
        """Forget stages that add nothing any more."""
        self._stages = {use.stage for use in self._last.values()}
