// @vitest-environment happy-dom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { Server } from "../server";

vi.mock("../../src/api/session", () => ({ useCan: () => true }));

const { TokensTab } = await import("../../src/pages/settings/TokensTab");

const TOKEN = {
  id: "t1",
  name: "first",
  role: "admin",
  publish: null,
  subscribe: null,
  max_unconfirmed: null,
  max_topics: null,
  max_subscriptions: null,
  created_at: "2026-01-05T09:00:00.000Z",
  expires_at: null,
  revoked_at: null,
};
const list = (items: object[]) => ({ body: { items, next: null, total: items.length } });

it("shows the secret of a new token once, and never again", async () => {
  const server = new Server().on("GET /tokens", list([TOKEN])).on("POST /tokens", {
    status: 201,
    body: { ...TOKEN, id: "t2", name: "desk", role: "client", secret: "ino_secret" },
  });
  render(<TokensTab />);
  await screen.findByRole("row", { name: /first/ });
  fireEvent.click(screen.getByRole("button", { name: "New token" }));
  const dialog = within(screen.getByRole("dialog"));
  fireEvent.change(dialog.getByLabelText("Name"), { target: { value: "desk" } });
  fireEvent.click(dialog.getByLabelText(/^client/));
  fireEvent.change(dialog.getByLabelText("May publish to"), { target: { value: "mqtt:stocks/#" } });
  fireEvent.click(dialog.getByRole("button", { name: "Make the token" }));
  expect((await screen.findByText("ino_secret")).textContent).toBe("ino_secret");
  expect(server.of("POST /tokens")[0]!.body).toMatchObject({
    name: "desk",
    role: "client",
    publish: ["mqtt:stocks/#"],
    subscribe: null,
  });
  fireEvent.click(screen.getByRole("button", { name: "I have copied it" }));
  expect(screen.queryByText("ino_secret")).toBeNull();
});

it("asks the control plane for nothing that it would refuse", async () => {
  const server = new Server().on("GET /tokens", list([TOKEN]));
  render(<TokensTab />);
  await screen.findByRole("row", { name: /first/ });
  fireEvent.click(screen.getByRole("button", { name: "New token" }));
  fireEvent.click(screen.getByRole("button", { name: "Make the token" }));
  expect((await screen.findByRole("alert")).textContent).toContain("not right");
  expect(screen.getByText("A name, so that you know it again in the list.")).toBeTruthy();
  expect(server.of("POST /tokens")).toHaveLength(0);
});

it("revokes after it has said what that means; a revoked token offers nothing", async () => {
  const server = new Server()
    .on("GET /tokens", list([TOKEN, { ...TOKEN, id: "t2", name: "old", revoked_at: TOKEN.created_at }]))
    .on("DELETE /tokens/t1", { body: TOKEN });
  render(<TokensTab />);
  expect(within(await screen.findByRole("row", { name: /old/ })).queryByRole("button")).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Revoke first" }));
  expect(screen.getByRole("dialog").textContent).toContain("refused from now on");
  fireEvent.click(screen.getByRole("button", { name: "Revoke the token" }));
  await vi.waitFor(() => expect(server.of("DELETE /tokens/t1")).toHaveLength(1));
});
