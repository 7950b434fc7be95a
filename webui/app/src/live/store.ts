/** What the WebSocket /live last said, for all pages at once. */
import { useSyncExternalStore } from "react";
import { API } from "../api/client";
import type {
  Alarm,
  Digits,
  LiveMessage,
  LiveRun,
  Rates,
  Sample,
  Stage,
  SystemState,
  Totals,
  Worker,
} from "../api/types";
import { LiveSocket, type SocketOptions, type SocketState } from "./socket";

export interface LiveState {
  link: SocketState;
  /** The last ten minutes, oldest first. */
  samples: readonly Sample[];
  rates: Rates | null;
  totals: Totals | null;
  stages: readonly Stage[] | null;
  workers: readonly Worker[] | null;
  alarms: readonly Alarm[] | null;
  state: SystemState | null;
  orderEpoch: Digits | null;
  /** Of analyses: those that are open, and the one that ended last. Another array means that something changed. */
  runs: readonly LiveRun[] | null;
}

const NOTHING: LiveState = {
  link: "closed",
  samples: [],
  rates: null,
  totals: null,
  stages: null,
  workers: null,
  alarms: null,
  state: null,
  orderEpoch: null,
  runs: null,
};

/** Seconds of samples that are kept. */
export const WINDOW_S = 600;

/** The state after a message. */
export function reduce(state: LiveState, message: LiveMessage): LiveState {
  switch (message.type) {
    case "sample": {
      const { type: _, rates, totals, ...sample } = message;
      return {
        ...state,
        samples: mergeSamples(state.samples, [sample]),
        rates: rates ?? state.rates,
        totals: totals ?? state.totals,
      };
    }
    case "states":
      return { ...state, stages: message.stages, workers: message.workers };
    case "alarms":
      return { ...state, alarms: message.alarms, state: message.state ?? state.state };
    case "order":
      return { ...state, orderEpoch: message.order_epoch };
    case "runs":
      return { ...state, runs: message.runs };
    default:
      return state; // a newer server may say more
  }
}

/** Both in the order of time, one per instant, none older than the window before the newest. */
export function mergeSamples(a: readonly Sample[], b: readonly Sample[]): Sample[] {
  const byTime = new Map<number, Sample>();
  for (const sample of [...a, ...b]) byTime.set(Date.parse(sample.at), sample);
  const merged = [...byTime.entries()].sort(([x], [y]) => x - y);
  const newest = merged.at(-1)?.[0] ?? 0;
  return merged.filter(([at]) => at >= newest - WINDOW_S * 1000).map(([, sample]) => sample);
}

export class LiveStore {
  private state: LiveState = NOTHING;
  private socket: LiveSocket<LiveMessage> | null = null;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly open?: SocketOptions<LiveMessage>["open"]) {}

  start(): void {
    if (this.socket) return;
    this.socket = new LiveSocket<LiveMessage>(`${API}/live`, {
      onMessage: (message) => this.set(reduce(this.state, message)),
      onState: (link) => this.set({ ...this.state, link }),
      ...(this.open ? { open: this.open } : {}),
    });
  }

  /** Forgets everything: the next session may be somebody else's. */
  stop(): void {
    this.socket?.close();
    this.socket = null;
    this.set(NOTHING);
  }

  /** Samples from the overview come before the first live one. */
  seed(samples: readonly Sample[]): void {
    this.set({ ...this.state, samples: mergeSamples(samples, this.state.samples) });
  }

  get = (): LiveState => this.state;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private set(state: LiveState): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}

export const live = new LiveStore();

/** A part of the live state; re-renders when that part is another one. */
export function useLive<T>(select: (state: LiveState) => T): T {
  return useSyncExternalStore(live.subscribe, () => select(live.get()));
}
