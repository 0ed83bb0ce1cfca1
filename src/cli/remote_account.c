/* SPDX-License-Identifier: Apache-2.0 - sealmark whoami and limits: what a key is, and may have. */
#include "cli/remote.h"

#include "base/text.h"

#include <stddef.h>
#include <string.h>

struct account_options {
	struct remote_options remote;
};

static int ask(const struct account_options *o, const char *path, struct remote **r,
	json_t **answer, struct error *err)
{
	int status = remote_open(&o->remote, r, err);

	if (!status)
		status = remote_call(
			*r, &(struct remote_call){.method = "GET", .path = path}, answer, err);
	return status;
}

static void put(const char *name, const char *value)
{
	printf("%-8s ", name);
	remote_put(stdout, value && *value ? value : "-");
	putchar('\n');
}

static int run_whoami(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct account_options *o = options;
	json_t *answer = NULL;
	struct remote *r;
	int status = ask(o, "/v1/me", &r, &answer, err);
	const json_t *key = json_object_get(answer, "key");
	char age[32];

	if (!status && o->remote.json) {
		status = remote_print_json(json_incref(answer), err);
	} else if (!status) {
		put("server", remote_settings_of(r)->url);
		put("key", json_text(key, "name"));
		put("id", json_text(key, "id"));
		put("access", json_text(key, "access"));
		put("sees", json_is_true(json_object_get(key, "accountWide"))
				    ? "what every key has made"
				    : "what it has made itself");
		remote_age(json_text(key, "createdAt"), age, sizeof(age));
		put("made", age);
	}
	json_decref(answer);
	remote_free(r);
	return status;
}

static void put_daily(const json_t *daily)
{
	const json_t *limit = json_object_get(daily, "limitMicros");
	char used[64], most[64];

	remote_dollars(json_number(daily, "usedMicros"), used, sizeof(used));
	if (json_is_null(limit) || !limit) {
		printf("spent or held in 24 hours: %s (no limit)\n", used);
		return;
	}
	remote_dollars(json_number(daily, "limitMicros"), most, sizeof(most));
	printf("spent or held in 24 hours: %s of %s\n", used, most);
}

static const char *unit_name(const char *unit)
{
	return strcmp(unit, "mib") == 0 ? "MiB" : strcmp(unit, "count") == 0 ? "" : unit;
}

static int run_limits(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	static const char *const heads[] = {"WHAT", "USED", "MOST", "UNIT", NULL};
	const struct account_options *o = options;
	const json_t *row;
	json_t *answer = NULL;
	struct table table;
	struct remote *r;
	size_t i;
	int status = ask(o, "/v1/limits", &r, &answer, err);

	if (!status && o->remote.json) {
		status = remote_print_json(json_incref(answer), err);
	} else if (!status) {
		table_init(&table, heads);
		json_array_foreach (json_object_get(answer, "account"), i, row) {
			char used[32], most[32];

			text_format(
				used, sizeof(used), "%lld", (long long)json_number(row, "used"));
			text_format(most, sizeof(most), "%lld", (long long)json_number(row, "max"));
			table_add(&table, (const char *const[]){json_text(row, "label"), used, most,
						  unit_name(json_text(row, "unit"))});
		}
		table_print(&table);
		put_daily(json_object_get(answer, "daily"));
	}
	json_decref(answer);
	remote_free(r);
	return status;
}

static const struct cli_option options[] = {
	REMOTE_OPTIONS(struct account_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_whoami = {
	.name = "whoami",
	.summary = "Say which server is used with which key",
	.examples = "sealmark whoami\n",
	.options = options,
	.size = sizeof(struct account_options),
	.run = run_whoami,
};

const struct cli_command cli_limits = {
	.name = "limits",
	.summary = "Say what a key may have at once and spend in a day",
	.examples = "sealmark limits\nsealmark limits --json\n",
	.options = options,
	.size = sizeof(struct account_options),
	.run = run_limits,
};
