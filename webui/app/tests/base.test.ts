import { expect, it } from "vitest";
import { BASE, withoutBase } from "../src/lib/base";

it("a path below a proxy's is the console's own", () => {
  expect(BASE).toBe("");
  expect(withoutBase("/topics")).toBe("/topics");
  expect(withoutBase("/plant/order/topics/a", "/plant/order")).toBe("/topics/a");
  expect(withoutBase("/plant/order", "/plant/order")).toBe("/");
  expect(withoutBase("/plant/order/", "/plant/order")).toBe("/");
  expect(withoutBase("/plant/orders", "/plant/order")).toBe("/plant/orders");
});
