/** Short messages on what a command did; read out by screen readers. */
import { useEffect, useRef, useSyncExternalStore } from "react";
import { explain } from "../api/client";
import { Button } from "./Button";

interface Toast {
  id: number;
  tone: "ok" | "bad";
  text: string;
}

const SHOWN_MS = 6000;
let toasts: readonly Toast[] = [];
let count = 0;
const listeners = new Set<() => void>();

function set(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

const dismiss = (id: number): void => set(toasts.filter((each) => each.id !== id));

function show(tone: Toast["tone"], text: string): void {
  const id = ++count;
  set([...toasts.slice(-3), { id, tone, text }]);
  // What failed stays until it is read.
  if (tone === "ok") setTimeout(() => dismiss(id), SHOWN_MS);
}

export const toast = {
  ok: (text: string) => show("ok", text),
  bad: (text: string) => show("bad", text),
  /** For what a call threw. */
  error: (error: unknown) => show("bad", explain(error)),
};

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // As a popover that was opened last they are above dialogs, too.
    const element = box.current;
    if (!element || typeof element.showPopover !== "function") return;
    if (element.matches(":popover-open")) element.hidePopover();
    if (shown.length > 0) element.showPopover();
  }, [shown]);
  return (
    <>
      <p className="visually-hidden" role="status">
        {shown.at(-1)?.text}
      </p>
      <div ref={box} className="toasts" popover="manual">
        {shown.map(({ id, tone, text }) => (
          <div key={id} className={`toast toast-${tone}`}>
            <p className="toast-text">{text}</p>
            <Button
              variant="ghost"
              size="small"
              icon="close"
              iconOnly
              aria-label="Dismiss"
              onClick={() => dismiss(id)}
            />
          </div>
        ))}
      </div>
    </>
  );
}
