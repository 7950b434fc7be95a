/** Line icons of 16 px; decorative: what they mean also stands as text beside them or in a label. */
const PATHS = {
  overview: "M2 13V9M6 13V5M10 13V8M14 13V3",
  topics: "M5 4h9M5 8h9M5 12h9M2 4h.01M2 8h.01M2 12h.01",
  subscriptions: "M6 10a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM10 14a4 4 0 1 0 0-8 4 4 0 0 0 0 8Z",
  workers: "M2 3h12v4H2zM2 9h12v4H2zM5 5h.01M5 11h.01",
  events: "M8 2v12M8 5h5M8 11h5M3 8h5",
  gaps: "M2 8h3M11 8h3M7 6v4M9 6v4",
  analytics: "M2 14h12M3 11l3-4 3 2 4-6",
  settings: "M2 4h6M12 4h2M2 12h2M8 12h6M8 4a2 2 0 1 0 4 0 2 2 0 0 0-4 0ZM4 12a2 2 0 1 0 4 0 2 2 0 0 0-4 0Z",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM14 14l-3.5-3.5",
  close: "M4 4l8 8M12 4l-8 8",
  up: "M8 13V3M4 7l4-4 4 4",
  left: "M10 3 5 8l5 5",
  right: "M6 3l5 5-5 5",
  down: "M3 6l5 5 5-5",
  download: "M8 2v8M5 7l3 3 3-3M3 13h10",
  upload: "M8 11V3M5 6l3-3 3 3M3 13h10",
  plus: "M8 3v10M3 8h10",
  pin: "M6 2h4l-.5 5 2.5 2H4l2.5-2zM8 9v5",
  grip: "M6 3h.01M10 3h.01M6 8h.01M10 8h.01M6 13h.01M10 13h.01",
  ok: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM5.5 8l2 2 3-4",
  warning: "M8 2 1.5 13.5h13zM8 6.5v3M8 11.5h.01",
  error: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3.5M8 11h.01",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.5V11M8 5h.01",
  empty: "M2 9l2-6h8l2 6v4H2zM2 9h3.5l1 2h3l1-2H14",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z",
  screen: "M2 3h12v8H2zM6 14h4M8 11v3",
  logout: "M6 2H3v12h3M7 8h7M11 5l3 3-3 3",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  refresh: "M13 3v3.5H9.5M13 6.5A5.5 5.5 0 1 0 13.5 9",
  copy: "M6 6h8v8H6zM4 10H2V2h8v2",
  send: "M14 2 7 9M14 2l-4.5 12L7 9 2 6.5z",
  play: "M4 2.5v11L13 8z",
  pause: "M5 3v10M11 3v10",
  arrow: "M2 8h12M10 4l4 4-4 4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === "grip" || name === "more" ? 2 : 1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
