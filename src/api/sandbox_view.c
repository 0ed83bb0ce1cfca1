/* SPDX-License-Identifier: Apache-2.0 - a sandbox as the API shows it. */
#include "api/internal.h"

#include "base/cleanup.h"

#include <string.h>

/* in the order of the bits of a filter */
static const struct {
	const char *state, *status;
} states[] = {{"starting", "pending"}, {"running", "active"}, {"stopping", "stopping"},
	{"stopped", "stopped"}, {"pausing", "active"}, {"paused", "paused"},
	{"resuming", "active"}};

static unsigned shown_state(const struct store_sandbox *r)
{
	return r->state == STORE_SANDBOX_RUNNING && r->phase
		       ? STORE_SANDBOX_STOPPED + (unsigned)r->phase
		       : (unsigned)r->state;
}

const char *sandbox_state_name(const struct store_sandbox *record)
{
	return states[shown_state(record)].state;
}

unsigned sandbox_state_bit(const struct store_sandbox *record)
{
	return 1u << shown_state(record);
}

unsigned sandbox_state_bit_of(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(states); i++) {
		if (strcmp(states[i].state, name) == 0)
			return 1u << i;
	}
	return 0;
}

static json_t *names_of(const json_t *env)
{
	json_t *list = json_array(), *value;
	const char *name;

	json_object_foreach ((json_t *)(uintptr_t)env, name, value)
		json_array_append_new(list, json_string(name));
	return list;
}

static json_t *text_or_null(const char *text)
{
	return text && text[0] ? json_string(text) : json_null();
}

/* what the record says of its end and of its time */
static void add_times(json_t *out, const struct store_sandbox *r)
{
	bool over = r->state == STORE_SANDBOX_STOPPED;

	json_object_set_new(out, "createdAt", api_time(r->created_ms));
	json_object_set_new(out, "readyAt", api_time(r->ready_ms));
	json_object_set_new(out, "lastActiveAt", api_time(r->active_ms));
	json_object_set_new(out, "expiresAt", api_time(r->expires_ms));
	json_object_set_new(out, "endsAt", api_time(r->expires_ms));
	json_object_set_new(out, "endedAt", api_time(r->ended_ms));
	json_object_set_new(out, "pausedAt", api_time(r->paused_ms));
	json_object_set_new(out, "pausedExpiresAt", api_time(r->paused_until_ms));
	json_object_set_new(out, "stopReason", over ? text_or_null(r->stop_reason) : json_null());
	json_object_set_new(out, "stopDetail", over ? text_or_null(r->detail) : json_null());
}

static void copy(json_t *out, const json_t *spec, const char *name)
{
	json_t *value = json_object_get(spec, name);

	json_object_set(out, name, value ? value : json_null());
}

json_t *sandbox_json(const struct store_sandbox *r)
{
	static const char *const of_spec[] = {"image", "imageId", "user", "cpu", "cpuFloorMillis",
		"pausable", "timeoutSeconds", "idlePauseSeconds", "autoWake", "persistent",
		"onLeaseEnd", "maxTotalCostMicros", "network"};
	json_t *spec = json_loads(r->spec, 0, NULL), *labels = json_loads(r->labels, 0, NULL);
	json_t *out = json_pack("{ss ss so so ss ss ss ss si si si}", "id", r->id, "kind",
		"sandbox", "name", text_or_null(r->name), "labels", labels ? labels : json_object(),
		"status", states[shown_state(r)].status, "state", sandbox_state_name(r), "region",
		"local", "funding", "operator", "vcpu", (int)r->vcpu, "memoryMiB",
		(int)r->memory_mib, "diskMiB", (int)r->disk_mib);

	for (size_t i = 0; i < sizeof(of_spec) / sizeof(of_spec[0]); i++)
		copy(out, spec, of_spec[i]);
	add_times(out, r);
	json_object_set_new(out, "chargedMicros",
		json_sprintf("%lld",
			(long long)store_money_charged(&r->money,
				r->state == STORE_SANDBOX_RUNNING && !r->phase, api_now_ms())));
	json_object_set_new(
		out, "heldMicros", json_sprintf("%lld", (long long)r->money.held_micros));
	json_object_set_new(out, "envNames", names_of(json_object_get(spec, "env")));
	json_object_set_new(out, "isolation", text_or_null(r->isolation));
	json_decref(spec);
	return out;
}

void sandbox_user(const json_t *spec, bool root, struct sandbox_user *out)
{
	*out = (struct sandbox_user){.name = "root", .home = "/root"};
	if (root)
		return;
	out->uid = (uint32_t)request_integer(spec, "uid", 1000);
	out->gid = (uint32_t)request_integer(spec, "gid", 1000);
	out->name = request_text(spec, "userName", "runtime");
	out->home = request_text(spec, "cwd", "/workspace");
}
