/* SPDX-License-Identifier: Apache-2.0 - what can be changed of a sandbox: its lease, its settings.
 */
#include "api/internal.h"

#include <errno.h>
#include <string.h>

#define LEASE_MOST_S 86400

/* The lease ends at `until_ms`: first where it is enforced, then in the record. */
static bool set_lease(struct request *q, int64_t until_ms)
{
	struct store_sandbox record;
	struct error err = {0};
	struct sandbox *s = life_attach_as_it_is(q, &record);
	int r;

	if (!s)
		return false;
	if (!money_extend(q, &record, s, until_ms)) {
		sandbox_free(s);
		store_sandbox_fini(&record);
		return false;
	}
	r = sandbox_extend(s, money_lease_ms(&record, until_ms - api_now_ms()), &err);
	if (!r)
		r = store_sandbox_extend(q->server->store, record.id, until_ms, &err);
	if (r)
		life_failure(q, &record, r == -ESTALE ? -ENODEV : r, &err, false);
	sandbox_free(s);
	store_sandbox_fini(&record);
	api_changed(q->server);
	return !r;
}

void sandboxes_extend(struct request *q)
{
	int64_t seconds = request_integer(q->json, "seconds", 0), now = api_now_ms(), until;
	struct store_sandbox record;

	if (!life_find(q, &record))
		return;
	until = (record.expires_ms > now ? record.expires_ms : now) + 1000 * seconds;
	if (record.phase)
		answer_paused(q, &record);
	else if (until > now + 1000 * LEASE_MOST_S)
		answer_error(q, API_INVALID_REQUEST, NULL,
			"A lease ends at most %d seconds from now.", LEASE_MOST_S);
	else if (set_lease(q, until))
		answer_record(q, record.id, 200, 0, NULL);
	store_sandbox_fini(&record);
}

/* Merge env: a value sets, null removes. */
static void merge_env(json_t *spec, const json_t *change)
{
	json_t *env = json_object_get(spec, "env"), *value;
	const char *name;

	if (!env) {
		env = json_object();
		json_object_set_new(spec, "env", env);
	}
	json_object_foreach ((json_t *)(uintptr_t)change, name, value) {
		if (json_is_null(value))
			json_object_del(env, name);
		else
			json_object_set(env, name, value);
	}
}

/* rules of the network where they are enforced, and in the spec; false: answered */
static bool update_network(struct request *q, json_t *spec, const json_t *network)
{
	json_t *issues = json_array(), *normal;
	bool fine;

	network_check(network, issues);
	if (json_array_size(issues)) {
		answer_error(q, API_INVALID_REQUEST, json_pack("{so}", "issues", issues),
			"The request is not valid.");
		return false;
	}
	json_decref(issues);
	normal = network_normal(network);
	fine = network_apply(q, normal);
	json_object_set_new(spec, "network", normal);
	return fine;
}

/* apply name, labels and the rest to the record; false: answered */
static bool apply(struct request *q, struct store_sandbox *record)
{
	static const char *const plain[] = {"user", "autoWake", "timeoutSeconds", "onLeaseEnd",
		"pausable", "idlePauseSeconds", "persistent", "maxTotalCostMicros"};
	json_t *spec = json_loads(record->spec, 0, NULL), *value;
	bool fine = true;

	if (!spec) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return false;
	}
	value = json_object_get(q->json, "name");
	if (value) {
		free(record->name);
		record->name = json_is_string(value) ? strdup(json_string_value(value)) : NULL;
	}
	value = json_object_get(q->json, "labels");
	if (value) {
		free(record->labels);
		record->labels = json_dumps(value, JSON_COMPACT);
	}
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		value = json_object_get(q->json, plain[i]);
		if (value)
			json_object_set(spec, plain[i], value);
	}
	value = json_object_get(q->json, "env");
	if (value) {
		merge_env(spec, value);
		fine = env_check(q, json_object_get(spec, "env"));
	}
	value = json_object_get(q->json, "network");
	if (value && fine)
		fine = update_network(q, spec, value);
	free(record->spec);
	record->spec = json_dumps(spec, JSON_COMPACT);
	json_decref(spec);
	if (fine && (!record->spec || !record->labels)) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		fine = false;
	}
	return fine;
}

/* What is set must go together with what stays. */
static bool check_together(struct request *q, const struct store_sandbox *record)
{
	json_t *spec = json_loads(record->spec, 0, NULL), *issues = json_array();
	bool pausable =
		request_boolean(q->json, "pausable", request_boolean(spec, "pausable", true));
	bool fine;

	sandbox_check_pausing(q->json, pausable, issues);
	fine = json_array_size(issues) == 0;
	if (!fine)
		answer_error(q, API_INVALID_REQUEST, json_pack("{sO}", "issues", issues),
			"The request is not valid.");
	json_decref(issues);
	json_decref(spec);
	return fine;
}

/* The monitor of one that runs is told its new rules; one that starts is told when it is ready. A
 * new lease of one that is paused begins when it wakes. */
static bool tell_rules(struct request *q, struct store_sandbox *record, struct sandbox *s,
	const json_t *spec, int64_t lease_ms)
{
	int64_t until_ms = api_now_ms() + lease_ms;
	struct sandbox_rules rules;
	struct error err = {0};
	int r;

	if (record->phase)
		lease_ms = 0;
	if (lease_ms && !money_extend(q, record, s, until_ms))
		return false;
	pause_rules(q->server, record, spec, &rules);
	rules.left_ms = lease_ms ? money_lease_ms(record, lease_ms) : 0;
	r = sandbox_rules(s, &rules, &err);
	if (!r && lease_ms)
		r = store_sandbox_extend(q->server->store, record->id, until_ms, &err);
	if (r)
		life_failure(q, record, r == -ESTALE ? -ENODEV : r, &err, false);
	return !r;
}

static bool apply_rules(struct request *q, const struct store_sandbox *changed, int64_t lease_ms)
{
	struct store_sandbox record;
	struct sandbox *s = life_attach_as_it_is(q, &record);
	json_t *spec = json_loads(changed->spec, 0, NULL);
	bool done = s && tell_rules(q, &record, s, spec, lease_ms);

	json_decref(spec);
	sandbox_free(s);
	store_sandbox_fini(&record);
	return done;
}

/* does it change what the monitor holds to? */
static bool has_rules(const json_t *body)
{
	static const char *const names[] = {"timeoutSeconds", "onLeaseEnd", "pausable",
		"idlePauseSeconds", "persistent", "autoWake"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (json_object_get(body, names[i]))
			return true;
	}
	return false;
}

void sandboxes_update(struct request *q)
{
	int64_t lease_ms = 1000 * request_integer(q->json, "timeoutSeconds", 0);
	const char *missing = sandbox_not_there(q->json);
	struct store_sandbox record;
	char taken[ID_SIZE] = "";
	struct error err = {0};
	int r;

	if (missing) {
		answer_error(
			q, API_UNAVAILABLE, NULL, "%s: not available on this server.", missing);
		return;
	}
	if (!life_find(q, &record))
		return;
	if (check_together(q, &record) && money_cap(q, &record) && apply(q, &record) &&
		(!has_rules(q->json) || apply_rules(q, &record, lease_ms))) {
		r = store_sandbox_settings(q->server->store, &record, taken, &err);
		if (r)
			answer_no_room(q, r, taken, &err);
		else
			answer_record(q, record.id, 200, 0, NULL);
		api_changed(q->server);
	}
	store_sandbox_fini(&record);
}
