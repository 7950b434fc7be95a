"""Explanations of the figures for readers of a report."""

from typing import Final

DEFINITIONS: Final = {
    "Ordering degree": (
        "of a pair of subscribers: the sum of (S - D) / S² over the S events that both have, where D is by how many "
        "places an event is displaced between them. Of several pairs the mean, each weighted by its S."
    ),
    "TNO violation": (
        "a pair of events that two subscribers have in opposite orders. Total notification order (TNO) means: if one "
        "subscriber is notified of e before e', nobody is notified of e after e'."
    ),
    "Broker alone": (
        "each subscriber's first arrival of each event, in the order in which the broker brought them: what its "
        "application would have seen without inorder."
    ),
    "Delivered": (
        "what the application was notified of in order. Notifications that were tagged as late are not among it; they "
        "are counted by themselves."
    ),
    "Latency": (
        "from the publish call to the notification of the last subscriber that is interested and was notified. Times "
        "of different machines are corrected by the offsets of their clocks to the worker's, where clients "
        "recorded them. Percentiles are by nearest rank: values that occurred."
    ),
    "Notified in 1 s": (
        "of the events that the broker accepted and somebody subscribed to, those of which every such subscriber was "
        "notified within a second of the publish call."
    ),
    "Sequences detected by both": (
        "of the sequences of three events that follow each other for one of two subscribers, among the events that "
        "both have, those that do so for the other, too."
    ),
    "Message overhead": "of the events whose timestamps passed a stage, those of topics of other stages.",
    "Suggested topic order": (
        "topics by falling popularity, in stages of the present sizes. Changes of place are those that topic managers "
        "would propose from the present order (alpha 0.1, beta 0.2)."
    ),
}
