// SPDX-License-Identifier: Apache-2.0
// Programs that ask for a key: what asks, from where, what for; a person decides.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { Access, grantBody, type Grant } from "./access";
import { call, get, type Page } from "./api";
import { Action, Empty, Failure, Field, money, useLoad, when } from "./ui";

interface Approval {
  userCode: string;
  status: string;
  agentName: string;
  machine: string;
  purpose: string;
  access: string;
  products: string[] | null;
  dailyLimitMicros: number | null;
  address: string;
  createdAt: string;
  expiresAt: string;
}

/** "1.5" -> 1500000; "" -> null, no limit; undefined: it is no amount. */
export function micros(text: string): number | null | undefined {
  if (!text.trim()) return null;
  return /^\d{1,9}(\.\d{1,6})?$/.test(text.trim()) ? Math.round(Number(text) * 1e6) : undefined;
}

function One({ approval, reload }: { approval: Approval; reload: () => void }): JSX.Element {
  const [grant, setGrant] = useState<Grant>({
    access: approval.access,
    products: approval.products ?? [],
    accountWide: false,
  });
  const asked = approval.dailyLimitMicros;
  const [limit, setLimit] = useState(asked === null ? "" : String(asked / 1e6));
  const [error, setError] = useState<unknown>(null);
  const path = `/api/approvals/${approval.userCode}`;
  const amount = micros(limit);
  return (
    <section class="card" aria-label={`${approval.agentName} asks for a key`}>
      <h2>{approval.agentName}</h2>
      <dl>
        <div>
          <dt>What for</dt>
          <dd>{approval.purpose || "not said"}</dd>
        </div>
        <div>
          <dt>Machine</dt>
          <dd>{approval.machine || "not said"}</dd>
        </div>
        <div>
          <dt>From address</dt>
          <dd>{approval.address}</dd>
        </div>
        <div>
          <dt>Asks to use</dt>
          <dd>
            {approval.access === "selected"
              ? (approval.products ?? []).join(", ")
              : approval.access === "read"
                ? "reading only"
                : "everything"}
          </dd>
        </div>
        <div>
          <dt>Daily limit asked</dt>
          <dd>{asked === null ? "none" : money(asked)}</dd>
        </div>
        <div>
          <dt>Code</dt>
          <dd>
            <code>{approval.userCode}</code>
          </dd>
        </div>
        <div>
          <dt>Ends</dt>
          <dd>{when(approval.expiresAt)}</dd>
        </div>
      </dl>
      <p class="fine">
        Approve only when the program that you started shows this same code. The names above are
        what the program says of itself.
      </p>
      <Access grant={grant} onChange={setGrant} />
      <Field label="Daily limit ($)" help="In any 24 hours; empty: none">
        <input
          inputMode="decimal"
          value={limit}
          aria-invalid={amount === undefined}
          onInput={(event) => setLimit(event.currentTarget.value)}
        />
      </Field>
      <Failure error={error} />
      <div class="row">
        <Action
          run={async () => {
            await call("POST", `${path}:approve`, {
              ...grantBody(grant),
              dailyLimitMicros: amount ?? null,
            });
            reload();
          }}
          onError={setError}
          kind="primary"
          disabled={amount === undefined}
        >
          Approve
        </Action>
        <Action
          run={async () => {
            await call("POST", `${path}:deny`);
            reload();
          }}
          onError={setError}
          kind="danger"
        >
          Deny
        </Action>
      </div>
    </section>
  );
}

export function Approvals(): JSX.Element {
  const { value, error, reload } = useLoad<Page<Approval>>(
    (signal) => get("/api/approvals", signal),
    [],
    3000,
  );
  const pending = (value?.data ?? []).filter((one) => one.status === "pending");
  return (
    <>
      <h1>Approvals</h1>
      <Failure error={error} />
      {value && pending.length === 0 && (
        <div class="card">
          <Empty>No program asks for a key. `sealmark login` makes one ask.</Empty>
        </div>
      )}
      {pending.map((one) => (
        <One key={one.userCode} approval={one} reload={reload} />
      ))}
    </>
  );
}
