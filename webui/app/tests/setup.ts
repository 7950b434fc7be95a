import { afterEach, vi } from "vitest";

// Only tests with a page pay for what draws on it.
const page = typeof window === "undefined" ? null : await import("@testing-library/react");
// Conditions are waited for; how long that takes says nothing about the code.
page?.configure({ asyncUtilTimeout: 30_000 });

afterEach(() => {
  vi.useRealTimers();
  page?.cleanup();
  if (page) history.replaceState(null, "", "/");
});
