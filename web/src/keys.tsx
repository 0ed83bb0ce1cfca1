// SPDX-License-Identifier: Apache-2.0
// Keys of programs: made (and shown once), limited, revoked.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { Access, grantBody, type Grant } from "./access";
import { call, get, type Page } from "./api";
import { micros } from "./approvals";
import { Action, Dialog, Empty, Failure, Field, money, useLoad, when } from "./ui";

interface Key {
  id: string;
  name: string;
  access: string;
  products: string[] | null;
  accountWide: boolean;
  dailyLimitMicros: number | null;
  createdAt: string;
  revokedAt: string | null;
}

interface Spent {
  groups?: { key: string; chargedMicros: number | string }[];
}

function Create({ onDone, onClose }: { onDone: () => void; onClose: () => void }): JSX.Element {
  const [error, setError] = useState<unknown>(null);
  const [made, setMade] = useState("");
  const [grant, setGrant] = useState<Grant>({ access: "full", products: [], accountWide: false });
  const [copied, setCopied] = useState(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const limit = micros(String(form.get("limit") ?? ""));
    if (limit === undefined) {
      setError("The daily limit is an amount of dollars, as 2.50, or empty.");
      return;
    }
    try {
      const key = await call<{ key: string }>("POST", "/api/keys", {
        name: String(form.get("name")).trim(),
        ...grantBody(grant),
        dailyLimitMicros: limit,
      });
      setMade(key.key);
      onDone();
    } catch (why) {
      setError(why);
    }
  };
  if (made)
    return (
      <Dialog title="The new key" onClose={onClose}>
        <div class="fields">
          <p>It is shown this once. Keep it where your program finds it.</p>
          <code class="secret">{made}</code>
          <div class="row">
            <button
              type="button"
              class="primary"
              onClick={() => void navigator.clipboard.writeText(made).then(() => setCopied(true))}
            >
              {copied ? "Copied" : "Copy"}
            </button>
            <button type="button" onClick={onClose}>
              Done
            </button>
          </div>
        </div>
      </Dialog>
    );
  return (
    <Dialog title="Make a key" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <Field label="Name" help="What it is for, as grading-bot">
          <input name="name" maxLength={100} required autofocus />
        </Field>
        <Field label="Daily limit ($)" help="In any 24 hours; empty: none">
          <input name="limit" inputMode="decimal" />
        </Field>
        <Access grant={grant} onChange={setGrant} />
        <Failure error={error} />
        <button class="primary">Make it</button>
      </form>
    </Dialog>
  );
}

function Limit({
  of,
  onDone,
  onClose,
}: {
  of: Key;
  onDone: () => void;
  onClose: () => void;
}): JSX.Element {
  const now = of.dailyLimitMicros;
  const [text, setText] = useState(now === null ? "" : String(now / 1e6));
  const [error, setError] = useState<unknown>(null);
  const amount = micros(text);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await call("POST", `/api/keys/${of.id}:limit`, { dailyLimitMicros: amount });
      onDone();
      onClose();
    } catch (why) {
      setError(why);
    }
  };
  return (
    <Dialog title={`Daily limit of ${of.name}`} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <Field label="Dollars in any 24 hours" help="Empty: no limit">
          <input
            inputMode="decimal"
            value={text}
            autofocus
            aria-invalid={amount === undefined}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </Field>
        <Failure error={error} />
        <button class="primary" disabled={amount === undefined}>
          Set
        </button>
      </form>
    </Dialog>
  );
}

export function Keys(): JSX.Element {
  const { value, error, reload } = useLoad<Page<Key>>(
    (signal) => get("/api/keys", signal),
    [],
    10000,
  );
  const spent = useLoad<Spent>(
    (signal) => get("/v1/usage?range=24h&groupBy=key", signal),
    [],
    10000,
  );
  const [creating, setCreating] = useState(false);
  const [limiting, setLimiting] = useState<Key | null>(null);
  const [wrong, setWrong] = useState<unknown>(null);
  const of = (key: Key): number =>
    Number(spent.value?.groups?.find((group) => group.key === key.id)?.chargedMicros ?? 0);
  return (
    <>
      <div class="row spread">
        <h1>Keys</h1>
        <button type="button" class="primary" onClick={() => setCreating(true)}>
          Make a key
        </button>
      </div>
      <Failure error={wrong ?? error} />
      {value?.data.length === 0 && (
        <div class="card">
          <Empty>There is no key yet. A program needs one for everything that it asks for.</Empty>
        </div>
      )}
      {value && value.data.length > 0 && (
        <div class="card scroll">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th>Access</th>
                <th>Made</th>
                <th class="number">Spent in 24 h</th>
                <th class="number">Daily limit</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {value.data.map((key) => (
                <tr key={key.id}>
                  <td>{key.name}</td>
                  <td>
                    {key.access === "selected" ? (key.products ?? []).join(", ") : key.access}
                    {key.accountWide && ", account-wide"}
                  </td>
                  <td class="time">{when(key.createdAt)}</td>
                  <td class="number">{money(of(key))}</td>
                  <td class="number">
                    {key.dailyLimitMicros === null ? "none" : money(key.dailyLimitMicros)}
                  </td>
                  <td>
                    {key.revokedAt ? (
                      <span class="fine">revoked {when(key.revokedAt)}</span>
                    ) : (
                      <div class="row">
                        <button type="button" onClick={() => setLimiting(key)}>
                          Limit
                        </button>
                        <Action
                          run={async () => {
                            await call("POST", `/api/keys/${key.id}:revoke`);
                            reload();
                          }}
                          onError={setWrong}
                          kind="danger"
                          confirm={`Revoke ${key.name}? Programs that use it are refused at once.`}
                        >
                          Revoke
                        </Action>
                      </div>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {creating && <Create onDone={reload} onClose={() => setCreating(false)} />}
      {limiting && <Limit of={limiting} onDone={reload} onClose={() => setLimiting(null)} />}
    </>
  );
}
