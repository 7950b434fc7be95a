/** Tables as CSV (RFC 4180) that is safe to open in a spreadsheet. */

export type Cell = string | number | bigint | boolean | null | undefined;

/** What a spreadsheet would run as a formula when a text begins with it. */
const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

/** One field. Texts that a spreadsheet would take as a formula get an apostrophe in front; numbers stay as they are. */
export function csvField(value: Cell): string {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (FORMULA.test(text) && !NUMBER.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The whole file: a byte order mark, so that spreadsheets read UTF-8, and lines ended by CR LF. */
export function toCsv(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return `\ufeff${[header, ...rows].map((row) => row.map(csvField).join(",")).join("\r\n")}\r\n`;
}

/** "inorder-topics-2026-03-04T150607Z.csv". */
export function csvName(name: string, now: Date = new Date()): string {
  return `inorder-${name}-${now.toISOString().slice(0, 19).replaceAll(":", "")}Z.csv`;
}

/** Hands the text to the browser as a download. */
export function download(name: string, text: string, type = "text/csv;charset=utf-8"): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
