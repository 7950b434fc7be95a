/** What is looked for on the Events page, as it stands in the page's address. */

/** Numbers, incarnations and counters have up to 64 bits: they are texts, and compared as BigInt (B71). */
const MOST_NUMBER = 2n ** 63n - 1n;

export type Search =
  { by: "number"; topic: string; number: string } | { by: "id"; client: string; incarnation: string; counter: string };

function isWithin(text: string, least: bigint): boolean {
  if (!/^-?[0-9]{1,20}$/.test(text)) return false;
  const value = BigInt(text);
  return value >= least && value <= MOST_NUMBER;
}

/** Whether a text is a number of a topic, or a counter of a session: 1 to 2^63-1. */
export function isNumber(text: string): boolean {
  return isWithin(text, 1n);
}

/** Whether a text is an incarnation: 64 random bits, signed. */
export function isIncarnation(text: string): boolean {
  return isWithin(text, -MOST_NUMBER - 1n);
}

/** The search that an address asks for, or null where it asks for none. */
export function searchOf(query: URLSearchParams): Search | null {
  const number = query.get("number");
  const topic = query.get("topic");
  if (topic && number) return { by: "number", topic, number };
  const client = query.get("client");
  const counter = query.get("counter");
  const incarnation = query.get("incarnation");
  if (client && counter && incarnation) return { by: "id", client, incarnation, counter };
  return null;
}

/** A search as the query of an address, of the page and of the API alike. */
export function queryOf(search: Search): string {
  const given: Record<string, string> =
    search.by === "number"
      ? { topic: search.topic, number: search.number }
      : { client: search.client, incarnation: search.incarnation, counter: search.counter };
  return new URLSearchParams(given).toString();
}

/** What is wrong with what was typed, field by field; empty if nothing is. */
export function problemsOf(search: Search): Partial<Record<string, string>> {
  const found: Partial<Record<string, string>> = {};
  if (search.by === "number") {
    if (!search.topic) found.topic = "Choose one of the topics.";
    if (!isNumber(search.number)) found.number = "A whole number from 1.";
  } else {
    if (!search.client) found.client = "The client's id is missing.";
    if (!isIncarnation(search.incarnation)) found.incarnation = "A whole number of at most 64 bits.";
    if (!isNumber(search.counter)) found.counter = "A whole number from 1.";
  }
  return found;
}
