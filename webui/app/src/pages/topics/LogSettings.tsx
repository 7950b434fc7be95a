import { useState, type FormEvent } from "react";
import type { LogBounds, TopicDetail } from "../../api/types";
import { Button, Field, FormDialog, TextInput } from "../../components";
import { formatBytes, formatSeconds } from "../../lib/numbers";
import { logText } from "./logText";

type Change = (etag: string | null, changes: object, done: string) => Promise<boolean>;

/** The event log of a topic: whether there is one, and what it keeps. */
export function LogSettings({ topic, etag, onChange }: { topic: TopicDetail; etag: string | null; onChange: Change }) {
  const [view, setView] = useState<"edit" | "end" | null>(null);
  const end = async (): Promise<void> => {
    await onChange(etag, { log: null }, "The event log has ended.");
  };
  return (
    <section className="detail-section">
      <div className="detail-head">
        <h3>Event log</h3>
        <span className="row-actions">
          {topic.log && (
            <Button size="small" variant="danger" needs="operator" onClick={() => setView("end")}>
              End it
            </Button>
          )}
          {view !== "edit" && (
            <Button size="small" needs="operator" onClick={() => setView("edit")}>
              {topic.log ? "Change" : "Keep an event log"}
            </Button>
          )}
        </span>
      </div>
      <p className="muted small">
        {topic.log
          ? `Keeps ${logText(topic.log)}.`
          : "There is none: what the broker loses is lost, and a durable subscriber misses what came while it was away."}
      </p>
      {view === "edit" && <LogForm topic={topic} etag={etag} onChange={onChange} onClose={() => setView(null)} />}
      {view === "end" && (
        <FormDialog title="End the event log?" submit="End it" danger onClose={() => setView(null)} onSubmit={end}>
          <p>
            All that the log of <b>{topic.name}</b> holds is forgotten. Events that the broker loses can then not be
            repaired, and cannot be replayed.
          </p>
        </FormDialog>
      )}
    </section>
  );
}

/** Bounds at first: a week, 100,000 events, 256 MiB. */
const USUAL: LogBounds = { max_age_s: 604_800, max_count: 100_000, max_bytes: 268_435_456 };

interface LogFormProps {
  topic: TopicDetail;
  etag: string | null;
  onChange: Change;
  onClose: () => void;
}

function LogForm({ topic, etag, onChange, onClose }: LogFormProps) {
  const [seen] = useState(etag); // what was on the screen when the form was opened
  const given = topic.log ?? USUAL;
  const [age, setAge] = useState(String(given.max_age_s));
  const [count, setCount] = useState(String(given.max_count));
  const [bytes, setBytes] = useState(String(given.max_bytes));
  const [busy, setBusy] = useState(false);
  const bounds = { max_age_s: parseBound(age), max_count: parseBound(count), max_bytes: parseBound(bytes) };
  const isValid = Object.values(bounds).every((bound) => bound !== null);

  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const isDone = await onChange(seen, { log: bounds }, "The event log is as you set it.");
    setBusy(false);
    if (isDone) onClose();
  };
  return (
    <form className="form" onSubmit={(event) => void save(event)}>
      <div className="form-row">
        <Field label="Seconds" {...note(bounds.max_age_s, formatSeconds)}>
          <TextInput inputMode="numeric" value={age} onChange={(event) => setAge(event.target.value)} />
        </Field>
        <Field label="Events" {...note(bounds.max_count, (value) => `${value.toLocaleString()} events`)}>
          <TextInput inputMode="numeric" value={count} onChange={(event) => setCount(event.target.value)} />
        </Field>
        <Field label="Bytes" {...note(bounds.max_bytes, formatBytes)}>
          <TextInput inputMode="numeric" value={bytes} onChange={(event) => setBytes(event.target.value)} />
        </Field>
      </div>
      <div className="dialog-actions">
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" variant="primary" busy={busy} disabled={!isValid}>
          Save
        </Button>
      </div>
    </form>
  );
}

/** A bound as it was typed; null if it is none. */
export function parseBound(text: string): number | null {
  const value = /^\d+$/.test(text.trim()) ? Number(text) : NaN;
  return Number.isSafeInteger(value) ? value : null;
}

function note(bound: number | null, format: (value: number) => string): { hint?: string; error?: string } {
  if (bound === null) return { error: "A whole number; 0 for no such bound." };
  return { hint: bound === 0 ? "no such bound" : format(bound) };
}
