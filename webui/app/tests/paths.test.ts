import { expect, test } from "vitest";
import { withoutEndSlashes } from "../src/lib/paths";

test.each([
  ["/topics/", "/topics"],
  ["/a//b//", "/a//b"],
  ["a", "a"],
  ["///", ""],
  ["", ""],
])("%j has no slashes at its end", (path, plain) => {
  expect(withoutEndSlashes(path)).toBe(plain);
});

test("slashes cost no more than they are many", () => {
  const many = `${"/".repeat(2_000_000)}x`;
  expect(withoutEndSlashes(many)).toBe(many);
});
