/* SPDX-License-Identifier: Apache-2.0 - sealmark keys: made, listed and revoked in the store. */
#include "api/api.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/store.h"
#include "store/people.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct keys_options {
	const char *store, *access;
	bool json, account;
};

static const struct keys_options defaults = {.access = "full"};

int cli_open_store(const char *given, struct store **out, struct error *err)
{
	char home[PATH_MAX], path[PATH_MAX];
	int r = 0;

	umask(077);
	if (!given) {
		r = path_home(home, sizeof(home), err);
		if (!r)
			r = path_make(home, 0755, err);
		if (!r)
			r = path_join(path, sizeof(path), home, "sealmark.db", err);
	}
	return r ? r : store_open(given ? given : path, out, err);
}

void cli_write_time(char *out, size_t size, int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	if (!ms || !strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm))
		text_copy(out, size, "-");
}

static int run_create(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct keys_options *o = options;
	struct store_api_key key;
	char text[API_KEY_SIZE];
	struct store *store;
	int r;

	if (!o->store && remote_is_elsewhere(err))
		return CLI_USAGE;
	r = cli_open_store(o->store, &store, err);
	if (r)
		return CLI_OURS;
	r = api_key_create(store, operands[0], o->access, o->account, text, &key, err);
	store_close(store);
	if (r)
		return r == -EINVAL ? CLI_USAGE : CLI_OURS;
	if (o->json)
		printf("{\"id\": \"%s\", \"key\": \"%s\"}\n", key.id, text);
	else
		printf("%s\n", text);
	return CLI_OK;
}

static int add_key(void *context, const struct store_api_key *key)
{
	char created[32], revoked[32];

	cli_write_time(created, sizeof(created), key->created_ms);
	cli_write_time(revoked, sizeof(revoked), key->revoked_ms);
	json_array_append_new(
		context, json_pack("{ss ss ss ss sb so ss so}", "id", key->id, "name", key->name,
				 "access", key->access, "products", key->products, "account",
				 key->account, "dailyLimitMicros",
				 key->daily_limit_micros == STORE_NO_LIMIT
					 ? json_null()
					 : json_integer(key->daily_limit_micros),
				 "created", created, "revoked",
				 key->revoked_ms ? json_string(revoked) : json_null()));
	return 0;
}

static void print_keys(const json_t *list)
{
	const json_t *key, *limit;
	const char *revoked;
	char daily[32];
	size_t i;

	printf("%-36s  %-8s  %-20s  %-20s  %12s  %s\n", "ID", "ACCESS", "CREATED", "REVOKED",
		"DAILY LIMIT", "NAME");
	json_array_foreach (list, i, key) {
		limit = json_object_get(key, "dailyLimitMicros");
		revoked = json_string_value(json_object_get(key, "revoked"));
		text_copy(daily, sizeof(daily), "-");
		if (json_is_integer(limit))
			text_format(daily, sizeof(daily), "%.2f $",
				(double)json_integer_value(limit) / 1e6);
		printf("%-36s  %-8s  %-20s  %-20s  %12s  ",
			json_string_value(json_object_get(key, "id")),
			json_string_value(json_object_get(key, "access")),
			json_string_value(json_object_get(key, "created")), revoked ? revoked : "-",
			daily);
		/* a name may come from a program that asked for the key */
		cli_print_safe(json_string_value(json_object_get(key, "name")));
		puts(json_is_true(json_object_get(key, "account")) ? " (account)" : "");
	}
}

