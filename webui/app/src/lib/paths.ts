/** A path without slashes at its end. (The obvious expression looks at each row of slashes again from each of them.) */
export function withoutEndSlashes(path: string): string {
  let end = path.length;
  while (end > 0 && path[end - 1] === "/") end -= 1;
  return path.slice(0, end);
}
