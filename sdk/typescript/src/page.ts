// SPDX-License-Identifier: Apache-2.0 - lists that come in pages.

import type { Json } from "./json.js";
import { optionalText, records } from "./records.js";

/** A page of a list, and by iterating over it all entries from its first on. */
export class Page<T> implements AsyncIterable<T> {
  /** The entries of this page. */
  readonly data: T[];
  readonly nextCursor: string | null;
  readonly #fetch: (cursor: string | undefined) => Promise<Json>;
  readonly #make: (entry: Json) => T;

  constructor(fetch: (cursor: string | undefined) => Promise<Json>, make: (entry: Json) => T, answer: Json) {
    this.#fetch = fetch;
    this.#make = make;
    this.data = records(answer["data"], "the list").map(make);
    this.nextCursor = optionalText(answer, "nextCursor");
  }

  /** Whether there is another page. */
  get hasMore(): boolean {
    return this.nextCursor !== null;
  }

  /** The page after it, if there is one. */
  async nextPage(): Promise<Page<T> | null> {
    if (this.nextCursor === null) return null;
    return new Page(this.#fetch, this.#make, await this.#fetch(this.nextCursor));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    const seen = new Set<string>();
    for (let page: Page<T> | null = this; page; page = await page.nextPage()) {
      yield* page.data;
      // a server that names the same page for ever is not followed for ever
      if (page.nextCursor === null || seen.has(page.nextCursor)) return;
      seen.add(page.nextCursor);
    }
  }

  /** At most `limit` entries. */
  async toList(limit = 10_000): Promise<T[]> {
    const out: T[] = [];
    for await (const entry of this) {
      if (out.length >= limit) break;
      out.push(entry);
    }
    return out;
  }
}
