// SPDX-License-Identifier: Apache-2.0 - what a new sandbox can be told.

export interface Network {
  internet?: boolean | undefined;
  /** Names, wildcards, addresses and CIDR ranges; `deny` wins. */
  allow?: readonly string[] | undefined;
  deny?: readonly string[] | undefined;
}

/** What can be changed while it runs. */
export interface UpdateOptions {
  /** Unique among the sandboxes that can run. */
  name?: string | null | undefined;
  labels?: Record<string, string> | undefined;
  /** Variables of all its commands; never shown again. In an update, null removes one. */
  env?: Record<string, string | null> | undefined;
  /** The lease, at least 60; 1,800 by default. It ends then, whatever happens. */
  timeoutSeconds?: number | undefined;
  onLeaseEnd?: "pause" | "stop" | "delete" | undefined;
  pausable?: boolean | undefined;
  /** Without a command for so long it is paused; 60 by default, 0 for never. */
  idlePauseSeconds?: number | undefined;
  /** Whether a command wakes it; true by default. */
  autoWake?: boolean | undefined;
  /** The lease renews itself. */
  persistent?: boolean | undefined;
  /** Over its whole life, in millionths of a dollar. */
  maxTotalCostMicros?: number | null | undefined;
  user?: "sandbox" | "root" | undefined;
  network?: Network | undefined;
}

/** What a new sandbox is to be. What is left out is the server's default. */
export interface SandboxOptions extends UpdateOptions {
  /** Processors, 1 to 16; 2 by default. */
  vcpu?: number | undefined;
  /** 128 to 65,536; 4,096 by default. */
  memoryMiB?: number | undefined;
  /** What it may write; 4,096 by default. */
  diskMiB?: number | undefined;
  /** "reserved" has every processor to itself, and pays for all of its time. */
  cpu?: "shared" | "reserved" | undefined;
  /** The least that is paid of a shared processor, in thousandths of one; 50 by default. */
  cpuFloorMillis?: number | undefined;
  /** Refuse if the first lease could cost more, in millionths of a dollar. */
  maxCostMicros?: number | undefined;
  /** Id, name, `name:tag` or `name@version`. */
  image?: string | undefined;
  snapshot?: string | undefined;
  region?: string | undefined;
}

export interface CreateOptions extends SandboxOptions {
  /** false answers at once, while it starts. */
  wait?: boolean | undefined;
  /** At the end of the block it is stopped, not removed. */
  keep?: boolean | undefined;
  /** How long to wait for room; by default the client's own. */
  waitForCapacityMs?: number | undefined;
  /** A call with the same key and options gets the same sandbox. */
  idempotencyKey?: string | undefined;
  /** Gives up waiting. */
  signal?: AbortSignal | undefined;
}
