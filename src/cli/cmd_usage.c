/* SPDX-License-Identifier: Apache-2.0 - sealmark usage: what the store says was used, and what it
 * cost. */
#include "api/api.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/remote.h"
#include "cli/store.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct usage_options {
	struct remote_where where;
	const char *store, *since, *until, *by, *label, *key;
	uint32_t days;
	bool csv;
};

static const struct usage_options defaults = {.by = "day", .days = 30};

/* The store as it is: a command that reads makes none. */
static int open_store(const char *given, struct store **out, struct error *err)
{
	char home[PATH_MAX], path[PATH_MAX];
	int r = 0;

	umask(077);
	if (!given) {
		r = path_home(home, sizeof(home), err);
		if (!r)
			r = path_join(path, sizeof(path), home, "sealmark.db", err);
		given = path;
	}
	if (!r && access(given, F_OK))
		r = error_sys(err, errno, "%s", given);
	return r ? r : store_open(given, out, err);
}

static int take_times(
	const struct usage_options *o, struct store_usage_filter *filter, struct error *err)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	filter->before_ms = (int64_t)now.tv_sec * 1000 + 1000;
	if (o->until && api_time_parse(o->until, &filter->before_ms))
		return cli_usage(
			err, "--until: \"%.60s\" is not a day or time, as 2026-11-29", o->until);
	filter->since_ms = filter->before_ms - (int64_t)o->days * STORE_DAY_MS;
	if (o->since && api_time_parse(o->since, &filter->since_ms))
		return cli_usage(
			err, "--since: \"%.60s\" is not a day or time, as 2026-11-29", o->since);
	return 0;
}

static void print_row(const char *key, const char *name, long long sandboxes, long long micros,
	long long cpu_ms, long long running_ms)
{
	printf("%-36s  %9lld  %6lld.%06lld  %10lld.%01lld  %10lld.%01lld%s%s\n", key, sandboxes,
		micros / 1000000, micros % 1000000, cpu_ms / 1000, cpu_ms % 1000 / 100,
		running_ms / 1000, running_ms % 1000 / 100, *name ? "  " : "", name);
}

static long long number(const json_t *row, const char *name)
{
	return (long long)json_integer_value(json_object_get(row, name));
}

static void print_table(const json_t *rows, const char *by)
{
	long long sandboxes = 0, micros = 0, cpu = 0, running = 0;
	const json_t *row;
	uint64_t charged;
	char head[32];
	size_t i;

	text_copy(head, sizeof(head), by);
	for (i = 0; head[i]; i++)
		head[i] = (char)toupper((unsigned char)head[i]);
	printf("%-36s  %9s  %13s  %12s  %12s  %s\n", head, "SANDBOXES", "DOLLARS", "CPU SECONDS",
		"RUN SECONDS", "NAME");
	json_array_foreach (rows, i, row) {
		struct buffer key = {0};
		const char *text = json_string_value(json_object_get(row, "key"));

		charged = 0;
		text_u64(json_string_value(json_object_get(row, "chargedMicros")), &charged);
		text_add_safe(&key, text, strlen(text), false);
		print_row(buffer_text(&key) ? buffer_text(&key) : "",
			json_string_value(json_object_get(row, "name")), number(row, "sandboxes"),
			(long long)charged, number(row, "billedCpuMs"), number(row, "runningMs"));
		buffer_fini(&key);
		sandboxes += number(row, "sandboxes");
		micros += (long long)charged;
		cpu += number(row, "billedCpuMs");
		running += number(row, "runningMs");
	}
	print_row("all", "", sandboxes, micros, cpu, running);
}

static int print(const struct usage_options *o, const json_t *rows, enum store_usage_group group,
	struct error *err)
{
	struct buffer out = {0};

