import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";

const HERE = import.meta.dirname;

/** Writes licenses.txt beside the build: what is bundled asks for its notice to come along. */
function licenses(): Plugin {
  return {
    name: "licenses",
    apply: "build",
    generateBundle(_options, bundle) {
      const found = new Set<string>(["@fontsource-variable/inter", "uplot"]); // these two also through CSS alone
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const id of Object.keys(chunk.modules)) {
          const name = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1];
          if (name) found.add(name);
        }
      }
      this.emitFile({ type: "asset", fileName: "licenses.txt", source: [...found].sort().map(notice).join("\n") });
    },
  };
}

function notice(name: string): string {
  const folder = join(HERE, "node_modules", name);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8") : ""}\n`;
}

export default defineConfig({
  plugins: [react(), licenses()],
  // The control plane puts the path in front under which it is served.
  base: "./",
  build: {
    outDir: join(HERE, "../inorder_webui/static"),
    emptyOutDir: true,
    target: "es2022",
    // The content security policy allows files of our own origin only: nothing may become a data: address.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/api": { target: "http://127.0.0.1:8080", ws: true } } },
  test: {
    // Those that need a page say so in their first line; loading one takes longer than most tests.
    environment: "node",
    setupFiles: ["tests/setup.ts"],
    env: { TZ: "Asia/Kolkata", LC_ALL: "en_US.UTF-8", LANG: "en_US.UTF-8" },
    include: ["tests/**/*.test.{ts,tsx}"],
    testTimeout: 60_000,
    restoreMocks: true,
    unstubGlobals: true,
  },
});
