// SPDX-License-Identifier: Apache-2.0
// The list of sandboxes, kept current, and the dialog that makes one.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { call, get, withQuery, type Page } from "./api";
import {
  Dialog,
  duration,
  Empty,
  Failure,
  Field,
  money,
  State,
  useLoad,
  usePages,
  useSecondsUntil,
} from "./ui";

export interface Sandbox {
  id: string;
  name: string | null;
  labels: Record<string, string>;
  state: string;
  vcpu: number;
  memoryMiB: number;
  timeoutSeconds: number;
  image?: string | null;
  isolation?: string | null;
  onLeaseEnd: string;
  pausable: boolean;
  autoWake: boolean;
  idlePauseSeconds: number;
  createdAt: string;
  readyAt: string | null;
  expiresAt: string | null;
  endedAt: string | null;
  lastActiveAt: string | null;
  stopReason: string | null;
  pausedAt: string | null;
  pausedExpiresAt: string | null;
  chargedMicros: number;
  heldMicros: number;
  envNames: string[];
}

export function Labels({ labels }: { labels: Record<string, string> }): JSX.Element {
  return (
    <>
      {Object.entries(labels).map(([name, value]) => (
        <span class="label" key={name}>
          {name}: {value}
        </span>
      ))}
    </>
  );
}

/** "a:b c:d" -> labels; what has no colon is refused by the server with its name. */
function words(text: string): string[] {
  return text.split(/\s+/).filter(Boolean);
}

function Create({
  onDone,
  onClose,
}: {
  onDone: (made: Sandbox) => void;
  onClose: () => void;
}): JSX.Element {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(form.get(name) ?? "").trim();
    const labels = Object.fromEntries(
      words(text("labels")).map((word) => {
        const at = word.indexOf(":");
        return at < 0 ? [word, ""] : [word.slice(0, at), word.slice(at + 1)];
      }),
    );
    setBusy(true);
    try {
      const made = await call<Sandbox>("POST", "/v1/sandboxes", {
        ...(text("name") && { name: text("name") }),
        ...(text("image") && { image: text("image") }),
        vcpu: Number(text("vcpu")),
        memoryMiB: Number(text("memory")),
        timeoutSeconds: Number(text("minutes")) * 60,
        onLeaseEnd: text("end"),
        network: { internet: form.get("internet") !== null },
        labels,
      });
      onDone(made);
    } catch (why) {
      setError(why);
      setBusy(false);
    }
  };
  return (
    <Dialog title="Create a sandbox" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="pair">
          <Field label="Name" help="May be left out.">
            <input name="name" maxLength={128} autofocus />
          </Field>
          <Field label="Image" help="Name, name:tag or name@version.">
            <input name="image" placeholder="default" maxLength={128} />
          </Field>
        </div>
        <div class="pair">
          <Field label="vCPU">
            <input name="vcpu" type="number" min={1} max={16} value={1} required />
          </Field>
          <Field label="Memory (MiB)">
            <input name="memory" type="number" min={128} max={65536} value={512} required />
          </Field>
          <Field label="Lease (minutes)">
            <input name="minutes" type="number" min={1} max={1440} value={30} required />
          </Field>
          <Field label="At its end">
            <select name="end">
              <option value="stop">stop it</option>
              <option value="pause">pause it</option>
              <option value="delete">stop and forget it</option>
            </select>
          </Field>
        </div>
        <Field label="Labels" help="As course:cs101 student:ada">
          <input name="labels" />
        </Field>
        <label class="check">
          <input type="checkbox" name="internet" /> It may reach the internet
        </label>
        <Failure error={error} />
        <div class="row">
          <button class="primary" disabled={busy}>
            Create
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Lease({ sandbox }: { sandbox: Sandbox }): JSX.Element {
  const left = useSecondsUntil(sandbox.expiresAt);
  const runs = ["running", "starting", "resuming"].includes(sandbox.state);
  return <>{runs && left !== null ? duration(left) : "–"}</>;
}

export function Sandboxes({ go }: { go: (path: string) => void }): JSX.Element {
  const [state, setState] = useState("");
  const [name, setName] = useState("");
  const [label, setLabel] = useState("");
  const [stopped, setStopped] = useState(false);
  const [creating, setCreating] = useState(false);
  const filter = {
    state: state || undefined,
    name: name.trim(),
    label: words(label).filter((word) => word.includes(":")),
    includeStopped: stopped || state === "stopped" || undefined,
    limit: 50,
  };
  const { cursor, pager } = usePages(JSON.stringify(filter));
  const query = { ...filter, cursor };
  const { value, error } = useLoad<Page<Sandbox>>(
    (signal) => get(withQuery("/v1/sandboxes", query), signal),
    [JSON.stringify(query)],
    2000,
  );
  return (
    <>
      <div class="row spread">
        <h1>Sandboxes</h1>
        <button type="button" class="primary" onClick={() => setCreating(true)}>
          Create a sandbox
        </button>
      </div>
      <div class="row" role="search">
        <select
          aria-label="State"
          value={state}
          onChange={(event) => setState(event.currentTarget.value)}
        >
          <option value="">any state</option>
          {["starting", "running", "paused", "stopping", "stopped"].map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <input
          type="search"
          placeholder="Name"
          aria-label="Name"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <input
          type="search"
          placeholder="Labels, as course:cs101"
          aria-label="Labels"
          value={label}
          onInput={(event) => setLabel(event.currentTarget.value)}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={stopped}
            onChange={(event) => setStopped(event.currentTarget.checked)}
          />
          with stopped ones
        </label>
      </div>
      <Failure error={error} />
      {value && value.data.length === 0 && (
        <div class="card">
          <Empty>No sandbox is like that. Create one, or let a program do so with a key.</Empty>
        </div>
      )}
      {value && value.data.length > 0 && (
        <div class="card scroll">
          <table>
            <thead>
              <tr>
                <th>Sandbox</th>
                <th>State</th>
                <th>Labels</th>
                <th class="number">Memory</th>
                <th class="number">Lease left</th>
                <th class="number">Cost</th>
              </tr>
            </thead>
            <tbody>
              {value.data.map((one) => (
                <tr key={one.id}>
                  <td>
                    <a href={`/sandboxes/${one.id}`} data-page="1">
                      {one.name ?? <span class="mono">{one.id.slice(0, 8)}</span>}
                    </a>
                  </td>
                  <td>
                    <State state={one.state} />
                    {one.stopReason && (
                      <div class="fine">{one.stopReason.replaceAll("_", " ")}</div>
                    )}
                  </td>
                  <td>
                    <Labels labels={one.labels} />
                  </td>
                  <td class="number">{one.memoryMiB} MiB</td>
                  <td class="number">
                    <Lease sandbox={one} />
                  </td>
                  <td class="number">{money(one.chargedMicros)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {pager({ next: value?.nextCursor, back: "Previous", on: "Next" })}
      {creating && (
        <Create
          onClose={() => setCreating(false)}
          onDone={(made) => {
            setCreating(false);
            go(`/sandboxes/${made.id}`);
          }}
        />
      )}
    </>
  );
}
