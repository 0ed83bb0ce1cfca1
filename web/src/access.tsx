// SPDX-License-Identifier: Apache-2.0
// What a key may do, as a person chooses it.
import type { JSX } from "preact";

import { Field } from "./ui";

const products = ["sandboxes", "images", "snapshots"];

export interface Grant {
  access: string;
  products: string[];
  accountWide: boolean;
}

/** As the server wants it: products belong to the access "selected" alone. */
export function grantBody(grant: Grant): Record<string, unknown> {
  const { access, accountWide } = grant;
  return { access, accountWide, ...(access === "selected" && { products: grant.products }) };
}

export function Access({
  grant,
  onChange,
}: {
  grant: Grant;
  onChange: (grant: Grant) => void;
}): JSX.Element {
  const toggle = (name: string, on: boolean): void =>
    onChange({
      ...grant,
      products: on ? [...grant.products, name] : grant.products.filter((one) => one !== name),
    });
  return (
    <>
      <Field label="Access">
        <select
          value={grant.access}
          onChange={(event) => onChange({ ...grant, access: event.currentTarget.value })}
        >
          <option value="full">full: create, change, delete</option>
          <option value="read">read only</option>
          <option value="selected">only some kinds of things</option>
        </select>
      </Field>
      {grant.access === "selected" && (
        <div class="row" role="group" aria-label="Kinds of things">
          {products.map((name) => (
            <label class="check" key={name}>
              <input
                type="checkbox"
                checked={grant.products.includes(name)}
                onChange={(event) => toggle(name, event.currentTarget.checked)}
              />
              {name}
            </label>
          ))}
        </div>
      )}
      <label class="check">
        <input
          type="checkbox"
          checked={grant.accountWide}
          onChange={(event) => onChange({ ...grant, accountWide: event.currentTarget.checked })}
        />
        It sees what every key has made
      </label>
    </>
  );
}
