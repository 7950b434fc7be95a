// @vitest-environment happy-dom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { beforeEach, expect, it, vi } from "vitest";
import { SessionProvider } from "../src/api/session";
import { OrderEditor } from "../src/pages/topics/OrderEditor";
import { eventually, problem, Server } from "./server";

const SESSION = { name: "first", role: "operator", csrf: "c", expires_at: null };

let server: Server;
let stages: string[][];
let epoch: number;

const topic = (id: string) => ({ id, space: "mqtt", name: `name-${id}`, pinned: id === "9", rate: 1 });

beforeEach(() => {
  vi.stubGlobal(
    "WebSocket",
    class {
      close(): void {}
    },
  );
  [stages, epoch] = [
    [
      ["1", "2"],
      ["3", "9"],
    ],
    1,
  ];
  server = new Server()
    .on("GET /session", { body: SESSION })
    .on("GET /order", () => ({
      etag: `"${epoch}"`,
      body: { order_epoch: String(epoch), stages: stages.map((ids, stage) => ({ stage, topics: ids.map(topic) })) },
    }))
    .on("POST /order/preview", () => ({
      body: {
        order_epoch: String(epoch),
        moves: [{ topic: topic("3"), from_stage: 1, to_stage: 0, from_rank: 3, to_rank: 1 }],
        moves_total: 1,
        expected_stages_per_event: { now: 1.5, then: 1.25 },
        rates_known: true,
        warnings: ["publishers pause for a moment"],
      },
    }))
    .on("PUT /order", ({ headers, body }) => {
      if (headers.get("If-Match") !== `"${epoch}"`) return problem(412, "stale", "the order has changed");
      stages = (body as { stages: string[][] }).stages;
      epoch += 1;
      return { body: { order_epoch: String(epoch) } };
    });
});

async function open(): Promise<void> {
  render(
    <SessionProvider>
      <OrderEditor />
    </SessionProvider>,
  );
  await screen.findByText("Stage 0 (top)");
}

const shown = (): string[] =>
  [...document.querySelectorAll<HTMLElement>(".order-row")].map((row) => row.dataset["topic"]!);

async function move(id: string, stage: string, position: string): Promise<void> {
  fireEvent.click(screen.getByRole("button", { name: `Move mqtt: name-${id} to …` }));
  const dialog = within(screen.getByRole("dialog"));
  fireEvent.change(dialog.getByLabelText("Stage"), { target: { value: stage } });
  fireEvent.change(dialog.getByLabelText("Position on it"), { target: { value: position } });
  fireEvent.click(dialog.getByRole("button", { name: "Move" }));
  await eventually(() => expect(screen.queryByRole("dialog")).toBeNull());
}

async function preview(): Promise<void> {
  fireEvent.click(screen.getByRole("button", { name: "Preview and apply" }));
  await screen.findByText(/1 topic moves/);
}

it("nothing is sent until it is applied; then the whole order, on what was seen", async () => {
  await open();
  await move("3", "0", "1");
  expect(shown()).toEqual(["3", "1", "2", "9"]);
  expect(server.of("PUT /order")).toEqual([]);
  await preview();
  expect(screen.getByText("1.25")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Apply" }));
  await eventually(() => expect(screen.queryByRole("dialog")).toBeNull());
  const [put] = server.of("PUT /order");
  expect(put!.body).toEqual({ stages: [["3", "1", "2"], ["9"]] });
  expect(put!.headers.get("If-Match")).toBe('"1"');
  expect(screen.queryByRole("button", { name: "Discard" })).toBeNull();
});

it("an order that changed meanwhile is not overwritten: the moves stand on the new one, to be looked at again", async () => {
  await open();
  await move("3", "0", "1");
  await preview();
  [stages, epoch] = [
    [
      ["2", "1"],
      ["3", "9", "7"],
    ],
    2,
  ]; // somebody else was quicker
  fireEvent.click(screen.getByRole("button", { name: "Apply" }));
  fireEvent.click(await screen.findByRole("button", { name: "Look at the new order" }));
  await eventually(() => expect(shown()).toEqual(["2", "3", "1", "9", "7"]));
  expect(screen.getByText(/The order changed while you were at it/)).toBeTruthy();
  expect(stages).toEqual([
    ["2", "1"],
    ["3", "9", "7"],
  ]);
  await preview();
  fireEvent.click(screen.getByRole("button", { name: "Apply" }));
  await eventually(() =>
    expect(stages).toEqual([
      ["2", "3", "1"],
      ["9", "7"],
    ]),
  );
  expect(server.of("PUT /order").map(({ headers }) => headers.get("If-Match"))).toEqual(['"1"', '"2"']);
});

it("another failure is shown in the dialog, and the moves stay", async () => {
  server.on("PUT /order", problem(409, "conflict", "another change of the order is running"));
  await open();
  await move("3", "0", "1");
  await preview();
  fireEvent.click(screen.getByRole("button", { name: "Apply" }));
  expect(await screen.findByText(/another change of the order is running/)).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(shown()).toEqual(["3", "1", "2", "9"]);
});

it("undo and discard take moves back", async () => {
  await open();
  await move("3", "0", "1");
  await move("1", "1", "2");
  expect(shown()).toEqual(["3", "2", "9", "1"]);
  fireEvent.click(screen.getByRole("button", { name: "Undo" }));
  expect(shown()).toEqual(["3", "1", "2", "9"]);
  fireEvent.click(screen.getByRole("button", { name: "Discard" }));
  expect(shown()).toEqual(["1", "2", "3", "9"]);
});

it("a pinned topic's stage cannot be chosen", async () => {
  await open();
  fireEvent.click(screen.getByRole("button", { name: "Move mqtt: name-9 to …" }));
  expect((screen.getByLabelText("Stage") as HTMLSelectElement).disabled).toBe(true);
});

it("a viewer can try moves, but not apply them", async () => {
  server.on("GET /session", { body: { ...SESSION, role: "viewer" } });
  vi.resetModules();
  const [{ SessionProvider: Provider }, { OrderEditor: Editor }] = await Promise.all([
    import("../src/api/session"),
    import("../src/pages/topics/OrderEditor"),
  ]);
  render(
    <Provider>
      <Editor />
    </Provider>,
  );
  await screen.findByText("Stage 0 (top)");
  await move("3", "0", "1");
  expect(screen.getByRole("button", { name: "Preview and apply" })).toHaveProperty("disabled", true);
});
