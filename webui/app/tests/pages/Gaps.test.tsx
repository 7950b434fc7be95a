// @vitest-environment happy-dom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { beforeEach, expect, it, vi } from "vitest";
import { Server } from "../server";

let role = "operator";
vi.mock("../../src/api/session", () => ({ useCan: (needed: string) => needed === "viewer" || role !== "viewer" }));

const { default: Gaps } = await import("../../src/pages/Gaps");

const TOPIC = { id: "3", space: "mqtt", name: "depot/lift" };
const STUCK = {
  topic: TOPIC,
  first: "9007199254740993",
  last: "9007199254740994",
  state: "pending",
  reason: "publisher away",
  client: "forklift-4",
  away_s: 12,
  age_s: 42,
  logged: false,
  waiting: [],
  holds: null,
};
const list = (items: object[]) => ({ body: { items, next: null, total: items.length } });

let server: Server;
beforeEach(() => {
  role = "operator";
  server = new Server().on("GET /topics", list([{ ...TOPIC, subscribers: 2, group_size: 1, log: {} }]));
});

async function row(): Promise<HTMLElement> {
  return screen.findByRole("row", { name: /depot\/lift/ });
}

it("says what is stuck, why, since when, and whom it holds back", async () => {
  server.on("GET /gaps", list([STUCK]));
  render(<Gaps />);
  const text = (await row()).textContent;
  for (const part of ["9,007,199,254,740,993–9,007,199,254,740,994", "publisher away", "forklift-4", "42 s"]) {
    expect(text).toContain(part);
  }
  await vi.waitFor(async () => expect((await row()).textContent).toContain("2 subscribers"));
});

it("says who waits for a number that was never given, and with what; nothing can be released there", async () => {
  const holds = { topic: { ...TOPIC, id: "4", name: "depot/door" }, number: "17" };
  const never = { ...STUCK, state: "unknown", reason: "was never given", client: null, waiting: ["desk-1"], holds };
  server.on("GET /gaps", list([never]));
  render(<Gaps />);
  const text = (await row()).textContent;
  for (const part of ["was never given", "desk-1", "depot/door", "17"]) expect(text).toContain(part);
  expect(within(await row()).queryByRole("button", { name: /^Release/ })).toBeNull();
});

it("explains a release before it is done, and sends exact numbers", async () => {
  server.on("GET /gaps", list([STUCK])).on("POST /gaps/release", { body: { changed: [], unchanged: 2 } });
  render(<Gaps />);
  fireEvent.click(within(await row()).getByRole("button", { name: /^Release/ }));
  const dialog = screen.getByRole("dialog");
  expect(dialog.textContent).toContain("its application is told of a gap");
  fireEvent.click(within(dialog).getByLabelText(/As void/));
  expect(dialog.textContent).toContain("This cannot be undone");
  server.on("GET /gaps", list([]));
  fireEvent.click(within(dialog).getByRole("button", { name: "Release as void" }));
  await screen.findByText("Nothing is stuck");
  expect(server.of("POST /gaps/release")[0]!.body).toEqual({
    topic: "3",
    first: "9007199254740993",
    last: "9007199254740994",
    as: "void",
  });
});

it("repairs what the log has, and does not offer to drop it", async () => {
  server.on("GET /gaps", list([{ ...STUCK, logged: true }])).on("POST /gaps/repair", { body: {} });
  render(<Gaps />);
  const actions = within(await row());
  expect(actions.queryByRole("button", { name: /^Release/ })).toBeNull();
  fireEvent.click(actions.getByRole("button", { name: /^Repair/ }));
  fireEvent.click(screen.getByRole("button", { name: "Repair from the log" }));
  await vi.waitFor(() => expect(server.of("POST /gaps/repair")).toHaveLength(1));
});

it("lets viewers look only, and says why", async () => {
  role = "viewer";
  server.on("GET /gaps", list([STUCK]));
  render(<Gaps />);
  const button = within(await row()).getByRole("button", { name: /^Release/ });
  expect(button).toHaveProperty("disabled", true);
  expect(button.title).toBe("This needs the role operator.");
});
