/** A small router over the browser's history. */
import { useMemo, useSyncExternalStore, type AnchorHTMLAttributes, type MouseEvent } from "react";
import { withQuery, type Query } from "./api/client";
import { BASE, withoutBase } from "./lib/base";

const listeners = new Set<() => void>();
const changed = (): void => listeners.forEach((listener) => listener());
window.addEventListener("popstate", changed);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const address = (): string => withoutBase(location.pathname) + location.search;

/** Goes to a path of the UI ("/events?topic=3"). */
export function navigate(to: string, { replace = false } = {}): void {
  if (to === address()) return;
  history[replace ? "replaceState" : "pushState"](null, "", BASE + to);
  changed();
}

/** Path and query in the address bar. */
export function useLocation(): { path: string; query: URLSearchParams } {
  const current = useSyncExternalStore(subscribe, address);
  return useMemo(() => {
    const { pathname, search } = new URL(current, location.origin);
    return { path: pathname, query: new URLSearchParams(search) };
  }, [current]);
}

/** Changes single entries of the query and leaves the others; null or "" removes one. */
export function setQuery(changes: Query, { replace = true } = {}): void {
  const query: Query = { ...Object.fromEntries(new URLSearchParams(location.search)), ...changes };
  navigate(withQuery(withoutBase(location.pathname), query), { replace });
}

type LinkProps = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href"> & { to: string };

/** A link inside the UI; opens a new tab as any other link does. */
export function Link({ to, onClick, ...rest }: LinkProps) {
  const follow = (event: MouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || !isPlain) return;
    event.preventDefault();
    navigate(to);
  };
  return <a {...rest} href={BASE + to} onClick={follow} />;
}
