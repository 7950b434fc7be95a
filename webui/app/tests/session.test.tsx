// @vitest-environment happy-dom
import { render, screen } from "@testing-library/react";
import { beforeEach, expect, it, vi } from "vitest";
import { eventually, problem, Server } from "./server";

let server: Server;
beforeEach(() => {
  vi.resetModules(); // a page load each: the session begins once per load
  server = new Server();
  vi.stubGlobal(
    "WebSocket",
    class {
      close(): void {}
    },
  );
});

const SESSION = { name: "first", role: "operator", csrf: "c-1", expires_at: "2030-01-01T00:00:00.000Z" };

async function open(): Promise<void> {
  const { SessionProvider, useSessionContext, useCan } = await import("../src/api/session");
  function Show() {
    const { status } = useSessionContext();
    const can = [useCan("viewer"), useCan("operator"), useCan("admin")].map(Number).join("");
    return <p role="status">{status.kind === "out" ? `out: ${status.reason}` : `${status.kind} ${can}`}</p>;
  }
  render(
    <SessionProvider>
      <Show />
    </SessionProvider>,
  );
}

const shown = (text: string): Promise<unknown> =>
  eventually(() => expect(screen.getByRole("status").textContent).toBe(text));

it("a token in the address is changed for a session and removed from the address", async () => {
  history.replaceState(null, "", "/topics?view=order#token=ino_a%2Bb");
  server.on("POST /session", { body: SESSION });
  await open();
  expect(location.href).not.toContain("ino_");
  await shown("in 110");
  expect(server.asked[0]!.body).toEqual({ token: "ino_a+b" });
  expect(location.pathname + location.search + location.hash).toBe("/topics?view=order");
});

it("a link with a token works where the login is open already", async () => {
  server.on("GET /session", problem(401, "unauthorized")).on("POST /session", { body: SESSION });
  await open();
  await shown("out: null");
  location.hash = "#token=ino_late";
  window.dispatchEvent(new Event("hashchange"));
  await shown("in 110");
  expect(location.hash).toBe("");
});

it("a token that is not valid leads to the login, and says so", async () => {
  history.replaceState(null, "", "/#token=old");
  server.on("POST /session", problem(401, "unauthorized"));
  await open();
  await shown("out: The token in the link is not valid (any more).");
  expect(location.hash).toBe("");
});

it("without a token the cookie's session goes on", async () => {
  server.on("GET /session", { body: { ...SESSION, role: "admin" } });
  await open();
  await shown("in 111");
});

it("without a session there is the login", async () => {
  server.on("GET /session", problem(401, "unauthorized"));
  await open();
  await shown("out: null");
});

it("a control plane that does not answer is no reason to ask for a token", async () => {
  server.on("GET /session", problem(503, "store-unavailable"));
  await open();
  await shown("failed 000");
});

it("when the session ends the login is back", async () => {
  server.on("GET /session", { body: SESSION }).on("GET /topics", problem(401, "unauthorized"));
  await open();
  await shown("in 110");
  const { api } = await import("../src/api/client");
  await api.get("/topics").catch(() => undefined);
  await shown("out: The session has ended. Log in again.");
});
