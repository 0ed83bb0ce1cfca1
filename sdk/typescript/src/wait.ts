// SPDX-License-Identifier: Apache-2.0 - waiting, one at a time, and giving up.

import { setTimeout as after } from "node:timers/promises";

/** Waits; rejects with the signal's reason when it is aborted. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await after(ms, undefined, signal ? { signal } : {});
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/** One after the other. */
export class Lock {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(work, work);
    this.#last = mine.catch(() => undefined);
    return mine;
  }
}

/** Does it if it can be done; what goes wrong is not told. The work bounds its own time. */
export async function attempt(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch {
    // whoever calls this has another error to tell
  }
}