static int run_ls(const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct keys_options *o = options;
	json_t *list;
	struct store *store;
	int r;

	if (!o->store && remote_is_elsewhere(err))
		return CLI_USAGE;
	list = json_array();
	r = cli_open_store(o->store, &store, err);
	if (!r) {
		r = store_key_each(store, add_key, list, err);
		store_close(store);
	}
	if (!r && o->json) {
		json_dumpf(list, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		putchar('\n');
	} else if (!r && json_array_size(list)) {
		print_keys(list);
	} else if (!r) {
		puts("no key yet; make one with: sealmark keys create NAME");
	}
	json_decref(list);
	return r ? CLI_OURS : CLI_OK;
}

/* Keys that hold and have this id or name. */
struct wanted {
	const char *text;
	char id[64];
	size_t named;
	bool has_id;
};

static int look(void *context, const struct store_api_key *key)
{
	struct wanted *w = context;

	if (key->revoked_ms || w->has_id)
		return 0;
	w->has_id = strcmp(key->id, w->text) == 0;
	if (!w->has_id && strcmp(key->name, w->text) != 0)
		return 0;
	w->named++;
	return text_copy(w->id, sizeof(w->id), key->id);
}

/* An id is itself. A name is taken when one key has it: a program chooses what its key is called,
 * and must not get another's revoked by that. */
static int find_key(struct store *store, const char *text, char *id, size_t size, struct error *err)
{
	struct wanted w = {.text = text};
	int r = store_key_each(store, look, &w, err);

	if (r)
		return r;
	if (!w.has_id && w.named > 1)
		return error_set(err, -ENOENT,
			"%zu keys are called \"%.100s\": give the ID, see sealmark keys ls",
			w.named, text);
	if (!w.named)
		return error_set(err, -ENOENT,
			"there is no key \"%.100s\" that holds; sealmark keys ls lists them", text);
	return text_copy(id, size, w.id);
}

static int run_revoke(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct keys_options *o = options;
	char id[64];
	struct store_audit audit = {.who = "operator", .action = "key.revoked", .target = id};
	struct timespec now;
	struct store *store;
	int r;

	if (!o->store && remote_is_elsewhere(err))
		return CLI_USAGE;
	r = cli_open_store(o->store, &store, err);
	if (r)
		return CLI_OURS;
	clock_gettime(CLOCK_REALTIME, &now);
	audit.time_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	r = find_key(store, operands[0], id, sizeof(id), err);
	r = r ? r : store_key_revoke(store, id, audit.time_ms, &audit, err);
	store_close(store);
	if (!r && o->json) {
		char revoked[32];

		cli_write_time(revoked, sizeof(revoked), audit.time_ms);
		return remote_print_json(json_pack("{ss ss}", "id", id, "revoked", revoked), err);
	}
	return r == -ENOENT ? CLI_USAGE : r ? CLI_OURS : CLI_OK;
}

#define STORE_OPTION                                                                               \
	CLI_OPTION("store", 0, "FILE", "the store (default $SEALMARK_HOME/sealmark.db)",           \
		"--store /srv/sealmark.db", cli_text, offsetof(struct keys_options, store))

static const struct cli_option create_options[] = {
	STORE_OPTION,
	CLI_OPTION("access", 0, "ACCESS", "full, or read for a key that changes nothing",
		"--access read", cli_text, offsetof(struct keys_options, access)),
	CLI_OPTION("account-wide", 0, NULL, "let it see what every key has made", "--account-wide",
		cli_flag, offsetof(struct keys_options, account)),
	CLI_OPTION("json", 0, NULL, "print it as JSON", "--json", cli_flag,
		offsetof(struct keys_options, json)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_keys_create = {
	.name = "keys create",
	.summary = "Make a key for programs that use sealmark serve",
	.operands = "NAME",
	.text = "The key is printed once; the store keeps its hash only. NAME is for people.",
	.examples = "sealmark keys create grading-scripts\n"
		    "sealmark keys create dashboard --access read --account-wide\n",
	.options = create_options,
	.defaults = &defaults,
	.size = sizeof(struct keys_options),
	.least = 1,
	.most = 1,
	.run = run_create,
};

static const struct cli_option ls_options[] = {
	STORE_OPTION,
	CLI_OPTION("json", 0, NULL, "print the list as JSON", "--json", cli_flag,
		offsetof(struct keys_options, json)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_keys_ls = {
	.name = "keys ls",
	.summary = "List the keys",
	.examples = "sealmark keys ls\n",
	.options = ls_options,
	.size = sizeof(struct keys_options),
	.run = run_ls,
};

static const struct cli_option revoke_options[] = {
	STORE_OPTION,
	CLI_OPTION("json", 0, NULL, "print it as JSON", "--json", cli_flag,
		offsetof(struct keys_options, json)),
	CLI_OPTIONS_END,
};

const struct cli_command cli_keys_revoke = {
	.name = "keys revoke",
	.summary = "Refuse a key from now on",
	.operands = "KEY",
	.text = "KEY is its id as `keys ls` shows it, or its name if no other key that holds has\n"
		"it. A server that runs refuses it at once, and stops the sandboxes that were\n"
		"made with it.",
	.examples = "sealmark keys revoke grading-scripts\n"
		    "sealmark keys revoke 5e0c0d0a-6d1b-4f0a-9a53-0a8c7a0f5b11\n",
	.options = revoke_options,
	.size = sizeof(struct keys_options),
	.least = 1,
	.most = 1,
	.run = run_revoke,
};
