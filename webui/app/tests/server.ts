/** A stand-in for the control plane: answers by method and path, and remembers what was asked. */
import { vi } from "vitest";

export interface Asked {
  method: string;
  path: string;
  headers: Headers;
  body: unknown;
}

export interface Reply {
  status?: number;
  body?: unknown;
  etag?: string;
}

type Handler = (asked: Asked) => Reply;

export class Server {
  readonly asked: Asked[] = [];
  private readonly handlers = new Map<string, Handler>();

  constructor() {
    vi.stubGlobal("fetch", async (address: string, init: RequestInit) => this.answer(address, init));
  }

  on(route: string, handler: Handler | Reply): this {
    this.handlers.set(route, typeof handler === "function" ? handler : () => handler);
    return this;
  }

  of(route: string): Asked[] {
    return this.asked.filter(({ method, path }) => `${method} ${path.split("?")[0]}` === route);
  }

  private answer(address: string, init: RequestInit): Response {
    const path = address.replace("/api/v1", "");
    const asked: Asked = {
      method: init.method ?? "GET",
      path,
      headers: new Headers(init.headers),
      body: typeof init.body === "string" ? JSON.parse(init.body) : null,
    };
    this.asked.push(asked);
    const handler = this.handlers.get(`${asked.method} ${path.split("?")[0]}`);
    if (!handler) throw new TypeError(`nobody answers ${asked.method} ${path}`);
    const { status = 200, body = null, etag } = handler(asked);
    const headers = new Headers({ "Content-Type": "application/json" });
    if (etag) headers.set("ETag", etag);
    return new Response(body === null ? null : JSON.stringify(body), { status, headers });
  }
}

export function problem(status: number, slug: string, detail = "", more: object = {}): Reply {
  return { status, body: { type: `/problems/${slug}`, title: slug, status, detail, ...more } };
}

/** Waits until the check holds. */
export const eventually = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: 30_000, interval: 10 });
