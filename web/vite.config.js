// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from "vite";

// The server reads everything of the folder at its start; names below assets/ hold a digest.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    outDir: "dist",
    assetsInlineLimit: 0, // data: addresses of scripts and styles are refused by the policy
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8080", "/api": "http://127.0.0.1:8080" } },
});
