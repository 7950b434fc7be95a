"""A reader of the most frequent replies from bytes, without redis-py's parser.

redis-py awaits each line and each value of a reply, many times the work of the reply itself. Messages and the counts
that answer publishes need none of it. Whatever is another reply, incomplete, or not well formed is left to redis-py.
"""

from __future__ import annotations

import re

Reply = int | list[bytes]

_match_head = re.compile(rb":(\d{1,18})\r\n|[*>](?:3\r\n\$7\r\n(message)|4\r\n\$8\r\n(pmessage))\r\n").match
_match_length = re.compile(rb"\$(\d{1,9})\r\n").match


def read_replies(data: bytes, most: int) -> tuple[list[Reply], int]:
    """Read at most so many plain replies at the front; return them in redis-py's types, with their size in bytes.

    Plain are ``message`` and ``pmessage``, as RESP 2 and 3 write them, and integers. It stops at the first reply that
    is another one, incomplete, or not well formed.
    """
    replies: list[Reply] = []
    at = 0
    while len(replies) < most:
        head = _match_head(data, at)
        if head is None:
            break
        number, _, pattern = head.groups()
        if number is not None:
            replies.append(int(number))
            at = head.end()
            continue
        reply, end = [b"message"] if pattern is None else [pattern], head.end()
        for _ in range(2 if pattern is None else 3):
            length = _match_length(data, end)
            if length is None:
                return replies, at
            begin = length.end()
            end = begin + int(length[1]) + 2
            if data[end - 2 : end] != b"\r\n":
                return replies, at
            reply.append(data[begin : end - 2])
        replies.append(reply)
        at = end
    return replies, at
