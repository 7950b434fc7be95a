/** A WebSocket that comes back by itself, after pauses at random up to a growing bound. */

export type SocketState = "connecting" | "open" | "lost" | "closed";

export interface SocketOptions<M> {
  onMessage: (message: M) => void;
  onState: (state: SocketState) => void;
  /** For tests; the browser's own otherwise. */
  open?: (address: string) => WebSocket;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** Without any message for so long the connection counts as lost: the server speaks every second. */
export const SILENCE_MS = 10_000;

/** ws(s)://this host + path. */
export function socketAddress(path: string): string {
  return `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}${path}`;
}

export class LiveSocket<M> {
  private socket: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watch: ReturnType<typeof setTimeout> | undefined;
  private pauseMs = FIRST_PAUSE_MS;
  private isStopped = false;

  constructor(
    private readonly path: string,
    private readonly options: SocketOptions<M>,
    /** Null for streams that may be silent, such as a tail. */
    private readonly silenceMs: number | null = SILENCE_MS,
  ) {
    this.connect();
  }

  close(): void {
    this.isStopped = true;
    clearTimeout(this.timer);
    this.drop();
    this.options.onState("closed");
  }

  private connect(): void {
    this.options.onState("connecting");
    const open = this.options.open ?? ((address: string) => new WebSocket(address));
    const socket = open(socketAddress(this.path));
    this.socket = socket;
    socket.onopen = () => {
      this.options.onState("open");
      this.listen();
    };
    socket.onmessage = (message: MessageEvent<string>) => {
      this.pauseMs = FIRST_PAUSE_MS; // only a connection that says something is a good one
      this.listen();
      let parsed: M;
      try {
        parsed = JSON.parse(message.data) as M;
      } catch {
        return; // what is no JSON is not for us
      }
      this.options.onMessage(parsed);
    };
    socket.onclose = () => this.lose();
    this.listen();
  }

  private listen(): void {
    clearTimeout(this.watch);
    if (this.silenceMs !== null) this.watch = setTimeout(() => this.lose(), this.silenceMs);
  }

  private lose(): void {
    this.drop();
    if (this.isStopped) return;
    this.options.onState("lost");
    // at random: else all pages that lose a server at once are back at once
    this.timer = setTimeout(() => this.connect(), Math.random() * this.pauseMs);
    this.pauseMs = Math.min(this.pauseMs * 2, LONGEST_PAUSE_MS);
  }

  private drop(): void {
    clearTimeout(this.watch);
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
}
