// @vitest-environment happy-dom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { DataTable, type Column } from "../src/components/DataTable";
import * as csv from "../src/lib/csv";
import { toBigInt } from "../src/lib/numbers";

interface Row {
  name: string;
  head: string;
}

const COLUMNS: Column<Row>[] = [
  { key: "name", title: "Name", value: (row) => row.name },
  { key: "head", title: "Head", value: (row) => toBigInt(row.head), align: "end" },
  { key: "note", title: "Note", value: (row) => `note of ${row.name}`, isHidden: true },
  { key: "act", title: "Actions", value: () => null, isData: false, render: () => <button>do</button> },
];
const ROWS: Row[] = [
  { name: "b", head: "9007199254740993" },
  { name: "=a", head: "9007199254740992" },
  { name: "<img src=x onerror=alert(1)>", head: "3" },
];

const show = (rows: Row[] = ROWS, more: object = {}) =>
  render(
    <DataTable
      name="things"
      columns={COLUMNS}
      rows={rows}
      rowKey={(row) => row.name}
      empty={<p>Make one.</p>}
      {...more}
    />,
  );
const names = (): (string | null)[] =>
  within(screen.getByRole("table"))
    .getAllByRole("row")
    .slice(1)
    .map((row) => row.querySelector("td")!.textContent);

it("keeps the order of the rows until a column is chosen; numbers from the top first", () => {
  show();
  expect(names()).toEqual(["b", "=a", "<img src=x onerror=alert(1)>"]);
  fireEvent.click(screen.getByRole("button", { name: "Head" }));
  expect(names()).toEqual(["b", "=a", "<img src=x onerror=alert(1)>"]);
  fireEvent.click(screen.getByRole("button", { name: "Head" }));
  expect(names()).toEqual(["<img src=x onerror=alert(1)>", "=a", "b"]);
  expect(screen.getByRole("columnheader", { name: "Head" }).getAttribute("aria-sort")).toBe("ascending");
});

it("markup in a name is text (B73)", () => {
  const { container } = show();
  expect(container.querySelector("img")).toBeNull();
});

it("searches hidden columns too, and says when nothing is found", () => {
  show();
  const filter = screen.getByRole("searchbox", { name: "Filter things" });
  fireEvent.change(filter, { target: { value: "NOTE b" } });
  expect(names()).toEqual(["b"]);
  fireEvent.change(filter, { target: { value: "nothing like it" } });
  fireEvent.click(screen.getByRole("button", { name: "Clear the filter" }));
  expect(names()).toHaveLength(3);
});

it("exports what is shown, hidden columns too, formulas made harmless", () => {
  const saved = vi.spyOn(csv, "download").mockImplementation(() => {});
  show();
  fireEvent.click(screen.getByRole("button", { name: "CSV" }));
  const [name, text] = saved.mock.calls[0]!;
  expect(name).toMatch(/^inorder-things-.*\.csv$/);
  expect(text.split("\r\n").slice(0, 3)).toEqual([
    "\ufeffName,Head,Note",
    "b,9007199254740993,note of b",
    "'=a,9007199254740992,note of =a",
  ]);
});

it("shows pages, and the last one when rows went away", () => {
  const many = Array.from({ length: 5 }, (_, at) => ({ name: `n${at}`, head: String(at) }));
  const { rerender } = show(many, { pageSize: 2 });
  const next = screen.getByRole("button", { name: "Next page" });
  fireEvent.click(next);
  fireEvent.click(next);
  expect(names()).toEqual(["n4"]);
  rerender(
    <DataTable
      name="things"
      columns={COLUMNS}
      rows={many.slice(0, 3)}
      rowKey={(row) => row.name}
      empty={null}
      pageSize={2}
    />,
  );
  expect(names()).toEqual(["n2"]);
});

it("says what to do when there is nothing", () => {
  show([]);
  expect(screen.getByText("Make one.")).toBeTruthy();
  expect(screen.queryByRole("table")).toBeNull();
});
