// @vitest-environment happy-dom
import { fireEvent, render, screen } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { HeatTable } from "../../src/pages/subscriptions/HeatTable";

const OVERLAP = {
  clients: ["a", "<img src=x onerror=alert(1)>", "c"],
  clients_total: 3,
  matrix: [
    [4, 2, 0],
    [2, 3, 1],
    [0, 1, 1],
  ],
  pairs: [],
  sequenced_pairs: [],
  sequenced_pairs_total: 0,
};

it("is one stop for the Tab key; arrows go from cell to cell, Enter opens a pair", () => {
  const open = vi.fn();
  const { container } = render(<HeatTable overlap={OVERLAP} onOpen={open} />);
  const stops = (): string[] =>
    [...container.querySelectorAll<HTMLElement>('[tabindex="0"]')].map((each) => each.getAttribute("aria-label")!);
  expect(stops()).toEqual(["a and <img src=x onerror=alert(1)> share 2 topics"]);
  for (const key of ["ArrowRight", "ArrowRight", "ArrowDown"]) fireEvent.keyDown(screen.getByRole("grid"), { key });
  expect(stops()).toEqual(["<img src=x onerror=alert(1)> and c share 1 topic"]);
  fireEvent.keyDown(container.querySelector('[tabindex="0"]')!, { key: "Enter" });
  expect(open).toHaveBeenCalledWith({ a: 1, b: 2 });
  expect(container.querySelector("img")).toBeNull();
});

it("says of each cell what it means, and opens none for a client with itself", () => {
  const open = vi.fn();
  render(<HeatTable overlap={OVERLAP} onOpen={open} />);
  fireEvent.click(screen.getByRole("gridcell", { name: "a reads 4 topics" }));
  expect(open).not.toHaveBeenCalled();
  fireEvent.click(screen.getByRole("gridcell", { name: "c and a share 0 topics" }));
  expect(open).toHaveBeenCalledWith({ a: 2, b: 0 });
});
