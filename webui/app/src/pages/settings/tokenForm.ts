/** A form for a new token as a request of the API, or what is wrong with it. */
import type { Token } from "../../api/types";

export const ROLES = ["viewer", "operator", "admin", "client"] as const;
export type Role = (typeof ROLES)[number];

export const ROLE_MEANING: Record<Role, string> = {
  viewer: "Sees everything but tokens and the audit log.",
  operator: "Also changes the topic order, event logs, subscriptions, stuck numbers and workers.",
  admin: "Everything, tokens and the audit log included.",
  client: "For applications: publishes and subscribes, within the filters below.",
};

export interface TokenForm {
  name: string;
  role: Role;
  /** Days until it expires, or an empty text: never. */
  days: string;
  /** Filters, one a line, each as space:filter; empty: everything. */
  publish: string;
  subscribe: string;
  mostUnconfirmed: string;
  /** Topics that it makes; empty: as the workers are set. */
  mostTopics: string;
  /** Durable subscriptions at a time; empty: as the workers are set. */
  mostSubscriptions: string;
}

export const EMPTY_FORM: TokenForm = {
  name: "",
  role: "viewer",
  days: "90",
  publish: "",
  subscribe: "",
  mostUnconfirmed: "",
  mostTopics: "",
  mostSubscriptions: "",
};

export interface TokenRequest {
  name: string;
  role: Role;
  expires_in_s: number | null;
  publish: string[] | null;
  subscribe: string[] | null;
  max_unconfirmed: number | null;
  max_topics: number | null;
  max_subscriptions: number | null;
}

export type Problems = Partial<Record<keyof TokenForm, string>>;

const DAY_S = 86_400;
const MOST_DAYS = 3650;

function linesOf(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

function wholeOf(text: string, most: number): number | null {
  if (!/^[0-9]{1,9}$/.test(text.trim())) return null;
  const value = Number(text.trim());
  return value >= 1 && value <= most ? value : null;
}

function filterProblem(text: string): string | undefined {
  const wrong = linesOf(text).find((line) => !/^[^:\s]+:.+$/.test(line));
  return wrong === undefined ? undefined : `“${wrong}” is not space:filter, as in mqtt:stocks/#.`;
}

/** The request that a form asks for, or what is wrong with it, field by field. */
export function requestOf(form: TokenForm): { request: TokenRequest } | { problems: Problems } {
  const problems: Problems = {};
  const isClient = form.role === "client";
  const days = form.days.trim() === "" ? null : wholeOf(form.days, MOST_DAYS);
  const most = form.mostUnconfirmed.trim() === "" ? null : wholeOf(form.mostUnconfirmed, 1_000_000);
  const topics = form.mostTopics.trim() === "" ? null : wholeOf(form.mostTopics, 1_000_000);
  const subscriptions = form.mostSubscriptions.trim() === "" ? null : wholeOf(form.mostSubscriptions, 1_000_000);
  if (form.name.trim() === "") problems.name = "A name, so that you know it again in the list.";
  if (days === null && form.days.trim() !== "") problems.days = `1 to ${MOST_DAYS} days; empty: it never expires.`;
  if (isClient) {
    const publish = filterProblem(form.publish);
    const subscribe = filterProblem(form.subscribe);
    if (publish) problems.publish = publish;
    if (subscribe) problems.subscribe = subscribe;
    if (most === null && form.mostUnconfirmed.trim() !== "") {
      problems.mostUnconfirmed = "A whole number from 1; empty: no limit.";
    }
    if (topics === null && form.mostTopics.trim() !== "") {
      problems.mostTopics = "A whole number from 1; empty: as the workers are set.";
    }
    if (subscriptions === null && form.mostSubscriptions.trim() !== "") {
      problems.mostSubscriptions = "A whole number from 1; empty: as the workers are set.";
    }
  }
  if (Object.keys(problems).length > 0) return { problems };
  const filters = (text: string) => (isClient && linesOf(text).length > 0 ? linesOf(text) : null);
  return {
    request: {
      name: form.name.trim(),
      role: form.role,
      expires_in_s: days === null ? null : days * DAY_S,
      publish: filters(form.publish),
      subscribe: filters(form.subscribe),
      max_unconfirmed: isClient ? most : null,
      max_topics: isClient ? topics : null,
      max_subscriptions: isClient ? subscriptions : null,
    },
  };
}

/** A new token with its secret, which is in this answer and nowhere else. */
export interface IssuedToken extends Token {
  secret: string;
}