	if (o->where.remote.json) {
		json_dumpf(rows, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		putchar('\n');
	} else if (o->csv) {
		if (api_usage_csv(rows, group, &out)) {
			buffer_fini(&out);
			return cli_ours(err, "out of memory");
		}
		fwrite(buffer_bytes(&out), 1, buffer_length(&out), stdout);
		buffer_fini(&out);
	} else {
		print_table(rows, o->by);
	}
	return CLI_OK;
}

/* The rows of a server; what its key may see. */
static int ask(struct remote *r, const struct usage_options *o,
	const struct store_usage_filter *filter, json_t **rows, struct error *err)
{
	char since[32], until[32];
	struct buffer path = {0};
	json_t *answer = NULL;
	int status;

	cli_write_time(since, sizeof(since), filter->since_ms);
	cli_write_time(until, sizeof(until), filter->before_ms);
	buffer_add_text(&path, "/v1/usage");
	remote_query(&path, "groupBy", o->by);
	remote_query(&path, "label", o->label);
	remote_query(&path, "since", since);
	remote_query(&path, "until", until);
	status = remote_call(r, &(struct remote_call){.method = "GET", .path = buffer_text(&path)},
		&answer, err);
	*rows = status ? NULL : json_incref(json_object_get(answer, "groups"));
	if (!status && !json_is_array(*rows))
		status = cli_ours(err, "the server's answer has no sums");
	json_decref(answer);
	buffer_fini(&path);
	return status;
}

/* Of a server, or of the store here. */
static int get_rows(const struct usage_options *o, const struct store_usage_filter *filter,
	json_t **rows, struct error *err)
{
	struct remote_where where = o->where;
	struct store *store;
	struct remote *remote;
	int r;

	*rows = NULL;
	where.local = where.local || o->store;
	r = remote_open_where(&where, &remote, err);
	if (r)
		return r;
	if (remote && o->key)
		r = cli_usage(err, "--key: only with the store of this host (--local)");
	else if (remote)
		r = ask(remote, o, filter, rows, err);
	if (remote) {
		remote_free(remote);
		return r;
	}
	r = open_store(o->store, &store, err);
	if (r)
		return r == -ENOENT ? CLI_USAGE : CLI_OURS;
	*rows = api_usage(store, filter, err);
	store_close(store);
	return *rows ? CLI_OK : CLI_OURS;
}

static int run_usage(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct usage_options *o = options;
	struct store_usage_filter filter = {.payer = o->key, .label = o->label};
	json_t *rows;
	int r;

	if (o->where.remote.json && o->csv)
		return cli_usage(err, "--json and --csv: one of them");
	if (api_usage_group(o->by, &filter.group))
		return cli_usage(
			err, "--by: \"%.60s\" is not one of sandbox, day, key, label", o->by);
	r = take_times(o, &filter, err);
	if (r)
		return r;
	r = get_rows(o, &filter, &rows, err);
	if (!r)
		r = print(o, rows, filter.group, err);
	json_decref(rows);
	return r;
}

static const struct cli_option options[] = {
	CLI_OPTION("by", 0, "GROUP", "sums for each day, sandbox, key or label (default day)",
		"--by label", cli_text, offsetof(struct usage_options, by)),
	CLI_OPTION("label", 0, "NAME", "with --by label: only labels of this name",
		"--label course", cli_text, offsetof(struct usage_options, label)),
	CLI_OPTION("key", 0, "ID", "only what this key has made", "--key ID", cli_text,
		offsetof(struct usage_options, key)),
	CLI_OPTION("days", 0, "N", "the last N days (default 30)", "--days 7", cli_u32,
		offsetof(struct usage_options, days), .least = 1, .most = 36500),
	CLI_OPTION("since", 0, "TIME", "what was charged at this day or time (UTC), or later",
		"--since 2026-11-01", cli_text, offsetof(struct usage_options, since)),
	CLI_OPTION("until", 0, "TIME", "what was charged before this day or time (default now)",
		"--until 2026-12-01", cli_text, offsetof(struct usage_options, until)),
	CLI_OPTION("store", 0, "FILE", "the store (default $SEALMARK_HOME/sealmark.db)",
		"--store /srv/sealmark.db", cli_text, offsetof(struct usage_options, store)),
	CLI_OPTION("csv", 0, NULL, "print the rows as CSV, for a spreadsheet", "--csv", cli_flag,
		offsetof(struct usage_options, csv)),
	REMOTE_WHERE_OPTIONS(struct usage_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_usage_command = {
	.name = "usage",
	.summary = "Say what was used, and what it cost",
	.text = "What sandboxes were charged for: on the server in use, as far as its key sees, "
		"or\n"
		"with --local or --store from the store of `sealmark serve` here, which need not\n"
		"run. A charge counts when a sandbox ends or its lease is extended.",
	.examples = "sealmark usage\n"
		    "sealmark usage --by label --label course --since 2026-11-01 --csv\n",
	.options = options,
	.defaults = &defaults,
	.size = sizeof(struct usage_options),
	.run = run_usage,
};
