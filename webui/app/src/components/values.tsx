/** Single values: times, counts, topics, payloads. All of them are texts to React, never markup. */
import { useEffect, useState } from "react";
import type { Digits, TopicRef } from "../api/types";
import { formatCount, type Quantity } from "../lib/numbers";
import { formatAgo, formatTime, formatUtc } from "../lib/times";
import { Link } from "../router";
import { withQuery } from "../api/client";
import { Button } from "./Button";
import { toast } from "./toasts";

/** A time in the browser's zone; UTC on hover. */
export function Time({ at, ms = false }: { at: string | null | undefined; ms?: boolean }) {
  if (!at) return <span className="muted">–</span>;
  return (
    <time className="num" dateTime={at} title={formatUtc(at)}>
      {formatTime(at, { ms })}
    </time>
  );
}

/** "12 s ago", kept current; UTC on hover. */
export function Ago({ at }: { at: string | null | undefined }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 5000);
    return () => clearInterval(timer);
  }, []);
  if (!at) return <span className="muted">–</span>;
  return (
    <time className="num" dateTime={at} title={formatUtc(at)}>
      {formatAgo(at, Math.max(now, Date.now() - 5000))}
    </time>
  );
}

/** A count with grouped digits. */
export function Count({ value }: { value: Quantity | null | undefined }) {
  return <span className="num">{formatCount(value)}</span>;
}

/** "1,204" or "1,204–1,209". */
export function Range({ first, last }: { first: Digits; last: Digits }) {
  return (
    <span className="num">{first === last ? formatCount(first) : `${formatCount(first)}–${formatCount(last)}`}</span>
  );
}

/** "space / name", as plain text. */
export function topicText(topic: { space: string; name: string }): string {
  return `${topic.space}: ${topic.name}`;
}

/** A topic's name behind its space; `link` leads to its details. */
export function TopicName({ topic, link = false }: { topic: TopicRef; link?: boolean }) {
  const name = (
    <span className="topic">
      <span className="topic-space">{topic.space}: </span>
      {topic.name}
    </span>
  );
  return link ? <Link to={withQuery("/topics", { topic: topic.id })}>{name}</Link> : name;
}

/** A number of a topic; leads to the event. */
export function EventLink({ topic, number }: { topic: TopicRef; number: Digits }) {
  return (
    <Link className="num" to={withQuery("/events", { topic: topic.id, number })}>
      {formatCount(number)}
    </Link>
  );
}

/** A payload as text; bytes that are no text as base64, said so. */
export function Payload({ text, base64 }: { text: string | null | undefined; base64: string | null | undefined }) {
  if (text === "" || base64 === "") return <p className="muted">Empty payload</p>;
  if (text !== null && text !== undefined) return <pre className="payload">{text}</pre>;
  if (!base64) return <p className="muted">No payload is kept.</p>;
  return (
    <>
      <p className="small muted">Not a text; as base64:</p>
      <pre className="payload">{base64}</pre>
    </>
  );
}

/** Puts a text into the clipboard. */
export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      toast.ok("Copied.");
    } catch {
      toast.bad("The browser does not allow copying; select the text instead.");
    }
  };
  return (
    <Button icon="copy" size="small" onClick={() => void copy()}>
      {label}
    </Button>
  );
}
