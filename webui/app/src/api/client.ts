/** The one place that talks to /api/v1: problem details, ETags, the CSRF header, 401. */

import { BASE } from "../lib/base";

export const API = `${BASE}/api/v1`;

/** Where a body was wrong, as the problem's `errors` name it. */
export interface ProblemError {
  where: string;
  message: string;
}

/** What the control plane answered instead of data (RFC 9457), or that it did not answer (status 0). */
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly slug: string,
    readonly errors: readonly ProblemError[] = [],
    readonly allowed: unknown = undefined,
  ) {
    super(detail || title);
  }

  /** True for a lost update: somebody else changed it since it was read. */
  get isStale(): boolean {
    return this.status === 412;
  }
}

export interface Answer<T> {
  data: T;
  /** Of what may be edited; goes back in `ifMatch`. */
  etag: string | null;
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface Options {
  query?: Query | undefined;
  body?: unknown;
  ifMatch?: string | null | undefined;
  signal?: AbortSignal | undefined;
}

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

let csrf: string | null = null;
let onUnauthorized: () => void = () => {};

/** The session's CSRF token, sent with everything but GET. */
export function setCsrf(token: string | null): void {
  csrf = token;
}

/** What happens when the session has ended (401 to anything but a login). */
export function setOnUnauthorized(handler: () => void): void {
  onUnauthorized = handler;
}

/** The path with its query; empty values are left out. */
export function withQuery(path: string, query?: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** One part of a path: topic and client names may hold slashes, percent signs, anything. */
export const part = encodeURIComponent;

async function request<T>(method: Method, path: string, options: Options = {}): Promise<Answer<T>> {
  const headers = new Headers({ Accept: "application/json" });
  if (options.body !== undefined) headers.set("Content-Type", "application/json");
  if (options.ifMatch) headers.set("If-Match", options.ifMatch);
  if (method !== "GET" && csrf) headers.set("X-CSRF-Token", csrf);
  let response: Response;
  try {
    response = await fetch(API + withQuery(path, options.query), {
      method,
      headers,
      credentials: "same-origin",
      cache: "no-store",
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(
      0,
      "The control plane does not answer",
      "Is it running, and can this browser reach it?",
      "no-answer",
    );
  }
  if (!response.ok) {
    if (response.status === 401 && path !== "/session") onUnauthorized();
    throw await problem(response);
  }
  const text = await response.text();
  return { data: (text ? JSON.parse(text) : null) as T, etag: response.headers.get("ETag") };
}

async function problem(response: Response): Promise<ApiError> {
  const title = `${response.status} ${response.statusText}`.trim();
  try {
    const body = (await response.json()) as Record<string, unknown>;
    const slug = String(body["type"] ?? "").replace(/^.*\//, "");
    const errors = Array.isArray(body["errors"]) ? (body["errors"] as ProblemError[]) : [];
    return new ApiError(
      response.status,
      String(body["title"] ?? title),
      String(body["detail"] ?? ""),
      slug,
      errors,
      body["allowed"],
    );
  } catch {
    return new ApiError(response.status, title, "The answer was no problem document.", "unknown");
  }
}

export const api = {
  get: <T>(path: string, options?: Options) => request<T>("GET", path, options),
  post: <T>(path: string, body?: unknown, options?: Options) => request<T>("POST", path, { ...options, body }),
  put: <T>(path: string, body: unknown, options?: Options) => request<T>("PUT", path, { ...options, body }),
  patch: <T>(path: string, body: unknown, options?: Options) => request<T>("PATCH", path, { ...options, body }),
  delete: <T>(path: string, options?: Options) => request<T>("DELETE", path, options),
};

/** One page of a list. */
export interface Page<T> {
  items: T[];
  next: string | null;
  total: number;
}

/** How many items the UI holds of one list; tables say when there are more. */
export const LIST_BOUND = 5000;

/** A list's items over all its pages, up to LIST_BOUND. */
export async function getAll<T>(path: string, options: Options = {}): Promise<Page<T>> {
  const items: T[] = [];
  let cursor: string | null = null;
  let total = 0;
  do {
    const query: Query = { limit: 1000, ...options.query, cursor };
    const { data }: Answer<Page<T>> = await api.get<Page<T>>(path, { ...options, query });
    items.push(...data.items);
    total = data.total;
    cursor = data.next;
  } while (cursor !== null && items.length < LIST_BOUND);
  return { items, next: cursor, total: Math.max(total, items.length) };
}

/** An error as one sentence for people. */
export function explain(error: unknown): string {
  if (error instanceof ApiError) {
    const where = error.errors.map(({ where, message }) => `${where}: ${message}`).join("; ");
    return [error.title, error.detail, where].filter(Boolean).join(" – ");
  }
  return error instanceof Error ? error.message : String(error);
}
