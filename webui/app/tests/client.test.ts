import { beforeEach, expect, it, vi } from "vitest";
import { api, ApiError, explain, getAll, part, setCsrf, setOnUnauthorized, withQuery } from "../src/api/client";
import { problem, Server } from "./server";

let server: Server;
beforeEach(() => {
  server = new Server();
  setCsrf(null);
  setOnUnauthorized(() => {});
});

const failure = async (call: Promise<unknown>): Promise<ApiError> => {
  const error = await call.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ApiError);
  return error as ApiError;
};

it("sends the CSRF token with everything but GET", async () => {
  setCsrf("secret");
  server.on("GET /order", {}).on("PUT /order", {}).on("DELETE /tokens/1", { status: 204 });
  await api.get("/order");
  await api.put("/order", { swap: ["1", "2"] });
  await api.delete("/tokens/1");
  expect(server.asked.map(({ headers }) => headers.get("X-CSRF-Token"))).toEqual([null, "secret", "secret"]);
});

it("hands the ETag out and If-Match back", async () => {
  server.on("GET /order", { body: {}, etag: '"7"' }).on("PUT /order", {});
  const { etag } = await api.get("/order");
  await api.put("/order", {}, { ifMatch: etag });
  expect(server.asked[1]!.headers.get("If-Match")).toBe('"7"');
});

it("knows a lost update", async () => {
  server.on("PUT /order", problem(412, "stale", "the order is of epoch 8"));
  const error = await failure(api.put("/order", {}, { ifMatch: '"7"' }));
  expect(error.isStale).toBe(true);
  expect(error.slug).toBe("stale");
  expect(explain(error)).toBe("stale – the order is of epoch 8");
});

it("tells where a body was wrong", async () => {
  server.on(
    "PUT /order",
    problem(422, "invalid", "no order", { errors: [{ where: "stages", message: "topic 3 misses" }] }),
  );
  expect(explain(await failure(api.put("/order", {})))).toBe("invalid – no order – stages: topic 3 misses");
});

it("says that nobody answers", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
  const error = await failure(api.get("/overview"));
  expect([error.status, error.slug]).toEqual([0, "no-answer"]);
});

it("takes an answer that is no problem document for what it is", async () => {
  vi.stubGlobal("fetch", async () => new Response("<html>", { status: 502, statusText: "Bad Gateway" }));
  expect((await failure(api.get("/overview"))).title).toBe("502 Bad Gateway");
});

it("ends the session on a 401, but not at the login itself", async () => {
  const ended = vi.fn();
  setOnUnauthorized(ended);
  server.on("POST /session", problem(401, "unauthorized")).on("GET /topics", problem(401, "unauthorized"));
  await failure(api.post("/session", { token: "x" }));
  expect(ended).not.toHaveBeenCalled();
  await failure(api.get("/topics"));
  expect(ended).toHaveBeenCalledOnce();
});

it("odd names in paths and queries arrive as they are", () => {
  expect(part("a/b%2F#?é")).toBe("a%2Fb%252F%23%3F%C3%A9");
  expect(withQuery("/events", { topic: "5", q: "a&b=c", empty: "", none: null })).toBe("/events?topic=5&q=a%26b%3Dc");
});

it("reads a list over all its pages", async () => {
  server.on("GET /topics", ({ path }) =>
    path.includes("cursor=two")
      ? { body: { items: [3], next: null, total: 3 } }
      : { body: { items: [1, 2], next: "two", total: 3 } },
  );
  expect(await getAll("/topics")).toEqual({ items: [1, 2, 3], next: null, total: 3 });
});
