// SPDX-License-Identifier: Apache-2.0 - where the server is and who asks: options, then the environment.

import { AuthenticationError, InvalidRequestError, invalidRequest } from "./errors.js";

export const DEFAULT_URL = "http://127.0.0.1:8080";

export interface RuntimeOptions {
  /** By default from SEALMARK_API_KEY or RUNTIME_API_KEY. */
  apiKey?: string | undefined;
  /**
   * `http://...`, `https://...` or `unix:/path`; by default from SEALMARK_API_URL or
   * RUNTIME_API_URL, or http://127.0.0.1:8080.
   */
  baseUrl?: string | undefined;
  /** Where people make keys; by default from SEALMARK_AUTH_URL or RUNTIME_AUTH_URL, or baseUrl. */
  authUrl?: string | undefined;
  /** For an answer, in milliseconds (60,000); what is known to take longer is given longer. */
  timeoutMs?: number | undefined;
  /** How often a request is sent again (4). */
  maxRetries?: number | undefined;
  /** How long a create waits for room, in milliseconds (0). */
  waitForCapacityMs?: number | undefined;
  /** Instead of the global one, for proxies and the like. */
  fetch?: typeof fetch | undefined;
}

/** Of one client. The key is a private field, so that nothing shows it. */
export class Settings {
  readonly baseUrl: string;
  readonly authUrl: string;
  readonly socketPath: string | null;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly waitForCapacityMs: number;
  readonly fetch: typeof fetch | undefined;
  readonly #apiKey: string;

  constructor(options: RuntimeOptions = {}, env: Record<string, string | undefined> = process.env) {
    const named = (name: string) => env[`SEALMARK_${name}`] || env[`RUNTIME_${name}`] || undefined;
    const base = address(options.baseUrl || named("API_URL") || DEFAULT_URL, "baseUrl (SEALMARK_API_URL)");
    this.baseUrl = base.url;
    this.socketPath = base.socketPath;
    this.authUrl = address(
      options.authUrl || named("AUTH_URL") || this.baseUrl,
      "authUrl (SEALMARK_AUTH_URL)",
    ).url;
    this.timeoutMs = options.timeoutMs ?? 60_000;
    this.maxRetries = options.maxRetries ?? 4;
    this.waitForCapacityMs = options.waitForCapacityMs ?? 0;
    this.fetch = options.fetch;
    if (!(this.timeoutMs > 0) || !(this.maxRetries >= 0) || !(this.waitForCapacityMs >= 0)) {
      throw invalidRequest("timeoutMs is more than 0; maxRetries and waitForCapacityMs are not negative.");
    }
    this.#apiKey = options.apiKey || named("API_KEY") || "";
    if (!/^[\x21-\x7e]{1,512}$/.test(this.#apiKey)) {
      // what it is stays unsaid: half a key is half a secret
      const none = !this.#apiKey;
      throw new AuthenticationError(
        none ? "There is no key." : "The key holds characters that no key has.",
        {
          code: none ? "no_key" : "invalid_key",
          hint: `Set SEALMARK_API_KEY or give apiKey; "sealmark keys create" on the server or ${this.authUrl} makes one.`,
        },
      );
    }
  }

  authorization(): string {
    return `Bearer ${this.#apiKey}`;
  }
}

function address(url: string, name: string): { url: string; socketPath: string | null } {
  if (url.startsWith("unix:")) {
    const path = url.slice("unix:".length).replace(/^\/\//, "");
    if (path.startsWith("/")) return { url: "http://localhost", socketPath: path };
  }
  let parsed: URL | undefined;
  try {
    parsed = new URL(url);
  } catch {
    // said below
  }
  if (!parsed || !["http:", "https:"].includes(parsed.protocol) || parsed.search || parsed.hash) {
    throw new InvalidRequestError(`${name} is no address of a server.`, {
      code: "invalid_url",
      hint: "Give http://HOST:PORT, https://HOST or unix:/PATH.",
    });
  }
  return { url: url.replace(/\/+$/, ""), socketPath: null };
}
