/** The route table: one line per page, each page a file under pages/ that is loaded when it is first seen. */
import { lazy, type ComponentType, type LazyExoticComponent } from "react";
import type { Role } from "./api/types";
import type { IconName } from "./components/Icon";
import { withoutEndSlashes } from "./lib/paths";

export interface Route {
  path: string;
  title: string;
  icon: IconName;
  page: LazyExoticComponent<ComponentType>;
  /** Fetches the page ahead of its being drawn. */
  load: () => Promise<unknown>;
  /** In the bottom bar of phones too; the others are in its drawer. */
  isMain?: boolean;
  /** Who sees it in the navigation; everybody otherwise. */
  needs?: Role;
  /** It also draws what lies below its path: "/analytics/3f". */
  hasBelow?: boolean;
}

type Load = () => Promise<{ default: ComponentType }>;

const page = (load: Load): Pick<Route, "page" | "load"> => ({ page: lazy(load), load });

export const ROUTES: readonly Route[] = [
  { path: "/", title: "Overview", icon: "overview", ...page(() => import("./pages/Overview")), isMain: true },
  { path: "/topics", title: "Topics", icon: "topics", ...page(() => import("./pages/Topics")), isMain: true },
  {
    path: "/subscriptions",
    title: "Subscriptions",
    icon: "subscriptions",
    ...page(() => import("./pages/Subscriptions")),
  },
  { path: "/workers", title: "Workers", icon: "workers", ...page(() => import("./pages/Workers")) },
  { path: "/events", title: "Events", icon: "events", ...page(() => import("./pages/Events")), isMain: true },
  { path: "/gaps", title: "Gaps", icon: "gaps", ...page(() => import("./pages/Gaps")), isMain: true },
  {
    path: "/analytics",
    title: "Analytics",
    icon: "analytics",
    ...page(() => import("./pages/Analytics")),
    hasBelow: true,
  },
  { path: "/settings", title: "Settings", icon: "settings", ...page(() => import("./pages/Settings")) },
];

/** The route of a path; a trailing slash does not matter. */
export function routeOf(path: string): Route | undefined {
  const plain = path.length > 1 ? withoutEndSlashes(path) || "/" : path;
  return ROUTES.find(({ path, hasBelow }) => path === plain || (hasBelow && plain.startsWith(`${path}/`)));
}

/** The route of the page that an alarm names. */
export function routeOfAlarm(page: string | null): Route | undefined {
  return page === null ? undefined : routeOf(page.startsWith("/") ? page : `/${page}`);
}
