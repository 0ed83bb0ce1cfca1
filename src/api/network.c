/* SPDX-License-Identifier: Apache-2.0 - what sandboxes may connect to: checked, applied, shown. */
#include "api/internal.h"

#include "base/text.h"
#include "monitor/egress_policy.h"

#include <errno.h>
#include <string.h>

/* the operator's rules are added to a sandbox's own, and must fit too */
#define RULES_BYTES (EGRESS_POLICY_MOST / 2)

static void check_rules(const json_t *list, const char *name, json_t *issues, size_t *bytes)
{
	struct egress_rule rule;
	char path[64], message[320];
	const char *why;
	json_t *entry;
	size_t i;

	json_array_foreach ((json_t *)(uintptr_t)list, i, entry) {
		*bytes += json_string_length(entry) + 4;
		if (egress_rule_parse(json_string_value(entry), &rule, &why) == 0)
			continue;
		text_format(path, sizeof(path), "network.%s[%zu]", name, i);
		text_format(message, sizeof(message), "%s", why);
		json_array_append_new(
			issues, json_pack("{ss ss}", "path", path, "message", message));
	}
}

void network_check(const json_t *network, json_t *issues)
{
	size_t bytes = 0;

	check_rules(json_object_get(network, "allow"), "allow", issues, &bytes);
	check_rules(json_object_get(network, "deny"), "deny", issues, &bytes);
	if (bytes > RULES_BYTES)
		json_array_append_new(issues, json_pack("{ss ss}", "path", "network", "message",
						      "the rules have more than 16 KiB together"));
}

static json_t *copy_list(const json_t *network, const char *name)
{
	json_t *list = json_object_get(network, name);

	return list ? json_deep_copy(list) : json_array();
}

json_t *network_normal(const json_t *network)
{
	/* an allow list says itself that there is internet, there only */
	bool internet = request_boolean(network, "internet", true) ||
			json_array_size(json_object_get(network, "allow"));

	return json_pack("{sb so so}", "internet", internet, "allow", copy_list(network, "allow"),
		"deny", copy_list(network, "deny"));
}

static void add_all(json_t *list, const char *const *texts)
{
	for (; texts && *texts; texts++)
		json_array_append_new(list, json_string(*texts));
}

char *network_policy(const struct api_server *server, const json_t *network)
{
	json_t *policy = network_normal(network), *also = json_array();
	char *text;

	/* a record from before there was a network has none */
	if (!network && policy)
		json_object_set_new(policy, "internet", json_false());
	add_all(json_object_get(policy, "deny"), server->options.egress_deny);
	add_all(also, server->options.egress_also_allow);
	json_object_set_new(policy, "alsoAllow", also);
	text = policy ? json_dumps(policy, JSON_COMPACT) : NULL;
	json_decref(policy);
	return text;
}

bool network_apply(struct request *q, const json_t *network)
{
	char *policy = network_policy(q->server, network);
	struct store_sandbox record;
	struct error err = {0};
	struct sandbox *s;
	int r;

	if (!policy) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
		return false;
	}
	s = life_attach(q, &record);
	if (!s) {
		free(policy);
		return false;
	}
	r = sandbox_set_network(s, policy, NULL, &err);
	if (r == -EPERM)
		answer_error(q, API_NETWORK_NOT_ALLOWED, NULL, "%s.", error_message(&err));
	else if (r == -EAGAIN)
		answer_error(q, API_GUEST_BUSY, NULL, "%s.", error_message(&err));
	else if (r)
		life_failure(q, &record, r, &err, false);
	sandbox_free(s);
	store_sandbox_fini(&record);
	free(policy);
	return !r;
}

/* --- the routes --- */

static json_t *usage_json(const struct sandbox_network *n)
{
	return json_pack("{si sI sI sI sI sI}", "open", (int)n->open, "connections",
		(json_int_t)n->connections, "refused", (json_int_t)n->refused, "names",
		(json_int_t)n->names, "bytesIn", (json_int_t)n->bytes_in, "bytesOut",
		(json_int_t)n->bytes_out);
}

/* Rules as they are, and what was used, while it runs. */
static void answer_network(struct request *q, const struct store_sandbox *record)
{
	json_t *spec = json_loads(record->spec, 0, NULL);
	json_t *out = network_normal(json_object_get(spec, "network")), *usage = json_null();
	struct sandbox_network n;
	struct sandbox *s = NULL;

	if (record->state == STORE_SANDBOX_RUNNING &&
		sandbox_attach(q->server->home, record->machine, 2000, &s, NULL) == 0 &&
		sandbox_network(s, &n, NULL) == 0)
		usage = usage_json(&n);
	sandbox_free(s);
	json_decref(spec);
	if (out)
		json_object_set_new(out, "usage", usage);
	answer_json(q, 200, out);
}

void network_get(struct request *q)
{
	struct store_sandbox record;

	if (!life_find(q, &record))
		return;
	answer_network(q, &record);
	store_sandbox_fini(&record);
}

/* Replace the rules: where they are enforced, then in the record. */
static void set(struct request *q, struct store_sandbox *record)
{
	json_t *spec = json_loads(record->spec, 0, NULL), *network = network_normal(q->json);
	char taken[ID_SIZE] = "";
	struct error err = {0};
	char *text = NULL;

	if (spec && network && json_object_set(spec, "network", network) == 0)
		text = json_dumps(spec, JSON_COMPACT);
	if (!text) {
		answer_error(q, API_INTERNAL, NULL, "Out of memory.");
	} else if (network_apply(q, network)) {
		free(record->spec);
		record->spec = text;
		text = NULL;
		if (store_sandbox_settings(q->server->store, record, taken, &err))
			answer_failure(q, &err);
		else
			answer_network(q, record);
		api_changed(q->server);
	}
	free(text);
	json_decref(network);
	json_decref(spec);
}

void network_put(struct request *q)
{
	json_t *issues = json_array();
	struct store_sandbox record;

	network_check(q->json, issues);
	if (json_array_size(issues)) {
		answer_error(q, API_INVALID_REQUEST, json_pack("{so}", "issues", issues),
			"The request is not valid.");
		return;
	}
	json_decref(issues);
	if (json_array_size(json_object_get(q->json, "connect"))) {
		answer_error(q, API_UNAVAILABLE, NULL,
			"connect: not available on this server; rules of allow may name a port.");
		return;
	}
	if (!life_find(q, &record))
		return;
	set(q, &record);
	store_sandbox_fini(&record);
}
