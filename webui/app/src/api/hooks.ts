import { useCallback, useEffect, useRef, useState } from "react";
import { api, getAll, withQuery, type Page, type Query } from "./client";

/** What was read, or why it could not be. While it is read again the older data stays. */
export interface Resource<T> {
  data: T | null;
  etag: string | null;
  error: unknown;
  isLoading: boolean;
  reload: () => Promise<void>;
}

interface ReadOptions {
  query?: Query;
  /** Read again so often, while the page is visible. */
  everyMs?: number;
}

type Read<T> = (signal: AbortSignal) => Promise<{ data: T; etag: string | null }>;

/** GET `path` (null: nothing yet) and again whenever path or query change. */
export function useResource<T>(path: string | null, { query, everyMs }: ReadOptions = {}): Resource<T> {
  const key = path === null ? null : withQuery(path, query);
  return useRead<T>(key, (signal) => api.get<T>(path!, { query, signal }), everyMs);
}

/** All items of a list (up to LIST_BOUND). */
export function useList<T>(path: string | null, { query, everyMs }: ReadOptions = {}): Resource<Page<T>> {
  const key = path === null ? null : withQuery(path, query);
  return useRead<Page<T>>(
    key,
    async (signal) => ({ data: await getAll<T>(path!, { query, signal }), etag: null }),
    everyMs,
  );
}

function useRead<T>(key: string | null, read: Read<T>, everyMs: number | undefined): Resource<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; etag: string | null; error: unknown }>({
    key: null,
    data: null,
    etag: null,
    error: null,
  });
  const [isLoading, setLoading] = useState(key !== null);
  const latest = useRef(read);
  latest.current = read;
  const running = useRef<AbortController | null>(null);

  const reload = useCallback(async () => {
    if (key === null) return;
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    setLoading(true);
    try {
      const { data, etag } = await latest.current(controller.signal);
      if (!controller.signal.aborted) setState({ key, data, etag, error: null });
    } catch (error) {
      if (controller.signal.aborted) return;
      setState((old) => ({ ...(old.key === key ? old : { data: null, etag: null }), key, error }));
    } finally {
      if (running.current === controller) {
        running.current = null;
        setLoading(false);
      }
    }
  }, [key]);

  useEffect(() => {
    void reload();
    return () => running.current?.abort();
  }, [reload]);

  useEffect(() => {
    if (!everyMs) return undefined;
    const timer = setInterval(() => {
      // A slow answer is waited for, not asked for twice.
      if (document.visibilityState === "visible" && running.current === null) void reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);

  const isCurrent = state.key === key;
  return {
    data: isCurrent ? state.data : null,
    etag: isCurrent ? state.etag : null,
    error: isCurrent ? state.error : null,
    isLoading,
    reload,
  };
}
