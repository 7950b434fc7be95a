// @vitest-environment happy-dom
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { LiveMessage } from "../src/api/types";
import { LiveStore } from "../src/live/store";
import { LiveSocket, SILENCE_MS, type SocketState } from "../src/live/socket";

class FakeSocket {
  static all: FakeSocket[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  isClosed = false;

  constructor(readonly address: string) {
    FakeSocket.all.push(this);
  }

  close(): void {
    this.isClosed = true;
  }

  say(message: unknown): void {
    this.onmessage?.({ data: typeof message === "string" ? message : JSON.stringify(message) });
  }
}

const open = (address: string): WebSocket => new FakeSocket(address) as unknown as WebSocket;
const newest = (): FakeSocket => FakeSocket.all.at(-1)!;

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(1);
  FakeSocket.all = [];
});

describe("a live socket", () => {
  const start = () => {
    const states: SocketState[] = [];
    const messages: unknown[] = [];
    const options = {
      open,
      onState: (state: SocketState) => states.push(state),
      onMessage: (m: unknown) => messages.push(m),
    };
    return { socket: new LiveSocket<unknown>("/api/v1/live", options), states, messages };
  };

  it("speaks to this host", () => {
    start();
    expect(newest().address).toBe(`ws://${location.host}/api/v1/live`);
  });

  it("comes back after a loss, with growing pauses up to a bound", () => {
    const { states } = start();
    const pauses: number[] = [];
    for (let round = 0; round < 8; round += 1) {
      newest().onclose?.();
      const count = FakeSocket.all.length;
      const from = Date.now();
      while (FakeSocket.all.length === count) vi.advanceTimersByTime(500);
      pauses.push(Date.now() - from);
    }
    expect(pauses).toEqual([500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
    expect(states.slice(0, 3)).toEqual(["connecting", "lost", "connecting"]);
  });

  it("draws each pause", () => {
    vi.spyOn(Math, "random").mockReturnValue(0.2);
    start();
    newest().onclose?.();
    vi.advanceTimersByTime(99);
    expect(FakeSocket.all).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(FakeSocket.all).toHaveLength(2);
  });

  it("counts a connection as good when it says something, not when it opens", () => {
    start();
    newest().onclose?.();
    vi.advanceTimersByTime(500);
    newest().onopen?.();
    newest().onclose?.();
    vi.advanceTimersByTime(999);
    expect(FakeSocket.all).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(FakeSocket.all).toHaveLength(3);
    newest().say({});
    newest().onclose?.();
    vi.advanceTimersByTime(500);
    expect(FakeSocket.all).toHaveLength(4);
  });

  it("gives a silent connection up", () => {
    const { states } = start();
    newest().onopen?.();
    vi.advanceTimersByTime(SILENCE_MS - 1);
    expect(states.at(-1)).toBe("open");
    const silent = newest();
    vi.advanceTimersByTime(1);
    expect(states.at(-1)).toBe("lost");
    expect(silent.isClosed).toBe(true);
  });

  it("stays closed when it is closed", () => {
    const { socket, states } = start();
    socket.close();
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    expect(states.at(-1)).toBe("closed");
  });

  it("leaves out what is no JSON", () => {
    const { messages } = start();
    newest().say("<html>");
    newest().say({ type: "order" });
    expect(messages).toEqual([{ type: "order" }]);
  });
});

describe("the live store", () => {
  const sample = (second: number, delivered: number) => ({
    at: new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString(),
    timestamps: null,
    delivered,
    late: null,
    gaps: null,
    duplicates: null,
    total_ms_p50: null,
  });
  const started = () => {
    const store = new LiveStore(open);
    store.start();
    return { store, say: (message: LiveMessage) => newest().say(message) };
  };

  it("opens one socket, however often it is started", () => {
    const { store } = started();
    store.start();
    expect(FakeSocket.all).toHaveLength(1);
  });

  it("keeps the last ten minutes, in order, one sample per instant", () => {
    const { store, say } = started();
    store.seed([sample(0, 1), sample(1, 2), sample(2, 3)]);
    say({ type: "sample", ...sample(2, 30) });
    say({ type: "sample", ...sample(601, 4) });
    expect(store.get().samples.map(({ delivered }) => delivered)).toEqual([2, 30, 4]);
    store.seed([sample(600, 5)]);
    expect(store.get().samples.map(({ delivered }) => delivered)).toEqual([2, 30, 5, 4]);
  });

  it("keeps rates while a message has none, and numbers as texts", () => {
    const { store, say } = started();
    const rates = { timestamps: 5 } as never;
    say({ type: "sample", ...sample(0, 1), rates });
    say({ type: "sample", ...sample(1, 1) });
    say({ type: "order", order_epoch: "9007199254740993" });
    say({ type: "runs", runs: [{ id: "3f", outcome: "queued", progress: null, cancelled_by: null }] });
    expect(store.get()).toMatchObject({
      rates: { timestamps: 5 },
      orderEpoch: "9007199254740993",
      runs: [{ id: "3f" }],
    });
  });

  it("leaves out what a newer server says", () => {
    const { store, say } = started();
    const before = store.get();
    say({ type: "weather" } as never);
    expect(store.get()).toEqual(before);
  });

  it("forgets everything at the end of a session", () => {
    const { store, say } = started();
    say({ type: "sample", ...sample(0, 1) });
    const socket = newest();
    store.stop();
    expect(store.get()).toMatchObject({ samples: [], link: "closed" });
    expect(socket.isClosed).toBe(true);
  });
});
