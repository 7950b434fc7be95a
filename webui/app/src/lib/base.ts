/**
 * The path under which a proxy serves the console, such as "/inorder"; empty where it has the server for itself. The
 * page names its scripts below it (all of them are in assets/), so a script's own address tells it.
 */
const here = import.meta.url;

export const BASE = import.meta.env.PROD ? new URL("..", here).pathname.replace(/\/$/, "") : "";

/** A path of the address bar as the console's own. */
export function withoutBase(path: string, base: string = BASE): string {
  return path === base || path.startsWith(`${base}/`) ? path.slice(base.length) || "/" : path;
}
