import { useSyncExternalStore } from "react";

/** What the operator chose; "system" follows the browser. */
export type ThemeChoice = "system" | "light" | "dark";
export type Theme = "light" | "dark";

const KEY = "inorder-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function chosen(): ThemeChoice {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // storage may be forbidden
  }
}

function effective(): Theme {
  const choice = chosen();
  return choice === "system" ? (system.matches ? "dark" : "light") : choice;
}

function apply(): void {
  document.documentElement.dataset["theme"] = effective();
  for (const listener of listeners) listener();
}

/** Puts the theme on the page and follows the system's. Called once, before anything is drawn. */
export function startTheme(): void {
  system.addEventListener("change", apply);
  apply();
}

export function chooseTheme(choice: ThemeChoice): void {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // The choice then lasts as long as nobody asks again.
  }
  apply();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The theme in effect and the operator's choice; re-renders when either changes. */
export function useTheme(): { theme: Theme; choice: ThemeChoice } {
  const theme = useSyncExternalStore(subscribe, effective);
  const choice = useSyncExternalStore(subscribe, chosen);
  return { theme, choice };
}
